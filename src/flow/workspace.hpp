#pragma once

// A rank's symmetric workspace: the same offsets on every rank, so that a peer's field is its base plus our offset.

#include <cstddef>

#include "flow/fields.hpp"

namespace megamoe::flow {

/// Every field begins on such a boundary: no two fields share a cache line or a bulk-copy granule.
inline constexpr uint64_t kFieldAlign = 256;
/// Workspaces are whole pages.
inline constexpr uint64_t kWorkspaceAlign = 4096;

/// Offsets of all fields and the total: the fold of the field table over one Dims.
struct WorkspaceLayout {
  uint64_t offset[kNumFields] = {};
  uint64_t row_elements[kNumFields] = {};
  uint64_t num_bytes = 0;

  MM_HOST_DEVICE static constexpr WorkspaceLayout of(const Dims& dims) {
    WorkspaceLayout layout;
    uint64_t end = 0;
    for (uint32_t i = 0; i < kNumFields; ++i) {
      const FieldExtent extent = field_extent(Field{i}, dims);
      layout.offset[i] = end;
      layout.row_elements[i] = extent.row_elements;
      end = align_up(end + extent.num_bytes(), kFieldAlign);
    }
    layout.num_bytes = align_up(end, kWorkspaceAlign);
    return layout;
  }
};

/// Typed access to one rank's workspace.
struct Workspace {
  std::byte* base = nullptr;
  const WorkspaceLayout* layout = nullptr;

  template <Field field>
  using Element = typename FieldElement<field>::Type;

  /// First element of a field.
  template <Field field>
  MM_HOST_DEVICE Element<field>* get() const {
    return reinterpret_cast<Element<field>*>(base + layout->offset[static_cast<uint32_t>(field)]);
  }
  /// First element of row `row` of its outermost index.
  template <Field field>
  MM_HOST_DEVICE Element<field>* row(uint64_t row_idx) const {
    return get<field>() + row_idx * layout->row_elements[static_cast<uint32_t>(field)];
  }
};

/// All ranks' workspaces, as this rank addresses them.
struct Peers {
  std::byte* const* bases = nullptr;  // [num_ranks]
  const WorkspaceLayout* layout = nullptr;

  MM_HOST_DEVICE Workspace at(Rank rank) const { return {bases[num(rank)], layout}; }
};

}  // namespace megamoe::flow
