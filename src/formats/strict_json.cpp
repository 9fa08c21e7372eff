#include "formats/strict_json.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "formats/quote.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

using nlohmann::json;

/// Builds the document event by event, so that the first broken rule stops the parser.
class StrictBuilder final : public nlohmann::json_sax<json> {
 public:
  explicit StrictBuilder(std::string_view origin) : origin_(origin) {}

  json take_root() { return std::move(root_); }
  const Status& status() const { return status_; }

  bool null() override { return place(nullptr) != nullptr; }
  bool boolean(bool value) override { return place(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return place(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return place(value) != nullptr; }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return place(value) != nullptr; }
  bool string(string_t& value) override { return place(std::move(value)) != nullptr; }
  bool binary(binary_t& /*value*/) override { return refuse("must be JSON text", "binary data", "write plain JSON"); }

  bool start_object(size_t /*num_elements*/) override { return open(json::object()); }
  bool start_array(size_t /*num_elements*/) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [member, is_new] = open_.back()->get_ref<json::object_t&>().try_emplace(name);
    if (!is_new) return refuse("must not repeat a key", quote_name(name), "keep one of the entries");
    member_ = &member->second;
    return true;
  }

  bool parse_error(size_t position, const std::string& /*last_token*/, const nlohmann::detail::exception&) override {
    return refuse("must be valid JSON", fmt::format("a syntax error at byte {}", position),
                  "download or write the file again");
  }

 private:
  json* place(json value) {
    if (++num_values_ > kMaxJsonValues) {
      refuse(fmt::format("must hold at most {} values", kMaxJsonValues), "more", "split the file");
      return nullptr;
    }
    json* target = &root_;
    if (!open_.empty() && open_.back()->is_array()) {
      target = &open_.back()->get_ref<json::array_t&>().emplace_back();
    } else if (!open_.empty()) {
      target = member_;
    }
    *target = std::move(value);
    return target;
  }

  bool open(json container) {
    if (open_.size() >= kMaxJsonDepth) {
      return refuse(fmt::format("must nest at most {} levels", kMaxJsonDepth), "more", "flatten the document");
    }
    json* placed = place(std::move(container));
    if (placed == nullptr) return false;
    open_.push_back(placed);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  template <class Value>
  bool refuse(std::string_view rule, const Value& value, std::string_view remedy) {
    status_ = invalid_file(fmt::format("{}: JSON {}", origin_, rule), value, remedy);
    return false;
  }

  std::string_view origin_;
  json root_;
  std::vector<json*> open_;  // the containers around the current position, outermost first
  json* member_ = nullptr;   // where the value of the last key goes
  uint64_t num_values_ = 0;
  Status status_;
};

}  // namespace

Result<json> parse_strict_json(std::string_view text, std::string_view origin) {
  if (text.size() > kMaxJsonBytes) {
    return invalid_file(fmt::format("{}: JSON must be at most {} bytes", origin, kMaxJsonBytes), text.size(),
                        "check that this is the right file");
  }
  StrictBuilder builder(origin);
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    if (!builder.status().ok()) return builder.status();
    return invalid_file(fmt::format("{}: JSON must be valid", origin), "a syntax error", "write the file again");
  }
  json root = builder.take_root();
  if (!root.is_object()) {
    return invalid_file(fmt::format("{}: JSON must be an object at its top level", origin), root.type_name(),
                        "check that this is the right file");
  }
  return root;
}

std::string shown(const json& value) {
  return printable(value.dump(-1, ' ', true, nlohmann::detail::error_handler_t::replace));
}

}  // namespace megamoe
