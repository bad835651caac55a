// gradients.cpp: backward, .grad and requires_grad as ops. Programs do not call them by name: the
// bindings do while a program is recorded (jit/recorder.h), so that it can be run again.
#include "autograd/engine.h"
#include "ops/framework/op.h"
#include "ops/gradients_ops.h"

namespace rush {
namespace {

BackwardOptions options_of(bool retain_graph, bool create_graph, bool allow_unused = false) {
  BackwardOptions options;
  options.retain_graph = retain_graph;
  options.create_graph = create_graph;
  options.allow_unused = allow_unused;
  return options;
}

}  // namespace

struct RunBackward {
  static constexpr const char* name = "_run_backward";
  static int64_t call(TensorList roots, TensorList grads, TensorList inputs, bool retain_graph,
                      bool create_graph) {
    backward(roots, grads, options_of(retain_graph, create_graph), inputs);
    return int64_t(roots.size());
  }
};

struct RunGrad {
  static constexpr const char* name = "_run_grad";
  static std::vector<Tensor> call(TensorList roots, TensorList grads, TensorList inputs,
                                  bool retain_graph, bool create_graph, bool allow_unused) {
    return grad(roots, grads, inputs, options_of(retain_graph, create_graph, allow_unused));
  }
};

struct ReadGrad {
  static constexpr const char* name = "_read_grad";
  static Tensor call(const Tensor& t) { return grad_of(t); }
};

struct PutGrad {
  static constexpr const char* name = "_put_grad";
  static int64_t call(const Tensor& t, const Tensor& grad) {
    if (grad.defined() || grad_meta_or_null(t)) exchange_grad(t, grad);
    return grad.defined();
  }
};

struct WantGrad {
  static constexpr const char* name = "_want_grad";
  static int64_t call(const Tensor& t, bool on) {
    set_requires_grad(t, on);
    return on;
  }
};

}  // namespace rush

#include "ops/gradients.inc"
