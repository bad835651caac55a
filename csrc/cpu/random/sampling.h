// sampling.h: filling tensors with draws whose parameters differ from element to element.
#pragma once

#include "core/generator.h"
#include "core/tensor.h"

namespace rush {

enum class SamplingFn : uint8_t { Gamma, Poisson, Binomial };

// out[i] drawn with parameters a[i] (and b[i], for Binomial; else b is undefined). All are
// contiguous float64 tensors on one device. Element i depends on (seed, call, i) only.
void sample(SamplingFn fn, const Tensor& a, const Tensor& b, const Tensor& out, RandomCall call);
// The derivative of gamma draws x by their shapes a.
void gamma_derivative(const Tensor& a, const Tensor& x, const Tensor& out);

}  // namespace rush
