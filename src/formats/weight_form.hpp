#pragma once

// What one weight tensor holds: the dtype and rank tell the format, the scales tell the block.

#include <cstdint>
#include <optional>
#include <string>
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

/// The block of one axis, narrowed by every (extent, number of scales) seen. Only a power of two that is also the
/// smallest block possible is believed: 192 rows under 2 scales may be blocks of 96 or of 128, and a wrong choice would
/// show nowhere. Where every extent has a single scale, all blocks that cover it mean the same.
class BlockGuess {
 public:
  /// Narrows the guess so that ceil(extent / block) == num_scales.
  void narrow(uint64_t extent, uint64_t num_scales);
  std::optional<uint32_t> block() const;
  /// The blocks that are left, for messages: "48..71", "none".
  std::string range() const;

 private:
  static constexpr uint64_t kUnbounded = uint64_t{1} << 31;
  uint64_t min_ = 1;
  uint64_t max_ = kUnbounded;
};

}  // namespace megamoe
