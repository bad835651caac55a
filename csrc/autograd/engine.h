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
  SourcePoint called_at = source_here();  // for a second backward, which is told about the first
};

// Adds to the .grad of every leaf that `roots` depend on; of `inputs` only, when given, which may
// then be computed tensors, too.
RUSH_API void backward(std::span<const Tensor> roots, std::span<const Tensor> grads,
                       const BackwardOptions& options, std::span<const Tensor> inputs = {});
// Returns the gradients of `inputs`; undefined where unused (an error unless allow_unused).
RUSH_API std::vector<Tensor> grad(std::span<const Tensor> roots, std::span<const Tensor> grads,
                                  std::span<const Tensor> inputs, const BackwardOptions& options);

// The same for places in the graph instead of tensors. Leaves among the inputs, or all when none
// are named, get their gradient added when `accumulate` is set.
RUSH_API std::vector<Tensor> run_graph(const std::vector<Edge>& roots, std::vector<Tensor> seeds,
                                       const std::vector<Edge>& inputs, bool accumulate,
                                       const BackwardOptions& options);

// Note [Backward inside backward]
// A hook or a Function may call backward again, and that one's hooks again. Each level needs a
// piece of the thread's stack, so after some levels the engine goes on with a thread of its own
// while the caller waits. The thread takes over the caller's modes and its place in the line of
// calls. The runner starts the thread, calls body(context) there, waits, and throws here what it
// threw there; the bindings replace it with one that knows about Python's exceptions.
using ThreadRunner = void (*)(void (*body)(void*), void* context);
RUSH_API void set_thread_runner(ThreadRunner runner);

// The few ops the engine needs; filled by csrc/ops, which the engine may not include.
struct EngineOps {
  Tensor (*add)(const Tensor& a, const Tensor& b);
  void (*add_in_place)(const Tensor& a, const Tensor& b);
  Tensor (*sum_to)(const Tensor& g, IntList sizes);
  Tensor (*cast)(const Tensor& g, DType dtype);
  Tensor (*clone)(const Tensor& t);
  Tensor (*clone_strided)(const Tensor& t, IntList strides);  // a copy with this layout
  // Of a pending gradient that lies otherwise than it is seen: one that does not, or undefined.
  Tensor (*lay_out_pending)(const Tensor& g);
  Tensor (*ones_like)(const Tensor& t);
  Tensor (*zeros)(IntList sizes, DType dtype, Device device);
  void (*copy)(const Tensor& dst, const Tensor& src);
  bool (*any_nan)(const Tensor& t);
  Tensor (*contiguous_clone)(const Tensor& t);
  Tensor (*as_strided)(const Tensor& t, IntList sizes, IntList strides, int64_t offset);
  // The same memory as another type: complex numbers as pairs of real ones, or the reverse.
  Tensor (*in_dtype)(const Tensor& t, DType dtype);
  // The node of "view read from base" by geometry, for views whose base was rewritten.
  Ref<Node> (*view_node)(const Tensor& base, const Tensor& view);
};
RUSH_API EngineOps& engine_ops();

// Brings a gradient to the shape and type its receiver expects: sums broadcast dims, casts, checks.
RUSH_API Tensor fit_gradient(Tensor g, const ResultMeta& meta, const char* producer);

}  // namespace rush
