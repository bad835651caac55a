// engine.h: backward: from gradients of some tensors to gradients of those they were computed from.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "autograd/meta.h"

namespace rush {

struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;
  bool allow_unused = false;
};

// Adds to the .grad of every leaf that `roots` depend on (of `inputs` only, when given).
RUSH_API void backward(std::span<const Tensor> roots, std::span<const Tensor> grads,
                       const BackwardOptions& options, std::span<const Tensor> inputs = {});
// Returns the gradients of `inputs`; undefined where unused (an error unless allow_unused).
RUSH_API std::vector<Tensor> grad(std::span<const Tensor> roots, std::span<const Tensor> grads,
                                  std::span<const Tensor> inputs, const BackwardOptions& options);

// The few ops the engine needs; filled by csrc/ops, which the engine may not include.
struct EngineOps {
  Tensor (*add)(const Tensor& a, const Tensor& b);
  void (*add_in_place)(const Tensor& a, const Tensor& b);
  Tensor (*sum_to)(const Tensor& g, IntList sizes);
  Tensor (*cast)(const Tensor& g, DType dtype);
  Tensor (*clone)(const Tensor& t);
  Tensor (*ones_like)(const Tensor& t);
  Tensor (*zeros)(IntList sizes, DType dtype, Device device);
  void (*copy)(const Tensor& dst, const Tensor& src);
  Tensor (*contiguous_clone)(const Tensor& t);
  Tensor (*as_strided)(const Tensor& t, IntList sizes, IntList strides, int64_t offset);
  // The same memory as another type: complex numbers as pairs of real ones, or the reverse.
  Tensor (*in_dtype)(const Tensor& t, DType dtype);
  // The node of "view read from base" by geometry, for views whose base was rewritten.
  Ref<Node> (*view_node)(const Tensor& base, const Tensor& view);
};
RUSH_API EngineOps& engine_ops();

// Brings a gradient to the shape and type its receiver expects: sums broadcast dims, casts, checks.
RUSH_API Tensor fit_gradient(const Tensor& g, const ResultMeta& meta, const char* producer);

}  // namespace rush
