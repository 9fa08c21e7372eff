#pragma once

#include <cstdint>

namespace megamoe::flow_nvcc {

inline constexpr uint32_t kNumDigests = 256;

}  // namespace megamoe::flow_nvcc
