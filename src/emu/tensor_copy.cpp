#include "emu/tensor_copy.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "emu/async_copy.hpp"
#include "emu/mbarrier.hpp"
#include "emu/memory.hpp"
#include "emu/places.hpp"
#include "host/errors.hpp"

namespace megamoe::emu {

namespace {

using ptx::kMaxTensorDims;
using ptx::Swizzle;
using ptx::TensorMapSpec;

constexpr uint32_t kChunkBytes = 16;
constexpr uint32_t kSharedAlignment = 128;

uint32_t element_bytes(const TensorMapSpec& spec) { return static_cast<uint32_t>(spec.element); }

/// Elements along one dimension that a copy moves.
uint32_t box_count(const TensorMapSpec& spec, uint32_t dim) {
  const uint32_t stride = dim == 0 ? 1 : spec.element_strides[dim];
  return (spec.box[dim] + stride - 1) / stride;
}

uint32_t box_bytes(const TensorMapSpec& spec) {
  uint32_t num_bytes = element_bytes(spec);
  for (uint32_t dim = 0; dim < spec.num_dims; ++dim) num_bytes *= box_count(spec, dim);
  return num_bytes;
}

/// One row of the box along dimension 0: where it stands in the tensor, and which of its elements exist.
struct BoxRow {
  std::byte* first_element;  ///< of dimension 0, element 0; nullptr when the whole row is out of bounds
  int64_t first;             ///< element of dimension 0 that the row starts at
};

BoxRow row_of(const TensorMapSpec& spec, const int32_t* coordinates, uint32_t row) {
  auto* address = static_cast<std::byte*>(spec.base);
  bool inside = true;
  for (uint32_t dim = 1; dim < spec.num_dims; ++dim) {
    const uint32_t count = box_count(spec, dim);
    const int64_t index = int64_t{coordinates[dim]} + int64_t{row % count} * spec.element_strides[dim];
    row /= count;
    inside = inside && index >= 0 && index < static_cast<int64_t>(spec.sizes[dim]);
    if (inside) address += static_cast<uint64_t>(index) * spec.strides_bytes[dim - 1];
  }
  return {inside ? address : nullptr, coordinates[0]};
}

/// Calls function(shared offset in the row, global address or nullptr, bytes) for the pieces of one row: whole chunks,
/// or what a chunk has on one side of the tensor's edge. Without swizzle neighbours are joined.
template <class Function>
void for_each_piece(const TensorMapSpec& spec, const BoxRow& row, Function function) {
  const uint32_t width = element_bytes(spec);
  const uint32_t num_bytes = spec.box[0] * width;
  const int64_t first_inside = std::clamp<int64_t>(-row.first, 0, spec.box[0]) * width;
  const int64_t last_inside =
      std::clamp<int64_t>(static_cast<int64_t>(spec.sizes[0]) - row.first, first_inside / width, spec.box[0]) * width;
  const uint32_t step = spec.swizzle == Swizzle::none ? num_bytes : kChunkBytes;
  for (uint32_t begin = 0; begin < num_bytes; begin += step) {
    const auto edge = [&](int64_t at) { return static_cast<uint32_t>(std::clamp<int64_t>(at, begin, begin + step)); };
    const uint32_t inside = row.first_element == nullptr ? begin + step : edge(first_inside);
    const uint32_t outside = row.first_element == nullptr ? begin + step : edge(last_inside);
    if (inside > begin) function(begin, nullptr, inside - begin);
    if (outside > inside) {
      function(inside, row.first_element + row.first * width + inside, outside - inside);
    }
    if (begin + step > outside) function(outside, nullptr, begin + step - outside);
  }
}

/// The box as segments. `shared`: its place in shared memory.
std::vector<Segment> make_segments(const TensorMapSpec& spec, const int32_t* coordinates, std::byte* shared,
                                   CopyKind kind) {
  std::vector<Segment> segments;
  const uint32_t row_bytes = spec.box[0] * element_bytes(spec);
  const uint32_t num_rows = box_bytes(spec) / row_bytes;
  const auto base = reinterpret_cast<uintptr_t>(shared);
  for (uint32_t row = 0; row < num_rows; ++row) {
    for_each_piece(spec, row_of(spec, coordinates, row), [&](uint32_t offset, std::byte* global, uint32_t num_bytes) {
      // The pattern hangs on address bits; slots are aligned to more than they reach.
      const auto plain = static_cast<uint32_t>((base + size_t{row} * row_bytes + offset) % kSlotBytes);
      std::byte* place =
          shared + (int64_t{ptx::swizzled_offset(spec.swizzle, plain)} - static_cast<int64_t>(base % kSlotBytes));
      if (kind == CopyKind::load) {
        segments.push_back({place, global, num_bytes});
      } else if (global != nullptr) {
        segments.push_back({global, place, num_bytes});
      }
    });
  }
  return segments;
}

void check_copy(const ptx::TensorMap* map, uint32_t num_dims, const void* shared, const Where& where) {
  const uint32_t has = map->spec.num_dims;
  if (has != num_dims) {
    world().fail(FindingKind::invalid_copy, where,
                 fmt::format("a tensor copy must have as many coordinates as its map has dimensions (got {} for {})",
                             num_dims, has));
  }
  const Block* block = world().arena->contains(shared) ? world().owner_of(shared) : nullptr;
  if (block == nullptr || block->cluster != self().block->cluster) {
    world().fail(
        FindingKind::out_of_bounds, where,
        fmt::format("a tensor copy's box must stand in shared memory of the cluster (got {})", place_of(shared)));
  }
  if (reinterpret_cast<uintptr_t>(shared) % kSharedAlignment != 0) {
    world().fail(
        FindingKind::misaligned, where,
        fmt::format("a tensor copy's box in shared memory must be aligned to 128 bytes (got {})", place_of(shared)));
  }
}

Status check_box(const TensorMapSpec& spec) {
  for (uint32_t dim = 0; dim < spec.num_dims; ++dim) {
    if (spec.sizes[dim] == 0 || spec.sizes[dim] > uint64_t{1} << 32U) {
      return invalid_argument("a tensor's sizes must be 1 to 2^32", spec.sizes[dim], "change TensorMapSpec::sizes");
    }
    if (spec.box[dim] == 0 || spec.box[dim] > 256) {
      return invalid_argument("a box must span 1 to 256 elements", spec.box[dim], "change TensorMapSpec::box");
    }
    if (spec.element_strides[dim] == 0 || spec.element_strides[dim] > 8) {
      return invalid_argument("element strides must be 1 to 8", spec.element_strides[dim],
                              "change TensorMapSpec::element_strides");
    }
    if (dim + 1 == spec.num_dims) break;
    if (spec.strides_bytes[dim] % kChunkBytes != 0 || spec.strides_bytes[dim] >= uint64_t{1} << 40U) {
      return invalid_argument("a tensor's strides must be multiples of 16 bytes below 2^40", spec.strides_bytes[dim],
                              "pad the rows");
    }
  }
  return {};
}

}  // namespace

Result<ptx::TensorMap> make_tensor_map(const TensorMapSpec& spec) {
  if (spec.num_dims == 0 || spec.num_dims > kMaxTensorDims) {
    return invalid_argument("a tensor map must have 1 to 5 dimensions", spec.num_dims, "merge dimensions");
  }
  if (reinterpret_cast<uintptr_t>(spec.base) % kChunkBytes != 0) {
    return invalid_argument("a tensor's base must be aligned to 16 bytes", fmt::ptr(spec.base), "align the allocation");
  }
  MM_RETURN_IF_ERROR(check_box(spec));
  const uint32_t row_bytes = spec.box[0] * element_bytes(spec);
  if (row_bytes % kChunkBytes != 0) {
    return invalid_argument("a box's inner dimension must be a multiple of 16 bytes", row_bytes, "widen the box");
  }
  if (spec.swizzle != Swizzle::none && row_bytes != ptx::swizzle_row_bytes(spec.swizzle)) {
    return invalid_argument("a swizzled box's inner dimension must have the swizzle's bytes", row_bytes,
                            "change the box or the swizzle");
  }
  return ptx::TensorMap{spec};
}

void tensor_load(void* destination, const ptx::TensorMap* map, const int32_t* coordinates, uint32_t num_dims,
                 void* mbarrier, uint16_t cta_mask, const Where& where) {
  step();
  check_copy(map, num_dims, destination, where);
  auto copy = new_copy(CopyKind::load, where);
  copy->bytes_per_mbarrier = box_bytes(map->spec);
  std::vector<std::byte*> destinations{static_cast<std::byte*>(destination)};
  std::vector<std::byte*> mbarriers{static_cast<std::byte*>(mbarrier)};
  if (cta_mask != 0) {
    destinations = multicast_addresses(destination, cta_mask, where);
    mbarriers = multicast_addresses(mbarrier, cta_mask, where);
  }
  for (size_t i = 0; i < destinations.size(); ++i) {
    check_copy_mbarrier(mbarriers[i], *world().owner_of(destinations[i]), where);
    copy->mbarriers.push_back(mbarriers[i]);
    const std::vector<Segment> segments = make_segments(map->spec, coordinates, destinations[i], CopyKind::load);
    copy->segments.insert(copy->segments.end(), segments.begin(), segments.end());
  }
  world().copies.issue(std::move(copy));
}

void tensor_store(const ptx::TensorMap* map, const int32_t* coordinates, uint32_t num_dims, const void* source,
                  const Where& where) {
  step();
  check_copy(map, num_dims, source, where);
  if (world().owner_of(source) != self().block) {
    world().fail(FindingKind::out_of_bounds, where, "a tensor store must start in its own block's shared memory");
  }
  auto copy = new_copy(CopyKind::store, where);
  auto* shared = const_cast<std::byte*>(static_cast<const std::byte*>(source));
  copy->segments = make_segments(map->spec, coordinates, shared, CopyKind::store);
  issue_in_group(std::move(copy));
}

}  // namespace megamoe::emu
