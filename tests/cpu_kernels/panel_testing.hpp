#pragma once

// Packed panels put together code by code, from the words of PackedLayout's description and not from pack.cpp.

#include <vector>

#include "formats/bf16.hpp"
#include "formats/e2m1.hpp"
#include "formats/e4m3.hpp"
#include "kernels_testing.hpp"

namespace megamoe::cpu {

/// The value that a code stands for.
inline float code_value(WeightFormat format, uint32_t code) {
  switch (format) {
    case WeightFormat::fp8_block: return e4m3_to_float(static_cast<uint8_t>(code));
    case WeightFormat::mxfp4: return e2m1_to_float(code & 15U);
    case WeightFormat::bf16: return bf16_to_float(static_cast<uint16_t>(code));
  }
  return 0.0F;
}

/// Place of column k of K among BF16 values in the order of operands: pairs of a word's halves.
inline uint32_t pair_order(WeightFormat format, uint32_t k) {
  constexpr uint32_t kPlaces[] = {0, 2, 1, 3};
  return format == WeightFormat::bf16 ? k : k / 4 * 4 + kPlaces[k % 4];
}

/// Column k of K of output column `col`, out of expanded weights or a prepared row: words [k / step_k, num_cols].
inline float operand_value(const Kernels& kernels, WeightFormat format, const uint32_t* words, uint32_t k,
                           uint32_t num_cols, uint32_t col) {
  if (kernels.step_k == 1) return std::bit_cast<float>(words[k * num_cols + col]);
  const uint32_t place = pair_order(format, k);
  return std::bit_cast<float>(words[place / 2 * num_cols + col] >> (16 * (place % 2)) << 16);
}

/// Codes of consecutive panels [num_panels][num_k][16], packed. One byte off any alignment.
class PanelCodes {
 public:
  PanelCodes(WeightFormat format, uint32_t num_panels, uint32_t num_k)
      : format_(format),
        num_k_(num_k),
        codes_(size_t{num_panels} * num_k * kPanelCols),
        bytes_(1 + size_t{num_panels} * num_k / values_per_word(format) * 64) {}

  void set(uint32_t panel, uint32_t k, uint32_t col, uint32_t code) {
    codes_[(size_t{panel} * num_k_ + k) * kPanelCols + col] = code;
    const uint32_t per_word = format_ == WeightFormat::mxfp4 ? 8 : format_ == WeightFormat::fp8_block ? 4 : 2;
    uint8_t* word = bytes_.data() + 1 + (size_t{panel} * num_k_ + k) / per_word * 64 + 4 * col;
    const uint32_t j = k % per_word;
    switch (format_) {
      case WeightFormat::fp8_block: word[j] = static_cast<uint8_t>(code); return;
      case WeightFormat::mxfp4:
        word[j % 4] = static_cast<uint8_t>(j < 4 ? (word[j % 4] & 0xF0U) | code : (word[j % 4] & 0x0FU) | code << 4);
        return;
      case WeightFormat::bf16:
        word[2 * j] = static_cast<uint8_t>(code);
        word[2 * j + 1] = static_cast<uint8_t>(code >> 8);
        return;
    }
  }
  float value(uint32_t panel, uint32_t k, uint32_t col) const {
    return code_value(format_, codes_[(size_t{panel} * num_k_ + k) * kPanelCols + col]);
  }
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(bytes_.data() + 1); }

 private:
  WeightFormat format_;
  uint32_t num_k_;
  std::vector<uint32_t> codes_;
  std::vector<uint8_t> bytes_;
};

}  // namespace megamoe::cpu
