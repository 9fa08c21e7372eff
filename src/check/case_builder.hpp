#pragma once

// How the case table is put together: one builder, one file per family of cases.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "check/case_table.hpp"

namespace megamoe::check {

/// Collects finished cases.
class CaseBuilder {
 public:
  explicit CaseBuilder(Suite suite) : suite_(suite) {}

  /// A case to start from: H 256, I 128, E 8, K 2, FP8 128x128, one rank of 17 tokens.
  static CheckCase base(std::string name);
  /// Completes the case (shapes, capacity, seeds) and takes it, if it belongs to the suite.
  void add(Suite smallest_suite, CheckCase check_case);
  /// Position within a family; every n-th case of a family is a quick one.
  static Suite every(size_t n, size_t idx) { return idx % n == 0 ? Suite::quick : Suite::full; }

  std::vector<CheckCase> take() { return std::move(cases_); }

 private:
  Suite suite_;
  std::vector<CheckCase> cases_;
};

/// Sets the ranks and the tokens of one call.
void set_tokens(CheckCase& check_case, std::vector<uint32_t> tokens_per_rank);
/// "fp8-128x128-e8m0", "mxfp4", "bf16".
std::string format_name(const MatrixFormat& format);
std::string_view layout_name(GateUpLayout layout);
std::string_view input_name(InputType type);
std::string_view position_name(RouterWeightPosition position);

/// The formats that most families cycle through.
inline constexpr MatrixFormat kFp8{};
inline constexpr MatrixFormat kFp8E8m0{.scale = ScaleType::e8m0};
inline constexpr MatrixFormat kMxfp4{.format = WeightFormat::mxfp4};
inline constexpr MatrixFormat kBf16{.format = WeightFormat::bf16};

/// Formats, layouts, inputs, options, ranks, tunings, shapes: grids over what a layer can be.
void add_grid_cases(CaseBuilder& builder);
/// The numbered rows of the public failure cases that one process can show.
void add_numbered_cases(CaseBuilder& builder);

}  // namespace megamoe::check
