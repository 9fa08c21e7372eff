// Which kernels this build has and this CPU can run.

#include <array>
#include <string>
#include <vector>

#include "cpu/kernels/isa.hpp"
#include "host/errors.hpp"
#if MM_CPU_X86
#include <cpuid.h>
#endif

namespace megamoe::cpu {
namespace {

struct Candidate {
  const Kernels* kernels;
  std::string missing;  ///< CPU features that the kernels need and this CPU lacks, "avx512bw, avx512dq"
};

#if MM_CPU_X86
/// F16C by CPUID: not every compiler's __builtin_cpu_supports knows it. AVX's check covers the operating system's part.
bool has_f16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

struct Feature {
  std::string_view name;
  bool is_present;
};

std::string missing_features(std::span<const Feature> needed) {
  std::string list;
  for (const Feature& feature : needed) {
    if (!feature.is_present) list += fmt::format("{}{}", list.empty() ? "" : ", ", feature.name);
  }
  return list;
}
#endif

/// Widest first.
std::span<const Candidate> candidates() {
#if MM_CPU_X86
  static const auto list = [] {
    __builtin_cpu_init();
    const std::array features{
        Feature{"avx2", __builtin_cpu_supports("avx2") != 0},
        Feature{"fma", __builtin_cpu_supports("fma") != 0},
        Feature{"f16c", has_f16c()},
        Feature{"avx512f", __builtin_cpu_supports("avx512f") != 0},
        Feature{"avx512bw", __builtin_cpu_supports("avx512bw") != 0},
        Feature{"avx512vl", __builtin_cpu_supports("avx512vl") != 0},
        Feature{"avx512dq", __builtin_cpu_supports("avx512dq") != 0},
    };
    const std::span<const Feature> all(features);
    // AMD's multiply-adds take subnormal floats at full speed; nobody else is assumed to. Of each pair the first is
    // chosen.
    const bool is_amd = __builtin_cpu_is("amd") != 0;
    const std::string no_avx512 = missing_features(all);
    const std::string no_avx2 = missing_features(all.first(3));
    return std::array{Candidate{is_amd ? &kAvx512Kernels : &kAvx512SlowSubnormalKernels, no_avx512},
                      Candidate{is_amd ? &kAvx512SlowSubnormalKernels : &kAvx512Kernels, no_avx512},
                      Candidate{is_amd ? &kAvx2Kernels : &kAvx2SlowSubnormalKernels, no_avx2},
                      Candidate{is_amd ? &kAvx2SlowSubnormalKernels : &kAvx2Kernels, no_avx2},
                      Candidate{&kScalarKernels, ""}};
  }();
#else
  static const std::array list{Candidate{&kScalarKernels, ""}};
#endif
  return list;
}

}  // namespace

Result<const Kernels*> find_kernels(Isa isa) {
  for (const Candidate& candidate : candidates()) {
    if (isa != Isa::automatic && candidate.kernels->isa != isa) continue;
    if (candidate.missing.empty()) return candidate.kernels;
    if (isa == Isa::automatic) continue;
    return error(StatusCode::unsupported,
                 fmt::format("isa {} needs a CPU and an operating system with {}", to_string(isa), candidate.missing),
                 "a CPU without them", "choose isa auto");
  }
  return error(StatusCode::unsupported, "isa must be one that this build has kernels for", to_string(isa),
               "choose isa auto or scalar");
}

std::span<const Kernels* const> runnable_kernels() {
  static const std::vector<const Kernels*> list = [] {
    std::vector<const Kernels*> found;
    for (const Candidate& candidate : candidates()) {
      if (candidate.missing.empty()) found.push_back(candidate.kernels);
    }
    return found;
  }();
  return list;
}

std::span<const Isa> available_isas() {
  static const std::vector<Isa> list = [] {
    std::vector<Isa> found;
    for (const Kernels* kernels : runnable_kernels()) {
      if (found.empty() || found.back() != kernels->isa) found.push_back(kernels->isa);
    }
    return found;
  }();
  return list;
}

}  // namespace megamoe::cpu
