#include <fmt/format.h>

#include <array>

#include "host/errors.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe {
namespace {

template <class Enum, size_t kCount>
Result<Enum> parse(std::string_view what, const std::array<Enum, kCount>& all, std::string_view name) {
  std::string list;
  for (const Enum value : all) {
    if (to_string(value) == name) return value;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", to_string(value));
  }
  return invalid_argument(fmt::format("{} must be one of {}", what, list), name, "choose one of these");
}

}  // namespace

std::string_view version() { return MM_VERSION; }

std::string_view to_string(WeightFormat format) {
  switch (format) {
    case WeightFormat::fp8_block: return "fp8";
    case WeightFormat::mxfp4: return "mxfp4";
    case WeightFormat::bf16: return "bf16";
  }
  return "unknown";
}

std::string_view to_string(Backend backend) {
  switch (backend) {
    case Backend::automatic: return "auto";
    case Backend::cpu: return "cpu";
    case Backend::sm90: return "sm90";
    case Backend::sm100: return "sm100";
    case Backend::chain: return "chain";
  }
  return "unknown";
}

Result<Backend> parse_backend(std::string_view name) {
  return parse("backend", std::array{Backend::automatic, Backend::cpu, Backend::sm90, Backend::sm100, Backend::chain},
               name);
}

std::string_view to_string(Fusion fusion) {
  switch (fusion) {
    case Fusion::fused: return "fused";
    case Fusion::gemms: return "gemms";
    case Fusion::chain: return "chain";
  }
  return "unknown";
}

std::string_view to_string(Strategy strategy) {
  switch (strategy) {
    case Strategy::automatic: return "auto";
    case Strategy::cooperative: return "cooperative";
    case Strategy::pingpong: return "pingpong";
    case Strategy::small_batch: return "small_batch";
  }
  return "unknown";
}

Result<Strategy> parse_strategy(std::string_view name) {
  return parse("strategy",
               std::array{Strategy::automatic, Strategy::cooperative, Strategy::pingpong, Strategy::small_batch}, name);
}

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::automatic: return "auto";
    case Isa::scalar: return "scalar";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::avx512_bf16: return "avx512_bf16";
    case Isa::amx_bf16: return "amx_bf16";
  }
  return "unknown";
}

Result<Isa> parse_isa(std::string_view name) {
  return parse("isa", std::array{Isa::automatic, Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx_bf16},
               name);
}

std::string_view to_string(Pin pin) {
  switch (pin) {
    case Pin::automatic: return "auto";
    case Pin::none: return "none";
    case Pin::node: return "node";
    case Pin::core: return "core";
  }
  return "unknown";
}

Result<Pin> parse_pin(std::string_view name) {
  return parse("pin", std::array{Pin::automatic, Pin::none, Pin::node, Pin::core}, name);
}

std::string_view to_string(Stage stage) {
  switch (stage) {
    case Stage::stage_in: return "stage_in";
    case Stage::count: return "count";
    case Stage::scatter: return "scatter";
    case Stage::exchange: return "exchange";
    case Stage::pull: return "pull";
    case Stage::gemm1: return "gemm1";
    case Stage::gemm2: return "gemm2";
    case Stage::combine: return "combine";
    case Stage::reset: return "reset";
  }
  return "unknown";
}

}  // namespace megamoe
