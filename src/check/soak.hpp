#pragma once

// A soak: random small layers, several calls on each before the next, and on every call another layer of the same
// weights that must give the same bits.

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "megamoe/megamoe.hpp"

namespace megamoe {

struct SoakSpec {
  Backend backend = Backend::cpu;
  /// Of the first layer; the next layer's is one more. A finding names its layer's, with which it comes in the first.
  uint64_t seed = 1;
  uint32_t num_calls = 1;
};

struct SoakReport {
  uint32_t num_calls = 0;  ///< that were run, the one with the finding included
  uint32_t num_layers = 0;
  std::array<uint32_t, 4> calls_of_strategy{};  ///< [Strategy], of the layers under test; as they ran
  uint64_t num_rows = 0;                        ///< whose bits were compared
  double worst_row_error = 0;                   ///< over the first call of every layer, as Verdict::worst_error
  std::string finding;                          ///< which layer, seed and call, and what is wrong; empty if nothing is
};

/// Draws layers (shape, ranks, formats, activation, biases, tuning, strategy) from seeds and calls each up to 24 times
/// with batches of different sizes, masks, skews and special rows. Demands of every call: the bits of a second layer
/// with another strategy (on sm90 that layer's backend is chain; on the CPU it has other threads and tiles), on as many
/// ranks or on one; the right number of rows for every expert. Of the first call of every layer: the FP64 reference,
/// row by row. Ends with the first finding. `progress` (may be empty) is called after each call with (calls done, calls
/// in all). Errors: unsupported, where the backend is not there.
Result<SoakReport> soak(const SoakSpec& spec, const std::function<void(uint64_t, uint64_t)>& progress);

namespace check {

struct SoakLayer;

/// At most `max_calls` calls of one layer, added to `report`; `on_call` is called after each that is right. Returns
/// what is wrong, behind the number of the call that found it, or an empty string. Errors: as Layer::create().
Result<std::string> soak_layer(const SoakLayer& drawn, uint32_t max_calls, SoakReport& report,
                               const std::function<void()>& on_call);

}  // namespace check
}  // namespace megamoe
