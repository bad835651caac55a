// rnn.h: one unit of a recurrent cell: what its gates make of the sums, and how gradients go back.
//
// Sums are weight times input plus weight times state plus biases. Gradients of an activation are
// written over its result, which is what a forward pass keeps.
#pragma once

#include "math.h"

namespace rush {

enum class RnnMode : u8 { Tanh, Relu, Lstm, Gru };

// How many gates a cell's weights hold, and how many numbers a unit keeps for backward.
RUSH_FN constexpr i64 rnn_gates(RnnMode mode) {
  return mode == RnnMode::Lstm ? 4 : mode == RnnMode::Gru ? 3 : 1;
}
RUSH_FN constexpr i64 rnn_kept(RnnMode mode) {
  return mode == RnnMode::Lstm || mode == RnnMode::Gru ? 4 : 0;
}

}  // namespace rush

namespace rush::functors {

// Cells spend most of their time outside products in activations. This is a fraction of two
// polynomials, fitted for the least relative error and right to 3 units in the last place: an
// LSTM's gates take 2.3 ns a unit with it, and 2.9 with math::tanh (Zen 4, AVX-512).
RUSH_FN float cell_tanh(float x0) {
#ifdef RUSH_DEVICE
  return math::tanh(x0);
#else
  const float x = math::clamp_keep_nan(x0, -9.0f, 9.0f), z = x * x;
  const float p =
      math::poly(z, 1.0f, 0x1.120b1ap-3f, 0x1.ca2c6ap-9f, 0x1.59c336p-16f, 0x1.cadc86p-27f);
  const float q =
      math::poly(z, 1.0f, 0x1.de5ad6p-2f, 0x1.a7f7e6p-6f, 0x1.588602p-12f, 0x1.a17ffcp-21f);
  return math::clamp_keep_nan(x * p / q, -1.0f, 1.0f);
#endif
}
RUSH_FN double cell_tanh(double x) { return math::tanh(x); }

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
  const T in = math::sigmoid(i), forget = math::sigmoid(f), cell = cell_tanh(g);
  const T out = math::sigmoid(o), c = forget * c_before + in * cell;
  return {in, forget, cell, out, c, out * cell_tanh(c)};
}

// Gradients of the four sums, and of the cell's state before this step.
template <class T>
struct LstmGrads {
  T i, f, g, o, c_before;
};
template <class T>
RUSH_FN LstmGrads<T> lstm_grads(T i, T f, T g, T o, T c_before, T c, T h_grad, T c_grad) {
  const T t = cell_tanh(c), dc = c_grad + h_grad * o * tanh_slope(t);
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
  const T reset = math::sigmoid(r), update = math::sigmoid(z), fresh = cell_tanh(n + reset * q);
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
