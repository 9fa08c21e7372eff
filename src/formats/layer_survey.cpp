#include "formats/layer_survey.hpp"

#include <fmt/ranges.h>

#include "formats/quote.hpp"
#include "formats/router_survey.hpp"
#include "formats/weight_form.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

enum class Owner : uint8_t { routed, shared };

/// One projection of one expert (or of all of them, when stacked) and the shape it must have.
struct Use {
  const ProjectionTensors* part;
  Owner owner;
  uint32_t expert_idx;
  Projection projection;
  uint64_t num_rows;
  uint64_t num_cols;
};

bool is_e8m0(const TensorView& scale) { return scale.dtype == Dtype::f8_e8m0 || scale.dtype == Dtype::u8; }

/// Rows and columns of a projection between `hidden` and `inner` columns.
std::pair<uint64_t, uint64_t> projection_shape(Projection projection, uint64_t hidden, uint64_t inner) {
  if (projection == Projection::down) return {hidden, inner};
  return {projection == Projection::gate_up ? 2 * inner : inner, hidden};
}

/// Inverse of projection_shape: (hidden, inner).
std::pair<uint64_t, uint64_t> layer_columns(Projection projection, const WeightForm& form) {
  if (projection == Projection::down) return {form.num_rows, form.num_cols};
  return {form.num_cols, projection == Projection::gate_up ? form.num_rows / 2 : form.num_rows};
}

class Surveyor {
 public:
  Surveyor(LayerTensors tensors, const std::optional<ModelConfig>& config)
      : config_(config), tensors_(std::move(tensors)), storage_(tensors_.rule->storage) {}

  Result<LayerSurvey> run() {
    info_.layer_idx = tensors_.layer_idx;
    info_.naming = tensors_.rule->naming;
    if (tensors_.is_stacked()) info_.layout = GateUpLayout::interleaved;
    MM_RETURN_IF_ERROR(read_columns());
    MM_RETURN_IF_ERROR(read_expert_count());
    MM_RETURN_IF_ERROR(read_shared_count());
    collect_uses();
    for (const Use& use : uses_) MM_RETURN_IF_ERROR(check_weight(use));
    MM_RETURN_IF_ERROR(find_block());
    for (const Use& use : uses_) MM_RETURN_IF_ERROR(check_scale(use));
    for (const Use& use : uses_) MM_RETURN_IF_ERROR(check_bias(use));
    list_missing();
    MM_RETURN_IF_ERROR(survey_router(tensors_, config_, info_));
    info_.unknown = tensors_.unknown;
    return LayerSurvey{std::move(tensors_), std::move(info_), block_};
  }

 private:
  std::span<const Projection> projections() const {
    if (tensors_.is_stacked()) return kStackedProjections;
    return kSeparateProjections;
  }

  std::string name_of(const Use& use) const {
    return use.owner == Owner::shared ? shared_name(tensors_, use.projection)
                                      : expert_name(tensors_, use.expert_idx, use.projection);
  }

  /// Where a shape that a tensor must have comes from, for messages.
  std::string said_by() const {
    return config_ ? fmt::format(", by {} and the layer's first weight", config_->origin) : "";
  }

  /// hidden and intermediate: from the config, else from the first weight there is.
  Status read_columns() {
    uint64_t hidden = config_ ? config_->hidden.value_or(0) : 0;
    uint64_t inner = config_ ? config_->moe_intermediate.value_or(0) : 0;
    // Families without dense layers have one key for both.
    const bool has_dense_layers = info_.naming != Naming::mixtral && info_.naming != Naming::gpt_oss;
    if (inner == 0 && config_ && !has_dense_layers) inner = config_->intermediate.value_or(0);
    if (const auto form = first_form(tensors_.experts)) {
      if (!form->ok()) return form->status();
      const auto [file_hidden, file_inner] = layer_columns(first_projection_, **form);
      if (hidden == 0) hidden = file_hidden;
      if (inner == 0) inner = file_inner;
    }
    const TensorView* router = tensors_.router_weight;
    if (hidden == 0 && router != nullptr && router->shape.size() == 2) hidden = router->shape[1];
    const bool has_weights = first_form(tensors_.experts).has_value();
    if (has_weights && (hidden == 0 || inner == 0 || hidden > kMaxModelColumns || inner > kMaxModelColumns)) {
      return invalid_file(fmt::format("{}: hidden and intermediate must be 1..{}", tensors_.prefix, kMaxModelColumns),
                          fmt::format("{} and {}", hidden, inner), "check that this is the right file");
    }
    info_.shape.hidden = static_cast<uint32_t>(hidden);
    info_.shape.intermediate = static_cast<uint32_t>(inner);
    return {};
  }

  /// Form of the first weight of `experts`; sets first_projection_.
  std::optional<Result<WeightForm>> first_form(std::span<const ExpertTensors> experts) {
    for (const ExpertTensors& expert : experts) {
      for (const Projection projection : projections()) {
        const ProjectionTensors& part = expert[static_cast<size_t>(projection)];
        if (part.weight == nullptr) continue;
        first_projection_ = projection;
        return weight_form(part, storage_);
      }
    }
    return std::nullopt;
  }

  Status read_expert_count() {
    uint64_t in_file = tensors_.experts.size();
    if (const auto form = first_form(tensors_.experts); form && form->ok() && tensors_.is_stacked()) {
      in_file = (*form)->num_experts;
    }
    uint64_t num_experts = in_file;
    if (tensors_.router_weight != nullptr && !tensors_.router_weight->shape.empty()) {
      num_experts = tensors_.router_weight->shape[0];
    }
    if (config_ && config_->num_experts) num_experts = *config_->num_experts;
    if (num_experts == 0 || num_experts > kMaxModelExperts) {
      return invalid_file(fmt::format("{}: number of experts must be 1..{}", tensors_.prefix, kMaxModelExperts),
                          num_experts, "check that this is the right file");
    }
    if (in_file > num_experts) {
      return invalid_file(
          fmt::format("{}experts: expert index must be below the number of experts, {}", tensors_.prefix, num_experts),
          in_file - 1, "correct config.json or the file");
    }
    tensors_.experts.resize(tensors_.is_stacked() ? 1 : num_experts);
    info_.shape.num_experts = static_cast<uint32_t>(num_experts);
    info_.shape.top_k = config_ ? config_->top_k.value_or(0) : 0;
    return {};
  }

  Status read_shared_count() {
    if (tensors_.rule->shared.empty()) return {};
    const uint64_t inner = info_.shape.intermediate;
    const std::optional<uint32_t> said = config_ ? config_->num_shared_experts : std::nullopt;
    if (tensors_.has_shared() && said == 0U) {
      return invalid_file(fmt::format("{}{} must be absent where {} says n_shared_experts 0", tensors_.prefix,
                                      tensors_.rule->shared, config_->origin),
                          "tensors", "correct config.json");
    }
    uint64_t num_shared = said.value_or(0);
    const auto form = first_form({&tensors_.shared, 1});
    if (form && !form->ok()) return form->status();
    if (form && !said && inner != 0) {
      const uint64_t shared_inner = layer_columns(first_projection_, **form).second;
      if (shared_inner == 0 || shared_inner % inner != 0 || shared_inner / inner > kMaxModelExperts) {
        return invalid_file(fmt::format("{}: intermediate must be a multiple of the routed experts' {}",
                                        shared_name(tensors_, first_projection_), inner),
                            shared_inner, "run the shared experts as a separate dense layer");
      }
      num_shared = shared_inner / inner;
    }
    info_.shape.num_shared_experts = static_cast<uint32_t>(num_shared);
    return {};
  }

  void collect_uses() {
    const uint64_t hidden = info_.shape.hidden;
    const uint64_t inner = info_.shape.intermediate;
    for (uint32_t expert_idx = 0; expert_idx < tensors_.experts.size(); ++expert_idx) {
      for (const Projection projection : projections()) {
        const auto [num_rows, num_cols] = projection_shape(projection, hidden, inner);
        uses_.push_back({&tensors_.experts[expert_idx][static_cast<size_t>(projection)], Owner::routed, expert_idx,
                         projection, num_rows, num_cols});
      }
    }
    if (info_.shape.num_shared_experts == 0) return;
    for (const Projection projection : kSeparateProjections) {
      const auto [num_rows, num_cols] = projection_shape(projection, hidden, inner * info_.shape.num_shared_experts);
      uses_.push_back(
          {&tensors_.shared[static_cast<size_t>(projection)], Owner::shared, 0, projection, num_rows, num_cols});
    }
  }

  Status check_weight(const Use& use) {
    if (use.part->weight == nullptr) return {};
    const TensorView& weight = *use.part->weight;
    const Result<WeightForm> form = weight_form(*use.part, storage_);
    if (!form.ok()) return form.status();
    const uint64_t num_experts = tensors_.is_stacked() ? info_.shape.num_experts : 1;
    if (form->num_rows != use.num_rows || form->num_cols != use.num_cols || form->num_experts != num_experts) {
      return invalid_file(fmt::format("tensor {} must hold {} x [{}, {}]{}", quote_name(weight.name), num_experts,
                                      use.num_rows, use.num_cols, said_by()),
                          describe(weight), "check that config.json and the file are of one model");
    }
    std::optional<WeightFormat>& format = use.owner == Owner::routed ? routed_format_ : info_.shared_format;
    if (format && *format != form->format) {
      return invalid_file(fmt::format("tensor {} must be {} like the projections before it", quote_name(weight.name),
                                      to_string(*format)),
                          to_string(form->format), "convert the layer to one format");
    }
    format = form->format;
    if (use.owner == Owner::routed) info_.format = form->format;
    return {};
  }

  /// The FP8 block: from the config, else what all scale tensors together tell.
  Status find_block() {
    BlockGuess rows;
    BlockGuess cols;
    bool has_fp8 = false;
    for (const Use& use : uses_) {
      const TensorView* scale = use.part->scale;
      const bool is_fp8 = use.part->weight != nullptr && use.part->weight->dtype == Dtype::f8_e4m3;
      if (!is_fp8 || scale == nullptr) continue;
      if (scale->shape.size() != 2) {
        return invalid_file(fmt::format("tensor {} must be a matrix of block scales", quote_name(scale->name)),
                            describe(*scale), "convert the checkpoint to block scales");
      }
      has_fp8 = true;
      rows.narrow(use.num_rows, scale->shape[0]);
      cols.narrow(use.num_cols, scale->shape[1]);
    }
    if (!has_fp8) return {};
    if (config_ && config_->weight_block) {
      block_ = *config_->weight_block;
    } else if (rows.block() && cols.block()) {
      block_ = {*rows.block(), *cols.block()};
    } else {
      return invalid_file(
          fmt::format("{}: scales must tell a power-of-two block where no config says weight_block_size",
                      tensors_.prefix),
          fmt::format("rows {}, columns {}", rows.range(), cols.range()),
          "put a config.json with quantization_config.weight_block_size beside the file");
    }
    return {};
  }

  Status check_scale(const Use& use) {
    const TensorView* scale = use.part->scale;
    if (use.part->weight == nullptr || scale == nullptr) return {};
    const Result<WeightForm> form = weight_form(*use.part, storage_);
    if (!form.ok()) return form.status();
    const std::vector<uint64_t> wanted = scale_shape(*form, storage_, block_);
    if (wanted.empty()) {
      return invalid_file(fmt::format("tensor {} must be absent beside a BF16 weight", quote_name(scale->name)),
                          describe(*scale), "remove it or quantise the weight");
    }
    if (scale->shape != wanted) {
      return invalid_file(
          fmt::format("tensor {} must have shape [{}] for {} with blocks of {}", quote_name(scale->name),
                      fmt::join(wanted, ", "), describe(*use.part->weight), block_text(form->format)),
          describe(*scale), "check weight_block_size in config.json");
    }
    const bool is_fp8 = form->format == WeightFormat::fp8_block;
    const bool is_good =
        is_fp8 ? scale->dtype == Dtype::f32 || scale->dtype == Dtype::bf16 || scale->dtype == Dtype::f8_e8m0
               : is_e8m0(*scale);
    if (!is_good) {
      return invalid_file(fmt::format("tensor {} must be {}", quote_name(scale->name),
                                      is_fp8 ? "F32, BF16 or F8_E8M0" : "F8_E8M0 or U8"),
                          describe(*scale), "convert the checkpoint");
    }
    return check_scale_kind(use, *scale);
  }

  /// All scales of the routed experts are of one kind, and so are those of the shared ones.
  Status check_scale_kind(const Use& use, const TensorView& scale) {
    std::optional<bool>& kind = use.owner == Owner::routed ? routed_e8m0_ : shared_e8m0_;
    if (kind && *kind != is_e8m0(scale)) {
      return invalid_file(
          fmt::format("tensor {} must be of the same kind as the scales before it", quote_name(scale.name)),
          describe(scale), "convert the layer to one scale format");
    }
    kind = is_e8m0(scale);
    if (use.owner == Owner::routed) {
      const bool is_mxfp4 = info_.format == WeightFormat::mxfp4;
      info_.e8m0_scales = *kind;
      info_.block_rows = is_mxfp4 ? 1 : block_.rows;
      info_.block_cols = is_mxfp4 ? kMxfp4Group : block_.cols;
    }
    return {};
  }

  std::string block_text(WeightFormat format) const {
    return format == WeightFormat::mxfp4 ? fmt::format("1 x {}", kMxfp4Group)
                                         : fmt::format("{} x {}", block_.rows, block_.cols);
  }

  Status check_bias(const Use& use) {
    const TensorView* bias = use.part->bias;
    if (bias == nullptr) return {};
    info_.has_biases = true;
    const std::vector<uint64_t> wanted{info_.shape.num_experts, use.num_rows};
    if (bias->shape == wanted && (bias->dtype == Dtype::f32 || bias->dtype == Dtype::bf16)) return {};
    return invalid_file(
        fmt::format("tensor {} must be F32 or BF16 [{}]", quote_name(bias->name), fmt::join(wanted, ", ")),
        describe(*bias), "convert the checkpoint");
  }

  void list_missing() {
    const NamingRule& rule = *tensors_.rule;
    for (const Use& use : uses_) {
      const ProjectionTensors& part = *use.part;
      if (part.weight == nullptr) {
        info_.missing.push_back(name_of(use) + std::string(rule.weight_suffix));
      } else if (part.scale == nullptr && part.weight->dtype != Dtype::bf16) {
        info_.missing.push_back(name_of(use) + std::string(rule.scale_suffix));
      }
      if (part.bias == nullptr && !rule.bias_suffix.empty()) {
        info_.missing.push_back(name_of(use) + std::string(rule.bias_suffix));
      }
    }
  }

  const std::optional<ModelConfig>& config_;
  LayerTensors tensors_;
  ExpertStorage storage_;
  MoeLayerInfo info_;
  ScaleBlock block_;
  Projection first_projection_ = Projection::gate;
  std::optional<WeightFormat> routed_format_;
  std::optional<bool> routed_e8m0_;
  std::optional<bool> shared_e8m0_;
  std::vector<Use> uses_;
};

}  // namespace

Result<LayerSurvey> survey_layer(LayerTensors tensors, const std::optional<ModelConfig>& config) {
  return Surveyor(std::move(tensors), config).run();
}

}  // namespace megamoe
