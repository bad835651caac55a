// rnn.h: one direction of one recurrent layer over whole sequences, forward and backward.
//
// Note [Rows of a packed batch]
// A batch of sequences is a matrix: first the rows of all sequences at time 0, then those at time
// 1, and so on. Sequences come longest first, so the sequences that are still going on at a time
// are the first batch_sizes[time] ones. A batch without packing has the same size at every time.
#pragma once

#include <algorithm>
#include <vector>

#include "core/tensor.h"
#include "cpu/kernels/rnn_tables.h"

namespace rush {

// Steps in the order in which forward takes them.
struct RUSH_API RnnSteps {
  std::vector<int64_t> active, first;  // sequences at a step, and the row of the first of them

  RnnSteps(IntList batch_sizes, bool reverse);
  int64_t count() const { return int64_t(active.size()); }
  // Of the sequences from `begin` to `end`: how many at step s; none before and after all steps.
  int64_t active_in(int64_t s, int64_t begin, int64_t end) const {
    if (s < 0 || s >= count()) return 0;
    return std::clamp<int64_t>(active[size_t(s)] - begin, 0, end - begin);
  }
};

// All tensors are contiguous and of one type, float32 or float64; those in [] may be undefined.
struct RnnLayer {
  RnnMode mode;
  IntList batch_sizes;                        // by time
  bool reverse;                               // from the last time to the first
  Tensor input;                               // (rows, input size)
  Tensor h, c;                                // [the states before the first step]: (batch, size)
  Tensor w_input, w_state, b_input, b_state;  // [biases]
  Tensor w_project;                           // [LSTM: from hidden units to outputs]

  int64_t batch() const { return batch_sizes[0]; }
  int64_t rows() const { return input.sizes()[0]; }
  int64_t input_size() const { return input.sizes()[1]; }
  int64_t hidden() const { return w_state.sizes()[0] / rnn_gates(mode); }
  int64_t outputs() const { return w_state.sizes()[1]; }
};

// What a forward pass keeps for the backward one, by row: gates (see CellForward), the LSTM's
// cells, and its hidden units before they are projected. Undefined or empty: not kept.
struct RnnKept {
  Tensor gates, cells, unprojected;
};

// output (rows, outputs), and the states after the last step: last_h, last_c (batch, size).
RUSH_API void rnn_forward_cpu(const RnnLayer& layer, const Tensor& output, const Tensor& last_h,
                              const Tensor& last_c, const RnnKept& kept);

// Gradients that are undefined are not wanted (on the way out) or zero (on the way in).
struct RnnGrads {
  Tensor output, last_h, last_c;
};
struct RnnInputGrads {
  Tensor input, h, c, w_input, w_state, b_input, b_state, w_project;
};
RUSH_API void rnn_backward_cpu(const RnnLayer& layer, const Tensor& output, const RnnKept& kept,
                               const RnnGrads& grads, const RnnInputGrads& out);

}  // namespace rush
