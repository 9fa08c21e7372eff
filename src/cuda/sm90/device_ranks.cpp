#include "cuda/sm90/device_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "host/errors.hpp"

namespace megamoe::sm90 {

Result<DeviceRanks> DeviceRanks::create(uint32_t num_ranks, const flow::WorkspaceLayout& layout) {
  auto hopper = cuda::hopper_devices();
  if (!hopper) return hopper.status();
  DeviceRanks ranks;
  const uint32_t num_devices = std::min(num_ranks, static_cast<uint32_t>(hopper->size()));
  ranks.devices_.assign(hopper->begin(), hopper->begin() + num_devices);
  std::vector<int> ordinals;
  for (const cuda::DeviceInfo& device : ranks.devices_) ordinals.push_back(device.ordinal);
  MM_RETURN_IF_ERROR(cuda::enable_peer_access(ordinals));
  for (uint32_t r = 0; r < num_ranks; ++r) ranks.home_.push_back(r * num_devices / num_ranks);
  if (ranks.num_ranks_per_device() > kMaxVirtualRanks) {
    return error(StatusCode::unsupported, fmt::format("one GPU can play at most {} ranks", kMaxVirtualRanks),
                 fmt::format("{} ranks on {} GPUs", num_ranks, num_devices), "use more GPUs or fewer ranks");
  }
  for (const int ordinal : ordinals) {
    auto stream = cuda::Stream::create(ordinal);
    if (!stream) return stream.status();
    ranks.streams_.push_back(*std::move(stream));
  }
  for (uint32_t r = 0; r < num_ranks; ++r) {
    auto memory = cuda::DeviceMemory::allocate(ranks.device(r).ordinal, layout.num_bytes);
    if (!memory) return memory.status();
    ranks.bases_.push_back(memory->data());
    ranks.memory_.push_back(*std::move(memory));
  }
  return ranks;
}

uint32_t DeviceRanks::num_ranks_per_device() const {
  uint32_t most = 0;
  for (uint32_t d = 0; d < devices_.size(); ++d) {
    most = std::max(most, static_cast<uint32_t>(std::count(home_.begin(), home_.end(), d)));
  }
  return most;
}

Status DeviceRanks::launch(GridKind kind, std::span<const Arguments> arguments, LaunchShape shape) const {
  uint32_t first = 0;
  for (uint32_t d = 0; d < num_devices(); ++d) {
    uint32_t end = first;
    while (end < num_ranks() && home_[end] == d) ++end;
    const cuda::DeviceScope scope(devices_[d].ordinal);
    MM_RETURN_IF_ERROR(sm90::launch(kind, arguments.subspan(first, end - first), shape, streams_[d].get()));
    first = end;
  }
  return {};
}

Status DeviceRanks::synchronize() const {
  for (const cuda::Stream& stream : streams_) MM_RETURN_IF_ERROR(stream.synchronize());
  return {};
}

}  // namespace megamoe::sm90
