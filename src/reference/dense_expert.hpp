#pragma once

// One expert's weights as plain FP64 matrices, out of any format and layout.

#include <cstdint>
#include <string>
#include <vector>

#include "megamoe/megamoe.hpp"

namespace megamoe::reference {

struct DenseExpert {
  std::vector<double> gate;       ///< [I, H]
  std::vector<double> up;         ///< [I, H]
  std::vector<double> down;       ///< [H, I]
  std::vector<double> gate_bias;  ///< [I], zeros where there is none
  std::vector<double> up_bias;    ///< [I]
  std::vector<double> down_bias;  ///< [H]
};

/// Errors: a matrix, its scales or a bias that do not fit the shape; `name` ("expert 3") begins the message.
Result<DenseExpert> dense_expert(const ExpertWeights& weights, const LayerShape& shape, const std::string& name);

}  // namespace megamoe::reference
