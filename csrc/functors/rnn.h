// rnn.h: one unit of a recurrent cell: what its gates make of the sums, and how gradients go back.
//
// Sums are weight times input plus weight times state plus biases. Gradients of an activation are
// written over its result, which is what a forward pass keeps.
#pragma once

#include "math.h"

namespace rush::functors {

// A sigmoid for gates. Cells spend most of their time outside products in it, so it leaves out what
// gates do not need: below -88 (float) it stays at 1e-38 instead of going on to denormals.
template <class T>
RUSH_FN T gate(T x) {
#ifdef RUSH_DEVICE
  return T(1) / (T(1) + math::exp(-x));
#else
  constexpr T low = is_same<T, float> ? T(-87) : T(-708), high = is_same<T, float> ? T(88) : T(709);
  const T y = math::clamp_keep_nan(-x, low, high);
  const T n = math::round_small(y * math::log2_e<T>);
  const T r = math::fma(-n, math::ln2_lo<T>, math::fma(-n, math::ln2_hi<T>, y));
  const T e = (math::fma(r * r, math::exp_tail(r), r) + T(1)) * math::pow2_normal(n);
  return T(1) / (T(1) + e);
#endif
}

template <class T>
RUSH_FN T sigmoid_slope(T y) {
  return y * (T(1) - y);
}
template <class T>
RUSH_FN T tanh_slope(T y) {
  return T(1) - y * y;
}

// i, f, g, o: input, forget, cell and output gate, before their activations on the way in.
template <class T>
struct LstmUnit {
  T i, f, g, o, c, h;
};
template <class T>
RUSH_FN LstmUnit<T> lstm_unit(T i, T f, T g, T o, T c_before) {
  const T in = gate(i), forget = gate(f), cell = math::tanh(g);
  const T out = gate(o), c = forget * c_before + in * cell;
  return {in, forget, cell, out, c, out * math::tanh(c)};
}

// Gradients of the four sums, and of the cell's state before this step.
template <class T>
struct LstmGrads {
  T i, f, g, o, c_before;
};
template <class T>
RUSH_FN LstmGrads<T> lstm_grads(T i, T f, T g, T o, T c_before, T c, T h_grad, T c_grad) {
  const T t = math::tanh(c), dc = c_grad + h_grad * o * tanh_slope(t);
  return {dc * g * sigmoid_slope(i), dc * c_before * sigmoid_slope(f), dc * i * tanh_slope(g),
          h_grad * t * sigmoid_slope(o), dc * f};
}

// r, z: reset and update gate; n: the input's part of the new gate, q: the state's part of it.
template <class T>
struct GruUnit {
  T r, z, n, h;
};
template <class T>
RUSH_FN GruUnit<T> gru_unit(T r, T z, T n, T q, T h_before) {
  const T reset = gate(r), update = gate(z), fresh = math::tanh(n + reset * q);
  return {reset, update, fresh, fresh + update * (h_before - fresh)};
}

// h_before: its gradient past the gates, that is by the update gate alone.
template <class T>
struct GruGrads {
  T r, z, q, n, h_before;
};
template <class T>
RUSH_FN GruGrads<T> gru_grads(T r, T z, T n, T q, T h_before, T h_grad) {
  const T dn = h_grad * (T(1) - z) * tanh_slope(n);
  return {dn * q * sigmoid_slope(r), h_grad * (h_before - n) * sigmoid_slope(z), dn * r, dn,
          h_grad * z};
}

}  // namespace rush::functors
