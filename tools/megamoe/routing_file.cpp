#include "routing_file.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "formats/mapped_file.hpp"
#include "formats/strict_json.hpp"
#include "formats/tensor_values.hpp"
#include "host/errors.hpp"

namespace megamoe::cli {
namespace {

constexpr size_t kMaxTopK = 32;
constexpr std::string_view kName = "topk_idx";

Status read_row(const nlohmann::json& row, std::string_view origin, size_t row_idx, RoutingTable& table) {
  if (!row.is_array() || row.empty() || row.size() > kMaxTopK || (table.top_k != 0 && row.size() != table.top_k)) {
    const std::string length = table.top_k != 0 ? fmt::format("{}", table.top_k) : fmt::format("1 to {}", kMaxTopK);
    return invalid_file(fmt::format("{}: row {} of {} must be a list of {} ids", origin, row_idx, kName, length),
                        shown(row), "give every token as many ids, -1 where it has no expert");
  }
  table.top_k = static_cast<uint32_t>(row.size());
  for (const nlohmann::json& id : row) {
    const bool is_small =
        id.is_number_unsigned() ? id.get<uint64_t>() <= INT32_MAX : id.is_number_integer() && id.get<int64_t>() == -1;
    if (!is_small) {
      return invalid_file(
          fmt::format("{}: ids in row {} of {} must be whole numbers from -1 to {}", origin, row_idx, kName, INT32_MAX),
          shown(id), "use expert numbers, and -1 for no expert");
    }
    table.ids.push_back(id.get<int64_t>());
  }
  return {};
}

Result<RoutingTable> table_from_tensor(const SafeTensors& file, const TensorView& tensor) {
  if (tensor.shape.size() != 2 || tensor.shape[0] == 0 || tensor.shape[0] > UINT32_MAX || tensor.shape[1] == 0 ||
      tensor.shape[1] > kMaxTopK) {
    return invalid_file(
        fmt::format("{}: {} must be [tokens, k] with k from 1 to {}", file.origin(), tensor.name, kMaxTopK),
        describe(tensor), "store one row of expert ids per token");
  }
  const Result<TensorValues<int64_t>> ids = int64_values(tensor);
  if (!ids) return ids.status();
  const std::span<const int64_t> values = ids->values();
  return RoutingTable{.num_tokens = static_cast<uint32_t>(tensor.shape[0]),
                      .top_k = static_cast<uint32_t>(tensor.shape[1]),
                      .ids = {values.begin(), values.end()}};
}

Result<RoutingTable> read_routing_tensors(const std::string& path) {
  const Result<SafeTensors> file = SafeTensors::open(path);
  if (!file) return file.status();
  if (const TensorView* tensor = file->find(kName)) return table_from_tensor(*file, *tensor);
  const TensorView* only = nullptr;
  uint32_t num_found = 0;
  for (const TensorView& tensor : file->tensors()) {
    if (!tensor.name.ends_with(fmt::format(".{}", kName))) continue;
    only = &tensor;
    ++num_found;
  }
  if (num_found == 1) return table_from_tensor(*file, *only);
  return invalid_file(fmt::format("{} must hold one tensor named {}", path, kName),
                      fmt::format("{} that end so", num_found),
                      "store the ids as I64 or I32 [tokens, k] under that name");
}

}  // namespace

Result<RoutingTable> parse_routing_json(std::string_view text, std::string_view origin) {
  const Result<nlohmann::json> json = parse_strict_json(text, origin);
  if (!json) return json.status();
  const auto rows = json->find(kName);
  if (rows == json->end() || !rows->is_array() || rows->empty()) {
    return invalid_file(fmt::format("{} must have {} as a list of rows", origin, kName),
                        rows == json->end() ? "none" : shown(*rows), "write {\"topk_idx\": [[3, 7], [0, -1]]}");
  }
  RoutingTable table;
  for (const nlohmann::json& row : *rows) {
    MM_RETURN_IF_ERROR(read_row(row, origin, table.num_tokens, table));
    ++table.num_tokens;
  }
  return table;
}

Result<RoutingTable> read_routing_file(const std::string& path) {
  if (!path.ends_with(".json")) return read_routing_tensors(path);
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file) return file.status();
  const std::span<const std::byte> bytes = file->bytes();
  return parse_routing_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

}  // namespace megamoe::cli
