#include "host/memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

namespace megamoe::internal {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;

}  // namespace

Result<PrivateMemory> PrivateMemory::allocate(uint64_t num_bytes) {
  PrivateMemory memory;
  if (num_bytes == 0) return memory;
  void* data = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return Status(
        StatusCode::out_of_memory,
        fmt::format("the plan's buffers must fit the address space (got {} bytes); lower max_tokens_per_rank, "
                    "or raise the limit that `ulimit -v` shows",
                    num_bytes));
  }
  // Weights and pools are read in long runs: with small pages a core spends its time in the page tables.
  if (num_bytes >= kHugePage) madvise(data, num_bytes, MADV_HUGEPAGE);
  memory.data_ = std::unique_ptr<std::byte, Unmap>(static_cast<std::byte*>(data), Unmap{num_bytes});
  return memory;
}

void Unmap::operator()(std::byte* data) const { munmap(data, num_bytes); }

}  // namespace megamoe::internal
