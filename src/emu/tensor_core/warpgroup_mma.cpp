#include "emu/tensor_core/warpgroup_mma.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "check/random.hpp"
#include "cuda/ptx/wgmma_fragment.hpp"
#include "emu/places.hpp"
#include "emu/tensor_core/dot.hpp"
#include "emu/tensor_core/mma_queue.hpp"
#include "emu/warp.hpp"
#include "emu/world.hpp"

namespace megamoe::emu {

namespace {

using Ranges = std::vector<std::pair<const std::byte*, uint32_t>>;

/// One lane's arguments.
struct MmaCall {
  ptx::WgmmaSpec spec;
  float* d;
  const uint32_t* a;
  ptx::WgmmaDescriptor a_place;
  ptx::WgmmaDescriptor b_place;
  ptx::ScaleD scale_d;
  Where where;
};

uint32_t warpgroup_of(const Lane& lane) { return lane.thread_idx / ptx::kWarpgroupLanes; }

Lane& lane_of(uint32_t lane_in_group) {
  return self().block->lanes[warpgroup_of(self()) * ptx::kWarpgroupLanes + lane_in_group];
}

/// The queue of the running lane's warpgroup.
MmaQueue& queue() {
  auto& queues = self().block->mma_queues;
  const uint32_t warpgroup_idx = warpgroup_of(self());
  if (queues.size() <= warpgroup_idx) queues.resize(warpgroup_idx + 1);
  if (queues[warpgroup_idx] == nullptr) queues[warpgroup_idx] = std::make_shared<MmaQueue>();
  return *queues[warpgroup_idx];
}

/// Shared memory of the running lane's block.
tensor_core::SharedView shared_view() {
  const Block& block = *self().block;
  return {block.shared - kSystemSharedBytes, static_cast<uint32_t>(kSystemSharedBytes),
          static_cast<uint32_t>(kSystemSharedBytes) + block.shared_bytes};
}

/// Adjoining chunks as one range. Fails when one lies outside the block's shared memory.
Ranges ranges_of(const char* name, const ptx::MatrixPlace& place, ptx::Major major, uint32_t num_rows,
                 const Where& where) {
  const tensor_core::SharedView view = shared_view();
  uint32_t outside = 0;
  if (!tensor_core::is_inside(view, place, major, num_rows, outside)) {
    world().fail(
        FindingKind::out_of_bounds, where,
        fmt::format("{} of wgmma reads 16 bytes at shared address {:#x}; the block's memory goes from {:#x} to "
                    "{:#x} (start {:#x}, leading {}, stride {})",
                    name, outside, view.begin, view.end, place.start, place.leading_bytes, place.stride_bytes));
  }
  std::vector<uint32_t> chunks;
  tensor_core::for_each_chunk(place, major, num_rows, [&](uint32_t address) { chunks.push_back(address); });
  std::sort(chunks.begin(), chunks.end());
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  Ranges ranges;
  for (const uint32_t address : chunks) {
    const std::byte* begin = view.window + address;
    if (!ranges.empty() && ranges.back().first + ranges.back().second == begin) {
      ranges.back().second += tensor_core::kChunkBytes;
    } else {
      ranges.emplace_back(begin, tensor_core::kChunkBytes);
    }
  }
  return ranges;
}

/// Notes what is wrong with operands as they are now; at most one finding of a kind.
void check_memory(const char* name, const Ranges& ranges, const Where& where) {
  World& machine = world();
  const uint32_t num_fences = self().block->num_proxy_fences;
  bool is_busy = false;
  bool is_unfenced = false;
  for (const auto& [begin, num_bytes] : ranges) {
    const uint8_t* states = machine.arena->states(begin);
    for (uint32_t i = 0; i < num_bytes && !is_busy; ++i) {
      is_busy = (states[i] & kCopyWrites) != 0;
      if (!is_busy) continue;
      machine.note(FindingKind::copy_in_flight, &self(), where,
                   fmt::format("{} of wgmma at {} while an asynchronous copy writes it{}", name, place_of(begin + i),
                               machine.copies.describe_copy_at(begin + i)));
    }
    for (uint32_t i = 0; i < num_bytes && !is_unfenced; i += kStampBytes) {
      is_unfenced = machine.arena->stamp(begin + i) == num_fences;
      if (!is_unfenced) continue;
      machine.note(FindingKind::missing_proxy_fence, &self(), where,
                   fmt::format("{} of wgmma at {}, written by ordinary stores, and no lane has executed "
                               "fence.proxy.async since",
                               name, place_of(begin + i)));
    }
  }
}

void set_busy(const Ranges& ranges) {
  for (const auto& [begin, num_bytes] : ranges) {
    uint8_t* states = world().arena->states(begin);
    for (uint32_t i = 0; i < num_bytes; ++i) states[i] |= kCopyReads;
  }
}

void clear_busy(const Ranges& ranges) {
  for (const auto& [begin, num_bytes] : ranges) {
    uint8_t* states = world().arena->states(begin);
    for (uint32_t i = 0; i < num_bytes; ++i) states[i] = static_cast<uint8_t>(states[i] & ~kCopyReads);
  }
}

/// Every warp reads all of B, and of A its 16 rows; one check of A for the whole warpgroup is as good.
void check_order(MmaQueue& mmas, const Ranges& ranges, const Where& where) {
  World& machine = world();
  if (!machine.races.enabled()) return;
  if (mmas.agent == 0) mmas.agent = machine.races.add_agent(nullptr, *self().block);
  for (uint32_t warp = 0; warp < kWarpgroupWarps; ++warp) {
    Lane& lane = lane_of(warp * kWarpLanes);
    const Knowledge knowledge = machine.races.snapshot(lane);
    for (const auto& [begin, num_bytes] : ranges) {
      machine.races.on_copy_read(lane, {mmas.agent, mmas.open_group + 1}, knowledge, begin, num_bytes, where);
    }
  }
}

/// Reads an operand as rows; bytes that nobody has written become NaN codes.
void read_operand(const ptx::MatrixPlace& place, ptx::Major major, MmaQueue& mmas, tensor_core::OperandRows& rows) {
  constexpr uint8_t kUnwrittenCode = 0xFF;
  const tensor_core::SharedView view = shared_view();
  tensor_core::gather(view, place, major, rows);
  tensor_core::SharedView states = view;
  states.window = reinterpret_cast<const std::byte*>(world().arena->states(view.window));
  mmas.states.num_rows = rows.num_rows;
  tensor_core::gather(states, place, major, mmas.states);
  for (uint32_t i = 0; i < rows.num_rows * ptx::kWgmmaOperandBytes; ++i) {
    if ((mmas.states.bytes[i] & kWritten) == 0) rows.bytes[i] = kUnwrittenCode;
  }
}

/// Checks, reads and marks the operands in shared memory.
void take_operands(const MmaCall& call, void* const* payloads, MmaQueue& mmas) {
  const ptx::MatrixPlace b_place = ptx::decode(call.b_place);
  Ranges ranges = ranges_of("B", b_place, call.spec.b_major, call.spec.n, call.where);
  check_memory("B", ranges, call.where);
  mmas.a.num_rows = ptx::kWgmmaRows;
  mmas.b.num_rows = call.spec.n;
  read_operand(b_place, call.spec.b_major, mmas, mmas.b);
  if (call.a == nullptr) {
    const ptx::MatrixPlace a_place = ptx::decode(call.a_place);
    const Ranges a_ranges = ranges_of("A", a_place, call.spec.a_major, ptx::kWgmmaRows, call.where);
    check_memory("A", a_ranges, call.where);
    read_operand(a_place, call.spec.a_major, mmas, mmas.a);
    ranges.insert(ranges.end(), a_ranges.begin(), a_ranges.end());
  } else {
    const uint32_t* registers[ptx::kWarpgroupLanes];
    for (uint32_t lane = 0; lane < ptx::kWarpgroupLanes; ++lane) {
      registers[lane] = static_cast<const MmaCall*>(payloads[lane])->a;
    }
    tensor_core::gather_fragments(registers, mmas.a);
  }
  check_order(mmas, ranges, call.where);
  set_busy(ranges);
  mmas.operands.push_back({mmas.open_group, std::move(ranges)});
}

/// Whether some lane's registers are part of the other accumulator's.
bool overlaps(const FlyingAccumulator& flying, const LaneRegisters& registers, uint32_t n) {
  for (uint32_t lane = 0; lane < ptx::kWarpgroupLanes; ++lane) {
    const float* begin = flying.registers[lane];
    if (registers[lane] < begin + flying.n / 2 && begin < registers[lane] + n / 2) return true;
  }
  return false;
}

/// The accumulator on these registers: one in flight, or a new one with what the registers hold.
FlyingAccumulator& accumulator_of(const MmaCall& call, const LaneRegisters& registers, MmaQueue& mmas) {
  for (FlyingAccumulator& flying : mmas.accumulators) {
    if (flying.n == call.spec.n && flying.registers == registers) return flying;
    if (!overlaps(flying, registers, call.spec.n)) continue;
    world().fail(
        FindingKind::mma_order, call.where,
        fmt::format("registers of an accumulator with n = {} are in flight since {}; with n = {} they may be used "
                    "after wgmma_wait_group only",
                    flying.n, short_location(flying.where), call.spec.n));
  }
  FlyingAccumulator fresh{.n = call.spec.n, .registers = registers, .d = {}, .last_group = 0, .where = call.where};
  fresh.d.resize(size_t{ptx::kWgmmaRows} * fresh.n);
  for (uint32_t lane = 0; lane < ptx::kWarpgroupLanes; ++lane) {
    for (uint32_t i = 0; i < fresh.n / 2; ++i) {
      // With scale-d 0 the registers may hold anything, also nothing yet.
      if (call.scale_d == ptx::ScaleD::accumulate) {
        fresh.d[ptx::d_row(lane, i) * fresh.n + ptx::d_column(lane, i)] = float_bits(registers[lane][i]);
      }
      registers[lane][i] = bits_float(kUnfinishedD);
    }
  }
  mmas.accumulators.push_back(std::move(fresh));
  return mmas.accumulators.back();
}

void finish_mma(void* const payloads[ptx::kWarpgroupLanes], void*) {
  const MmaCall& call = *static_cast<const MmaCall*>(payloads[0]);
  MmaQueue& mmas = queue();
  if (!mmas.is_fenced) {
    world().note(FindingKind::mma_order, &self(), call.where,
                 "wgmma_mma_async without wgmma_fence since the warpgroup last had its registers to itself");
  }
  LaneRegisters registers;
  for (uint32_t lane = 0; lane < ptx::kWarpgroupLanes; ++lane) {
    registers[lane] = static_cast<const MmaCall*>(payloads[lane])->d;
  }
  take_operands(call, payloads, mmas);
  FlyingAccumulator& flying = accumulator_of(call, registers, mmas);
  flying.last_group = mmas.open_group;
  tensor_core::multiply_rows(call.spec, call.scale_d, mmas.a.bytes.data(), mmas.b.bytes.data(), flying.d.data());
}

void finish_fence(void* const*, void*) { queue().is_fenced = true; }

void finish_commit(void* const*, void*) { ++queue().open_group; }

/// Hands an accumulator back to its lanes.
void land(const FlyingAccumulator& flying, const Where& where) {
  bool was_touched = false;
  for (uint32_t lane = 0; lane < ptx::kWarpgroupLanes; ++lane) {
    for (uint32_t i = 0; i < flying.n / 2; ++i) {
      float& value = flying.registers[lane][i];
      if (float_bits(value) != kUnfinishedD && !was_touched) {
        was_touched = true;
        world().note(FindingKind::mma_order, &lane_of(lane), where,
                     fmt::format("accumulator register {} was written between wgmma_mma_async at {} and this wait", i,
                                 short_location(flying.where)));
      }
      value = bits_float(flying.d[ptx::d_row(lane, i) * flying.n + ptx::d_column(lane, i)]);
    }
  }
}

/// Ends all groups below `num_ended`.
void land_groups(MmaQueue& mmas, uint32_t num_ended, const Where& where) {
  const auto first_done = std::partition(mmas.accumulators.begin(), mmas.accumulators.end(),
                                         [&](const FlyingAccumulator& one) { return one.last_group >= num_ended; });
  std::for_each(first_done, mmas.accumulators.end(), [&](const FlyingAccumulator& one) { land(one, where); });
  if (first_done != mmas.accumulators.end()) mmas.is_fenced = false;
  mmas.accumulators.erase(first_done, mmas.accumulators.end());

  const auto first_read = std::partition(mmas.operands.begin(), mmas.operands.end(),
                                         [&](const FlyingOperands& one) { return one.group >= num_ended; });
  if (first_read == mmas.operands.end()) return;
  std::for_each(first_read, mmas.operands.end(), [](const FlyingOperands& one) { clear_busy(one.ranges); });
  mmas.operands.erase(first_read, mmas.operands.end());
  // Others in flight may read the same bytes.
  for (const auto& other : self().block->mma_queues) {
    if (other == nullptr) continue;
    for (const FlyingOperands& one : other->operands) set_busy(one.ranges);
  }
  if (mmas.agent == 0) return;
  for (uint32_t lane = 0; lane < ptx::kWarpgroupLanes; ++lane) {
    lane_of(lane).knowledge.seen.raise(mmas.agent, num_ended);
  }
}

void finish_wait(void* const payloads[ptx::kWarpgroupLanes], void* context) {
  const auto num_pending = *static_cast<const uint32_t*>(context);
  MmaQueue& mmas = queue();
  const uint32_t num_ended = mmas.open_group - std::min(num_pending, mmas.open_group);
  land_groups(mmas, num_ended, *static_cast<const Where*>(payloads[0]));
}

/// One number for everything that all lanes of an instruction must agree on.
uint64_t digest_of(const MmaCall& call) {
  const check::Stream stream(static_cast<uint64_t>(call.spec.format), call.spec.n, call.spec.a_major, call.spec.b_major,
                             call.spec.a_sign, call.spec.b_sign, call.a == nullptr, call.a_place, call.b_place,
                             call.scale_d);
  return stream.at(0);
}

}  // namespace

void wgmma_fence(const Where& where) { warpgroup_collective("wgmma_fence", 0, nullptr, finish_fence, nullptr, where); }

void wgmma_mma_async(const ptx::WgmmaSpec& spec, float* d, const uint32_t* a, ptx::WgmmaDescriptor a_place,
                     ptx::WgmmaDescriptor b_place, ptx::ScaleD scale_d, const Where& where) {
  world().has_mma = true;
  MmaCall call{spec, d, a, a_place, b_place, scale_d, where};
  warpgroup_collective("wgmma_mma_async", digest_of(call), &call, finish_mma, nullptr, where);
}

void wgmma_commit_group(const Where& where) {
  warpgroup_collective("wgmma_commit_group", 0, nullptr, finish_commit, nullptr, where);
}

void wgmma_wait_group(uint32_t num_pending, const Where& where) {
  Where own = where;
  warpgroup_collective("wgmma_wait_group", num_pending, &own, finish_wait, &num_pending, where);
}

void wgmma_pin(const float* d, uint32_t num_registers, const Where& where) {
  if (!world().has_mma) return;
  const Lane& lane = self();
  const auto& queues = lane.block->mma_queues;
  const uint32_t warpgroup_idx = warpgroup_of(lane);
  if (warpgroup_idx >= queues.size() || queues[warpgroup_idx] == nullptr) return;
  for (const FlyingAccumulator& flying : queues[warpgroup_idx]->accumulators) {
    const float* begin = flying.registers[lane.thread_idx % ptx::kWarpgroupLanes];
    if (d >= begin + flying.n / 2 || begin >= d + num_registers) continue;
    world().note(FindingKind::mma_order, &lane, where,
                 fmt::format("ordinary code takes accumulator registers that are in flight since {}; wgmma_wait_group "
                             "must end their group before",
                             short_location(flying.where)));
  }
}

void check_mma_exit(Block& block) {
  for (uint32_t warpgroup_idx = 0; warpgroup_idx < block.mma_queues.size(); ++warpgroup_idx) {
    if (block.mma_queues[warpgroup_idx] == nullptr) continue;
    for (const FlyingAccumulator& flying : block.mma_queues[warpgroup_idx]->accumulators) {
      world().note(FindingKind::mma_order, &block.lanes[warpgroup_idx * ptx::kWarpgroupLanes], flying.where,
                   "the block has exited without wgmma_wait_group for this wgmma_mma_async");
    }
  }
  block.mma_queues.clear();
}

}  // namespace megamoe::emu
