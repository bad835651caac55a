// norm.h: normalisations on a device, forward and backward in as few passes as they need.
//
// Weight, bias and statistics are contiguous; weight and bias may be undefined. Gradients that
// nobody wants are undefined tensors. Moments of half types are float32.
#pragma once

#include <span>

#include "device/table.h"

namespace rush {

struct RowStep;  // device/fused.h

// What moves towards the moments of each batch: running = (1 - momentum) * running + momentum *
// new, of the variance the unbiased one. Any may be undefined. `batches` is an int64 that counts.
struct RunningMoments {
  Tensor mean, var, batches;
  double momentum = 0;
};

struct NormLoops {
  // Does it read half types as they are, with parameters of either type? Else all come as float32
  // or float64, of one type.
  bool takes_halves = false;

  // Channels are dim 1; x is contiguous or channels-last, y and gx lie like x.
  void (*batch_norm)(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const RunningMoments& running, double eps, const Tensor& y, const Tensor& mean,
                     const Tensor& var) = nullptr;
  void (*batch_norm_eval)(const Tensor& x, const Tensor& weight, const Tensor& bias,
                          const Tensor& mean, const Tensor& var, double eps,
                          const Tensor& y) = nullptr;
  void (*batch_norm_backward)(const Tensor& g, const Tensor& x, const Tensor& weight,
                              const Tensor& mean, const Tensor& var, double eps, const Tensor& gx,
                              const Tensor& gw, const Tensor& gb) = nullptr;

  // The same for groups of channels; mean and rstd are (batch, groups).
  void (*group_norm)(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups,
                     double eps, const Tensor& y, const Tensor& mean, const Tensor& rstd) = nullptr;
  void (*group_norm_backward)(const Tensor& g, const Tensor& x, const Tensor& weight,
                              const Tensor& mean, const Tensor& rstd, int64_t groups,
                              const Tensor& gx, const Tensor& gw, const Tensor& gb) = nullptr;

  // RowOp::Groups or GroupsBackward of its operands, into `out`: the last pass of these two by
  // itself. Where that is null, group norm does not wait for others.
  void (*scale_groups)(const RowStep& row, std::span<const Tensor> operands,
                       const Tensor& out) = nullptr;

  // The same for RowOp::Channels and ChannelsBackward, and ChannelSums into what is beside it; both are
  // null, or neither.
  void (*scale_channels)(const RowStep& row, std::span<const Tensor> operands,
                         const Tensor& out) = nullptr;
  void (*channel_sums)(const RowStep& row, std::span<const Tensor> operands,
                       std::span<const Tensor> beside) = nullptr;

  // x, contiguous, as rows of `width`; mean (not written or read unless centred) and rstd have one
  // element per row.
  void (*row_norm)(const Tensor& x, int64_t width, const Tensor& weight, const Tensor& bias,
                   bool centred, double eps, const Tensor& y, const Tensor& mean,
                   const Tensor& rstd) = nullptr;
  void (*row_norm_backward)(const Tensor& g, const Tensor& x, int64_t width, const Tensor& weight,
                            const Tensor& mean, const Tensor& rstd, bool centred, const Tensor& gx,
                            const Tensor& gw, const Tensor& gb) = nullptr;
};
inline constinit DeviceTable<NormLoops> norm_loops;

}  // namespace rush
