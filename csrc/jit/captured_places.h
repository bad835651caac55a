// captured_places.h: walking over the tensors of an instruction, for captured_*.cpp.
#pragma once

#include "jit/graph.h"

namespace rush::jit {

template <class F>
void for_each_place(const Instruction& i, F&& f) {
  for (const Argument& argument : i.args) {
    if (const auto* place = std::get_if<Place>(&argument)) f(*place);
    if (const auto* places = std::get_if<Places>(&argument))
      for (const auto& place : *places)
        if (place) f(*place);
  }
}

template <class F>
void for_each_result(const Instruction& i, F&& f) {
  for (const Result& result : i.results) {
    if (const auto* one = std::get_if<uint32_t>(&result)) f(*one);
    if (const auto* list = std::get_if<std::vector<uint32_t>>(&result))
      for (const uint32_t value : *list) f(value);
  }
}

// Does a backward pass to this leaf call anybody's function?
bool has_backward_hooks(const Tensor& leaf);

}  // namespace rush::jit
