#pragma once

// The words of the PTX memory model: who must see an access, and what it orders.

#include <cstdint>

namespace megamoe::ptx {

/// Threads among which an access, fence or arrival orders memory. Every scope contains the ones before it.
enum class Scope : uint8_t {
  cta,      ///< the block
  cluster,  ///< the blocks of one cluster
  gpu,      ///< one GPU: one rank
  sys,      ///< every GPU and the host: all ranks
};

/// What an access orders besides itself.
enum class Order : uint8_t { relaxed, acquire, release, acq_rel };

/// Memory that a proxy fence covers.
enum class ProxySpace : uint8_t { all, global, shared };

}  // namespace megamoe::ptx
