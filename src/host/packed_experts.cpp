#include "host/packed_experts.hpp"

#include <fmt/format.h>

#include <string_view>

#include "cpu/kernels/pack.hpp"
#include "host/errors.hpp"

namespace megamoe::internal {
namespace {

constexpr uint64_t kPackAlign = 64;
/// Panels that a thread packs before it asks for more: some 100 KB.
constexpr uint32_t kPanelsPerPart = 4;

/// Hands out 64-byte aligned pieces of one allocation; with a null base it only adds up.
struct Carver {
  std::byte* base = nullptr;
  uint64_t end = 0;

  template <class T>
  T* take(uint64_t count) {
    T* piece = base == nullptr ? nullptr : reinterpret_cast<T*>(base + end);
    end = flow::align_up(end + count * sizeof(T), kPackAlign);
    return count == 0 ? nullptr : piece;
  }
};

/// Writable counterpart of PackedExpert.
struct Pieces {
  std::byte* gemm1_codes;
  std::byte* gemm1_scales;
  std::byte* gemm2_codes;
  std::byte* gemm2_scales;
  float* gate_bias;
  float* up_bias;
  float* down_bias;
};

bool has_biases(const ExpertWeights& weights) {
  return !weights.gate_bias.empty() || !weights.up_bias.empty() || !weights.gate_up_bias.empty() ||
         !weights.down_bias.empty();
}

Pieces carve(const cpu::ExpertLayouts& layouts, const LayerShape& shape, bool with_biases, Carver& carver) {
  Pieces pieces{};
  pieces.gemm1_codes = carver.take<std::byte>(layouts.gemm1.total_code_bytes());
  pieces.gemm1_scales = carver.take<std::byte>(layouts.gemm1.total_scale_bytes());
  pieces.gemm2_codes = carver.take<std::byte>(layouts.gemm2.total_code_bytes());
  pieces.gemm2_scales = carver.take<std::byte>(layouts.gemm2.total_scale_bytes());
  pieces.gate_bias = carver.take<float>(with_biases ? shape.intermediate : 0);
  pieces.up_bias = carver.take<float>(with_biases ? shape.intermediate : 0);
  pieces.down_bias = carver.take<float>(with_biases ? shape.hidden : 0);
  return pieces;
}

}  // namespace

Result<cpu::PackedExpert> PackedExperts::pack_one(const ExpertWeights& weights, const LayerShape& shape,
                                                  std::string_view name, const std::vector<uint32_t>& nodes,
                                                  Crew& crew) {
  const auto layouts = cpu::expert_layouts(weights, shape, name);
  if (!layouts) return layouts.status();
  const bool with_biases = has_biases(weights);
  Carver measure;
  carve(*layouts, shape, with_biases, measure);
  auto memory = PrivateMemory::allocate(measure.end);
  if (!memory) return memory.status();
  topology::place_memory(memory->data(), memory->num_bytes(), nodes);

  Carver carver{memory->data()};
  const Pieces pieces = carve(*layouts, shape, with_biases, carver);
  const uint32_t num_gemm1_parts = flow::ceil_div(layouts->gemm1.num_panels, kPanelsPerPart);
  const uint32_t num_gemm2_parts = flow::ceil_div(layouts->gemm2.num_panels, kPanelsPerPart);
  std::vector<cpu::PackedFacts> found(num_gemm1_parts + num_gemm2_parts);
  crew.share(num_gemm1_parts + num_gemm2_parts, [&](uint32_t part) {
    const bool is_gemm1 = part < num_gemm1_parts;
    const uint32_t first = (is_gemm1 ? part : part - num_gemm1_parts) * kPanelsPerPart;
    const cpu::PanelRange panels{first, first + kPanelsPerPart};
    found[part] =
        is_gemm1 ? cpu::pack_gemm1(weights, shape, layouts->gemm1, pieces.gemm1_codes, pieces.gemm1_scales, panels)
                 : cpu::pack_gemm2(weights, shape, layouts->gemm2, pieces.gemm2_codes, pieces.gemm2_scales, panels);
  });
  cpu::PackedFacts gemm1_facts;
  cpu::PackedFacts gemm2_facts;
  for (uint32_t part = 0; part < found.size(); ++part)
    add(part < num_gemm1_parts ? gemm1_facts : gemm2_facts, found[part]);
  if (with_biases) cpu::pack_biases(weights, shape, pieces.gate_bias, pieces.up_bias, pieces.down_bias);
  num_bytes_ += memory->num_bytes();
  memory_.push_back(*std::move(memory));
  return cpu::PackedExpert{{layouts->gemm1, pieces.gemm1_codes, pieces.gemm1_scales, gemm1_facts},
                           {layouts->gemm2, pieces.gemm2_codes, pieces.gemm2_scales, gemm2_facts},
                           pieces.gate_bias,
                           pieces.up_bias,
                           pieces.down_bias};
}

Result<PackedExperts> PackedExperts::pack(const LocalExperts& local, const WeightSource& weights,
                                          const topology::ThreadMap& threads, Crew& crew,
                                          const std::function<void(uint64_t, uint64_t)>& progress) {
  PackedExperts packed;
  packed.ranks_.resize(local.num_ranks);
  const auto add = [&](const ExpertWeights& source, std::string_view name, const std::vector<uint32_t>& nodes,
                       std::span<std::vector<cpu::PackedExpert>> ranks) -> Status {
    const auto expert = packed.pack_one(source, local.shape, name, nodes, crew);
    MM_RETURN_IF_ERROR(expert.status());
    for (std::vector<cpu::PackedExpert>& experts : ranks) experts.push_back(*expert);
    return {};
  };
  const std::vector<uint32_t> all_nodes = threads.shared_nodes(local.num_ranks);
  MM_RETURN_IF_ERROR(local.for_each(
      weights, progress,
      [&](const ExpertWeights& source, std::string_view name) { return add(source, name, all_nodes, packed.ranks_); },
      [&](uint32_t local_rank_idx, const ExpertWeights& source, std::string_view name) {
        return add(source, name, threads.nodes(local_rank_idx), std::span(&packed.ranks_[local_rank_idx], 1));
      }));
  return packed;
}

}  // namespace megamoe::internal
