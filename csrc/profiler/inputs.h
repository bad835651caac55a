// inputs.h: the arguments of a call in a few words: shapes, strides and dtypes of tensors, values of
// numbers. Nothing of the call is kept alive.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "autograd/node.h"
#include "ops/framework/registry.h"

namespace rush::profiler {

// Words of one call: how many arguments, then each argument: its tag, and what the tag says.
//   Tensor:       dtype, n, n sizes, n strides    (dtype -1: undefined)
//   Tensors:      count, then as many tensors without their tag
//   Ints, Floats: n, n values
//   Scalar, Int, Float, Bool: is it a floating number?, the value
//   others:       nothing
void pack_inputs(const OpEntry& entry, const Value* args, std::vector<int64_t>& to);
// The gradients that arrive at a node.
void pack_gradients(const Node& node, std::vector<int64_t>& to);

struct PackedTensor {
  int dtype;  // -1: undefined
  std::span<const int64_t> sizes, strides;
};
struct PackedInput {
  Value::Tag tag;
  std::vector<PackedTensor> tensors;  // one, or those of a list
  std::span<const int64_t> words;     // numbers; doubles by their bits
  bool floating = false;
};
RUSH_API std::vector<PackedInput> unpack_inputs(const int64_t* words);

}  // namespace rush::profiler
