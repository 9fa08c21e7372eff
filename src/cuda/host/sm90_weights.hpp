#pragma once

// The packed weights of one rank's experts in its GPU's memory.

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/host/runtime.hpp"
#include "cuda/sm90/packed_weights.hpp"
#include "host/local_experts.hpp"

namespace megamoe::internal {

class RankWeights {
 public:
  /// Asks `weights` for every expert of the local ranks, one at a time, packs it and copies it to its rank's GPU;
  /// `ordinals` [local.num_ranks] names those. Shared experts are packed once and copied to all ranks. Errors: whatever
  /// `weights` returns; a broken rule of an expert, by name; unsupported, for weights that the kernels cannot multiply;
  /// out_of_memory.
  static Result<std::vector<RankWeights>> upload(const LocalExperts& local, const WeightSource& weights,
                                                 std::span<const int> ordinals,
                                                 const std::function<void(uint64_t, uint64_t)>& progress);

  /// As the kernels take them: experts by LocalExpert.
  sm90::PackedMatrix gemm1() const;
  sm90::PackedMatrix gemm2() const;
  uint64_t num_bytes() const { return memory_.num_bytes(); }

 private:
  friend class WeightUploader;

  /// What an expert's weights consist of, in memory one after the other for all experts.
  enum Piece : uint32_t { gemm1_codes, gemm1_scales, gemm1_bias, gemm2_codes, gemm2_scales, gemm2_bias };
  static constexpr uint32_t kNumPieces = 6;

  template <class T>
  const T* first(Piece piece) const {
    return reinterpret_cast<const T*>(memory_.data() + offset_[piece]);
  }

  sm90::MatrixLayout gemm1_layout_;
  sm90::MatrixLayout gemm2_layout_;
  uint64_t offset_[kNumPieces] = {};  ///< of a piece of the first expert
  bool has_biases_ = false;           ///< any expert of the rank
  cuda::DeviceMemory memory_;
};

}  // namespace megamoe::internal
