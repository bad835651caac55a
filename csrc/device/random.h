// random.h: filling tensors with random numbers, by device. Element i, in row-major order, depends
// on (seed, call, i) only.
#pragma once

#include "core/generator.h"
#include "device/table.h"

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

// Draws whose parameters differ from element to element.
enum class SamplingFn : uint8_t { Gamma, Poisson, Binomial };

struct RandomLoops {
  // Any dtype with arithmetic and any layout; computed in float64 for float64 tensors, else in
  // float32.
  void (*fill)(RandomFn, const Tensor& out, RandomCall, double a, double b) = nullptr;
  // Integers in [from, from + range); range 0 stands for 2^64.
  void (*fill_int)(const Tensor& out, RandomCall, int64_t from, uint64_t range) = nullptr;

  // out[i] drawn with parameters a[i] (and b[i], for Binomial; else b is undefined). All are
  // contiguous float64 tensors.
  void (*sample)(SamplingFn, const Tensor& a, const Tensor& b, const Tensor& out,
                 RandomCall) = nullptr;
  // The derivative of gamma draws x by their shapes a.
  void (*gamma_derivative)(const Tensor& a, const Tensor& x, const Tensor& out) = nullptr;

  // The order of random numbers (a contiguous vector, int64), smallest first, in place of them:
  // keys[i] becomes the place of the i-th smallest. Of a key only the bits above those that a place
  // needs count; equal ones stay in order. Null: sort them.
  void (*permutation)(const Tensor& keys) = nullptr;
};
extern DeviceTable<RandomLoops> random_loops;

}  // namespace rush
