// Which kernels this build has and this CPU can run.

#include <array>
#include <string>
#include <vector>

#include "cpu/kernels/isa.hpp"
#include "host/errors.hpp"
#if MM_CPU_X86
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace megamoe::cpu {
namespace {

struct Candidate {
  const Kernels* kernels;
  std::string missing;  ///< CPU features that the kernels need and this CPU lacks, "avx512bw, avx512dq"
};

#if MM_CPU_X86
// By CPUID what not every compiler's __builtin_cpu_supports knows.

struct CpuId {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
};
CpuId cpu_id(unsigned leaf, unsigned subleaf) {
  CpuId id;
  if (__get_cpuid_count(leaf, subleaf, &id.eax, &id.ebx, &id.ecx, &id.edx) == 0) return {};
  return id;
}

/// AVX's check covers the operating system's part.
bool has_f16c() { return (cpu_id(1, 0).ecx & bit_F16C) != 0; }
/// AVX-512's check covers the operating system's part.
bool has_avx512_bf16() { return (cpu_id(7, 1).eax & 1U << 5) != 0; }
bool has_amx_bf16() {
  constexpr unsigned kAmxBf16 = 1U << 22;
  constexpr unsigned kAmxTile = 1U << 24;
  constexpr unsigned kBoth = kAmxBf16 | kAmxTile;
  return (cpu_id(7, 0).edx & kBoth) == kBoth;
}

/// Linux saves tiles only for processes that asked for it; the permission holds for all threads.
bool ask_for_tiles() {
#if defined(SYS_arch_prctl)
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
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
        Feature{"avx512_bf16", has_avx512_bf16()},
        Feature{"amx_bf16", has_amx_bf16()},
        Feature{"the kernel's permission to use AMX tiles", has_amx_bf16() && ask_for_tiles()},
    };
    const std::span<const Feature> all(features);
    // AMD's multiply-adds take subnormal floats at full speed; nobody else is assumed to. Of each pair the first is
    // chosen.
    const bool is_amd = __builtin_cpu_is("amd") != 0;
    const std::string no_avx512 = missing_features(all.first(7));
    const std::string no_avx2 = missing_features(all.first(3));
    return std::array{Candidate{&kAmxBf16Kernels, missing_features(all)},
                      Candidate{&kAvx512Bf16Kernels, missing_features(all.first(8))},
                      Candidate{is_amd ? &kAvx512Kernels : &kAvx512SlowSubnormalKernels, no_avx512},
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
