// How fast the emulator's tensor core multiplies: products per second of one core.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "check/random.hpp"
#include "emu/tensor_core/dot.hpp"

namespace megamoe {
namespace {

void multiply_rows(benchmark::State& state, ptx::MmaFormat format) {
  const ptx::WgmmaSpec spec{.format = format, .n = static_cast<uint32_t>(state.range(0))};
  const check::Stream stream(1);
  std::vector<uint8_t> a(ptx::kWgmmaRows * ptx::kWgmmaOperandBytes);
  std::vector<uint8_t> b(spec.n * ptx::kWgmmaOperandBytes);
  // Finite codes below 2 in both formats.
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint8_t>(stream.at(i) & 0xBFU);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint8_t>(stream.at(a.size() + i) & 0xBFU);
  std::vector<uint32_t> d(ptx::kWgmmaRows * spec.n);
  for (auto _ : state) {
    emu::tensor_core::multiply_rows(spec, ptx::ScaleD::accumulate, a.data(), b.data(), d.data());
    benchmark::DoNotOptimize(d.data());
  }
  const double num_products = double{ptx::kWgmmaRows} * spec.n * ptx::wgmma_k(format);
  state.counters["products"] = benchmark::Counter(num_products, benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK_CAPTURE(multiply_rows, e4m3, ptx::MmaFormat::e4m3)->Arg(8)->Arg(128)->Arg(256);
BENCHMARK_CAPTURE(multiply_rows, bf16, ptx::MmaFormat::bf16)->Arg(8)->Arg(128)->Arg(256);

}  // namespace
}  // namespace megamoe

BENCHMARK_MAIN();
