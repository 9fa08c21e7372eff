// A system that forbids what placement asks for, as containers do: the calls are refused by a filter of a child
// process.

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "check/synthetic.hpp"
#include "megamoe/megamoe.hpp"
#include "topology/topology.hpp"

namespace megamoe::topology {
namespace {

/// From here on this process gets EPERM for one system call. False where filters cannot be set.
bool refuse(uint32_t call) {
  std::array<sock_filter, 4> program{
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{program.size(), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

bool can_refuse() {
  const pid_t child = fork();
  if (child == 0) _exit(refuse(SYS_mbind) ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Result<Layer> create(Pin pin) {
  SyntheticWeightSpec spec;
  spec.shape = {64, 64, 4, 1, 0};
  LayerConfig config;
  config.shape = spec.shape;
  config.max_tokens_per_rank = 4;
  config.tuning.pin = pin;
  return Layer::create(config, SyntheticWeights(spec), *Group::threads(1));
}

TEST(RefusedDeathTest, MemoryGoesWhereItIsFirstTouched) {
  if (!can_refuse()) GTEST_SKIP() << "this system has no seccomp filters";
  const auto place_all_the_same = [] {
    refuse(SYS_mbind);
    void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* data = static_cast<std::byte*>(page);
    place_memory(data, 4096, std::array{usable().nodes.front().os_idx});
    data[7] = std::byte{1};
    _exit(!can_place_memory() && memory_nodes(data).empty() && create(Pin::none).ok() ? 0 : 1);
  };
  EXPECT_EXIT(place_all_the_same(), testing::ExitedWithCode(0), "");
}

TEST(RefusedDeathTest, PinIsAnErrorOnlyWhenItWasAskedFor) {
  if (!can_refuse()) GTEST_SKIP() << "this system has no seccomp filters";
  // The child starts anew and, where it may use the CPUs 0 and 1, finds two nodes: automatic then wants to bind.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("HWLOC_SYNTHETIC", "numa:2 core:1 pu:1", 1);
  const auto pin_all_the_same = [] {
    refuse(SYS_sched_setaffinity);
    const auto pinned = create(Pin::core);
    const bool is_refused = pinned.status().code() == StatusCode::unsupported &&
                            pinned.status().message().find("use pin none") != std::string::npos;
    _exit(is_refused && create(Pin::automatic).ok() ? 0 : 1);
  };
  EXPECT_EXIT(pin_all_the_same(), testing::ExitedWithCode(0), "");
  unsetenv("HWLOC_SYNTHETIC");
}

}  // namespace
}  // namespace megamoe::topology
