#pragma once

// Where experts live, and what a token's choices are.

#include "flow/dims.hpp"

namespace megamoe::flow {

/// Routed experts stand on ranks in id order, as evenly as they divide: the first E % R ranks own one more. Shared
/// experts stand on every rank and serve that rank's tokens only.
struct Placement {
  uint32_t num_experts = 0;
  uint32_t num_shared = 0;
  uint32_t num_ranks = 1;

  MM_HOST_DEVICE static constexpr Placement of(const Dims& dims) {
    return {dims.num_experts, dims.num_shared, dims.num_ranks};
  }
  /// Routed experts of `rank`.
  MM_HOST_DEVICE constexpr uint32_t num_routed(Rank rank) const {
    return num_experts / num_ranks + (num(rank) < num_experts % num_ranks ? 1U : 0U);
  }
  MM_HOST_DEVICE constexpr uint32_t first_routed(Rank rank) const {
    return num(rank) * (num_experts / num_ranks) + min_of(num(rank), num_experts % num_ranks);
  }
  MM_HOST_DEVICE constexpr uint32_t num_local(Rank rank) const { return num_shared + num_routed(rank); }

  /// The rank that serves `expert` for tokens of `home`.
  MM_HOST_DEVICE constexpr Rank owner(Expert expert, Rank home) const {
    if (num(expert) >= num_experts) return home;
    const uint32_t base = num_experts / num_ranks;
    const uint32_t extra = num_experts % num_ranks;
    const uint32_t boundary = extra * (base + 1U);
    if (num(expert) < boundary) return Rank{num(expert) / (base + 1U)};
    return Rank{extra + (num(expert) - boundary) / base};
  }
  /// Its index there. REQUIRES owner == this->owner(expert, home).
  MM_HOST_DEVICE constexpr LocalExpert local(Expert expert, Rank owner) const {
    if (num(expert) >= num_experts) return LocalExpert{num(expert) - num_experts};
    return LocalExpert{num_shared + num(expert) - first_routed(owner)};
  }
  /// The inverse of local().
  MM_HOST_DEVICE constexpr Expert global(LocalExpert local, Rank owner) const {
    if (num(local) < num_shared) return Expert{num_experts + num(local)};
    return Expert{first_routed(owner) + num(local) - num_shared};
  }
};

MM_HOST_DEVICE constexpr Slot make_slot(Token token, Choice choice, const Dims& dims) {
  return Slot{num(token) * dims.num_choices() + num(choice)};
}
MM_HOST_DEVICE constexpr Token slot_token(Slot slot, const Dims& dims) { return Token{num(slot) / dims.num_choices()}; }
MM_HOST_DEVICE constexpr Choice slot_choice(Slot slot, const Dims& dims) {
  return Choice{num(slot) % dims.num_choices()};
}

/// "No expert" in a router's ids.
inline constexpr int64_t kNoExpert = -1;

/// The expert that one choice of a token names, or kNoExpert: its routed ids [top_k], then every shared expert.
/// `ids` is whatever has ids[k]; a shared choice does not look at it.
template <class Ids>
MM_HOST_DEVICE int64_t choice_expert(const Ids& ids, Choice choice, const Dims& dims) {
  const uint32_t k = num(choice);
  return k < dims.top_k ? static_cast<int64_t>(ids[k]) : int64_t{dims.num_experts} + k - dims.top_k;
}

/// Calls visit(choice, expert) for every choice of one token that names an expert.
template <class Ids, class Visit>
MM_HOST_DEVICE void for_each_choice(const Ids& ids, const Dims& dims, Visit&& visit) {
  for (uint32_t k = 0; k < dims.num_choices(); ++k) {
    const int64_t expert = choice_expert(ids, Choice{k}, dims);
    if (expert != kNoExpert) visit(Choice{k}, Expert{static_cast<uint32_t>(expert)});
  }
}

}  // namespace megamoe::flow
