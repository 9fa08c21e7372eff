#include "formats/dtype.hpp"

#include <array>

namespace megamoe {
namespace {

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  uint32_t num_bits;
};

// In the order of the enumerators: a row's index is its enumerator.
constexpr std::array kDtypes{
    DtypeRow{Dtype::boolean, "BOOL", 8},
    DtypeRow{Dtype::f4, "F4", 4},
    DtypeRow{Dtype::f6_e2m3, "F6_E2M3", 6},
    DtypeRow{Dtype::f6_e3m2, "F6_E3M2", 6},
    DtypeRow{Dtype::u8, "U8", 8},
    DtypeRow{Dtype::i8, "I8", 8},
    DtypeRow{Dtype::f8_e5m2, "F8_E5M2", 8},
    DtypeRow{Dtype::f8_e4m3, "F8_E4M3", 8},
    DtypeRow{Dtype::f8_e8m0, "F8_E8M0", 8},
    DtypeRow{Dtype::f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
    DtypeRow{Dtype::f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
    DtypeRow{Dtype::i16, "I16", 16},
    DtypeRow{Dtype::u16, "U16", 16},
    DtypeRow{Dtype::f16, "F16", 16},
    DtypeRow{Dtype::bf16, "BF16", 16},
    DtypeRow{Dtype::i32, "I32", 32},
    DtypeRow{Dtype::u32, "U32", 32},
    DtypeRow{Dtype::f32, "F32", 32},
    DtypeRow{Dtype::i64, "I64", 64},
    DtypeRow{Dtype::u64, "U64", 64},
    DtypeRow{Dtype::f64, "F64", 64},
    DtypeRow{Dtype::c64, "C64", 64},
};

constexpr bool rows_follow_the_enum() {
  for (size_t row = 0; row < kDtypes.size(); ++row) {
    if (static_cast<size_t>(kDtypes[row].dtype) != row) return false;
  }
  return true;
}
static_assert(rows_follow_the_enum());

}  // namespace

std::string_view to_string(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].name; }

uint32_t num_bits(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].num_bits; }

std::optional<Dtype> parse_dtype(std::string_view name) {
  for (const DtypeRow& row : kDtypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::string dtype_names() {
  std::string names;
  for (const DtypeRow& row : kDtypes) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

}  // namespace megamoe
