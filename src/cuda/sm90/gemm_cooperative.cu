#include "cuda/sm90/gemm_grid.cuh"

namespace megamoe::sm90 {

template const void* gemm_grid_function<Strategy::cooperative, 1>(Phases phases);
template const void* gemm_grid_function<Strategy::cooperative, kMaxVirtualRanks>(Phases phases);

}  // namespace megamoe::sm90
