#include "cuda/sm90/pack.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "cpu/kernels/pack.hpp"
#include "formats/weight_rows.hpp"
#include "host/errors.hpp"

namespace megamoe::sm90 {
namespace {

constexpr uint32_t kScaleBlock = 128;
static_assert(kScaleBlock == kChunkCols && kScaleBlock == kTileRows);

/// What stands in an n tile: a row of a matrix each, or nothing.
using TileSources = std::array<WeightRow, kTileRows>;

TileSources gemm1_sources(const ExpertWeights& weights, const LayerShape& shape, uint32_t n_tile) {
  TileSources sources;
  for (uint32_t row = 0; row < kTileRows; ++row) {
    const uint32_t group = row / kGateUpRows;
    const uint32_t col = n_tile * kTileIntermediate + group / 2 * kGateUpRows + row % kGateUpRows;
    const GateUpHalf half = group % 2 == 0 ? GateUpHalf::gate : GateUpHalf::up;
    if (col < shape.intermediate) sources[row] = gate_up_row(weights, shape.intermediate, half, col);
  }
  return sources;
}

TileSources gemm2_sources(const ExpertWeights& weights, const LayerShape& shape, uint32_t n_tile) {
  TileSources sources;
  for (uint32_t row = 0; row < kTileRows; ++row) {
    const uint32_t col = n_tile * kTileRows + row;
    if (col < shape.hidden) sources[row] = {&weights.down, col};
  }
  return sources;
}

/// Codes of one n tile, into those of the whole matrix. Rows of a checkpoint are whole pieces: hidden and intermediate
/// are multiples of 16.
void pack_codes(const MatrixLayout& layout, uint32_t n_tile, const TileSources& sources, uint32_t num_k,
                uint8_t* codes) {
  const uint32_t num_pieces = num_k / kPieceBytes;
  for (uint32_t row = 0; row < kTileRows; ++row) {
    const auto [matrix, source_row] = sources[row];
    if (matrix == nullptr) continue;
    const std::byte* from = matrix->values.data() + size_t{source_row} * num_k;
    for (uint32_t piece = 0; piece < num_pieces; ++piece) {
      uint8_t* chunk = codes + layout.chunk_idx(n_tile, piece / kChunkPieces) * chunk_bytes(kTileRows);
      std::memcpy(chunk + tile_offset(kTileRows, row, piece % kChunkPieces), from + size_t{piece} * kPieceBytes,
                  kPieceBytes);
    }
  }
}

/// Scale of the tile's rows from `row` on in a chunk; 0 where the tile has no such row.
float scale_of(const TileSources& sources, uint32_t row, uint32_t chunk) {
  const WeightRow& source = sources[row];
  if (source.matrix == nullptr) return 0.0F;
  return load_scale(*source.matrix, scale_idx(source, chunk * kChunkCols));
}

/// All n tiles of a matrix; `sources_of(n_tile)` tells what stands in them.
template <class SourcesOf>
void pack_matrix(const MatrixLayout& layout, uint32_t num_k, uint8_t* codes, ScalePair* scales, SourcesOf sources_of) {
  std::memset(codes, 0, layout.code_bytes());
  for (uint32_t n_tile = 0; n_tile < layout.num_n_tiles; ++n_tile) {
    const TileSources sources = sources_of(n_tile);
    pack_codes(layout, n_tile, sources, num_k, codes);
    for (uint32_t chunk = 0; chunk < layout.num_chunks; ++chunk) {
      scales[layout.chunk_idx(n_tile, chunk)] = {scale_of(sources, 0, chunk), scale_of(sources, kGateUpRows, chunk)};
    }
  }
}

void pack_biases(const ExpertWeights& weights, const LayerShape& shape, const ExpertMemory& memory) {
  std::vector<float> gate(shape.intermediate);
  std::vector<float> up(shape.intermediate);
  std::vector<float> down(shape.hidden);
  cpu::pack_biases(weights, shape, gate.data(), up.data(), down.data());
  std::fill_n(memory.gemm1_bias, MatrixLayout::gemm1(shape.hidden, shape.intermediate).num_rows(), 0.0F);
  std::fill_n(memory.gemm2_bias, MatrixLayout::gemm2(shape.hidden, shape.intermediate).num_rows(), 0.0F);
  for (uint32_t col = 0; col < shape.intermediate; ++col) {
    const uint32_t gate_row = col / kGateUpRows * 2 * kGateUpRows + col % kGateUpRows;
    memory.gemm1_bias[gate_row] = gate[col];
    memory.gemm1_bias[gate_row + kGateUpRows] = up[col];
  }
  std::copy(down.begin(), down.end(), memory.gemm2_bias);
}

Status check_matrix(const WeightMatrix& matrix, std::string_view name, std::string_view part) {
  if (matrix.format != WeightFormat::fp8_block) {
    return error(StatusCode::unsupported, fmt::format("{}: {} must be fp8 for backend sm90", name, part),
                 to_string(matrix.format), "convert the weights, or choose backend cpu");
  }
  if (matrix.block_rows != kScaleBlock || matrix.block_cols != kScaleBlock) {
    return error(StatusCode::unsupported,
                 fmt::format("{}: {} must have a scale block of 128x128 for backend sm90", name, part),
                 fmt::format("{}x{}", matrix.block_rows, matrix.block_cols),
                 "quantise the weights with that block, or choose backend cpu");
  }
  return {};
}

}  // namespace

Status check_packable(const ExpertWeights& weights, const LayerShape& shape, std::string_view name) {
  const bool is_separate = weights.layout == GateUpLayout::separate;
  MM_RETURN_IF_ERROR(
      check_matrix(is_separate ? weights.gate : weights.gate_up, name, is_separate ? "gate" : "gate_up"));
  if (is_separate) MM_RETURN_IF_ERROR(check_matrix(weights.up, name, "up"));
  MM_RETURN_IF_ERROR(check_matrix(weights.down, name, "down"));
  // Up columns 64 t .. 64 t + 63 are rows of gate_up from `intermediate` on: they must not stand in two scale blocks.
  if (weights.layout == GateUpLayout::concatenated && shape.intermediate % kTileIntermediate != 0) {
    return error(StatusCode::unsupported,
                 fmt::format("{}: concatenated gate and up with 128x128 scale blocks must have an intermediate that is "
                             "a multiple of {} for backend sm90",
                             name, kTileIntermediate),
                 shape.intermediate, "pass gate and up as two matrices, or choose backend cpu");
  }
  return {};
}

bool has_bias(const ExpertWeights& weights) {
  return !weights.gate_bias.empty() || !weights.up_bias.empty() || !weights.gate_up_bias.empty() ||
         !weights.down_bias.empty();
}

void pack_expert(const ExpertWeights& weights, const LayerShape& shape, const ExpertMemory& memory) {
  const auto gemm1 = MatrixLayout::gemm1(shape.hidden, shape.intermediate);
  const auto gemm2 = MatrixLayout::gemm2(shape.hidden, shape.intermediate);
  pack_matrix(gemm1, shape.hidden, memory.gemm1_codes, memory.gemm1_scales,
              [&](uint32_t n_tile) { return gemm1_sources(weights, shape, n_tile); });
  pack_matrix(gemm2, shape.intermediate, memory.gemm2_codes, memory.gemm2_scales,
              [&](uint32_t n_tile) { return gemm2_sources(weights, shape, n_tile); });
  if (memory.gemm1_bias != nullptr) pack_biases(weights, shape, memory);
}

}  // namespace megamoe::sm90
