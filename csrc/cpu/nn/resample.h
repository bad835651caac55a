// resample.h: weighted sums of neighbours along one dim, and their adjoint; patches of images.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace rush {

// Output i is the sum of weight[k] * input[index[k]] for k from start[i] to start[i + 1].
struct Taps {
  std::vector<int64_t> start, index;
  std::vector<double> weight;
};

// Dense tensors with one order of dims, equal but for the size of dim. float32 or float64.
void resample_cpu(const Tensor& x, int64_t dim, const Taps& taps, const Tensor& y);
// gx[index] += weight * g. gx is overwritten.
void resample_backward_cpu(const Tensor& g, int64_t dim, const Taps& taps, const Tensor& gx);

// Patches of contiguous images (batch, channels, h, w): columns are (batch, channels * kernel
// points, output points).
struct PatchShape {
  int64_t planes, in[2], out[2], kernel[2], dilation[2], padding[2], stride[2];
};
void unfold_cpu(const PatchShape& s, const Tensor& x, const Tensor& columns);
// Adds up; x is overwritten.
void fold_cpu(const PatchShape& s, const Tensor& columns, const Tensor& x);

}  // namespace rush
