// The kernels of with_layer.cu as one would write them without the layer: built-ins and inline PTX.

#include <cuda.h>

#include <cstdint>

namespace {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void wait(uint64_t* mbarrier, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
        "selp.b32 %0, 1, 0, p;\n}\n"
        : "=r"(done)
        : "r"(shared_address(mbarrier)), "r"(parity)
        : "memory");
  }
}

__device__ __forceinline__ void wait_cluster(uint64_t* mbarrier, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
        "selp.b32 %0, 1, 0, p;\n}\n"
        : "=r"(done)
        : "r"(shared_address(mbarrier)), "r"(parity)
        : "memory");
  }
}

}  // namespace

extern "C" __global__ void copy_words(const uint4* source, uint4* destination, uint32_t num_words) {
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < num_words; i += gridDim.x * blockDim.x) {
    destination[i] = source[i];
  }
}

extern "C" __global__ void sum_over_warps(const uint32_t* source, uint32_t* total) {
  uint32_t value = source[threadIdx.x];
  value += __shfl_xor_sync(0xFFFFFFFFU, value, 16);
  value += __shfl_down_sync(0xFFFFFFFFU, value, 8);
  const uint32_t votes = __ballot_sync(0xFFFFFFFFU, value > 7);
  const uint32_t sum = __reduce_add_sync(0xFFFFFFFFU, value + votes);
  uint32_t is_elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xFFFFFFFF;\nselp.u32 %0, 1, 0, p;\n}\n" : "=r"(is_elected));
  if (is_elected) asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(total), "r"(sum) : "memory");
}

extern "C" __global__ void hand_over(uint32_t* data, uint64_t* flag) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(flag), "l"(1ULL) : "memory");
  } else {
    uint64_t seen = 0;
    while (seen == 0) asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(seen) : "l"(flag) : "memory");
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(data + 64) : "memory");
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(data + 65), "r"(before) : "memory");
  }
}

extern "C" __global__ void __cluster_dims__(2) pass_through_shared(const uint8_t* source, uint8_t* destination) {
  extern __shared__ __align__(1024) uint8_t shared[];
  asm volatile("griddepcontrol.wait;" ::: "memory");
  auto* full = reinterpret_cast<uint64_t*>(shared + 2048);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(full)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], 1024;" ::"r"(shared_address(full))
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], 1024, [%2], "
        "%3;" ::"r"(shared_address(shared)),
        "l"(source + blockIdx.x * 1024), "r"(shared_address(full)), "l"(0x12F0000000000000ULL)
        : "memory");
  }
  wait(full, 0);
  asm volatile("bar.sync 1, 128;" ::: "memory");
  auto* words = reinterpret_cast<uint32_t*>(shared);
  words[threadIdx.x] = words[threadIdx.x] + 1;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" ::"l"(destination + blockIdx.x * 1024),
                 "r"(shared_address(shared))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    uint64_t remote;
    asm("mapa.u64 %0, %1, %2;" : "=l"(remote) : "l"(full), "r"(rank ^ 1U));
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0], 1;" ::"r"(
                     shared_address(reinterpret_cast<void*>(remote)))
                 : "memory");
  }
  wait_cluster(full, 1);
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(256, 1) move_registers(uint32_t* counts) {
  extern __shared__ __align__(1024) uint32_t shared_counts[];
  if (threadIdx.x / 128 == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    asm volatile("bar.arrive 2, 256;" ::: "memory");
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 208;");
    asm volatile("bar.sync 2, 256;" ::: "memory");
    [[maybe_unused]] uint32_t before;
    asm volatile("atom.relaxed.cta.shared::cta.add.u32 %0, [%1], 1;"
                 : "=r"(before)
                 : "r"(shared_address(shared_counts))
                 : "memory");
    const uint32_t same = __match_any_sync(0xFFFFFFFFU, counts[0]);
    uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    counts[lane] = same;
  }
}

extern "C" __global__ void load_box(const __grid_constant__ CUtensorMap map, uint32_t* sums) {
  extern __shared__ __align__(1024) uint8_t shared[];
  auto* full = reinterpret_cast<uint64_t*>(shared + 16384);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(full)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], 16384;" ::"r"(shared_address(full))
                 : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(shared)),
        "l"(&map), "r"(0), "r"(blockIdx.x), "r"(shared_address(full)), "l"(0x14F0000000000000ULL)
        : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(shared + 8192)),
        "l"(&map), "r"(64), "r"(blockIdx.x), "r"(shared_address(full))
        : "memory");
  }
  __syncthreads();
  wait(full, 0);
  sums[threadIdx.x] = reinterpret_cast<uint32_t*>(shared)[threadIdx.x];
}
