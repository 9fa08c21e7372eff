#include "topology/thread_binding.hpp"

#include "host/errors.hpp"

namespace megamoe::topology {
namespace {

/// Where one of the library's threads is.
struct Whereabouts {
  uint64_t place_id = 0;
  std::optional<CpuMask> before;  // its first place; none until then
};

}  // namespace

void move_to(const Place* place) {
  thread_local Whereabouts here;
  const uint64_t wanted = place == nullptr ? 0 : place->id;
  if (here.place_id == wanted) return;
  if (!here.before) here.before = CpuMask::of_this_thread();
  if (place != nullptr) {
    CpuMask::of(place->cpus).apply();
  } else if (here.before) {
    here.before->apply();
  }
  here.place_id = wanted;
}

Visit::Visit(const Place* place) {
  if (place == nullptr) return;
  before_ = CpuMask::of_this_thread();
  if (before_ && !CpuMask::of(place->cpus).apply()) before_.reset();
}

Visit::~Visit() {
  if (before_) before_->apply();
}

Status try_binding(const ThreadMap& map, Pin pin) {
  const Place* place = map.place(0, 0);
  if (place == nullptr || Visit(place).is_there()) return {};
  return error(StatusCode::unsupported, "this system must let threads choose their CPUs for pin to be other than none",
               to_string(pin), "use pin none");
}

}  // namespace megamoe::topology
