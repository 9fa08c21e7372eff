#include "megamoe/checkpoint.hpp"

#include <fmt/ranges.h>

#include <filesystem>
#include <new>
#include <system_error>

#include "formats/layer_weights.hpp"
#include "formats/mapped_file.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

Result<std::optional<ModelConfig>> read_config(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "config.json").string();
  std::error_code failure;
  if (!std::filesystem::exists(path, failure)) return std::optional<ModelConfig>();
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.status();
  Result<ModelConfig> config = parse_model_config(file->text(), path);
  if (!config.ok()) return config.status();
  return std::optional<ModelConfig>(*std::move(config));
}

Status within(const std::string& path, const Status& status) {
  return {status.code(), fmt::format("{}: {}", path, status.message())};
}

Status too_large(const std::string& path) {
  return error(StatusCode::out_of_memory, fmt::format("{}: tables of the checkpoint must fit into memory", path),
               "an allocation failure", "free memory");
}

}  // namespace

std::string_view to_string(Naming naming) {
  switch (naming) {
    case Naming::deepseek_v3: return "deepseek-v3";
    case Naming::deepseek_v4: return "deepseek-v4";
    case Naming::qwen3: return "qwen3";
    case Naming::mixtral: return "mixtral";
    case Naming::gpt_oss: return "gpt-oss";
  }
  return "unknown";
}

struct Checkpoint::State {
  std::string path;
  TensorStore store;
  std::vector<LayerSurvey> surveys;
  std::vector<MoeLayerInfo> infos;
};

Result<Checkpoint> Checkpoint::open(const std::string& path) try {
  Result<TensorStore> store = TensorStore::open(path);
  if (!store.ok()) return store.status();
  const Result<std::optional<ModelConfig>> config = read_config(store->folder());
  if (!config.ok()) return config.status();
  Result<std::vector<LayerTensors>> layers = find_layers(*store, *config);
  if (!layers.ok()) return within(path, layers.status());

  auto state = std::make_shared<State>(State{path, *std::move(store), {}, {}});
  for (LayerTensors& layer : *layers) {
    Result<LayerSurvey> survey = survey_layer(std::move(layer), *config);
    if (!survey.ok()) return within(path, survey.status());
    state->infos.push_back(survey->info);
    state->surveys.push_back(*std::move(survey));
  }
  return Checkpoint(std::move(state));
} catch (const std::bad_alloc&) {
  return too_large(path);
}

const std::vector<MoeLayerInfo>& Checkpoint::layers() const { return state_->infos; }

Result<std::unique_ptr<CheckpointLayer>> Checkpoint::layer(uint32_t layer_idx) const try {
  std::vector<uint32_t> present;
  for (const LayerSurvey& survey : state_->surveys) {
    if (survey.info.layer_idx == layer_idx) {
      Result<std::unique_ptr<CheckpointLayer>> layer = make_checkpoint_layer(state_, survey);
      if (!layer.ok()) return within(state_->path, layer.status());
      return layer;
    }
    present.push_back(survey.info.layer_idx);
  }
  return error(StatusCode::not_found,
               fmt::format("{}: layer must be one of [{}]", state_->path, fmt::join(present, ", ")), layer_idx,
               "choose one of these");
} catch (const std::bad_alloc&) {
  return too_large(state_->path);
}

uint64_t Checkpoint::num_bytes() const { return state_->store.num_bytes(); }
uint64_t Checkpoint::num_tensors() const { return state_->store.tensors().size(); }
const std::string& Checkpoint::path() const { return state_->path; }

Checkpoint::Checkpoint(std::shared_ptr<const State> state) : state_(std::move(state)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

}  // namespace megamoe
