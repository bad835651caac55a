// sequence.h: recurrent layers and attention on a device that has its own way to run them.
//
// A device fills one table (DeviceLoops::sequences); what is null in it, or refused by a `takes`,
// is composed of other ops.
#pragma once

#include <span>

#include "core/tensor.h"
#include "cpu/nn/attention.h"
#include "cpu/nn/rnn.h"

namespace rush {

// All layers and directions of a recurrent network; no dropout between them. Rows as in
// Note [Rows of a packed batch].
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

// One step of a cell: sums (batch, gates * units) of input and state, biases (gates * units).
// `kept` (batch, 4 * units), of the compute type, or undefined: LSTM i f g o, GRU r z n q.
struct CellTensors {
  Tensor input_sums, state_sums, b_input, b_state;
  Tensor before;  // LSTM: c, GRU: h
  Tensor h, c, kept;
};
struct CellGrads {
  Tensor h, c;                            // [either]
  Tensor input_sums, state_sums, before;  // LSTM: state_sums undefined, they are the same
};

struct SequenceLoops {
  bool (*rnn_takes)(const RnnNetwork& network) = nullptr;
  int64_t (*rnn_reserve)(const RnnNetwork& network) = nullptr;  // bytes
  void (*rnn_forward)(const RnnNetwork& network, const RnnNetworkTensors& t) = nullptr;
  // Destroys the reserve.
  void (*rnn_backward)(const RnnNetwork& network, const RnnNetworkTensors& t,
                       const RnnNetworkGrads& g) = nullptr;
  void (*cell)(RnnMode mode, const CellTensors& t) = nullptr;
  void (*cell_backward)(RnnMode mode, const CellTensors& t, const CellGrads& g) = nullptr;
  // As cpu/nn/attention.h describes it.
  bool (*attention_takes)(DType dtype, int64_t width, int64_t value_width) = nullptr;
  decltype(&attention_cpu) attention = nullptr;
  decltype(&attention_backward_cpu) attention_backward = nullptr;
};

}  // namespace rush
