// nn.h: the seam between the ops of neural networks and devices (see device_loops.h).
//
// Tensors are on the device. Where nothing else is said, they are contiguous, floating tensors of
// one dtype, and results are overwritten.
#pragma once

#include "core/generator.h"
#include "core/tensor.h"

namespace rush {

enum class LossFn : uint8_t;
struct Sampling;    // functors/grid_sample.h
struct CtcLengths;  // cpu/nn/ctc.h
struct PatchShape;  // cpu/nn/resample.h
struct Resampling;  // functors/resample.h
struct Bags;  // cpu/nn/embedding.h; here indices may be int32 too, and weights of any floating
              // dtype

// Scores (batch, classes, points), class indices (batch, points), int64. See
// ops/nn/cross_entropy.cpp.
struct CrossEntropyCall {
  const Tensor &x, &target,
      &weight;        // x is dense; weight: in the type of computation, or undefined
  int64_t reduction;  // 0 none, 1 mean, 2 sum
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

  // See cpu/nn/embedding.h. A table of any dtype; indices are checked, and bad ones noted.
  void (*embedding)(const Tensor& table, const Tensor& index, const Tensor& out) = nullptr;
  // g is (indices, width), its rows end to end each.
  void (*embedding_backward)(const Tensor& g, const Tensor& index, int64_t skip, bool by_count,
                             const Tensor& gtable) = nullptr;
  void (*embedding_bag)(const Tensor& table, const Bags& bags, const Tensor& out,
                        const Tensor& counts, const Tensor& places) = nullptr;
  void (*embedding_bag_backward)(const Tensor& g, const Bags& bags, const Tensor& counts,
                                 const Tensor& gtable) = nullptr;
  void (*embedding_bag_weights)(const Tensor& g, const Tensor& table, const Bags& bags,
                                const Tensor& gweight) = nullptr;

  // Dense tensors with one order of dims, equal but for the size of dim.
  void (*resample)(const Tensor& x, int64_t dim, const Resampling& how, const Tensor& y) = nullptr;
  void (*resample_backward)(const Tensor& g, int64_t dim, const Resampling& how,
                            const Tensor& gx) = nullptr;
  // (batch, channels, ...), both contiguous or both channels-last; how: of three dims, missing ones
  // in front.
  void (*resample_image)(const Tensor& x, const Resampling* how, const Tensor& y) = nullptr;
  // Any dtype, and floating, complex or bool ones.
  void (*unfold)(const PatchShape& s, const Tensor& x, const Tensor& columns) = nullptr;
  void (*fold)(const PatchShape& s, const Tensor& columns, const Tensor& x) = nullptr;

  // See cpu/nn/grid_sample.h.
  void (*grid_sample)(const Tensor& x, const Tensor& grid, const Sampling& how,
                      const Tensor& y) = nullptr;
  void (*grid_sample_backward)(const Tensor& g, const Tensor& x, const Tensor& grid,
                               const Sampling& how, const Tensor& gx,
                               const Tensor& ggrid) = nullptr;
  void (*grid_places)(const Tensor& grid, IntList sizes, const Sampling& how, const Tensor& places,
                      const Tensor& slopes) = nullptr;
  // The index of the neighbour `offset` away from each place, -1 where it counts as zero.
  void (*grid_neighbours)(const Tensor& places, int64_t size, int64_t offset, const Sampling& how,
                          const Tensor& out) = nullptr;

  // See cpu/nn/ctc.h.
  void (*ctc_loss)(const Tensor& log_probs, const Tensor& targets, const CtcLengths& lengths,
                   const Tensor& loss, const Tensor& log_alpha) = nullptr;
  void (*ctc_loss_backward)(const Tensor& log_probs, const Tensor& targets,
                            const CtcLengths& lengths, const Tensor& loss, const Tensor& log_alpha,
                            bool zero_infinity, const Tensor& gx) = nullptr;

  // See cpu/nn/pool.h.
  void (*fractional_max_pool)(const Tensor& x, IntList kernel, const Tensor& samples,
                              const Tensor& y, const Tensor& indices) = nullptr;
};

namespace detail {
extern NnLoops g_device_nn_loops[kDeviceTypeCount];
}
inline NnLoops& device_nn_loops(DeviceType type) {
  return detail::g_device_nn_loops[static_cast<int>(type)];
}
inline const NnLoops& cuda_nn_loops() { return device_nn_loops(DeviceType::CUDA); }

}  // namespace rush
