// activation.h: the neural-network activations and their fused backward forms.
//
// `selects`: the result is an argument or a constant, picked by comparing. Which one is known from
// whatever has the same bits as the arguments: device/deferred_origins.cpp asks.
//
// A backward functor takes the gradient first, then what forward saved (its input x or its
// output y), and returns the input's gradient. All are for float and double.
#pragma once

#include "ternary.h"

namespace rush::functors {

struct Relu {  // nan stays nan
  static constexpr bool selects = true;
  template <class T>
  RUSH_FN T operator()(T x) const {
    return x < T(0) ? T(0) : x;
  }
};
struct Relu6 {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return Clamp<T>{T(0), T(6)}(x);
  }
};
template <class T>
struct Threshold {
  T threshold, value;
  RUSH_FN T operator()(T x) const { return x <= threshold ? value : x; }
};
template <class T>
struct ThresholdBackward {  // relu: threshold 0, x may be the output
  static constexpr bool selects = true;
  T threshold;
  RUSH_FN T operator()(T g, T x) const { return x <= threshold ? T(0) : g; }
};
template <class T>
struct Hardtanh {
  static constexpr bool selects = true;
  T lo, hi;
  RUSH_FN T operator()(T x) const { return Clamp<T>{lo, hi}(x); }
};
template <class T>
struct HardtanhBackward {
  static constexpr bool selects = true;
  T lo, hi;
  RUSH_FN T operator()(T g, T x) const { return (x <= lo) | (x >= hi) ? T(0) : g; }
};
template <class T>
struct LeakyRelu {
  T slope;
  RUSH_FN T operator()(T x) const { return x > T(0) ? x : x * slope; }
};
template <class T>
struct LeakyReluBackward {
  T slope;
  RUSH_FN T operator()(T g, T x) const { return x > T(0) ? g : g * slope; }
};

struct SigmoidBackward {
  template <class T>
  RUSH_FN T operator()(T g, T y) const {
    if constexpr (is_complex_v<T>)
      return g * math::conj((T(1) - y) * y);
    else
      return g * ((T(1) - y) * y);
  }
};
struct TanhBackward {
  template <class T>
  RUSH_FN T operator()(T g, T y) const {
    if constexpr (is_complex_v<T>)
      return g * math::conj(T(1) - y * y);
    else
      return g * (T(1) - y * y);
  }
};
template <class T>
struct LogitBackward {  // eps < 0: no clamping
  T eps;
  RUSH_FN T operator()(T g, T x) const {
    const T d = g / (x * (T(1) - x));
    const bool outside = x < eps || x > T(1) - eps;
    const bool invalid = x < T(0) || x > T(1);
    return eps < T(0) ? (invalid ? limits<T>::nan : d) : (outside ? T(0) : d);
  }
};
struct LogSigmoid {  // min(x, 0) - log(1 + e^-|x|)
  template <class T>
  RUSH_FN T operator()(T x) const {
    return (x > T(0) ? T(0) : x) - math::log1p(math::exp_below_one(-math::fabs(x)));
  }
  RUSH_FN float coarse(float x) const { return (x > 0.0f ? 0.0f : x) - coarse::softplus_tail(x); }
};
struct LogSigmoidBackward {
  template <class T>
  RUSH_FN T operator()(T g, T x) const {
    return g * math::sigmoid(-x);
  }
  RUSH_FN float coarse(float g, float x) const { return g * coarse::sigmoid(-x); }
};
struct Silu {
  template <class T>
  RUSH_FN T operator()(T x) const {
    if constexpr (is_complex_v<T>)
      return x * math::sigmoid(x);
    else
      return math::silu(x);
  }
  RUSH_FN float coarse(float x) const { return x * coarse::sigmoid(x); }
};
struct SiluBackward {
  template <class T>
  RUSH_FN T operator()(T g, T x) const {
    const T e = math::exp_negative(-math::fabs(x));
    const T s = (x >= T(0) ? T(1) : e) / (T(1) + e);
    return g * s * (T(1) + x * (T(1) - s));
  }
  RUSH_FN float coarse(float g, float x) const {
    const float s = coarse::sigmoid(x);
    return g * s * (1.0f + x * (1.0f - s));
  }
};
struct Glu {
  template <class T>
  RUSH_FN T operator()(T x, T gate) const {
    const T e = math::exp_negative(-math::fabs(gate));
    return (gate >= T(0) ? x : x * e) / (T(1) + e);
  }
};
struct Prelu {
  template <class T>
  RUSH_FN T operator()(T x, T weight) const {
    return x > T(0) ? x : x * weight;
  }
};
template <class T>
struct Softplus {
  T beta, threshold;
  RUSH_FN T operator()(T x) const {
    const T b = x * beta;
    // max(b, 0) + log1p(e^-|b|): no overflow, and exact far below zero
    const T y = ((b > T(0) ? b : T(0)) + math::log1p(math::exp_below_one(-math::fabs(b)))) / beta;
    return b > threshold || math::isnan(x) ? x : y;
  }
  RUSH_FN float coarse(float x) const {
    const float b = x * float(beta), top = math::max_of(b, 0.0f);
    const float y = math::quick_divide(top + coarse::softplus_tail(b), float(beta));
    return b > float(threshold) || math::isnan(x) ? x : y;
  }
};
template <class T>
struct SoftplusBackward {
  T beta, threshold;
  RUSH_FN T operator()(T g, T x) const {
    const T b = x * beta;
    return b > threshold ? g : g * math::sigmoid(b);
  }
  RUSH_FN float coarse(float g, float x) const {
    return x * float(beta) > float(threshold) ? g : g * coarse::sigmoid(x * float(beta));
  }
};
// tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2); past 20 it is 1 in float and double.
template <class T>
RUSH_FN T tanh_softplus(T x) {
  const T e = math::exp(x > T(20) ? T(20) : x), n = e * (e + T(2));
  return n / (n + T(2));
}
struct Mish {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return x * tanh_softplus(x);
  }
  RUSH_FN float coarse(float x) const { return x * coarse::tanh_softplus(x).value; }
};
struct MishBackward {
  template <class T>
  RUSH_FN T operator()(T g, T x) const {
    const T t = tanh_softplus(x), s = math::sigmoid(x);
    return g * (t + x * s * (T(1) - t * t));
  }
  RUSH_FN float coarse(float g, float x) const {
    const coarse::TanhSoftplus t = coarse::tanh_softplus(x);
    return g * (t.value + x * coarse::sigmoid(x) * t.below_one * (2.0f - t.below_one));
  }
};

struct Gelu {  // x Phi(x), exact in the left tail too
  template <class T>
  RUSH_FN T operator()(T x) const {
    return x * math::normal(x).below;
  }
  RUSH_FN float coarse(float x) const { return x * coarse::normal(x).below; }
};
struct GeluBackward {
  template <class T>
  RUSH_FN T operator()(T g, T x) const {
    const auto n = math::normal(x);
    return g * (n.below + x * n.density);
  }
  RUSH_FN float coarse(float g, float x) const {
    const coarse::Normal n = coarse::normal(x);
    return g * (n.below + x * n.bell * 0.39894228f);  // 1 / sqrt(2 pi)
  }
};
struct GeluTanh {
  template <class T>
  RUSH_FN T operator()(T x) const {
    const T inner = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);  // sqrt(2 / pi)
    return T(0.5) * x * (T(1) + math::tanh(inner));
  }
  // (1 + tanh(u)) / 2 is sigmoid(2 u), which is as exact far below zero.
  RUSH_FN float coarse(float x) const {
    return x * coarse::sigmoid(1.5957691f * (x + 0.044715f * x * x * x));
  }
};
struct GeluTanhBackward {
  template <class T>
  RUSH_FN T operator()(T g, T x) const {
    const T k = T(0.79788456080286535588), c = T(0.044715), q = x * x;
    const T t = math::tanh(k * (x + c * x * q));
    const T left = T(0.5) * (T(1) + t);
    const T right = T(0.5) * x * (T(1) - t * t) * k * (T(1) + T(3) * c * q);
    return g * (left + right);
  }
  RUSH_FN float coarse(float g, float x) const {
    const float q = x * x, s = coarse::sigmoid(1.5957691f * (x + 0.044715f * x * q));
    return g * (s + x * s * (1.0f - s) * (1.5957691f + 0.21406829f * q));
  }
};

// scale (max(0, x) + alpha expm1(min(0, x) input_scale)); selu and celu are special cases.
template <class T>
struct Elu {
  T alpha, scale, input_scale;
  RUSH_FN T operator()(T x) const {
    return x > T(0) ? x * scale : math::expm1(x * input_scale) * (alpha * scale);
  }
};
template <class T>
struct EluBackward {
  T alpha, scale, input_scale;
  RUSH_FN T operator()(T g, T x) const {
    const T slope = alpha * scale * input_scale * math::exp(x * input_scale);
    return x > T(0) ? g * scale : g * slope;
  }
};
struct Selu {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return Elu<T>{T(1.6732632423543772848), T(1.0507009873554804934), T(1)}(x);
  }
};
template <class T>
struct Celu {
  T alpha;
  RUSH_FN T operator()(T x) const { return Elu<T>{alpha, T(1), T(1) / alpha}(x); }
};

struct Hardsigmoid {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return Clamp<T>{T(0), T(6)}(x + T(3)) / T(6);
  }
};
struct HardsigmoidBackward {
  template <class T>
  RUSH_FN T operator()(T g, T x) const {
    return x > T(-3) && x < T(3) ? g / T(6) : T(0);
  }
};
struct Hardswish {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return x * Clamp<T>{T(0), T(6)}(x + T(3)) / T(6);
  }
  RUSH_FN float coarse(float x) const {
    return x * (Clamp<float>{0.0f, 6.0f}(x + 3.0f) * (1.0f / 6.0f));
  }
};
struct HardswishBackward {
  template <class T>
  RUSH_FN T operator()(T g, T x) const {
    const T inside = g * (x / T(3) + T(0.5));
    return x <= T(-3) ? T(0) : (x < T(3) ? inside : g);
  }
  RUSH_FN float coarse(float g, float x) const {
    const float inside = g * (x * (1.0f / 3.0f) + 0.5f);
    return x <= -3.0f ? 0.0f : (x < 3.0f ? inside : g);
  }
};
struct Softsign {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return x / (T(1) + math::fabs(x));
  }
};
struct Tanhshrink {
  template <class T>
  RUSH_FN T operator()(T x) const {
    return x - math::tanh(x);
  }
};
template <class T>
struct Softshrink {
  T lambda;
  RUSH_FN T operator()(T x) const {
    const T y = x > lambda ? x - lambda : (x < -lambda ? x + lambda : T(0));
    return math::isnan(x) ? x : y;
  }
};
template <class T>
struct Hardshrink {
  T lambda;
  RUSH_FN T operator()(T x) const { return x >= -lambda && x <= lambda ? T(0) : x; }
};
template <class T>
struct ShrinkBackward {  // of both shrinks
  T lambda;
  RUSH_FN T operator()(T g, T x) const { return x >= -lambda && x <= lambda ? T(0) : g; }
};

}  // namespace rush::functors
