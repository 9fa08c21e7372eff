// The CPU's inner loops on one core, against the two ceilings of the machine.
//
//   kernels_bench --benchmark_filter=gemm/avx2
//
// gemm/ISA/FORMAT/ROWS walks a packed matrix that no cache holds, as a worker does, tile by tile of 8 panels, with ROWS
// rows. Columns of its output: FMA is the fraction of the multiply-add ceiling, codes the bytes of packed weights per
// second, read the fraction of the read ceiling.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "check/ceilings.hpp"
#include "cpu/kernels/kernels.hpp"
#include "cpu/kernels/pack.hpp"

namespace megamoe {
namespace {

constexpr uint32_t kNumK = 4096;
constexpr uint32_t kTilePanels = 8;
constexpr size_t kMatrixBytes = 128 << 20;

/// What every benchmark of one instruction set shares.
struct Bench {
  const cpu::Kernels* kernels;
  double fma_gflops;
  double read_gbytes_per_s;
};

/// Codes of every format: no exponent is all ones, so that no NaN slows or speeds anything.
std::vector<std::byte> random_codes(size_t num_bytes) {
  std::vector<std::byte> codes(num_bytes);
  std::minstd_rand random(7);
  for (std::byte& code : codes) code = static_cast<std::byte>(random() & 0xB7U);
  return codes;
}

/// As expert_layouts() makes it for 128x128 and 1x32 scale blocks.
cpu::PackedLayout packed_layout(WeightFormat format, uint32_t num_panels, uint32_t num_k) {
  using cpu::PackedScale;
  switch (format) {
    case WeightFormat::fp8_block: return {format, PackedScale::panel_f32, num_panels, num_k, cpu::kGroupK};
    case WeightFormat::mxfp4: return {format, PackedScale::column_e8m0, num_panels, num_k, kMxfp4Group};
    case WeightFormat::bf16: return {format, PackedScale::none, num_panels, num_k, cpu::kGroupK};
  }
  return {};
}

void gemm(benchmark::State& state, const Bench& bench, WeightFormat format, uint32_t num_rows) {
  cpu::PackedLayout layout = packed_layout(format, 1, kNumK);
  layout.num_panels = static_cast<uint32_t>(kMatrixBytes / layout.panel_code_bytes()) / kTilePanels * kTilePanels;
  const std::vector<std::byte> codes = random_codes(layout.total_code_bytes());
  const std::vector<std::byte> scales(layout.total_scale_bytes(), std::byte{0x3F});
  const cpu::PackedMatrix matrix{layout, codes.data(), scales.data()};
  // As the layer calls it: few rows over all of K at once, many rows one K group at a time.
  const uint32_t step_k = num_rows <= cpu::kMaxStreamedRows ? kNumK : cpu::kGroupK;
  const uint32_t a_stride = step_k / bench.kernels->step_k + 16;
  std::vector<uint32_t> a(size_t{num_rows} * a_stride);
  const std::vector<uint8_t> row(step_k, uint8_t{0x28});
  for (uint32_t m = 0; m < num_rows; ++m) {
    bench.kernels->prepare_row(format, row.data(), step_k, a.data() + size_t{m} * a_stride);
  }
  const std::vector<float> a_scales(num_rows * kNumK / cpu::kGroupK, 2.0F);
  std::vector<float> totals(size_t{num_rows} * kTilePanels * cpu::kPanelCols);
  alignas(64) uint32_t w[cpu::kExpandedWords];
  cpu::MultiplyArgs args{.matrix = &matrix,
                         .num_panels = kTilePanels,
                         .num_k = step_k,
                         .num_rows = num_rows,
                         .a = a.data(),
                         .a_stride = a_stride,
                         .a_scales = a_scales.data(),
                         .a_scale_stride = kNumK / cpu::kGroupK,
                         .w = w,
                         .totals = totals.data(),
                         .total_stride = kTilePanels * cpu::kPanelCols};
  const uint32_t num_tiles = layout.num_panels / kTilePanels;
  for (auto _ : state) {
    for (args.first_k = 0; args.first_k < kNumK; args.first_k += step_k) bench.kernels->multiply(args);
    args.first_panel = (args.first_panel + kTilePanels) % (num_tiles * kTilePanels);
    benchmark::DoNotOptimize(totals.data());
  }
  const double iterations = static_cast<double>(state.iterations());
  const double flops = 2.0 * num_rows * kTilePanels * cpu::kPanelCols * kNumK * iterations;
  const double bytes = static_cast<double>(kTilePanels * layout.panel_code_bytes()) * iterations;
  using benchmark::Counter;
  state.counters["FMA"] = Counter(flops / (bench.fma_gflops * 1e9), Counter::kIsRate);
  state.counters["flops"] = Counter(flops, Counter::kIsRate);
  state.counters["codes"] = Counter(bytes, Counter::kIsRate);
  state.counters["read"] = Counter(bytes / (bench.read_gbytes_per_s * 1e9), Counter::kIsRate);
}

void activate_group(benchmark::State& state, const Bench& bench) {
  std::vector<float> gate(kActivationGroup);
  std::vector<float> up(kActivationGroup);
  for (uint32_t i = 0; i < kActivationGroup; ++i) {
    gate[i] = static_cast<float>(i) * 0.1F - 6.0F;
    up[i] = 3.0F - static_cast<float>(i) * 0.05F;
  }
  uint8_t codes[kActivationGroup];
  float scale = 0.0F;
  cpu::ActivateArgs args;
  args.num_cols = kActivationGroup;
  args.gate = gate.data();
  args.up = up.data();
  args.codes = codes;
  args.scale = &scale;
  for (auto _ : state) {
    bench.kernels->activate_group(args);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kActivationGroup);
}

void quantise_row(benchmark::State& state, const Bench& bench) {
  const std::vector<uint16_t> x(kNumK, 0x3FA0);
  std::vector<uint8_t> codes(kNumK);
  std::vector<float> scales(kNumK / kActivationGroup);
  for (auto _ : state) {
    bench.kernels->quantise_row(x.data(), kNumK, flow::ScaleRule::fp32, codes.data(), scales.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kNumK);
}

void combine_row(benchmark::State& state, const Bench& bench) {
  constexpr uint32_t kNumPartials = 8;
  const std::vector<uint16_t> partial(kNumK, 0x3FA0);
  const std::vector<const uint16_t*> partials(kNumPartials, partial.data());
  const std::vector<float> weights(kNumPartials, 0.5F);
  std::vector<uint16_t> y(kNumK);
  for (auto _ : state) {
    bench.kernels->combine_row(partials.data(), weights.data(), kNumPartials, kNumK,
                               flow::RouterWeightRule::before_gemm2, y.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kNumK * kNumPartials);
}

void store_partial(benchmark::State& state, const Bench& bench) {
  const std::vector<float> totals(kNumK, 1.7F);
  std::vector<uint16_t> partial(kNumK);
  for (auto _ : state) {
    bench.kernels->store_partial(totals.data(), nullptr, kNumK, 1.0F, flow::RouterWeightRule::before_gemm2,
                                 partial.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kNumK);
}

/// The multiply-add ceiling by the same clock as the other benchmarks: on a busy machine, compare with this one.
void fma(benchmark::State& state, const Bench& bench) {
  constexpr uint64_t kNumSteps = 100'000;
  for (auto _ : state) benchmark::DoNotOptimize(bench.kernels->run_ceiling_steps(kNumSteps));
  const double flops = static_cast<double>(kNumSteps * bench.kernels->flops_per_ceiling_step);
  state.counters["flops"] =
      benchmark::Counter(flops * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

/// Source bytes of gemm1's matrices per second.
void pack(benchmark::State& state, WeightFormat format) {
  const LayerShape shape{.hidden = kNumK, .intermediate = 2048, .num_experts = 1, .top_k = 1};
  const auto values_of = [&](uint64_t num_values) {
    return random_codes(format == WeightFormat::mxfp4 ? num_values / 2
                                                      : num_values * (format == WeightFormat::bf16 ? 2 : 1));
  };
  const std::vector<std::byte> gate_up = values_of(uint64_t{2} * shape.intermediate * shape.hidden);
  const std::vector<float> f32_scales(32 * 32, 1.0F);
  const std::vector<E8m0> e8m0_scales(size_t{4096} * 128, E8m0{127});
  ExpertWeights weights;
  weights.layout = GateUpLayout::concatenated;
  const uint32_t block_rows = format == WeightFormat::fp8_block ? 128 : format == WeightFormat::mxfp4 ? 1 : 0;
  const uint32_t block_cols = format == WeightFormat::fp8_block ? 128 : format == WeightFormat::mxfp4 ? 32 : 0;
  weights.gate_up = {format, 2 * shape.intermediate, shape.hidden, gate_up, block_rows, block_cols, {}};
  if (format == WeightFormat::fp8_block) weights.gate_up.scales = std::span<const float>(f32_scales);
  if (format == WeightFormat::mxfp4) weights.gate_up.scales = std::span<const E8m0>(e8m0_scales);
  const cpu::PackedLayout layout = packed_layout(format, 2 * shape.intermediate / cpu::kPanelCols, shape.hidden);
  std::vector<std::byte> codes(layout.total_code_bytes());
  std::vector<std::byte> scales(layout.total_scale_bytes());
  for (auto _ : state) {
    cpu::pack_gemm1(weights, shape, layout, codes.data(), scales.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(gate_up.size()));
}

void add_benchmarks(const Bench& bench) {
  const std::string isa(to_string(bench.kernels->isa));
  const auto add = [&](const std::string& name, auto function, auto... args) {
    benchmark::RegisterBenchmark(name.c_str(), function, args...)->MinTime(0.1);
  };
  for (const WeightFormat format : {WeightFormat::fp8_block, WeightFormat::mxfp4, WeightFormat::bf16}) {
    for (const uint32_t num_rows : {1, 2, 4, 8, 16, 32, 64}) {
      add("gemm/" + isa + "/" + std::string(to_string(format)) + "/" + std::to_string(num_rows), gemm, bench, format,
          num_rows);
    }
  }
  add("fma/" + isa, fma, bench);
  add("activate_group/" + isa, activate_group, bench);
  add("quantise_row/" + isa, quantise_row, bench);
  add("combine_row/" + isa, combine_row, bench);
  add("store_partial/" + isa, store_partial, bench);
}

int run(int argc, char** argv) {
  const Result<double> read_ceiling = measure_read_gbytes_per_s(1);
  if (!read_ceiling) return 1;
  std::printf("one core reads %.1f GB/s\n", *read_ceiling);
  for (const Isa isa : cpu::available_isas()) {
    const Result<double> fma_ceiling = measure_compute_gflops(isa, 1);
    if (!fma_ceiling) return 1;
    std::printf("one core, %s: %.1f GFLOP/s\n", std::string(to_string(isa)).c_str(), *fma_ceiling);
    add_benchmarks({*cpu::find_kernels(isa), *fma_ceiling, *read_ceiling});
  }
  for (const WeightFormat format : {WeightFormat::fp8_block, WeightFormat::mxfp4, WeightFormat::bf16}) {
    benchmark::RegisterBenchmark(("pack/" + std::string(to_string(format))).c_str(), pack, format)->MinTime(0.1);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace megamoe

int main(int argc, char** argv) { return megamoe::run(argc, argv); }
