// rnn.cu: what recurrent networks need beside their matrix products.
//
// - Pieces: many stretches of memory copied in one launch, one a row of blocks.
// - Cells: the gates of one step. T is the type in memory, A the one to compute in; sums (batch,
//   gates * units), kept (batch, 4 * units) in A. A thread takes one unit of one sample at a time.
#include "cuda/kernels/element.h"
#include "functors/unary.h"

namespace rush {

template <class W>
__global__ void __launch_bounds__(kThreads) move_pieces(PiecesArgs args) {
  after_earlier();
  const W* from = typed<W>(args.from[blockIdx.y]);
  W* to = typed<W>(args.to[blockIdx.y]);
  const i64 n = args.count[blockIdx.y];
  for (i64 i = thread_number(); i < n; i += thread_count()) to[i] = from[i];
}

// ---- cells ----

template <class A>
RUSH_FN A gate_sigmoid(A x) {
  return A(1) / (A(1) + math::exp(-x));
}

// Calls f(i, row, unit) for the elements of (rows, units) that are this thread's; I counts them.
template <class I, class F>
RUSH_FN void each_unit(i64 rows, i64 columns, F f) {
  const I units = I(columns), n = I(rows) * units;
  for (I i = I(thread_number()); i < n; i += I(thread_count())) {
    const I row = i / units;
    f(i, row, i - row * units);
  }
}

template <class T, class A>
RUSH_FN A at_or_zero(const void* p, i64 i) {
  return p ? A(typed<T>(p)[i]) : A(0);
}

template <class T, class A>
__global__ void __launch_bounds__(kThreads) lstm_cell(CellArgs args) {
  after_earlier();
  const i64 units = args.units;
  each_unit<i64>(args.batch, units, [&](i64 i, i64 row, i64 unit) {
    A gate[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const i64 at = row * 4 * units + k * units + unit, bias = k * units + unit;
      const A sum = A(typed<T>(args.input_sums)[at]) + A(typed<T>(args.state_sums)[at]) +
                    at_or_zero<T, A>(args.b_input, bias) + at_or_zero<T, A>(args.b_state, bias);
      gate[k] = k == 2 ? math::tanh(sum) : gate_sigmoid(sum);
      if (args.kept) typed<A>(args.kept)[at] = gate[k];
    }
    const A c = gate[1] * A(typed<T>(args.before)[i]) + gate[0] * gate[2];
    typed<T>(args.c)[i] = T(c);
    typed<T>(args.h)[i] = T(gate[3] * math::tanh(c));
  });
}

template <class T, class A>
__global__ void __launch_bounds__(kThreads) lstm_cell_backward(CellArgs args) {
  after_earlier();
  const i64 units = args.units;
  each_unit<i64>(args.batch, units, [&](i64 i, i64 row, i64 unit) {
    const i64 first = row * 4 * units + unit;
    const A* kept = typed<A>(args.kept) + first;
    const A in = kept[0], forget = kept[units], fresh = kept[2 * units], out = kept[3 * units];
    const A gh = at_or_zero<T, A>(args.h_grad, i);
    const A squashed = math::tanh(A(typed<T>(args.c)[i]));
    const A gc = at_or_zero<T, A>(args.c_grad, i) + gh * out * (A(1) - squashed * squashed);
    T* to = typed<T>(args.input_sums_grad) + first;
    to[0] = T(gc * fresh * in * (A(1) - in));
    to[units] = T(gc * A(typed<T>(args.before)[i]) * forget * (A(1) - forget));
    to[2 * units] = T(gc * in * (A(1) - fresh * fresh));
    to[3 * units] = T(gh * squashed * out * (A(1) - out));
    if (args.before_grad) typed<T>(args.before_grad)[i] = T(gc * forget);
  });
}

template <class T, class A>
__global__ void __launch_bounds__(kThreads) gru_cell(CellArgs args) {
  after_earlier();
  const i64 units = args.units;
  each_unit<i64>(args.batch, units, [&](i64 i, i64 row, i64 unit) {
    A in[3], state[3];
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      const i64 at = row * 3 * units + k * units + unit, bias = k * units + unit;
      in[k] = A(typed<T>(args.input_sums)[at]) + at_or_zero<T, A>(args.b_input, bias);
      state[k] = A(typed<T>(args.state_sums)[at]) + at_or_zero<T, A>(args.b_state, bias);
    }
    const A reset = gate_sigmoid(in[0] + state[0]), update = gate_sigmoid(in[1] + state[1]);
    const A fresh = math::tanh(in[2] + reset * state[2]);
    typed<T>(args.h)[i] = T(fresh + update * (A(typed<T>(args.before)[i]) - fresh));
    if (!args.kept) return;
    A* kept = typed<A>(args.kept) + row * 4 * units + unit;
    kept[0] = reset, kept[units] = update, kept[2 * units] = fresh, kept[3 * units] = state[2];
  });
}

template <class T, class A>
__global__ void __launch_bounds__(kThreads) gru_cell_backward(CellArgs args) {
  after_earlier();
  const i64 units = args.units;
  each_unit<i64>(args.batch, units, [&](i64 i, i64 row, i64 unit) {
    const A* kept = typed<A>(args.kept) + row * 4 * units + unit;
    const A reset = kept[0], update = kept[units], fresh = kept[2 * units], sum = kept[3 * units];
    const A g = at_or_zero<T, A>(args.h_grad, i);
    const A g_fresh = g * (A(1) - update) * (A(1) - fresh * fresh);
    const A g_reset = g_fresh * sum * reset * (A(1) - reset);
    const A g_update = g * (A(typed<T>(args.before)[i]) - fresh) * update * (A(1) - update);
    T* to_in = typed<T>(args.input_sums_grad) + row * 3 * units + unit;
    T* to_state = typed<T>(args.state_sums_grad) + row * 3 * units + unit;
    to_in[0] = to_state[0] = T(g_reset);
    to_in[units] = to_state[units] = T(g_update);
    to_in[2 * units] = T(g_fresh);
    to_state[2 * units] = T(g_fresh * reset);
    if (args.before_grad) typed<T>(args.before_grad)[i] = T(g * update);
  });
}

// ---- sequences: the host sees to it that 32 bits are enough ----

template <class T>
__global__ void __launch_bounds__(kThreads) lstm_step(LstmStepArgs args) {
  after_earlier();
  const u32 units = u32(args.units);
  each_unit<u32>(args.rows, units, [&](u32 i, u32 row, u32 unit) {
    T* sums = typed<T>(args.sums) + row * 4 * units + unit;
    T gate[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const i64 bias = k * units + unit;
      const T sum = sums[k * units] + at_or_zero<T, T>(args.b_input, bias) +
                    at_or_zero<T, T>(args.b_state, bias);
      gate[k] = k == 2 ? math::tanh(sum) : gate_sigmoid(sum);
    }
    const T before = typed<T>(args.c)[i];
    const T c = gate[1] * before + gate[0] * gate[2], h = gate[3] * math::tanh(c);
    if (args.kept_c) {
#pragma unroll
      for (int k = 0; k < 4; ++k) sums[k * units] = gate[k];
      typed<T>(args.kept_c)[i] = before;
      typed<T>(args.kept_h)[i] = typed<T>(args.h)[i];
    }
    typed<T>(args.c)[i] = c;
    typed<T>(args.h)[i] = h;
    typed<T>(args.out)[row * args.out_step + unit] = h;
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads) lstm_step_backward(LstmStepGradArgs args) {
  after_earlier();
  const u32 units = u32(args.units);
  each_unit<u32>(args.rows, units, [&](u32 i, u32 row, u32 unit) {
    T* gates = typed<T>(args.gates) + row * 4 * units + unit;
    const T in = gates[0], forget = gates[units], fresh = gates[2 * units], out = gates[3 * units];
    const T before = typed<T>(args.kept_c)[i];
    const T squashed = math::tanh(forget * before + in * fresh);
    const T gh =
        typed<T>(args.h_grad)[i] + at_or_zero<T, T>(args.out_grad, row * args.out_step + unit);
    const T gc = typed<T>(args.c_grad)[i] + gh * out * (T(1) - squashed * squashed);
    gates[0] = gc * fresh * in * (T(1) - in);
    gates[units] = gc * before * forget * (T(1) - forget);
    gates[2 * units] = gc * in * (T(1) - fresh * fresh);
    gates[3 * units] = gh * squashed * out * (T(1) - out);
    typed<T>(args.c_grad)[i] = gc * forget;
  });
}

}  // namespace rush
