// Prints the host's digests, one a line: the compilers must agree, and the device with them.

#include <cstdio>

#include "flow_digest.hpp"
#include "num_digests.hpp"

int main() {
  using namespace megamoe::flow_nvcc;
  for (uint32_t seed = 0; seed < kNumDigests; ++seed) {
    std::printf("%016llx\n", static_cast<unsigned long long>(flow_digest(seed)));
  }
  return 0;
}
