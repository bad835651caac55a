// device_nn_loops.h: the seam between the ops of neural networks and devices (see device_loops.h).
//
// Tensors are on the device. Where nothing else is said, they are contiguous, floating tensors of
// one dtype, and results are overwritten.
#pragma once

#include "core/generator.h"
#include "core/tensor.h"

namespace rush {

enum class LossFn : uint8_t;

// Scores (batch, classes, points), class indices (batch, points), int64. See ops/cross_entropy.cpp.
struct CrossEntropyCall {
  const Tensor &x, &target, &weight;  // x is dense; weight: in the type of computation, or undefined
  int64_t reduction;                  // 0 none, 1 mean, 2 sum
  int64_t ignore_index;
  double smoothing;
  bool scores;  // or log-probabilities
};

// y = x * scale + shift where an element is kept, floor elsewhere.
struct DropoutRule {
  double keep;  // the probability
  double scale, shift, floor;
};

struct NnLoops {
  // y: the forward pass's result along dim. gx is dense, the others may lie in any way.
  void (*softmax_backward)(const Tensor& g, const Tensor& y, int64_t dim, bool log,
                           const Tensor& gx) = nullptr;
  void (*cross_entropy)(const CrossEntropyCall& call, const Tensor& loss, const Tensor& total,
                        const Tensor& weights) = nullptr;
  // gx lies as x does.
  void (*cross_entropy_backward)(const CrossEntropyCall& call, const Tensor& g, const Tensor& total,
                                 const Tensor& weights, const Tensor& gx) = nullptr;
  void (*loss)(LossFn, const Tensor& x, const Tensor& target, double parameter,
               const Tensor& out) = nullptr;
  // One number: the sum times scale.
  void (*loss_sum)(LossFn, const Tensor& x, const Tensor& target, double parameter, double scale,
                   const Tensor& out) = nullptr;
  // g has the shape of x, or one element.
  void (*loss_backward)(LossFn, const Tensor& x, const Tensor& target, double parameter,
                        const Tensor& g, double scale, const Tensor& gx) = nullptr;
  // mask: the choices drawn, of x's shape.
  void (*dropout)(const Tensor& x, RandomCall, const DropoutRule& rule, const Tensor& y,
                  const Tensor& mask) = nullptr;
  // Choices that are known; mask broadcasts, and all may lie in any way.
  void (*masked)(const Tensor& x, const Tensor& mask, const DropoutRule& rule,
                 const Tensor& y) = nullptr;

  // (batch, channels, ...); mean and rstd are (batch, groups), in the type of computation. weight
  // and bias may be undefined, and of another dtype than x.
  void (*group_norm)(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups,
                     double eps, const Tensor& y, const Tensor& mean, const Tensor& rstd) = nullptr;
  void (*group_norm_backward)(const Tensor& g, const Tensor& x, const Tensor& weight,
                              const Tensor& mean, const Tensor& rstd, int64_t groups,
                              const Tensor& gx, const Tensor& gw, const Tensor& gb) = nullptr;
};

namespace detail {
extern NnLoops g_device_nn_loops[kDeviceTypeCount];
}
inline NnLoops& device_nn_loops(DeviceType type) {
  return detail::g_device_nn_loops[static_cast<int>(type)];
}
inline const NnLoops& cuda_nn_loops() { return device_nn_loops(DeviceType::CUDA); }

}  // namespace rush
