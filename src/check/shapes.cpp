#include "check/shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "check/numbers.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

constexpr ActivationOptions kGptOssActivation{.limit = 7.0F, .alpha = 1.702F, .up_offset = 1.0F};

constexpr LayerShape shape(uint32_t hidden, uint32_t intermediate, uint32_t num_experts, uint32_t top_k) {
  return {.hidden = hidden, .intermediate = intermediate, .num_experts = num_experts, .top_k = top_k};
}

constexpr std::array<NamedShape, 8> kShapes{{
    {.name = "v4-flash", .model = "DeepSeek-V4-Flash", .shape = shape(4096, 2048, 256, 6), .activation = {}},
    {.name = "v4-pro", .model = "DeepSeek-V4-Pro", .shape = shape(7168, 3072, 384, 6), .activation = {}},
    {.name = "v3", .model = "DeepSeek-V3", .shape = shape(7168, 2048, 256, 8), .activation = {}},
    {.name = "kimi-k2", .model = "Kimi-K2", .shape = shape(7168, 2048, 384, 8), .activation = {}},
    {.name = "mimo-pro", .model = "MiMo-Pro", .shape = shape(6144, 2048, 384, 8), .activation = {}},
    {.name = "qwen3-30b", .model = "Qwen3-30B-A3B", .shape = shape(2048, 768, 128, 8), .activation = {}},
    {.name = "qwen3-235b", .model = "Qwen3-235B-A22B", .shape = shape(4096, 1536, 128, 8), .activation = {}},
    {.name = "gpt-oss-20b",
     .model = "gpt-oss-20b",
     .shape = shape(2880, 2880, 32, 4),
     .activation = kGptOssActivation,
     .biases = Biases::all,
     .layout = GateUpLayout::interleaved},
}};

}  // namespace

std::span<const NamedShape> named_shapes() { return kShapes; }

std::string shape_names() {
  std::string names;
  for (const NamedShape& named : kShapes) names += fmt::format("{}{}", names.empty() ? "" : "|", named.name);
  return names;
}

Result<NamedShape> parse_shape(std::string_view text) {
  for (const NamedShape& named : kShapes) {
    if (named.name == text) return named;
  }
  const std::string rule = fmt::format("--shape must be one of {} or four numbers H,I,E,k", shape_names());
  const std::string_view remedy =
      "for example --shape 4096,2048,256,6 (hidden, intermediate, experts, choices per token)";
  if (split_commas(text).size() != 4) return invalid_argument(rule, fmt::format("'{}'", text), remedy);
  const Result<std::vector<uint32_t>> numbers = parse_whole_list("--shape's H,I,E,k", text, {.min = 1, .max = 1 << 20});
  if (!numbers) return numbers.status();
  return NamedShape{.name = "custom",
                    .model = "given on the command line",
                    .shape = shape((*numbers)[0], (*numbers)[1], (*numbers)[2], (*numbers)[3]),
                    .activation = {}};
}

Result<std::vector<NamedShape>> parse_shapes(std::string_view text) {
  std::vector<NamedShape> shapes;
  const std::vector<std::string_view> pieces = split_commas(text);
  for (size_t first = 0; first < pieces.size();) {
    const bool is_number = !pieces[first].empty() && pieces[first].front() >= '0' && pieces[first].front() <= '9';
    const size_t last = std::min(first + (is_number ? 3 : 0), pieces.size() - 1);
    // The pieces lie side by side in `text`.
    const Result<NamedShape> shape = parse_shape({pieces[first].data(), pieces[last].data() + pieces[last].size()});
    if (!shape) return shape.status();
    shapes.push_back(*shape);
    first = last + 1;
  }
  return shapes;
}

}  // namespace megamoe
