#pragma once

// What one weight tensor holds: the dtype and rank tell the format, the scales tell the block.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/model_config.hpp"
#include "formats/naming.hpp"
#include "megamoe/status.hpp"
#include "megamoe/types.hpp"

namespace megamoe {

/// Packed columns per byte of an MXFP4 row, and bytes of one gpt-oss block of kMxfp4Group columns.
inline constexpr uint32_t kMxfp4PerByte = 2;
inline constexpr uint32_t kMxfp4BlockBytes = kMxfp4Group / kMxfp4PerByte;

/// A weight as the layer's product sees it: row = output column.
struct WeightForm {
  WeightFormat format = WeightFormat::bf16;
  uint64_t num_experts = 1;  ///< in the tensor
  uint64_t num_rows = 0;
  uint64_t num_cols = 0;
};

/// REQUIRES part.weight. Errors: invalid_file (a dtype or rank that no supported format has).
Result<WeightForm> weight_form(const ProjectionTensors& part, ExpertStorage storage);

/// Shape that the scale tensor of a weight must have; empty for bf16.
std::vector<uint64_t> scale_shape(const WeightForm& form, ExpertStorage storage, ScaleBlock block);

/// The block of one axis, narrowed by every (extent, number of scales) seen. Blocks are powers of two unless a config
/// says otherwise; extents with one scale accept every block that covers them.
class BlockGuess {
 public:
  /// Narrows the guess so that ceil(extent / block) == num_scales.
  void narrow(uint64_t extent, uint64_t num_scales);
  /// The smallest power of two that is left, if any.
  std::optional<uint32_t> block() const;

 private:
  uint64_t min_ = 1;
  uint64_t max_ = uint64_t{1} << 31;
};

}  // namespace megamoe
