// What the Hopper backend answers in a build without it.

#include "host/errors.hpp"
#include "host/sm90_backend.hpp"

namespace megamoe::internal {
namespace {

Status not_built() {
  return error(StatusCode::unsupported, "backends sm90 and chain must be part of the build", "built without",
               "configure with MM_WITH_CUDA=ON where nvcc is found, or use auto or cpu");
}

}  // namespace

Result<HopperGpus> find_hopper_gpus() { return not_built(); }

void set_sm90_l2_state(L2State) {}  // no layer of this backend is made

Result<std::unique_ptr<LayerBackend>> make_sm90_backend(const LayerParts&) { return not_built(); }

}  // namespace megamoe::internal
