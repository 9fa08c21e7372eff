#include "emu/vector_clock.hpp"

#include <algorithm>

namespace megamoe::emu {

namespace {

/// A node that only this clock holds: the one that is there, or a copy of it.
template <class Node>
Node& unshared(std::shared_ptr<Node>& node) {
  if (node == nullptr) {
    node = std::make_shared<Node>();
  } else if (node.use_count() > 1) {
    node = std::make_shared<Node>(*node);
  }
  return *node;
}

}  // namespace

uint32_t VectorClock::get(uint32_t agent) const {
  const uint32_t branch = agent / (kFanOut * kFanOut);
  if (root_ == nullptr || branch >= root_->size() || (*root_)[branch] == nullptr) return 0;
  const std::shared_ptr<Leaf>& leaf = (*root_)[branch]->leaves[agent / kFanOut % kFanOut];
  return leaf == nullptr ? 0 : leaf->clocks[agent % kFanOut];
}

void VectorClock::raise(uint32_t agent, uint32_t clock) {
  if (get(agent) >= clock) return;
  const uint32_t branch = agent / (kFanOut * kFanOut);
  Root& root = unshared(root_);
  if (branch >= root.size()) root.resize(branch + 1);
  unshared(unshared(root[branch]).leaves[agent / kFanOut % kFanOut]).clocks[agent % kFanOut] = clock;
}

void VectorClock::join_leaf(std::shared_ptr<Leaf>& into, const std::shared_ptr<Leaf>& from) {
  if (into == from || from == nullptr) return;
  if (into == nullptr) {
    into = from;
    return;
  }
  bool from_is_later = true;
  bool into_is_later = true;
  for (uint32_t i = 0; i < kFanOut; ++i) {
    from_is_later &= from->clocks[i] >= into->clocks[i];
    into_is_later &= into->clocks[i] >= from->clocks[i];
  }
  if (into_is_later) return;
  if (from_is_later) {
    into = from;
    return;
  }
  Leaf& leaf = unshared(into);
  for (uint32_t i = 0; i < kFanOut; ++i) leaf.clocks[i] = std::max(leaf.clocks[i], from->clocks[i]);
}

void VectorClock::join_branch(std::shared_ptr<Branch>& into, const std::shared_ptr<Branch>& from) {
  if (into == from || from == nullptr) return;
  if (into == nullptr) {
    into = from;
    return;
  }
  Branch joined = *into;
  bool is_into = true;
  bool is_from = true;
  for (uint32_t i = 0; i < kFanOut; ++i) {
    join_leaf(joined.leaves[i], from->leaves[i]);
    is_into &= joined.leaves[i] == into->leaves[i];
    is_from &= joined.leaves[i] == from->leaves[i];
  }
  if (is_into) return;
  // Taking the other's node when it is the later one keeps equal clocks equal pointers.
  into = is_from ? from : std::make_shared<Branch>(std::move(joined));
}

/// The lanes of a warp know the same and learn the same: the joins that were made last are kept, so that the first lane
/// pays and all get the same nodes.
struct VectorClock::KeptJoin {
  std::shared_ptr<Root> into;
  std::shared_ptr<Root> from;
  std::shared_ptr<Root> joined;
};

void VectorClock::join(const VectorClock& other) {
  if (root_ == other.root_ || other.root_ == nullptr) return;
  if (root_ == nullptr) {
    root_ = other.root_;
    return;
  }
  constexpr size_t kNumKept = 256;
  thread_local std::array<KeptJoin, kNumKept> kept;
  const size_t hash =
      reinterpret_cast<uintptr_t>(root_.get()) / 16 * 31 + reinterpret_cast<uintptr_t>(other.root_.get()) / 16;
  KeptJoin& join = kept[hash % kNumKept];
  if (join.into != root_ || join.from != other.root_) {
    join = {root_, other.root_, nullptr};
    join_roots(other);
    join.joined = root_;
  }
  root_ = join.joined;
}

void VectorClock::join_roots(const VectorClock& other) {
  Root joined = *root_;
  if (joined.size() < other.root_->size()) joined.resize(other.root_->size());
  bool is_into = joined.size() == root_->size();
  bool is_from = joined.size() == other.root_->size();
  for (size_t i = 0; i < joined.size(); ++i) {
    if (i < other.root_->size()) join_branch(joined[i], (*other.root_)[i]);
    is_into = is_into && joined[i] == (*root_)[i];
    is_from = is_from && joined[i] == (*other.root_)[i];
  }
  if (is_into) return;
  root_ = is_from ? other.root_ : std::make_shared<Root>(std::move(joined));
}

}  // namespace megamoe::emu
