#pragma once

// The wgmma instructions that are recorded on a GPU and replayed by the emulator. A case is drawn from its set and
// number alone, so a recording holds results only.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/ptx/wgmma_descriptor.hpp"
#include "cuda/ptx/wgmma_shape.hpp"

namespace megamoe::record {

enum class ASource : uint8_t { shared, registers };

/// One instruction with everything that it reads.
struct Case {
  ptx::WgmmaSpec spec;
  ASource a_source = ASource::shared;
  ptx::ScaleD scale_d = ptx::ScaleD::accumulate;
  ptx::MatrixPlace a_place;  // start counts from the image's first byte; unused when A is in registers
  ptx::MatrixPlace b_place;
  std::vector<uint8_t> image;   // shared memory from its first 1024-byte boundary on
  std::vector<uint8_t> a_rows;  // [64, 32 bytes] when A is in registers, else empty
  std::vector<uint32_t> d;      // [64, n] FP32 bits: the accumulator before the instruction
};

enum class CaseSet : uint32_t { e4m3_numbers, bf16_numbers, shapes, variants, places, odd_places };

struct CaseSetInfo {
  CaseSet set;
  const char* name;
  uint32_t num_cases;
  uint32_t num_kept;  // the first cases, whose results are recorded in full; of the others a hash
};

inline constexpr std::array<CaseSetInfo, 6> kCaseSets = {{
    {CaseSet::e4m3_numbers, "e4m3-numbers", 12288, 128},
    {CaseSet::bf16_numbers, "bf16-numbers", 12288, 192},
    {CaseSet::shapes, "shapes", 256, 0},
    {CaseSet::variants, "variants", 640, 0},
    {CaseSet::places, "places", 640, 0},
    {CaseSet::odd_places, "odd-places", 640, 0},
}};

/// REQUIRES: case_idx below the set's num_cases.
Case make_case(CaseSet set, uint32_t case_idx);

struct Variant {
  ptx::WgmmaSpec spec;
  ASource a_source;
};

inline constexpr uint32_t kNumVariants = 32;

/// Every combination of signs and majors for both sources of A, at n = 16: the cases of set `variants` take turns.
constexpr std::array<Variant, kNumVariants> sign_and_major_variants() {
  std::array<Variant, kNumVariants> variants{};
  uint32_t num_variants = 0;
  for (const ASource source : {ASource::shared, ASource::registers}) {
    for (uint32_t choice = 0; choice < 16U; ++choice) {
      ptx::WgmmaSpec spec{.format = ptx::MmaFormat::bf16, .n = 16};
      spec.a_sign = (choice & 1U) != 0U ? ptx::Sign::minus : ptx::Sign::plus;
      spec.b_sign = (choice & 2U) != 0U ? ptx::Sign::minus : ptx::Sign::plus;
      spec.b_major = (choice & 4U) != 0U ? ptx::Major::mn : ptx::Major::k;
      spec.a_major = (choice & 8U) != 0U ? ptx::Major::mn : ptx::Major::k;
      if (source == ASource::shared || spec.a_major == ptx::Major::k) variants[num_variants++] = {spec, source};
      if (choice >= 4U) continue;
      spec.format = ptx::MmaFormat::e4m3;
      variants[num_variants++] = {spec, source};
    }
  }
  return variants;
}

/// FNV-1a over the words of one case's result.
uint64_t hash_of(const uint32_t* words, std::size_t num_words);

}  // namespace megamoe::record
