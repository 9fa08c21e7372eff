#pragma once

// The one table of published layer shapes that `megamoe plan`, `megamoe bench` and the tests call by name.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "check/synthetic.hpp"
#include "megamoe/types.hpp"

namespace megamoe {

/// A layer shape and what else of its model matters to one layer.
struct NamedShape {
  std::string_view name;   ///< "v4-flash"; "custom" for H,I,E,k
  std::string_view model;  ///< for people: "DeepSeek-V4-Flash"
  LayerShape shape;
  ActivationOptions activation;
  Biases biases = Biases::none;
  GateUpLayout layout = GateUpLayout::separate;
};

/// Every named shape, in the order that help texts list them.
std::span<const NamedShape> named_shapes();

/// "v4-flash|v4-pro|...".
std::string shape_names();

/// One of named_shapes() by name, or four numbers "hidden,intermediate,experts,top_k". Checks only that the numbers are
/// within the limits of LayerShape's types; plan() checks the rest. Errors: anything else.
Result<NamedShape> parse_shape(std::string_view text);

/// Several of them with commas between, such as "v3,64,32,8,2,v4-pro". Errors: the first that is none.
Result<std::vector<NamedShape>> parse_shapes(std::string_view text);

}  // namespace megamoe
