// autograd.h: gradients for C++ programs.
#pragma once

#include <optional>
#include <vector>

#include "autograd/engine.h"
#include "core/modes.h"

namespace rush {

// Whether gradients are recorded in a scope.
struct AutoGradMode : ModeGuard {
  explicit AutoGradMode(bool on) : ModeGuard(kNoGrad, !on) {}
};
// As Python's inference_mode(): what is made in the scope never takes part in gradients.
struct InferenceMode : ModeGuard {
  explicit InferenceMode(bool on = true) : ModeGuard(kInferenceMode, on) {}
};

// Adds to the gradients of all leaves that `loss`, a tensor of one element, was computed from.
inline void backward(const Tensor& loss) {
  const Tensor roots[] = {loss}, ones[] = {Tensor()};
  backward(roots, ones, BackwardOptions{});
}

namespace autograd {

// The gradients of the outputs, weighted by grad_outputs, of the inputs; .grad stays as it is.
// retain_graph is create_graph unless it is given.
inline std::vector<Tensor> grad(const std::vector<Tensor>& outputs,
                                const std::vector<Tensor>& inputs,
                                std::vector<Tensor> grad_outputs = {},
                                std::optional<bool> retain_graph = std::nullopt,
                                bool create_graph = false, bool allow_unused = false) {
  grad_outputs.resize(outputs.size());
  BackwardOptions options;
  options.create_graph = create_graph;
  options.retain_graph = retain_graph.value_or(create_graph);
  options.allow_unused = allow_unused;
  return rush::grad(outputs, grad_outputs, inputs, options);
}

inline void backward(const std::vector<Tensor>& tensors, std::vector<Tensor> grad_tensors = {},
                     std::optional<bool> retain_graph = std::nullopt, bool create_graph = false) {
  grad_tensors.resize(tensors.size());
  BackwardOptions options;
  options.create_graph = create_graph;
  options.retain_graph = retain_graph.value_or(create_graph);
  rush::backward(tensors, grad_tensors, options);
}

}  // namespace autograd
}  // namespace rush
