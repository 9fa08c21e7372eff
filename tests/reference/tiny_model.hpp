#pragma once

// The tiny trained model that comes with the project, tensor by tensor.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "formats/safetensors.hpp"

namespace megamoe::testing {

inline std::string tiny_model_file(const std::string& name) { return MM_SOURCE_DIR "/data/tiny-moe/" + name; }

/// The elements of one tensor. An element size that does not divide the tensor's bytes is a test failure.
template <class Element>
std::vector<Element> tensor(const SafeTensors& file, const std::string& name) {
  const TensorView* view = file.find(name);
  if (view == nullptr || view->bytes.size() % sizeof(Element) != 0) {
    ADD_FAILURE() << name << (view == nullptr ? " is missing" : " has an odd size");
    return {};
  }
  std::vector<Element> elements(view->bytes.size() / sizeof(Element));
  std::memcpy(elements.data(), view->bytes.data(), view->bytes.size());
  return elements;
}

}  // namespace megamoe::testing
