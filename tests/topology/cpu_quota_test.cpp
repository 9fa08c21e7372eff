// CPU quotas out of made-up /proc and /sys trees.

#include "topology/cpu_quota.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "temp_folder.hpp"

namespace megamoe::topology {
namespace {

namespace fs = std::filesystem;

class CpuQuota : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  /// The process is in `group` of a version 2 hierarchy, whose `mounted` part is at /sys/fs/cgroup.
  void make_v2(const std::string& group, const std::string& mounted = "/") {
    write("proc/self/cgroup", "0::" + group + "\n");
    write("proc/self/mountinfo",
          "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
          "30 22 0:26 " +
              mounted + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }

  /// The same in version 1, where cpu and cpuacct share one hierarchy.
  void make_v1(const std::string& group, const std::string& mounted = "/") {
    write("proc/self/cgroup", "5:memory:/elsewhere\n4:cpu,cpuacct:" + group + "\n3:cpuset:/elsewhere\n");
    write("proc/self/mountinfo",
          "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
          "32 31 0:29 " +
              mounted +
              " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
              "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
  }
  void write_v1(const std::string& group, const std::string& quota, const std::string& period = "100000\n") {
    write("sys/fs/cgroup/cpu,cpuacct" + group + "/cpu.cfs_quota_us", quota);
    write("sys/fs/cgroup/cpu,cpuacct" + group + "/cpu.cfs_period_us", period);
  }

  std::optional<double> quota() const { return cpu_quota(root_); }

  TempFolder folder_;
  fs::path root_ = folder_.path();
};

TEST_F(CpuQuota, NoFilesMeanNoLimit) { EXPECT_EQ(quota(), std::nullopt); }

TEST_F(CpuQuota, V2OwnGroup) {
  make_v2("/user.slice/job");
  write("sys/fs/cgroup/user.slice/job/cpu.max", "250000 100000\n");
  EXPECT_EQ(quota(), 2.5);
}

TEST_F(CpuQuota, V2MaxIsNoLimit) {
  make_v2("/job");
  write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(CpuQuota, V2SmallestOfAllGroupsAboveWins) {
  make_v2("/a/b/c");
  write("sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n");
  EXPECT_EQ(quota(), 3.0);
  write("sys/fs/cgroup/a/b/cpu.max", "20000 10000\n");
  EXPECT_EQ(quota(), 2.0);
  // A sister's quota is not ours.
  write("sys/fs/cgroup/a/b/d/cpu.max", "10000 100000\n");
  EXPECT_EQ(quota(), 2.0);
}

TEST_F(CpuQuota, V2ContainerThatSeesItsGroupAsTheRoot) {
  make_v2("/");
  write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(CpuQuota, V2ContainerNamedByTheHostsPath) {
  make_v2("/docker/abc/inner", "/docker/abc");
  write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota(), 4.0);
  write("sys/fs/cgroup/inner/cpu.max", "100000 100000\n");
  EXPECT_EQ(quota(), 1.0);
}

TEST_F(CpuQuota, GroupOutsideOfTheMountCountsTheMount) {
  make_v2("/../sister/job");
  write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  write("sys/fs/sister/job/cpu.max", "100000 100000\n");
  EXPECT_EQ(quota(), 4.0);
  make_v2("/system.slice/x", "/docker/abc");
  EXPECT_EQ(quota(), 4.0);
}

TEST_F(CpuQuota, V2WithoutPeriodHasTheDefaultOne) {
  make_v2("/");
  write("sys/fs/cgroup/cpu.max", "150000\n");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(CpuQuota, V1OwnGroupAndThoseAbove) {
  make_v1("/docker/abc");
  write_v1("", "-1\n");
  write_v1("/docker", "-1\n");
  EXPECT_EQ(quota(), std::nullopt);
  write_v1("/docker/abc", "600000\n");
  EXPECT_EQ(quota(), 6.0);
  write_v1("/docker", "150000\n", "50000\n");
  EXPECT_EQ(quota(), 3.0);
}

TEST_F(CpuQuota, V1ContainerNamedByTheHostsPath) {
  make_v1("/docker/abc", "/docker/abc");
  write_v1("", "200000\n");
  EXPECT_EQ(quota(), 2.0);
}

TEST_F(CpuQuota, BothVersionsMounted) {
  make_v1("/job");
  write("proc/self/cgroup", "1:cpu,cpuacct:/job\n0::/unified-job\n");
  std::ofstream(root_ / "proc/self/mountinfo", std::ios::app)
      << "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  write_v1("/job", "700000\n");
  EXPECT_EQ(quota(), 7.0);
  write("sys/fs/cgroup/unified/unified-job/cpu.max", "500000 100000\n");
  EXPECT_EQ(quota(), 5.0);
}

TEST_F(CpuQuota, WhatMakesNoSenseLimitsNothing) {
  for (const std::string text : {"", "\n", "abc 100000\n", "200000 abc\n", "0 100000\n", "-5 100000\n", "100000 0\n",
                                 "100000 -1\n", "2e5 100000\n", "200000 100000 7\n", "99999999999999999999999 1\n"}) {
    SCOPED_TRACE(text);
    make_v2("/job");
    write("sys/fs/cgroup/job/cpu.max", text);
    EXPECT_EQ(quota(), std::nullopt);
    // The group above still counts.
    write("sys/fs/cgroup/cpu.max", "300000 100000\n");
    EXPECT_EQ(quota(), 3.0);
    fs::remove(root_ / "sys/fs/cgroup/cpu.max");
  }
}

TEST_F(CpuQuota, MalformedProcFilesAreSurvived) {
  make_v2("/job");
  write("sys/fs/cgroup/job/cpu.max", "300000 100000\n");
  const std::string texts[] = {"", "0\n", "0:\n", "0::\n", "0::job\n", "::::\n", std::string("\0\0:\xff", 4)};
  for (const std::string& text : texts) {
    write("proc/self/cgroup", text);
    EXPECT_EQ(quota(), std::nullopt) << text;
  }
  make_v2("/job");
  for (const std::string text : {"-\n", "1 2 3 - cgroup2 a b\n", "30 22 0:26 / /sys/fs/cgroup rw - cgroup2\n",
                                 "30 22 0:26 / /nowhere rw - cgroup2 cgroup2 rw\n"}) {
    write("proc/self/mountinfo", text);
    EXPECT_EQ(quota(), std::nullopt) << text;
  }
}

TEST(CpuQuotaOfThisMachine, IsPositiveIfThereIsOne) {
  const std::optional<double> quota = cpu_quota();
  EXPECT_GT(quota.value_or(1.0), 0.0);
}

}  // namespace
}  // namespace megamoe::topology
