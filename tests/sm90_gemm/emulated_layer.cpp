#include "emulated_layer.hpp"

#include <algorithm>
#include <numeric>

#include "cuda/sm90/fused_kernel.hpp"
#include "cuda/sm90/layer_arguments.hpp"
#include "cuda/sm90/pack.hpp"
#include "host/plan.hpp"

namespace megamoe::sm90::testing {
namespace {

constexpr uint64_t kSeed = 11;
/// Of dispatch and combine.
constexpr uint32_t kPlainThreads = 64;

flow::Dims dims_of(const LayerJob& job, const RunSpec& spec) {
  const LayerShape& shape = job.config.shape;
  uint32_t max_tokens = 1;
  for (const RankInput& input : job.inputs) max_tokens = std::max(max_tokens, input.num_tokens);
  return {.num_ranks = static_cast<uint32_t>(job.inputs.size()),
          .hidden = shape.hidden,
          .intermediate = shape.intermediate,
          .num_experts = shape.num_experts,
          .num_shared = shape.num_shared_experts,
          .top_k = shape.top_k,
          .max_tokens = max_tokens,
          .block_m = spec.block_m,
          .gemm1_block_n = kGemm1BlockN,
          .gemm2_block_n = kGemm2BlockN,
          .experts_per_wave = 2};
}

SyntheticWeights weights_of(const LayerCase& layer_case) {
  return SyntheticWeights({.shape = layer_case.shape,
                           .routed = {.scale = layer_case.scale},
                           .shared = {.scale = layer_case.scale},
                           .layout = layer_case.layout,
                           .biases = layer_case.biases,
                           .seed = kSeed});
}

SyntheticBatch batch_of(const LayerCase& layer_case) {
  return SyntheticBatch({.shape = layer_case.shape,
                         .type = layer_case.input,
                         .ids = IdType::int64,
                         .routing = layer_case.routing,
                         .specials = layer_case.specials,
                         .seed = kSeed},
                        layer_case.num_all_tokens());
}

/// A layer case as a job, with what the job's views look at.
struct CaseJob {
  SyntheticWeights weights;
  SyntheticBatch batch;
  LayerJob job;

  CaseJob(const LayerCase& layer_case, const RunSpec& spec)
      : weights(weights_of(layer_case)), batch(batch_of(layer_case)), job{{}, weights, batch.split(spec.num_tokens)} {
    job.config.shape = layer_case.shape;
    job.config.activation = layer_case.activation;
  }
};

class EmulatedLayer {
 public:
  EmulatedLayer(const LayerJob& job, const RunSpec& spec)
      : job_(job),
        spec_(spec),
        dims_(dims_of(job, spec)),
        gemm1_(MatrixLayout::gemm1(dims_.hidden, dims_.intermediate)),
        gemm2_(MatrixLayout::gemm2(dims_.hidden, dims_.intermediate)),
        ranks_(dims_, spec.options, memory_bytes()) {
    for (uint32_t r = 0; r < dims_.num_ranks; ++r) add_rank(r);
    write_inputs();
  }

  void write_inputs() {
    for (uint32_t r = 0; r < dims_.num_ranks; ++r) {
      Arguments& arguments = arguments_[r];
      const RankInput& input = job_.inputs[r];
      arguments.num_tokens = input.num_tokens;
      if (const auto* bf16 = std::get_if<std::span<const Bf16>>(&input.x)) {
        arguments.row_format = RowFormat::bf16;
        arguments.x = copied(r, *bf16);
      } else {
        const auto& fp8 = std::get<Fp8Activations>(input.x);
        const auto* scales = std::get_if<std::span<const float>>(&fp8.scales);
        arguments.row_format = scales != nullptr ? RowFormat::fp8_fp32_scales : RowFormat::fp8_e8m0_scales;
        arguments.x = copied(r, fp8.values);
        arguments.x_scale = scales != nullptr ? static_cast<const void*>(copied(r, *scales))
                                              : copied(r, std::get<std::span<const E8m0>>(fp8.scales));
      }
      arguments.id_format =
          std::holds_alternative<std::span<const int64_t>>(input.topk_ids) ? IdFormat::int64 : IdFormat::int32;
      arguments.topk_ids = std::visit([&](const auto& ids) -> const void* { return copied(r, ids); }, input.topk_ids);
      arguments.topk_weights = copied(r, input.topk_weights);
    }
  }

  template <Strategy kStrategy, uint32_t kMaxBlockM>
  void run() {
    if (spec_.kernels == Kernels::fused) {
      constexpr GemmConfig kBoth{kStrategy, Phases::both, kMaxBlockM};
      for (uint32_t r = 0; r < dims_.num_ranks; ++r) {
        launch(r, kGemmThreads, GemmShared<kBoth>::num_bytes(dims_), fused_kernel<kBoth>);
      }
      expect_clean_run();
      return;
    }
    constexpr GemmConfig kGemm1{kStrategy, Phases::gemm1, kMaxBlockM};
    constexpr GemmConfig kGemm2{kStrategy, Phases::gemm2, kMaxBlockM};
    constexpr GemmConfig kGemms{kStrategy, Phases::both, kMaxBlockM};
    const uint32_t plain_bytes = SharedPlan::num_bytes(dims_);
    for (uint32_t r = 0; r < dims_.num_ranks; ++r) {
      launch(r, kPlainThreads, plain_bytes, dispatch_kernel);
      if (spec_.kernels == Kernels::gemms) {
        launch(r, kGemmThreads, GemmShared<kGemms>::num_bytes(dims_), gemm_kernel<kGemms>);
      } else {
        launch(r, kGemmThreads, GemmShared<kGemm1>::num_bytes(dims_), gemm_kernel<kGemm1>);
        launch(r, kGemmThreads, GemmShared<kGemm2>::num_bytes(dims_), gemm_kernel<kGemm2>);
      }
      launch(r, kPlainThreads, plain_bytes, combine_kernel);
    }
    expect_clean_run();
  }

  flow::FaultRecord run_without_gemm1() {
    constexpr GemmConfig kGemm2{Strategy::cooperative, Phases::gemm2, 128};
    for (uint32_t r = 0; r < dims_.num_ranks; ++r) {
      launch(r, kPlainThreads, SharedPlan::num_bytes(dims_), dispatch_kernel);
      launch(r, kGemmThreads, GemmShared<kGemm2>::num_bytes(dims_), gemm_kernel<kGemm2>);
    }
    expect_clean_run();
    return *ranks_.workspace(0).get<flow::Field::fault>();
  }

  std::vector<Bf16> output() const {
    std::vector<Bf16> y;
    for (const Arguments& arguments : arguments_) {
      const auto* rows = reinterpret_cast<const Bf16*>(arguments.y);
      y.insert(y.end(), rows, rows + size_t{arguments.num_tokens} * dims_.hidden);
    }
    return y;
  }

 private:
  void expect_clean_run() {
    const emu::Report report = ranks_.machine().run();
    EXPECT_TRUE(report.clean()) << report.to_string();
  }

  size_t memory_bytes() const {
    const size_t expert_bytes = gemm1_.code_bytes() + gemm2_.code_bytes() +
                                (gemm1_.num_scales() + gemm2_.num_scales()) * sizeof(ScalePair) +
                                (gemm1_.num_rows() + gemm2_.num_rows()) * sizeof(float);
    const size_t token_bytes = size_t{dims_.hidden} * 5 + size_t{dims_.top_k} * 12;
    return dims_.num_local_max() * expert_bytes + dims_.max_tokens * token_bytes + (size_t{64} << 10);
  }

  template <class T>
  T* copied(uint32_t rank, std::span<const T> values) {
    T* copy = ranks_.machine().allocate<T>(rank, values.size() + 1);
    if (!values.empty()) ranks_.machine().write(copy, values.data(), values.size_bytes());
    return copy;
  }

  void add_rank(uint32_t rank) {
    LayerConfig config = job_.config;
    config.timeout = std::chrono::minutes(1);
    Arguments arguments = layer_arguments(internal::make_rules(config, dims_), ranks_.bases(), rank);
    arguments.y = ranks_.machine().allocate<uint16_t>(rank, size_t{dims_.max_tokens} * dims_.hidden);
    pack_experts(rank, arguments);
    arguments_.push_back(arguments);
  }

  /// The rank's experts as its kernels number them: shared ones first.
  void pack_experts(uint32_t rank, Arguments& arguments) {
    const auto placement = flow::Placement::of(dims_);
    const uint32_t num_local = placement.num_local(flow::Rank{rank});
    std::vector<uint8_t> gemm1_codes(num_local * gemm1_.code_bytes());
    std::vector<uint8_t> gemm2_codes(num_local * gemm2_.code_bytes());
    std::vector<ScalePair> gemm1_scales(num_local * gemm1_.num_scales());
    std::vector<ScalePair> gemm2_scales(num_local * gemm2_.num_scales());
    std::vector<float> gemm1_bias(num_local * gemm1_.num_rows());
    std::vector<float> gemm2_bias(num_local * gemm2_.num_rows());
    bool has_biases = false;
    for (uint32_t e = 0; e < num_local; ++e) {
      const uint32_t global = num(placement.global(flow::LocalExpert{e}, flow::Rank{rank}));
      const auto expert = e < dims_.num_shared ? job_.weights.shared(e) : job_.weights.routed(global);
      ASSERT_TRUE(expert.ok()) << expert.status().to_string();
      const Status packable = check_packable(*expert, job_.config.shape, "expert");
      ASSERT_TRUE(packable.ok()) << packable.to_string();
      has_biases |= has_bias(*expert);
      pack_expert(*expert, job_.config.shape,
                  {gemm1_codes.data() + e * gemm1_.code_bytes(), gemm1_scales.data() + e * gemm1_.num_scales(),
                   gemm1_bias.data() + e * gemm1_.num_rows(), gemm2_codes.data() + e * gemm2_.code_bytes(),
                   gemm2_scales.data() + e * gemm2_.num_scales(), gemm2_bias.data() + e * gemm2_.num_rows()});
    }
    const auto copy = [&]<class T>(const std::vector<T>& values) { return copied(rank, std::span<const T>(values)); };
    arguments.gemm1 = {gemm1_, copy(gemm1_codes), copy(gemm1_scales), has_biases ? copy(gemm1_bias) : nullptr};
    arguments.gemm2 = {gemm2_, copy(gemm2_codes), copy(gemm2_scales), has_biases ? copy(gemm2_bias) : nullptr};
  }

  template <class Kernel>
  void launch(uint32_t rank, uint32_t num_threads, uint32_t shared_bytes, Kernel kernel) {
    const uint32_t num_blocks = spec_.num_blocks;
    ranks_.launch(rank, num_blocks, num_threads, shared_bytes,
                  [this, rank, kernel, num_blocks] { kernel(arguments_[rank], simt::block_idx(), num_blocks); });
  }

  const LayerJob& job_;
  const RunSpec& spec_;
  flow::Dims dims_;
  MatrixLayout gemm1_;
  MatrixLayout gemm2_;
  sync::testing::EmulatedRanks ranks_;
  std::vector<Arguments> arguments_;
};

}  // namespace

uint32_t LayerCase::num_all_tokens() const { return std::accumulate(num_tokens.begin(), num_tokens.end(), 0U); }

Strategy kernel_strategy(megamoe::Strategy strategy) {
  switch (strategy) {
    case megamoe::Strategy::pingpong: return Strategy::pingpong;
    case megamoe::Strategy::small_batch: return Strategy::small_batch;
    default: return Strategy::cooperative;
  }
}

std::vector<Bf16> run_layer(const LayerJob& job, const RunSpec& spec) {
  EmulatedLayer layer(job, spec);
  if (spec.strategy == Strategy::cooperative) {
    layer.run<Strategy::cooperative, 128>();
  } else if (spec.strategy == Strategy::pingpong) {
    layer.run<Strategy::pingpong, 64>();
  } else if (spec.block_m <= 32) {
    layer.run<Strategy::small_batch, 32>();
  } else {
    layer.run<Strategy::small_batch, 128>();
  }
  return layer.output();
}

std::vector<Bf16> run_layer(const LayerCase& layer_case, const RunSpec& spec) {
  const CaseJob one(layer_case, spec);
  return run_layer(one.job, spec);
}

flow::FaultRecord run_without_gemm1(const LayerCase& layer_case, const RunSpec& spec) {
  const CaseJob one(layer_case, spec);
  EmulatedLayer layer(one.job, spec);
  return layer.run_without_gemm1();
}

ReferenceRows reference_of(const LayerCase& layer_case) {
  LayerConfig config;
  config.shape = layer_case.shape;
  config.max_tokens_per_rank = layer_case.num_all_tokens();
  config.activation = layer_case.activation;
  const SyntheticBatch batch = batch_of(layer_case);
  auto rows = reference_rows(config, weights_of(layer_case), batch.all(), ProductSums::fp8_tensor_core);
  EXPECT_TRUE(rows.ok()) << rows.status().to_string();
  return rows.ok() ? *std::move(rows) : ReferenceRows{};
}

}  // namespace megamoe::sm90::testing
