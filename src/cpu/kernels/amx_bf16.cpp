// Kernels for AMX with BF16: tiles of 16 rows by 16 columns of output, 32 columns of K an instruction.
//
// Weights are expanded to BF16 pairs, which are the right operand's tiles as they stand: 16 pairs of K by 16 output
// columns. E8M0 scales go into the exponents on the way, so that a sum of products runs over a whole K group.

#include "cpu/kernels/amx_stream.hpp"

namespace megamoe::cpu {
namespace {

constexpr uint32_t kTileRows = 16;
constexpr uint32_t kTileWords = 256;  // of 4 bytes; a row of a tile is 64 bytes
constexpr uint32_t kTileRowBytes = 64;
/// Words of one K group of a panel.
constexpr uint32_t kGroupWords = kGroupK / 2 * kPanelCols;
/// Panels that are multiplied together: by two tiles of rows, and by a single one.
constexpr uint32_t kPanelsByTwo = 2;
constexpr uint32_t kPanelsByOne = 4;

// Tiles: 0 to 3 sums, 4 and 5 rows, 6 and 7 weights.

// ---------------------------------------------------------------- tile configuration

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t num_rows[16] = {};
};

/// For sums and rows of `num_rows` rows, 1 to 16.
void configure_tiles(uint32_t num_rows) {
  TileConfig config;
  for (uint32_t tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = kTileRowBytes;
    config.num_rows[tile] = static_cast<uint8_t>(tile < 6 ? num_rows : kTileRows);
  }
  _tile_loadconfig(&config);
}

// ---------------------------------------------------------------- weights

/// Adds the scales' exponents to 16 columns' pairs; zeros stay.
MM_ALWAYS_INLINE __m512i scaled(__m512i pairs, __m512i exponents) {
  const __mmask32 is_not_zero = _mm512_test_epi16_mask(pairs, _mm512_set1_epi16(0x7FFF));
  return _mm512_mask_add_epi16(pairs, is_not_zero, pairs, exponents);
}

/// MXFP4 weights with their scales folded in: w [num_k / 2, 16]. REQUIRES no far scales.
void expand_scaled(const uint8_t* codes, const uint8_t* scales, uint32_t num_k, uint32_t* w) {
  using S = Bf16Pairs;
  for (uint32_t k = 0; k < num_k; k += kMxfp4Group, scales += kPanelCols) {
    const __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales)));
    const __m512i exponent = _mm512_slli_epi32(_mm512_sub_epi32(wide, _mm512_set1_epi32(127)), 7);
    const __m512i low_half = _mm512_and_si512(exponent, _mm512_set1_epi32(0xFFFF));
    const __m512i exponents = _mm512_or_si512(low_half, _mm512_slli_epi32(low_half, 16));
    const uint32_t end = flow::min_of(k + kMxfp4Group, num_k);
    for (uint32_t word_k = k; word_k < end; word_k += 8, codes += kPanelWordBytes, w += 4 * kPanelCols) {
      __builtin_prefetch(codes + kPrefetchBytes);
      const __m512i words = _mm512_loadu_si512(codes);
      S::store(scaled(S::of_e2m1(words), exponents), w);
      S::store(scaled(S::of_e2m1(_mm512_srli_epi16(words, 8)), exponents), w + kPanelCols);
      S::store(scaled(S::of_e2m1(_mm512_srli_epi16(words, 4)), exponents), w + 2 * kPanelCols);
      S::store(scaled(S::of_e2m1(_mm512_srli_epi16(words, 12)), exponents), w + 3 * kPanelCols);
    }
  }
}

/// One K group of a panel as tiles, the last filled up with zeros: expanded to `w`, or where bf16 weights stand.
template <WeightFormat kFormat>
const uint32_t* weight_tiles(const MultiplyArgs& args, const PanelGroup& group, uint32_t num_k, uint32_t* w) {
  if constexpr (kFormat == WeightFormat::bf16) {
    if (num_k % kTileK == 0) return reinterpret_cast<const uint32_t*>(group.codes);
  }
  if constexpr (kFormat == WeightFormat::mxfp4) {
    expand_scaled(group.codes, group.scales, num_k, w);
  } else if (kFormat == WeightFormat::fp8_block && args.matrix->facts.nan_codes == NanCodes::some) {
    expand_as<Bf16Pairs, kFormat, NanCodes::some, kPrefetchBytes>(group.codes, num_k, w);
  } else {
    expand_as<Bf16Pairs, kFormat, NanCodes::none, kPrefetchBytes>(group.codes, num_k, w);
  }
  for (uint32_t word = num_k / 2 * kPanelCols; word % kTileWords != 0; word += kPanelCols) {
    _mm512_storeu_si512(w + word, _mm512_setzero_si512());
  }
  return w;
}

// ---------------------------------------------------------------- products

/// Sums of tiles in memory, on their way to the totals.
struct TileSums {
  alignas(64) float of[4][kTileWords];
};

MM_ALWAYS_INLINE void zero_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

MM_ALWAYS_INLINE void store_sums(TileSums& sums) {
  _tile_stored(0, sums.of[0], kTileRowBytes);
  _tile_stored(1, sums.of[1], kTileRowBytes);
  _tile_stored(2, sums.of[2], kTileRowBytes);
  _tile_stored(3, sums.of[3], kTileRowBytes);
}

/// Columns [begin, end) of K of one group, for tiles of rows at `a`.
struct Operands {
  const uint32_t* a = nullptr;  // [rows, a_stride] words, of the first row and the group's first column
  const uint32_t* w[4] = {};    // tiles of each panel, of the group's first column
  size_t a_row_bytes = 0;
  uint32_t second_rows = 0;  // from the first tile of rows to the second
  uint32_t begin = 0;
  uint32_t end = 0;
};

/// Two tiles of rows by two panels: sums 0 and 1 are the first rows', 2 and 3 the second's.
void multiply_two_by_two(const Operands& x, TileSums& sums) {
  const auto* second = x.a + x.second_rows * x.a_row_bytes / sizeof(uint32_t);
  zero_sums();
  for (uint32_t k = x.begin; k < x.end; k += kTileK) {
    const uint32_t tile = k / kTileK * kTileWords;
    _tile_loadd(4, x.a + k / 2, x.a_row_bytes);
    _tile_loadd(6, x.w[0] + tile, kTileRowBytes);
    _tile_loadd(7, x.w[1] + tile, kTileRowBytes);
    _tile_loadd(5, second + k / 2, x.a_row_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  store_sums(sums);
}

/// One tile of rows by four panels, one sum each.
void multiply_one_by_four(const Operands& x, TileSums& sums) {
  zero_sums();
  for (uint32_t k = x.begin; k < x.end; k += kTileK) {
    const uint32_t tile = k / kTileK * kTileWords;
    _tile_loadd(4, x.a + k / 2, x.a_row_bytes);
    _tile_loadd(6, x.w[0] + tile, kTileRowBytes);
    _tile_loadd(7, x.w[1] + tile, kTileRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(6, x.w[2] + tile, kTileRowBytes);
    _tile_loadd(7, x.w[3] + tile, kTileRowBytes);
    _tile_dpbf16ps(2, 4, 6);
    _tile_dpbf16ps(3, 4, 7);
  }
  store_sums(sums);
}

void multiply_one_by_one(const Operands& x, TileSums& sums) {
  _tile_zero(0);
  for (uint32_t k = x.begin; k < x.end; k += kTileK) {
    _tile_loadd(4, x.a + k / 2, x.a_row_bytes);
    _tile_loadd(6, x.w[0] + k / kTileK * kTileWords, kTileRowBytes);
    _tile_dpbf16ps(0, 4, 6);
  }
  _tile_stored(0, sums.of[0], kTileRowBytes);
}

// ---------------------------------------------------------------- promotion

/// Rows of one tile that are wanted: a last tile that reaches back repeats some rows.
struct RowRange {
  uint32_t first_row;  // of the tile
  uint32_t skip;       // rows of the tile that another tile has done
  uint32_t num_rows;   // of the tile
};

template <WeightFormat kFormat>
void promote_tile(const MultiplyArgs& args, const RowRange& rows, uint32_t panel, uint32_t k, const uint8_t* scales,
                  const float* sums) {
  // Scales of mxfp4 are in the weights.
  const Vec w_scale =
      kFormat == WeightFormat::mxfp4 ? Vec::broadcast(1.0F) : load_scales<Vec>(args.matrix->layout.scale, scales, 0);
  for (uint32_t r = rows.skip; r < rows.num_rows; ++r) {
    const size_t row = rows.first_row + r;
    const Vec a_scale = Vec::broadcast(args.a_scales[row * args.a_scale_stride + k / kGroupK]);
    promote<Bf16Pairs, kFormat>(Vec::load(sums + r * kPanelCols), a_scale, w_scale,
                                args.totals + row * args.total_stride + size_t{panel} * kPanelCols);
  }
}

// ---------------------------------------------------------------- loops

/// One K group of kPanels panels from `panel` on, by all rows.
template <WeightFormat kFormat, uint32_t kPanels>
void multiply_group(const MultiplyArgs& args, uint32_t panel, uint32_t k) {
  const PackedLayout& layout = args.matrix->layout;
  const uint32_t num_k = flow::min_of(kGroupK, args.num_k - k);
  const uint32_t segment_k = summed_k<kFormat>(layout);
  PanelGroup groups[kPanels];
  Operands operands;
  operands.a_row_bytes = args.a_stride * sizeof(uint32_t);
  for (uint32_t p = 0; p < kPanels; ++p) {
    groups[p] = panel_group(args, panel + p, k);
    operands.w[p] = weight_tiles<kFormat>(args, groups[p], num_k, args.w + p * kGroupWords);
  }
  constexpr uint32_t kRowTiles = kPanels == kPanelsByTwo ? 2 : 1;
  const uint32_t tile_rows = flow::min_of(kTileRows, args.num_rows);
  const uint32_t num_tiles = flow::ceil_div(args.num_rows, tile_rows);
  TileSums sums;
  for (uint32_t tile = 0; tile < num_tiles; tile += kRowTiles) {
    RowRange ranges[kRowTiles];
    for (uint32_t t = 0; t < kRowTiles; ++t) {
      const uint32_t wanted = flow::min_of((tile + t) * tile_rows, args.num_rows);
      const uint32_t first = flow::min_of(wanted, args.num_rows - tile_rows);
      ranges[t] = {first, wanted - first, tile_rows};
    }
    operands.a = args.a + ranges[0].first_row * args.a_stride + k / 2;
    operands.second_rows = ranges[kRowTiles - 1].first_row - ranges[0].first_row;
    for (uint32_t begin = 0, segment = 0; begin < num_k; begin += segment_k, ++segment) {
      operands.begin = begin;
      operands.end = flow::min_of(begin + segment_k, num_k);
      if constexpr (kPanels == kPanelsByTwo) multiply_two_by_two(operands, sums);
      if constexpr (kPanels == kPanelsByOne) multiply_one_by_four(operands, sums);
      if constexpr (kPanels == 1) multiply_one_by_one(operands, sums);
      for (uint32_t t = 0; t < kRowTiles; ++t) {
        for (uint32_t p = 0; p < kPanels; ++p) {
          promote_tile<kFormat>(args, ranges[t], panel + p, k,
                                groups[p].scales + segment * layout.segment_scale_bytes(), sums.of[t * kPanels + p]);
        }
      }
    }
  }
}

template <WeightFormat kFormat, uint32_t kPanels>
uint32_t multiply_panels(const MultiplyArgs& args, uint32_t panel) {
  for (; panel + kPanels <= args.num_panels; panel += kPanels) {
    for (uint32_t k = 0; k < args.num_k; k += kGroupK) multiply_group<kFormat, kPanels>(args, panel, k);
  }
  return panel;
}

template <WeightFormat kFormat>
void multiply_tiles(const MultiplyArgs& args) {
  if (args.num_rows == 0) return;
  if (args.num_rows <= kMaxTileStreamRows && args.matrix->facts.nan_codes == NanCodes::none) {
    return stream_tile_rows<kFormat, kMaxTileStreamRows>(args);
  }
  configure_tiles(flow::min_of(kTileRows, args.num_rows));
  uint32_t panel = 0;
  if (args.num_rows > kTileRows) {
    panel = multiply_panels<kFormat, kPanelsByTwo>(args, panel);
  } else {
    panel = multiply_panels<kFormat, kPanelsByOne>(args, panel);
  }
  multiply_panels<kFormat, 1>(args, panel);
  _tile_release();
}

void multiply_by_tiles(const MultiplyArgs& args) {
  switch (args.matrix->layout.format) {
    case WeightFormat::fp8_block: return multiply_tiles<WeightFormat::fp8_block>(args);
    case WeightFormat::mxfp4: return multiply_tiles<WeightFormat::mxfp4>(args);
    case WeightFormat::bf16: return multiply_tiles<WeightFormat::bf16>(args);
  }
}

// ---------------------------------------------------------------- ceiling

constexpr uint32_t kFlopsPerTile = 2 * kTileRows * kPanelCols * kTileK;

/// Four sums of zero products: as many as multiply has, more than the latency of one takes.
float run_tile_steps(uint64_t num_steps) {
  configure_tiles(kTileRows);
  zero_sums();
  _tile_zero(4);
  _tile_zero(6);
  for (uint64_t step = 0; step < num_steps; ++step) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 6);
    _tile_dpbf16ps(2, 4, 6);
    _tile_dpbf16ps(3, 4, 6);
  }
  TileSums sums;
  _tile_stored(0, sums.of[0], kTileRowBytes);
  _tile_release();
  return sums.of[0][0];
}

// ---------------------------------------------------------------- table

bool takes(const PackedMatrix& matrix) {
  return matrix.layout.segment_k % kTileK == 0 && matrix.facts.far_values == FarValues::none;
}

constexpr Kernels amx_kernels() {
  Kernels kernels = make_kernels<Bf16Pairs>(Isa::amx_bf16, "amx_bf16");
  kernels.takes = takes;
  kernels.narrower = &kAvx512Bf16Kernels;
  kernels.multiply = multiply_by_tiles;
  kernels.run_ceiling_steps = run_tile_steps;
  kernels.flops_per_ceiling_step = 4 * kFlopsPerTile;
  return kernels;
}

}  // namespace

constexpr Kernels kAmxBf16Kernels = amx_kernels();

}  // namespace megamoe::cpu
