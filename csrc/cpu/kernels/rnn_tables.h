// rnn_tables.h: the loops of recurrent layers: products with packed weights, and the cells' gates.
//
// All numbers called *_row are distances between rows, in elements.
#pragma once

#include <cstdint>

#include "cpu/kernels/tables.h"
#include "functors/rnn.h"

namespace rush {

// c (+)= a @ panel, for some panels in a row. A panel holds, for each k, `vectors` vectors (1 or 2)
// of neighbouring columns; c gets whole vectors.
template <class T>
struct PanelProduct {
  int64_t rows, depth;
  const T* a;
  int64_t a_row;
  const T* panels;
  int64_t count, vectors;
  T* c;
  int64_t c_row, c_panel;
  bool accumulate;
};

// One step of a cell for some rows and units.
template <class T>
struct CellForward {
  int64_t rows, units;
  const T* sums;  // without biases; the GRU's new gate: of the input only
  int64_t sums_row, sums_gate;
  const T* state_sums;  // GRU: of the state, for the new gate
  int64_t state_sums_row;
  const T* bias;  // by gate, `gate` apart; GRU: a fourth one goes with state_sums
  int64_t gate;
  const T* h_before;  // GRU
  int64_t h_before_row;
  T* c;  // LSTM: in and out
  int64_t c_row;
  T* h;
  int64_t h_row;
  T* out;  // the same again, for the caller
  int64_t out_row;
  T* kept;  // gates, `gate` apart: LSTM i f g o, GRU r z n q; null: nothing is kept
  int64_t kept_row;
  T* cells;  // LSTM: c, kept
  int64_t cells_row;
};

// The same step backwards.
template <class T>
struct CellBackward {
  int64_t rows, units;
  const T* flow;  // the gradient of h that comes through the weights of the next step
  int64_t flow_row;
  const T* grad;  // the gradient of the output at this step
  int64_t grad_row;
  T* carry;  // the gradient of h that comes past the weights; in and out
  int64_t carry_row;
  const T* kept;  // as above; tanh and relu: the output
  int64_t kept_row, gate;
  const T* before;  // LSTM: c, GRU: h before the step
  int64_t before_row;
  const T* c;  // LSTM
  int64_t c_row;
  T* c_grad;  // LSTM: in and out
  int64_t c_grad_row;
  T* sums_grad;  // `gate` apart: LSTM i f g o, GRU r z q n
  int64_t sums_grad_row;
};

template <class T>
struct RnnTable {
  int64_t lanes;  // of a vector
  void (*product)(const PanelProduct<T>& p);
  // One panel from a matrix: `units` columns, filled up with zeros to `width`.
  void (*pack)(int64_t units, int64_t depth, const T* from, int64_t unit_stride,
               int64_t depth_stride, int64_t width, T* to);
  void (*forward[4])(const CellForward<T>& cell);  // by mode
  void (*backward[4])(const CellBackward<T>& cell);
};

template <Isa isa, class T>
const RnnTable<T>* rnn_table();

}  // namespace rush
