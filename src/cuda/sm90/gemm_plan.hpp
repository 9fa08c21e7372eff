#pragma once

// What the multiplying kernels are built from: strategy, sizes, and their part of shared memory.

#include "cuda/sm90/packed_weights.hpp"
#include "cuda/sm90/worker.hpp"
#include "cuda/sync/ring.hpp"
#include "flow/schedule.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::sm90 {

/// How tiles are laid on the tensor core. All strategies give the same bits.
enum class Strategy : uint32_t {
  cooperative,  ///< rows of the pool are M, weights N; both math groups share the weights of a block of over 64 rows
  pingpong,     ///< the same with blocks of at most 64 rows: the groups take tiles in turn
  small_batch,  ///< weights are M, rows of the pool N = 8, 16, 32 or 64; blocks of more rows as in `cooperative`
};

/// Which tiles of the walk a kernel takes.
enum class Phases : uint32_t { gemm1, gemm2, both };

// A tile is one pool block by 256 weight rows: 128 columns of the intermediate (one quantisation group, one bit of
// done_mask) or 256 columns of hidden.
inline constexpr uint32_t kGemm1BlockN = kTileHalves * kTileIntermediate;
inline constexpr uint32_t kGemm2BlockN = kTileHalves * kTileRows;
static_assert(kGemm1BlockN == flow::kScaleGroup);

// A block: warpgroup 0 produces, the others multiply.
inline constexpr uint32_t kNumMathGroups = 2;
inline constexpr uint32_t kGroupWarps = simt::kWarpgroupThreads / simt::kWarpLanes;
inline constexpr uint32_t kNumMathWarps = kNumMathGroups * kGroupWarps;
inline constexpr uint32_t kNumMathThreads = kNumMathGroups * simt::kWarpgroupThreads;
inline constexpr uint32_t kGemmThreads = simt::kWarpgroupThreads + kNumMathThreads;
/// Registers per thread after setmaxnreg: of what the block was launched with, 168 for each thread at most.
inline constexpr uint32_t kProducerRegisters = 40;
inline constexpr uint32_t kMathRegisters = 232;
static_assert(kProducerRegisters + kNumMathGroups * kMathRegisters <= (1U + kNumMathGroups) * 168U);
/// Named barrier of the math groups.
inline constexpr uint32_t kMathBarrier = 1;

inline constexpr uint32_t kGroupRows = 64;     ///< rows of one wgmma: of the pool (wide) or of weights (small_batch)
inline constexpr uint32_t kMaxSmallRows = 64;  ///< of a block that small_batch takes with weights as M
inline constexpr uint32_t kMaxSharedBytes = 227U * 1024U;
inline constexpr uint32_t kMaxSlots = 6;
/// What is kept for all but the ring's slots.
inline constexpr uint32_t kPlanBytes = 24U * 1024U;
/// Tiles of which something is kept at once: those that a math group has not left yet, and those announced behind.
inline constexpr uint32_t kTileSlots = 8;

struct GemmConfig {
  Strategy strategy = Strategy::cooperative;
  Phases phases = Phases::both;
  uint32_t max_block_m = 128;  ///< Dims::block_m is at most this; 8 .. 128

  MM_HOST_DEVICE constexpr bool has_wide_tiles() const {
    return strategy != Strategy::small_batch || max_block_m > kMaxSmallRows;
  }
  /// Rows of activations in a slot. wgmma reads 64 at a time, whatever the block has.
  MM_HOST_DEVICE constexpr uint32_t slot_rows() const {
    return has_wide_tiles() ? static_cast<uint32_t>(flow::align_up(max_block_m, kGroupRows)) : max_block_m;
  }
  MM_HOST_DEVICE constexpr uint32_t slot_bytes() const {
    return chunk_bytes(slot_rows()) + kTileHalves * chunk_bytes(kTileRows);
  }
  MM_HOST_DEVICE constexpr uint32_t num_slots() const {
    return flow::min_of((kMaxSharedBytes - kPlanBytes) / slot_bytes(), kMaxSlots);
  }

  /// The same for other phases.
  MM_HOST_DEVICE constexpr GemmConfig with(Phases other) const { return {strategy, other, max_block_m}; }

  friend bool operator==(const GemmConfig&, const GemmConfig&) = default;
};

/// The math groups that work on a tile.
enum class Owner : uint32_t { first_group, second_group, both };

/// What the producer tells about a tile.
struct TileNote {
  uint32_t phase;  ///< flow::Phase
  uint32_t expert;
  uint32_t n_block;
  uint32_t block;
  uint32_t num_rows;
  uint32_t owner;       ///< Owner
  uint32_t first_slot;  ///< cursor of the tile's first chunk in the ring
  uint32_t first_round;
};

/// Where the chunks of the producer's tile come from.
struct TileSource {
  const uint8_t* rows;      // [chunk][block_m, 128]
  const float* row_scales;  // [chunk][block_m]
  const uint8_t* weights;   // [chunk][half][128, 128]
  const ScalePair* scales;  // [chunk][half]
  uint32_t num_halves;      ///< 1 in the last tile of an odd number of n tiles
  uint32_t num_chunks;
  uint32_t num_rows;  ///< valid ones; the others are never read
  uint32_t block_m;
};

/// The multiplying kernels' shared memory: the ring's slots, and behind them what kPlanBytes are for.
template <GemmConfig kConfig>
struct GemmShared {
  static constexpr uint32_t kNumSlots = kConfig.num_slots();
  static constexpr uint32_t kSlotsBytes = kNumSlots * kConfig.slot_bytes();
  using RingState = sync::RingState<kNumSlots>;
  using NoteRingState = sync::RingState<kTileSlots>;

  uint8_t* slots = nullptr;            // [kNumSlots][activations, n tile, n tile], aligned to 1024 bytes
  float* row_scales = nullptr;         // [kNumSlots][slot_rows], of the slots' activations
  ScalePair* scales = nullptr;         // [kNumSlots][kTileHalves], of the slots' n tiles
  Arguments* arguments = nullptr;      // [1], the block's copy
  RingState* ring = nullptr;           // [1], of chunks
  NoteRingState* note_ring = nullptr;  // [1]
  TileNote* notes = nullptr;           // [kTileSlots]
  TileSource* source = nullptr;        // [1], the producer's own
  float* amax = nullptr;               // [2][kMaxSmallRows][kNumMathWarps], of alternate tiles
  uint32_t* tally = nullptr;           // [kTileSlots]: math warps that have stored their part of a gemm1 tile
  uint32_t* at_tile = nullptr;         // [kNumMathWarps]: number of the tile that a warp multiplies
  uint32_t* pool_rows = nullptr;       // [num_local], rows per local expert
  uint32_t* first_block = nullptr;     // [num_local + 1]
  uint8_t* end = nullptr;

  MM_HOST_DEVICE static constexpr uint32_t fixed_bytes() {
    return static_cast<uint32_t>(flow::align_up(sizeof(Arguments), 16) + flow::align_up(sizeof(RingState), 16) +
                                 flow::align_up(sizeof(NoteRingState), 16)) +
           kNumSlots * (kConfig.slot_rows() * 4U + kTileHalves * static_cast<uint32_t>(sizeof(ScalePair))) +
           kTileSlots * static_cast<uint32_t>(sizeof(TileNote)) + static_cast<uint32_t>(sizeof(TileSource)) +
           2U * kMaxSmallRows * kNumMathWarps * 4U + (kTileSlots + kNumMathWarps) * 4U;
  }
  MM_HOST_DEVICE static constexpr uint32_t map_bytes(const flow::Dims& dims) {
    return static_cast<uint32_t>(flow::align_up((2U * dims.num_local_max() + 1U) * 4U, 16));
  }
  /// Of the launch. REQUIRES for a kernel that can be launched: at most kMaxSharedBytes.
  MM_HOST_DEVICE static constexpr uint32_t num_bytes(const flow::Dims& dims) {
    return kSlotsBytes + fixed_bytes() + map_bytes(dims) + SharedPlan::num_bytes(dims);
  }

  MM_DEVICE static GemmShared carve(uint8_t* shared, const flow::Dims& dims) {
    GemmShared plan;
    plan.slots = shared;
    uint8_t* next = shared + kSlotsBytes;
    const auto take = [&](uint64_t num_bytes) {
      uint8_t* taken = next;
      next += flow::align_up(num_bytes, 16);
      return taken;
    };
    plan.row_scales = reinterpret_cast<float*>(take(kNumSlots * kConfig.slot_rows() * sizeof(float)));
    plan.scales = reinterpret_cast<ScalePair*>(take(kNumSlots * kTileHalves * sizeof(ScalePair)));
    plan.arguments = reinterpret_cast<Arguments*>(take(sizeof(Arguments)));
    plan.ring = reinterpret_cast<RingState*>(take(sizeof(RingState)));
    plan.note_ring = reinterpret_cast<NoteRingState*>(take(sizeof(NoteRingState)));
    plan.notes = reinterpret_cast<TileNote*>(take(kTileSlots * sizeof(TileNote)));
    plan.source = reinterpret_cast<TileSource*>(take(sizeof(TileSource)));
    plan.amax = reinterpret_cast<float*>(take(2U * kMaxSmallRows * kNumMathWarps * sizeof(float)));
    plan.tally = reinterpret_cast<uint32_t*>(take(kTileSlots * sizeof(uint32_t)));
    plan.at_tile = reinterpret_cast<uint32_t*>(take(kNumMathWarps * sizeof(uint32_t)));
    plan.pool_rows = reinterpret_cast<uint32_t*>(take(map_bytes(dims)));
    plan.first_block = plan.pool_rows + dims.num_local_max();
    plan.end = next;
    return plan;
  }

  MM_DEVICE uint8_t* activations(uint32_t slot) const { return slots + slot * kConfig.slot_bytes(); }
  MM_DEVICE uint8_t* weights(uint32_t slot, uint32_t half) const {
    return activations(slot) + chunk_bytes(kConfig.slot_rows()) + half * chunk_bytes(kTileRows);
  }
  MM_DEVICE ScalePair* weight_scales(uint32_t slot, uint32_t half) const { return scales + slot * kTileHalves + half; }
  MM_DEVICE float* scales_of_rows(uint32_t slot) const { return row_scales + slot * kConfig.slot_rows(); }
};

/// Whether a phase is gemm1: known at compile time where the kernel has one phase only.
template <GemmConfig kConfig>
MM_DEVICE bool is_gemm1(flow::Phase phase) {
  if constexpr (kConfig.phases == Phases::gemm1) return true;
  if constexpr (kConfig.phases == Phases::gemm2) return false;
  return phase == flow::Phase::gemm1;
}

/// A block at work on tiles.
template <GemmConfig kConfig>
struct GemmWorker {
  static constexpr GemmConfig config = kConfig;
  using Ring = sync::Ring<kConfig.num_slots()>;
  using Cursor = typename Ring::Cursor;
  using NoteRing = sync::Ring<kTileSlots>;

  // Shared memory is alike for all phases.
  using Shared = GemmShared<kConfig.with(Phases::both)>;

  const Worker& worker;
  Shared shared;

  /// The same block at work on tiles of one phase, which the compiler then knows.
  template <Phases kPhase>
  MM_DEVICE GemmWorker<kConfig.with(kPhase)> only() const {
    return {worker, shared};
  }

  MM_DEVICE const Arguments& arguments() const { return worker.arguments; }
  MM_DEVICE Ring ring() const { return Ring(shared.ring); }
  MM_DEVICE NoteRing note_ring() const { return NoteRing(shared.note_ring); }
  /// Where the note of the block's `tile_idx`-th tile stands.
  MM_DEVICE static NoteRing::Cursor note_cursor(uint32_t tile_idx) {
    return {tile_idx % kTileSlots, tile_idx / kTileSlots};
  }
  MM_DEVICE TileNote* note(uint32_t tile_idx) const { return shared.notes + note_cursor(tile_idx).slot; }
  /// For waits in a tile of `phase`.
  MM_DEVICE sync::Waiter waiter(flow::Phase phase) const {
    return worker.waiter(static_cast<uint32_t>(is_gemm1<kConfig>(phase) ? Stage::gemm1 : Stage::gemm2));
  }
};

/// The operands of a phase.
struct GemmOperands {
  const uint8_t* rows;      // [num_pool_blocks][chunk][block_m, 128] swizzled
  const float* row_scales;  // [num_pool_blocks][chunk][block_m]
  PackedMatrix matrix;
};

template <GemmConfig kConfig>
MM_DEVICE GemmOperands operands_of(const Arguments& arguments, flow::Phase phase) {
  const flow::Workspace own = arguments.own();
  if (is_gemm1<kConfig>(phase)) {
    return {own.get<flow::Field::pool_x>(), own.get<flow::Field::pool_x_scale>(), arguments.gemm1};
  }
  return {own.get<flow::Field::act>(), own.get<flow::Field::act_scale>(), arguments.gemm2};
}

}  // namespace megamoe::sm90
