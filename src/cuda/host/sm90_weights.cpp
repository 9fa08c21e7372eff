#include "cuda/host/sm90_weights.hpp"

#include "cpu/kernels/pack.hpp"
#include "cuda/sm90/pack.hpp"

namespace megamoe::internal {

using sm90::MatrixLayout;
using sm90::ScalePair;

/// Packs one expert after the other into pinned memory and copies its pieces to where they stand among all experts.
class WeightUploader {
 public:
  static constexpr uint32_t kNumPieces = RankWeights::kNumPieces;

  explicit WeightUploader(const LayerShape& shape)
      : shape_(shape),
        gemm1_(MatrixLayout::gemm1(shape.hidden, shape.intermediate)),
        gemm2_(MatrixLayout::gemm2(shape.hidden, shape.intermediate)),
        piece_bytes_{gemm1_.code_bytes(), gemm1_.num_scales() * sizeof(ScalePair), gemm1_.num_rows() * sizeof(float),
                     gemm2_.code_bytes(), gemm2_.num_scales() * sizeof(ScalePair), gemm2_.num_rows() * sizeof(float)} {}

  Status allocate_staging() {
    uint64_t offsets[kNumPieces];
    auto memory = cuda::PinnedMemory::allocate(lay_out(1, offsets));
    MM_RETURN_IF_ERROR(memory.status());
    staging_ = *std::move(memory);
    for (uint32_t piece = 0; piece < kNumPieces; ++piece) staged_[piece] = staging_.data() + offsets[piece];
    return {};
  }

  Result<RankWeights> allocate(int ordinal, uint32_t num_experts) const {
    RankWeights rank;
    rank.gemm1_layout_ = gemm1_;
    rank.gemm2_layout_ = gemm2_;
    auto memory = cuda::DeviceMemory::allocate(ordinal, lay_out(num_experts, rank.offset_));
    MM_RETURN_IF_ERROR(memory.status());
    rank.memory_ = *std::move(memory);
    return rank;
  }

  Status pack(const ExpertWeights& weights, std::string_view name) {
    MM_RETURN_IF_ERROR(cpu::expert_layouts(weights, shape_, name).status());
    MM_RETURN_IF_ERROR(sm90::check_packable(weights, shape_, name));
    sm90::pack_expert(weights, shape_,
                      {staged<uint8_t>(RankWeights::gemm1_codes), staged<ScalePair>(RankWeights::gemm1_scales),
                       staged<float>(RankWeights::gemm1_bias), staged<uint8_t>(RankWeights::gemm2_codes),
                       staged<ScalePair>(RankWeights::gemm2_scales), staged<float>(RankWeights::gemm2_bias)});
    has_bias_ = sm90::has_bias(weights);
    return {};
  }

  /// The expert that was packed last becomes local expert `local_idx` of `rank`.
  Status copy_to(RankWeights& rank, uint32_t local_idx) const {
    for (uint32_t piece = 0; piece < kNumPieces; ++piece) {
      std::byte* to = rank.memory_.data() + rank.offset_[piece] + local_idx * piece_bytes_[piece];
      MM_RETURN_IF_ERROR(cuda::check(cudaMemcpy(to, staged_[piece], piece_bytes_[piece], cudaMemcpyDefault),
                                     "copying weights to the GPU"));
    }
    rank.has_biases_ = rank.has_biases_ || has_bias_;
    return {};
  }

 private:
  /// Offsets of the pieces of `num_experts` experts, and the bytes of all.
  uint64_t lay_out(uint32_t num_experts, uint64_t (&offsets)[kNumPieces]) const {
    constexpr uint64_t kAlign = 256;
    uint64_t end = 0;
    for (uint32_t piece = 0; piece < kNumPieces; ++piece) {
      offsets[piece] = end;
      end = flow::align_up(end + num_experts * piece_bytes_[piece], kAlign);
    }
    return end;
  }

  template <class T>
  T* staged(RankWeights::Piece piece) const {
    return reinterpret_cast<T*>(staged_[piece]);
  }

  const LayerShape& shape_;
  MatrixLayout gemm1_;
  MatrixLayout gemm2_;
  uint64_t piece_bytes_[kNumPieces];  ///< of one expert
  cuda::PinnedMemory staging_;
  std::byte* staged_[kNumPieces] = {};
  bool has_bias_ = false;
};

Result<std::vector<RankWeights>> RankWeights::upload(const LocalExperts& local, const WeightSource& weights,
                                                     std::span<const int> ordinals,
                                                     const std::function<void(uint64_t, uint64_t)>& progress) {
  WeightUploader uploader(local.shape);
  MM_RETURN_IF_ERROR(uploader.allocate_staging());
  std::vector<RankWeights> ranks;
  for (uint32_t i = 0; i < local.num_ranks; ++i) {
    auto rank = uploader.allocate(ordinals[i], local.placement.num_local(flow::Rank{local.first_rank + i}));
    MM_RETURN_IF_ERROR(rank.status());
    ranks.push_back(*std::move(rank));
  }
  uint32_t num_shared = 0;
  std::vector<uint32_t> num_local(local.num_ranks, local.placement.num_shared);
  const Status status = local.for_each(
      weights, progress,
      [&](const ExpertWeights& expert, std::string_view name) -> Status {
        MM_RETURN_IF_ERROR(uploader.pack(expert, name));
        for (RankWeights& rank : ranks) MM_RETURN_IF_ERROR(uploader.copy_to(rank, num_shared));
        ++num_shared;
        return {};
      },
      [&](uint32_t local_rank_idx, const ExpertWeights& expert, std::string_view name) -> Status {
        MM_RETURN_IF_ERROR(uploader.pack(expert, name));
        return uploader.copy_to(ranks[local_rank_idx], num_local[local_rank_idx]++);
      });
  MM_RETURN_IF_ERROR(status);
  return ranks;
}

sm90::PackedMatrix RankWeights::gemm1() const {
  return {gemm1_layout_, first<uint8_t>(gemm1_codes), first<ScalePair>(gemm1_scales),
          has_biases_ ? first<float>(gemm1_bias) : nullptr};
}

sm90::PackedMatrix RankWeights::gemm2() const {
  return {gemm2_layout_, first<uint8_t>(gemm2_codes), first<ScalePair>(gemm2_scales),
          has_biases_ ? first<float>(gemm2_bias) : nullptr};
}

}  // namespace megamoe::internal
