#include "wgmma_cases.hpp"

#include "number_mix.hpp"

namespace megamoe::record {

namespace {

using ptx::Major;
using ptx::MatrixPlace;
using ptx::MmaFormat;
using ptx::Swizzle;

constexpr uint64_t kSeed = 20261129;
constexpr uint32_t kABytes = ptx::kWgmmaRows * ptx::kWgmmaOperandBytes;
constexpr uint32_t kPlacesImageBytes = 64U << 10U;
constexpr uint32_t kPlacesColumns = 16;

/// Rows of 32 bytes -> the K-major layout without swizzle: 128-byte blocks of 8 rows x 16 bytes, both halves of K of 8
/// rows side by side.
void store_plain(const uint8_t* rows, uint32_t num_rows, uint8_t* image) {
  for (uint32_t byte = 0; byte < num_rows * ptx::kWgmmaOperandBytes; ++byte) {
    const uint32_t row = byte / 32U;
    const uint32_t half = byte % 32U / 16U;
    image[row / 8U * 256U + half * 128U + row % 8U * 16U + byte % 16U] = rows[byte];
  }
}

/// The MN-major layout without swizzle of a bf16 matrix: blocks of 8 values of K x 8 rows.
void store_plain_mn(const uint8_t* rows, uint32_t num_rows, uint8_t* image) {
  for (uint32_t byte = 0; byte < num_rows * ptx::kWgmmaOperandBytes; ++byte) {
    const uint32_t row = byte / 32U;
    const uint32_t k = byte % 32U / 2U;
    image[row / 8U * 256U + k / 8U * 128U + k % 8U * 16U + row % 8U * 2U + byte % 2U] = rows[byte];
  }
}

/// A case whose operands stand in plain blocks, with numbers of the mix that `mix_idx` names.
Case make_number_case(CaseSet set, uint32_t case_idx, const Variant& variant, uint32_t mix_idx) {
  Draw draw(kSeed, set, case_idx);
  Case result;
  result.spec = variant.spec;
  result.a_source = variant.a_source;
  std::vector<uint8_t> a(kABytes);
  std::vector<uint8_t> b(std::size_t{result.spec.n} * ptx::kWgmmaOperandBytes);
  result.d.resize(std::size_t{ptx::kWgmmaRows} * result.spec.n);
  const NumberMix mix = draw_mix(result.spec.format, mix_idx, draw);
  fill_numbers(mix, result.spec, draw, a.data(), b.data(), result.d.data());

  result.image.resize(kABytes + b.size());
  const bool is_a_mn = result.spec.a_major == Major::mn;
  const bool is_b_mn = result.spec.b_major == Major::mn;
  (is_a_mn ? store_plain_mn : store_plain)(a.data(), ptx::kWgmmaRows, result.image.data());
  (is_b_mn ? store_plain_mn : store_plain)(b.data(), result.spec.n, result.image.data() + kABytes);
  result.a_place = {.start = 0, .leading_bytes = 128, .stride_bytes = 256};
  result.b_place = {.start = kABytes, .leading_bytes = 128, .stride_bytes = 256};
  if (result.a_source == ASource::registers) result.a_rows = a;
  return result;
}

Case make_shape_case(uint32_t case_idx) {
  const uint32_t n = 8U * (case_idx % 32U + 1U);
  const uint32_t rest = case_idx / 32U;
  const Variant variant{{.format = rest % 2U == 0U ? MmaFormat::e4m3 : MmaFormat::bf16, .n = n},
                        rest / 2U % 2U == 0U ? ASource::shared : ASource::registers};
  return make_number_case(CaseSet::shapes, case_idx, variant, rest / 4U == 0U ? 1U : 4U);
}

Case make_variant_case(uint32_t case_idx) {
  constexpr std::array<Variant, kNumVariants> kVariants = sign_and_major_variants();
  Case result =
      make_number_case(CaseSet::variants, case_idx, kVariants[case_idx % kNumVariants], case_idx / kNumVariants);
  if (case_idx / kNumVariants % 4U == 3U) result.scale_d = ptx::ScaleD::overwrite;
  return result;
}

uint32_t draw_chunks(uint32_t max_chunks, Draw& draw) { return 16U * (draw.below(max_chunks) + 1U); }

/// A place as a kernel would use it: patterns aligned to their size, start at a K step inside a swizzled row.
MatrixPlace draw_place(Major major, Draw& draw) {
  const auto swizzle = static_cast<Swizzle>(draw.below(4));
  const uint32_t pattern = ptx::swizzle_pattern_bytes(swizzle);
  MatrixPlace place{.start = 0, .leading_bytes = 0, .stride_bytes = 0, .swizzle = swizzle};
  if (swizzle == Swizzle::none) {
    place.start = draw_chunks(512, draw);
    place.leading_bytes = draw_chunks(128, draw);
    place.stride_bytes = draw_chunks(128, draw);
    return place;
  }
  place.start = pattern * draw.below(8192U / pattern);
  place.leading_bytes = pattern * draw.below(1U + 4096U / pattern);
  place.stride_bytes = pattern * (1U + draw.below(4096U / pattern));
  if (major == Major::k) place.start += 32U * draw.below(ptx::swizzle_row_bytes(swizzle) / 32U);
  return place;
}

/// A place that only the hardware's own address arithmetic explains: any start, any strides, any base offset.
MatrixPlace draw_odd_place(uint32_t case_idx, Draw& draw) {
  MatrixPlace place{.start = draw_chunks(512, draw),
                    .leading_bytes = draw_chunks(256, draw),
                    .stride_bytes = draw_chunks(256, draw),
                    .swizzle = static_cast<Swizzle>(draw.below(4))};
  const uint32_t pattern = ptx::swizzle_pattern_bytes(place.swizzle);
  switch (case_idx % 4U) {
    case 0: break;
    case 1:  // patterns that start 128 bytes off, named by the base offset as documented
      place.base_offset = draw.below(8);
      place.start = 1024U * draw.below(8) + 128U * place.base_offset;
      place.stride_bytes = pattern * (1U + draw.below(4096U / pattern));
      place.leading_bytes = pattern * draw.below(1U + 4096U / pattern);
      break;
    case 2:  // aligned patterns and a base offset that does not belong to them
      place.base_offset = draw.below(8);
      place.start = 1024U * draw.below(8);
      place.stride_bytes = 1024U * (1U + draw.below(4));
      place.leading_bytes = 1024U * draw.below(5);
      break;
    default: place.base_offset = draw.below(8); break;
  }
  return place;
}

/// Shared memory full of finite numbers of similar size: an element taken from the wrong place changes the result.
std::vector<uint8_t> draw_image(MmaFormat format, Draw& draw) {
  std::vector<uint8_t> image(kPlacesImageBytes);
  for (uint32_t byte = 0; byte < kPlacesImageBytes; byte += 2U) {
    const auto bits = static_cast<uint32_t>(draw.bits());
    if (format == MmaFormat::bf16) {
      const uint32_t code = (bits & 0x807FU) | (124U + (bits >> 16U) % 6U) << 7U;
      image[byte] = static_cast<uint8_t>(code);
      image[byte + 1U] = static_cast<uint8_t>(code >> 8U);
    } else {
      image[byte] = static_cast<uint8_t>((bits & 0x87U) | (6U + (bits >> 16U) % 4U) << 3U);
      image[byte + 1U] = static_cast<uint8_t>((bits >> 8U & 0x87U) | (6U + (bits >> 24U) % 4U) << 3U);
    }
  }
  return image;
}

Case make_place_case(CaseSet set, uint32_t case_idx) {
  Draw draw(kSeed, set, case_idx);
  Case result;
  const uint32_t kind = case_idx / 4U % 5U;  // e4m3, or bf16 in one of four majors
  result.spec = {.format = kind == 0U ? MmaFormat::e4m3 : MmaFormat::bf16, .n = kPlacesColumns};
  if (kind != 0U) result.spec.a_major = (kind - 1U) % 2U == 0U ? Major::k : Major::mn;
  if (kind != 0U) result.spec.b_major = (kind - 1U) / 2U == 0U ? Major::k : Major::mn;
  const bool is_odd = set == CaseSet::odd_places;
  result.a_place = is_odd ? draw_odd_place(case_idx, draw) : draw_place(result.spec.a_major, draw);
  result.b_place = is_odd ? draw_odd_place(case_idx, draw) : draw_place(result.spec.b_major, draw);
  result.image = draw_image(result.spec.format, draw);
  result.d.assign(std::size_t{ptx::kWgmmaRows} * result.spec.n, 0U);
  result.scale_d = ptx::ScaleD::overwrite;
  return result;
}

}  // namespace

Case make_case(CaseSet set, uint32_t case_idx) {
  switch (set) {
    case CaseSet::e4m3_numbers:
      return make_number_case(set, case_idx, {{.format = MmaFormat::e4m3, .n = 8}, ASource::shared}, case_idx);
    case CaseSet::bf16_numbers:
      return make_number_case(set, case_idx, {{.format = MmaFormat::bf16, .n = 8}, ASource::shared}, case_idx);
    case CaseSet::shapes: return make_shape_case(case_idx);
    case CaseSet::variants: return make_variant_case(case_idx);
    default: return make_place_case(set, case_idx);
  }
}

uint64_t hash_of(const uint32_t* words, std::size_t num_words) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (std::size_t i = 0; i < num_words; ++i) {
    for (uint32_t shift = 0; shift < 32U; shift += 8U) hash = (hash ^ (words[i] >> shift & 0xFFU)) * 0x100000001B3U;
  }
  return hash;
}

}  // namespace megamoe::record
