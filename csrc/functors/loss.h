// loss.h: losses of one input and one target, and their derivatives by the input.
#pragma once

#include "math.h"

namespace rush {

// The structs below. Their parameter is beta of smooth_l1, delta of huber.
enum class LossFn : u8 { L1, Mse, SmoothL1, Huber, BinaryLogits, Binary, kCount };

}  // namespace rush

namespace rush::losses {

template <class T>
RUSH_FN T magnitude(T d) {
  return d < 0 ? -d : d;
}
template <class T>
RUSH_FN T sign(T d) {  // NaN stays NaN
  return d > 0 ? T(1) : d < 0 ? T(-1) : d;
}

template <class T>
struct L1 {
  static RUSH_FN T value(T x, T t, T) { return magnitude(x - t); }
  static RUSH_FN T slope(T x, T t, T) { return sign(x - t); }
};
template <class T>
struct Mse {
  static RUSH_FN T value(T x, T t, T) { return (x - t) * (x - t); }
  static RUSH_FN T slope(T x, T t, T) { return T(2) * (x - t); }
};
template <class T>
struct SmoothL1 {
  static RUSH_FN T value(T x, T t, T beta) {
    const T d = magnitude(x - t);
    return d < beta ? T(0.5) * d * d / beta : d - T(0.5) * beta;
  }
  static RUSH_FN T slope(T x, T t, T beta) {
    const T d = x - t;
    return magnitude(d) < beta ? d / beta : sign(d);
  }
};
template <class T>
struct Huber {
  static RUSH_FN T value(T x, T t, T delta) {
    const T d = magnitude(x - t);
    return d < delta ? T(0.5) * d * d : delta * (d - T(0.5) * delta);
  }
  static RUSH_FN T slope(T x, T t, T delta) {
    const T d = x - t;
    return magnitude(d) < delta ? d : delta * sign(d);
  }
};
template <class T>
struct BinaryLogits {
  // -(t log sigmoid(x) + (1 - t) log sigmoid(-x)), without overflow.
  static RUSH_FN T value(T x, T t, T) {
    const T positive = x > 0 ? x : T(0);
    return (positive - x * t) + math::log1p(math::exp_below_one(-magnitude(x)));
  }
  static RUSH_FN T slope(T x, T t, T) { return math::sigmoid(x) - t; }
};

// Of a probability; logarithms are at least -100, and slopes at most 1e12 steep, as in PyTorch.
template <class T>
struct Binary {
  static RUSH_FN T floored(T log) { return log < T(-100) ? T(-100) : log; }
  static RUSH_FN T value(T x, T t, T) {
    return (t - T(1)) * floored(math::log1p(-x)) - t * floored(math::log(x));
  }
  static RUSH_FN T slope(T x, T t, T) {
    const T product = (T(1) - x) * x;
    return (x - t) / (product < T(1e-12) ? T(1e-12) : product);
  }
  static RUSH_FN bool is_valid(T x) { return x >= T(0) && x <= T(1); }
};

}  // namespace rush::losses
