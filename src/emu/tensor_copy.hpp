#pragma once

// Tensor copies: a box of a tensor in global memory against a packed, perhaps swizzled box in shared memory.

#include <cstdint>

#include "cuda/ptx/tensor_map.hpp"
#include "emu/findings.hpp"
#include "megamoe/status.hpp"

namespace megamoe::emu {

/// Checks a description by the rules of cuTensorMapEncodeTiled. One thing more is asked for than the driver asks: the
/// inner dimension of a swizzled box must fill the swizzle's row, because how hardware packs narrower ones is not
/// documented.
Result<ptx::TensorMap> make_tensor_map(const ptx::TensorMapSpec& spec);

/// cp.async.bulk.tensor global -> shared::cluster. `coordinates`: first element of the box, num_dims of them, of which
/// the map must have as many; out of bounds, also negative, reads zeros.
void tensor_load(void* destination, const ptx::TensorMap* map, const int32_t* coordinates, uint32_t num_dims,
                 void* mbarrier, uint16_t cta_mask, const Where& where);
/// cp.async.bulk.tensor shared::cta -> global. Elements out of bounds are not written.
void tensor_store(const ptx::TensorMap* map, const int32_t* coordinates, uint32_t num_dims, const void* source,
                  const Where& where);

}  // namespace megamoe::emu
