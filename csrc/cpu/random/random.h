// random.h: filling tensors with random numbers. Element i, in row-major order, depends on (seed,
// call, i) only.
#pragma once

#include "core/generator.h"
#include "core/tensor.h"

namespace rush {

enum class RandomFn : uint8_t {
  Uniform,      // in [a, b)
  Normal,       // mean a, standard deviation b
  LogNormal,    // exp of that
  Exponential,  // rate a
  Cauchy,       // median a, width b
  Geometric,    // trials until the first success of probability a: 1, 2, ...; b is log(1 - a)
  Bernoulli,    // 1 with probability a, else 0
};

// Any dtype with arithmetic and any layout; computed in float64 for float64 tensors, else in
// float32.
void fill_random(RandomFn fn, const Tensor& out, RandomCall call, double a, double b);
// Integers in [from, from + range); range 0 stands for 2^64.
void fill_random_int(const Tensor& out, RandomCall call, int64_t from, uint64_t range);

}  // namespace rush
