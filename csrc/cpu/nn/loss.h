// loss.h: losses of input and target, element by element. Contiguous tensors of one shape and type,
// float32 or float64.
#pragma once

#include "core/tensor.h"

namespace rush {

enum class LossFn : uint8_t;

void loss_cpu(LossFn fn, const Tensor& x, const Tensor& t, double parameter, const Tensor& out);
double loss_sum_cpu(LossFn fn, const Tensor& x, const Tensor& t, double parameter);
// gx = slope * g * scale; g has the shape of x, or one element.
void loss_backward_cpu(LossFn fn, const Tensor& x, const Tensor& t, double parameter,
                       const Tensor& g, double scale, const Tensor& gx);

}  // namespace rush
