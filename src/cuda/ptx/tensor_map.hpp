#pragma once

// A tensor map: what a tensor copy knows about the tensor in global memory. The device gets the driver's CUtensorMap,
// the emulator the parameters themselves; TensorMapSpec is what either is made from.

#include <cstdint>

#include "cuda/ptx/swizzle.hpp"

#if defined(__CUDACC__)
#include <cuda.h>
#endif

namespace megamoe::ptx {

inline constexpr uint32_t kMaxTensorDims = 5;

/// Bytes of one element; copies only move them, so that FP8 is u8 and BF16 is u16.
enum class TensorElement : uint8_t { u8 = 1, u16 = 2, u32 = 4, u64 = 8 };

/// Arguments of cuTensorMapEncodeTiled without interleave, and with zeros for elements out of bounds. Dimension 0 is
/// the contiguous one.
struct TensorMapSpec {
  void* base = nullptr;  ///< global memory, aligned to 16 bytes
  TensorElement element = TensorElement::u8;
  uint32_t num_dims = 1;
  uint64_t sizes[kMaxTensorDims] = {1, 1, 1, 1, 1};            ///< elements
  uint64_t strides_bytes[kMaxTensorDims - 1] = {0, 0, 0, 0};   ///< of dimensions 1..; multiples of 16
  uint32_t box[kMaxTensorDims] = {1, 1, 1, 1, 1};              ///< elements of the tensor that one copy spans
  uint32_t element_strides[kMaxTensorDims] = {1, 1, 1, 1, 1};  ///< of dimensions 1.. only every n-th element is copied
  Swizzle swizzle = Swizzle::none;
};

#if defined(__CUDACC__)
using TensorMap = CUtensorMap;
#else
/// As the emulator holds it; made by emu::make_tensor_map, which checks what the driver would.
struct alignas(64) TensorMap {
  TensorMapSpec spec;
};
#endif

}  // namespace megamoe::ptx
