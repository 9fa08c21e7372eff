#include "formats/quote.hpp"

#include <fmt/format.h>

namespace megamoe {

std::string printable(std::string_view text) {
  constexpr size_t kMaxShown = 120;
  std::string out;
  for (const char c : text.substr(0, kMaxShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  if (text.size() > kMaxShown) out += "...";
  return out;
}

std::string quote_name(std::string_view name) { return fmt::format("'{}'", printable(name)); }

}  // namespace megamoe
