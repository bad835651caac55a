// rnn.h: recurrent layers, networks and cells on a device.
//
// A device runs single layers, or whole networks and cells; what is null in its table, or refused
// by `network_takes`, is composed of other ops.
//
// Note [Rows of a packed batch]
// A batch of sequences is a matrix: first the rows of all sequences at time 0, then those at time
// 1, and so on. Sequences come longest first, so the sequences that are still going on at a time
// are the first batch_sizes[time] ones. A batch without packing has the same size at every time.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "device/table.h"
#include "functors/rnn.h"

namespace rush {

// Steps in the order in which forward takes them.
struct RnnSteps {
  std::vector<int64_t> active, first;  // sequences at a step, and the row of the first of them

  RnnSteps(IntList batch_sizes, bool reverse);
  int64_t count() const { return int64_t(active.size()); }
  // Of the sequences from `begin` to `end`: how many at step s; none before and after all steps.
  int64_t active_in(int64_t s, int64_t begin, int64_t end) const {
    if (s < 0 || s >= count()) return 0;
    return std::clamp<int64_t>(active[size_t(s)] - begin, 0, end - begin);
  }
};

// ---- one direction of one layer ----

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

// What a forward pass keeps for the backward one, by row: the gates of each cell, the LSTM's
// cells, and its hidden units before they are projected. Undefined or empty: not kept.
struct RnnKept {
  Tensor gates, cells, unprojected;
};

// Gradients that are undefined are not wanted (on the way out) or zero (on the way in).
struct RnnGrads {
  Tensor output, last_h, last_c;
};
struct RnnInputGrads {
  Tensor input, h, c, w_input, w_state, b_input, b_state, w_project;
};

// ---- whole networks ----

// All layers and directions of a recurrent network; no dropout between them.
struct RnnNetwork {
  RnnMode mode;
  IntList batch_sizes;  // by time
  bool has_biases, bidirectional, projects;
  int64_t layers, inputs, hidden, outputs;
  DType dtype;
  Device device;

  int64_t directions() const { return bidirectional ? 2 : 1; }
  int64_t params_each() const { return 2 + (has_biases ? 2 : 0) + (projects ? 1 : 0); }
};

// All contiguous. `params` for each layer and direction: w_ih, w_hh, [b_ih, b_hh], [w_hr].
struct RnnNetworkTensors {
  Tensor input, h, c;  // [h, c]: zeros when undefined
  std::span<const Tensor> params;
  Tensor output, last_h, last_c;
  Tensor reserve;  // what backward needs, in bytes; undefined or empty: no backward will come
};
// Undefined: not wanted (on the way out) or zero (on the way in).
struct RnnNetworkGrads {
  Tensor output, last_h, last_c;
  Tensor input, h, c;
  std::span<const Tensor> params;
};

// ---- one step of a cell ----

// Sums (batch, gates * units) of input and state, biases (gates * units). `kept` (batch, 4 *
// units), of the compute type, or undefined: LSTM i f g o, GRU r z n q.
struct CellTensors {
  Tensor input_sums, state_sums, b_input, b_state;
  Tensor before;  // LSTM: c, GRU: h
  Tensor h, c, kept;
};
struct CellGrads {
  Tensor h, c;                            // [either]
  Tensor input_sums, state_sums, before;  // LSTM: state_sums undefined, they are the same
};

struct RnnLoops {
  // output (rows, outputs), and the states after the last step: last_h, last_c (batch, size).
  void (*layer_forward)(const RnnLayer& layer, const Tensor& output, const Tensor& last_h,
                        const Tensor& last_c, const RnnKept& kept) = nullptr;
  void (*layer_backward)(const RnnLayer& layer, const Tensor& output, const RnnKept& kept,
                         const RnnGrads& grads, const RnnInputGrads& out) = nullptr;

  bool (*network_takes)(const RnnNetwork& network) = nullptr;
  int64_t (*network_reserve)(const RnnNetwork& network) = nullptr;  // bytes
  void (*network_forward)(const RnnNetwork& network, const RnnNetworkTensors& t) = nullptr;
  // Destroys the reserve.
  void (*network_backward)(const RnnNetwork& network, const RnnNetworkTensors& t,
                           const RnnNetworkGrads& g) = nullptr;

  void (*cell)(RnnMode mode, const CellTensors& t) = nullptr;
  void (*cell_backward)(RnnMode mode, const CellTensors& t, const CellGrads& g) = nullptr;
};
inline constinit DeviceTable<RnnLoops> rnn_loops;

}  // namespace rush
