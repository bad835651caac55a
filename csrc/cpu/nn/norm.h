// norm.h: normalisations on the CPU, forward and backward in as few passes as they need.
//
// float32 and float64. weight, bias and statistics have the type of x and are contiguous; weight
// and bias may be undefined. Gradients that nobody wants are undefined tensors. On GPUs batch norm
// takes half types as well: the moments are float32 then, the parameters either.
#pragma once

#include "core/tensor.h"

namespace rush {

// What moves towards the moments of each batch: running = (1 - momentum) * running + momentum *
// new, of the variance the unbiased one. Any may be undefined. `batches` is an int64 that counts.
struct RunningMoments {
  Tensor mean, var, batches;
  double momentum = 0;
};

// Channels are dim 1; x is contiguous or channels-last, y and gx lie like x.
void batch_norm_cpu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const RunningMoments& running, double eps, const Tensor& y, const Tensor& mean,
                    const Tensor& var);
void batch_norm_eval_cpu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const Tensor& mean, const Tensor& var, double eps, const Tensor& y);
void batch_norm_backward_cpu(const Tensor& g, const Tensor& x, const Tensor& weight,
                             const Tensor& mean, const Tensor& var, double eps, const Tensor& gx,
                             const Tensor& gw, const Tensor& gb);

// x, y, g, gx contiguous; mean and rstd are (batch, groups).
void group_norm_cpu(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups,
                    double eps, const Tensor& y, const Tensor& mean, const Tensor& rstd);
void group_norm_backward_cpu(const Tensor& g, const Tensor& x, const Tensor& weight,
                             const Tensor& mean, const Tensor& rstd, int64_t groups,
                             const Tensor& gx, const Tensor& gw, const Tensor& gb);

// x as rows of `width`; mean (not written or read unless centred) and rstd have one element a row.
void row_norm_cpu(const Tensor& x, int64_t width, const Tensor& weight, const Tensor& bias,
                  bool centred, double eps, const Tensor& y, const Tensor& mean,
                  const Tensor& rstd);
void row_norm_backward_cpu(const Tensor& g, const Tensor& x, int64_t width, const Tensor& weight,
                           const Tensor& mean, const Tensor& rstd, bool centred, const Tensor& gx,
                           const Tensor& gw, const Tensor& gb);

}  // namespace rush
