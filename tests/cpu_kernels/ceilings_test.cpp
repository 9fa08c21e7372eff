// The ceilings are measured, not assumed: what can be said of them on any machine.

#include "check/ceilings.hpp"

#include <gtest/gtest.h>

#include <string>

#include "cpu/kernels/kernels.hpp"

namespace megamoe {
namespace {

TEST(CeilingsTest, EveryIsaHasAPlausibleFmaRate) {
  for (const Isa isa : cpu::available_isas()) {
    const Result<double> gflops = measure_compute_gflops(isa, 1);
    ASSERT_TRUE(gflops.ok()) << gflops.status().message();
    EXPECT_GT(*gflops, 0.001) << to_string(isa);
    EXPECT_LT(*gflops, 1000.0) << to_string(isa) << ": no core does this; the loop was left out";
  }
}

TEST(CeilingsTest, ReadRateIsPlausible) {
  const Result<double> gbytes_per_s = measure_read_gbytes_per_s(2);
  ASSERT_TRUE(gbytes_per_s.ok()) << gbytes_per_s.status().message();
  EXPECT_GT(*gbytes_per_s, 0.001);
  EXPECT_LT(*gbytes_per_s, 1000.0) << "two cores do not read this fast; the loop was left out";
}

TEST(CeilingsTest, NoThreadsAreRefused) {
  const std::string wanted = "num_threads must be at least 1 (got 0); pass the number of worker threads";
  EXPECT_EQ(measure_compute_gflops(Isa::scalar, 0).status().message(), wanted);
  EXPECT_EQ(measure_read_gbytes_per_s(0).status().message(), wanted);
}

}  // namespace
}  // namespace megamoe
