#include "check_bits.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "check/bits/bit_case.hpp"
#include "check/bits/bit_runs.hpp"
#include "check/gpu_state.hpp"
#include "host/errors.hpp"
#include "tiny_model.hpp"

namespace megamoe::cli {
namespace {

using bits::BitRecord;

Status check_backend(Backend backend) {
  if (backend == Backend::sm90 || backend == Backend::chain) return {};
  return invalid_argument("--bits and --record-bits need a backend that adds as an H200 does: sm90 or chain",
                          to_string(backend), "add --backend chain");
}

/// What a record says of where it comes from.
Status describe_record(const BitOptions& options, Backend backend, BitRecord& record) {
  const auto gpu = read_gpu_state();
  MM_RETURN_IF_ERROR(gpu.status());
  record.machine = gpu->name;
  record.driver = fmt::format("{}, CUDA {}", gpu->driver, gpu->cuda);
  record.version = version();
  record.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  record.command = fmt::format("megamoe check --backend {} --record-bits {}", to_string(backend), options.record_file);
  return {};
}

}  // namespace

Result<std::vector<NamedRun>> bit_runs(const BitOptions& options, Backend backend, BitRecord& record) {
  if (!options.compare_file.empty() && !options.record_file.empty()) {
    return invalid_argument("--bits and --record-bits must not be given together", options.record_file,
                            "record first, then compare");
  }
  MM_RETURN_IF_ERROR(check_backend(backend));
  const auto model_folder = find_tiny_model(options.model_folder);
  MM_RETURN_IF_ERROR(model_folder.status());
  const bits::BitPlace place{.backend = backend, .model_folder = model_folder->string()};
  if (!options.record_file.empty()) {
    MM_RETURN_IF_ERROR(describe_record(options, backend, record));
    return bits::recording_runs(place, record);
  }
  auto found = bits::read_bit_record(options.compare_file);
  MM_RETURN_IF_ERROR(found.status());
  record = *std::move(found);
  return bits::comparing_runs(place, record);
}

Status write_bits(const BitOptions& options, const BitRecord& record, const CheckSummary& summary) {
  const size_t num_cases = bits::bit_cases().size();
  if (summary.passed != num_cases) {
    return error(StatusCode::failed_precondition, fmt::format("all {} bit cases must pass to be recorded", num_cases),
                 fmt::format("{} passed", summary.passed),
                 fmt::format("leave --filter out and mend what failed; {} was not written", options.record_file));
  }
  return bits::write_bit_record(options.record_file, record);
}

}  // namespace megamoe::cli
