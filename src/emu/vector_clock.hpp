#pragma once

// Vector clocks for tens of thousands of lanes.
//
// A clock is a tree of shared, immutable nodes (32 entries a leaf, 32 leaves a branch): lanes that passed the same
// barrier hold the same pointers, so that joining equal clocks compares one pointer a branch and changes copy two
// nodes.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace megamoe::emu {

/// One entry of a vector clock: `clock` of the agent `agent`, a lane or a stream of asynchronous copies.
struct Epoch {
  uint32_t agent = 0;
  uint32_t clock = 0;
};

class VectorClock {
 public:
  /// 0 when nothing of `agent` is known.
  uint32_t get(uint32_t agent) const;
  /// Raises the entry of `agent` to at least `clock`.
  void raise(uint32_t agent, uint32_t clock);
  void join(const VectorClock& other);
  bool knows(Epoch epoch) const { return get(epoch.agent) >= epoch.clock; }
  /// Equal because they share everything; false says nothing.
  bool is_same(const VectorClock& other) const { return root_ == other.root_; }

 private:
  static constexpr uint32_t kFanOut = 32;
  struct Leaf {
    std::array<uint32_t, kFanOut> clocks{};
  };
  struct Branch {
    std::array<std::shared_ptr<Leaf>, kFanOut> leaves;
  };
  using Root = std::vector<std::shared_ptr<Branch>>;

  struct KeptJoin;

  void join_roots(const VectorClock& other);
  static void join_leaf(std::shared_ptr<Leaf>& into, const std::shared_ptr<Leaf>& from);
  static void join_branch(std::shared_ptr<Branch>& into, const std::shared_ptr<Branch>& from);

  std::shared_ptr<Root> root_;
};

/// What is ordered before an agent's next access.
struct Knowledge {
  VectorClock seen;          ///< happens before
  VectorClock async_shared;  ///< and a proxy fence lies between, for shared memory
  VectorClock async_global;  ///< the same for global memory

  void join(const Knowledge& other) {
    seen.join(other.seen);
    async_shared.join(other.async_shared);
    async_global.join(other.async_global);
  }
  bool is_same(const Knowledge& other) const {
    return seen.is_same(other.seen) && async_shared.is_same(other.async_shared) &&
           async_global.is_same(other.async_global);
  }
};

/// The knowledge of all who have arrived somewhere. Lanes that come from one barrier know the same, which makes every
/// arrival but the first cheap.
class Gathering {
 public:
  /// `own` is the arriving agent's present epoch.
  void add(const Knowledge& knowledge, Epoch own) {
    if (!knowledge.is_same(last_)) {
      sum_.join(knowledge);
      last_ = knowledge;
    }
    sum_.seen.raise(own.agent, own.clock);
  }
  /// An epoch that brings no other knowledge.
  void add(Epoch own) { sum_.seen.raise(own.agent, own.clock); }
  const Knowledge& sum() const { return sum_; }
  void clear() { *this = {}; }

 private:
  Knowledge sum_;
  Knowledge last_;
};

}  // namespace megamoe::emu
