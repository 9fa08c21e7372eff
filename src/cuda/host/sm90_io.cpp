#include "cuda/host/sm90_io.hpp"

#include "host/errors.hpp"

namespace megamoe::internal {

using cuda::check;
using sm90::IdFormat;
using sm90::RowFormat;

namespace {

/// What kernels load at once.
constexpr uintptr_t kAlign = 16;

enum class Where : uint32_t { host, managed, this_gpu, other_gpu };

Result<Where> find_out_where(const void* data, int ordinal) {
  cudaPointerAttributes attributes{};
  MM_RETURN_IF_ERROR(check(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes"));
  switch (attributes.type) {
    case cudaMemoryTypeManaged: return Where::managed;
    case cudaMemoryTypeDevice: return attributes.device == ordinal ? Where::this_gpu : Where::other_gpu;
    default: return Where::host;
  }
}

Result<bool> is_usable(const void* data, int ordinal) {
  if (reinterpret_cast<uintptr_t>(data) % kAlign != 0) return false;
  const auto where = find_out_where(data, ordinal);
  MM_RETURN_IF_ERROR(where.status());
  return *where == Where::this_gpu || *where == Where::managed;
}

Status copy(void* to, const void* from, uint64_t num_bytes, cudaStream_t stream) {
  return check(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDefault, stream), "copying between host and GPU");
}

}  // namespace

Result<RankIo> RankIo::create(int ordinal, const flow::Dims& dims, uint32_t num_routed) {
  RankIo io;
  io.ordinal_ = ordinal;
  io.num_routed_ = num_routed;
  io.staging_ = Sm90Staging::of(dims);
  auto device = cuda::DeviceMemory::allocate(ordinal, io.staging_.num_bytes);
  MM_RETURN_IF_ERROR(device.status());
  io.device_ = *std::move(device);
  io.rows_offset_ = flow::align_up(uint64_t{dims.max_tokens} * dims.top_k * sizeof(int64_t), kAlign);
  io.fault_offset_ = flow::align_up(io.rows_offset_ + num_routed * sizeof(uint32_t), kAlign);
  auto mailbox = cuda::PinnedMemory::allocate(io.fault_offset_ + sizeof(flow::FaultRecord));
  MM_RETURN_IF_ERROR(mailbox.status());
  io.mailbox_ = *std::move(mailbox);
  return io;
}

Result<RouterIds> RankIo::readable_ids(const RankInput& input) {
  return std::visit(
      [this](auto ids) -> Result<RouterIds> {
        if (ids.empty()) return RouterIds(ids);
        const auto where = find_out_where(ids.data(), ordinal_);
        MM_RETURN_IF_ERROR(where.status());
        if (*where == Where::host || *where == Where::managed) return RouterIds(ids);
        using Id = std::remove_const_t<typename decltype(ids)::element_type>;
        auto* readable = reinterpret_cast<Id*>(mailbox(0));
        MM_RETURN_IF_ERROR(
            check(cudaMemcpy(readable, ids.data(), ids.size_bytes(), cudaMemcpyDefault), "reading the router's ids"));
        return RouterIds(std::span<const Id>(readable, ids.size()));
      },
      input.topk_ids);
}

template <class T>
Result<const void*> RankIo::usable(std::span<const T> data, uint64_t offset, cudaStream_t stream) const {
  std::byte* staged = device_.data() + offset;
  if (data.empty()) return static_cast<const void*>(staged);
  const auto in_place = is_usable(data.data(), ordinal_);
  MM_RETURN_IF_ERROR(in_place.status());
  if (*in_place) return static_cast<const void*>(data.data());
  MM_RETURN_IF_ERROR(copy(staged, data.data(), data.size_bytes(), stream));
  return static_cast<const void*>(staged);
}

template <class T>
Status RankIo::stage_scales(const std::span<const T>& scales, cudaStream_t stream, sm90::Arguments& arguments) const {
  const auto usable_scales = usable(scales, staging_.x_scale, stream);
  MM_RETURN_IF_ERROR(usable_scales.status());
  arguments.x_scale = *usable_scales;
  arguments.row_format = std::is_same_v<T, E8m0> ? RowFormat::fp8_e8m0_scales : RowFormat::fp8_fp32_scales;
  return {};
}

Status RankIo::stage_in(const RankInput& input, const RankOutput& output, cudaStream_t stream,
                        sm90::Arguments& arguments) {
  arguments.num_tokens = input.num_tokens;
  if (const auto* bf16 = std::get_if<std::span<const Bf16>>(&input.x)) {
    const auto x = usable(*bf16, staging_.x, stream);
    MM_RETURN_IF_ERROR(x.status());
    arguments.x = *x;
    arguments.row_format = RowFormat::bf16;
  } else {
    const auto& fp8 = std::get<Fp8Activations>(input.x);
    const auto x = usable(fp8.values, staging_.x, stream);
    MM_RETURN_IF_ERROR(x.status());
    arguments.x = *x;
    MM_RETURN_IF_ERROR(
        std::visit([&](const auto& scales) { return stage_scales(scales, stream, arguments); }, fp8.scales));
  }
  const auto ids =
      std::visit([&](const auto& span) { return usable(span, staging_.topk_ids, stream); }, input.topk_ids);
  MM_RETURN_IF_ERROR(ids.status());
  arguments.topk_ids = *ids;
  arguments.id_format = input.topk_ids.index() == 0 ? IdFormat::int32 : IdFormat::int64;
  const auto weights = usable(input.topk_weights, staging_.topk_weights, stream);
  MM_RETURN_IF_ERROR(weights.status());
  arguments.topk_weights = static_cast<const float*>(*weights);

  const auto in_place = output.y.empty() ? Result<bool>(false) : is_usable(output.y.data(), ordinal_);
  MM_RETURN_IF_ERROR(in_place.status());
  arguments.y = *in_place ? reinterpret_cast<uint16_t*>(output.y.data())
                          : reinterpret_cast<uint16_t*>(device_.data() + staging_.y);
  arguments.local_expert_rows = reinterpret_cast<uint32_t*>(device_.data() + staging_.local_expert_rows);
  return {};
}

Status RankIo::stage_out(const RankOutput& output, const std::byte* workspace, cudaStream_t stream,
                         const sm90::Arguments& arguments) {
  if (!output.y.empty() && static_cast<const void*>(output.y.data()) != arguments.y) {
    MM_RETURN_IF_ERROR(copy(output.y.data(), arguments.y, output.y.size_bytes(), stream));
  }
  if (!output.local_expert_rows.empty()) {
    MM_RETURN_IF_ERROR(copy(output.local_expert_rows.data(), arguments.local_expert_rows,
                            output.local_expert_rows.size_bytes(), stream));
  }
  if (num_routed_ > 0) {
    MM_RETURN_IF_ERROR(
        copy(mailbox(rows_offset_), arguments.local_expert_rows, num_routed_ * sizeof(uint32_t), stream));
  }
  const uint64_t fault = arguments.layout.offset[static_cast<uint32_t>(flow::Field::fault)];
  return copy(mailbox(fault_offset_), workspace + fault, sizeof(flow::FaultRecord), stream);
}

std::span<const uint32_t> RankIo::local_expert_rows() const {
  return {reinterpret_cast<const uint32_t*>(mailbox(rows_offset_)), num_routed_};
}

}  // namespace megamoe::internal
