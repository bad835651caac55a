// autograd.h: gradients for C++ programs.
#pragma once

#include "autograd/engine.h"

namespace rush {

// Adds to the gradients of all leaves that `loss`, a tensor of one element, was computed from.
inline void backward(const Tensor& loss) {
  const Tensor roots[] = {loss}, ones[] = {Tensor()};
  backward(roots, ones, BackwardOptions{});
}

}  // namespace rush
