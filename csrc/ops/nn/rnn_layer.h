// rnn_layer.h: recurrent networks written over ops, for derivatives that the fused passes lack.
#pragma once

#include <array>
#include <functional>

#include "device/nn/rnn.h"
#include "ops/framework/op.h"

namespace rush {

// The tensor arguments of _rnn_layer, in its order.
using RnnInputs = std::array<Tensor, 8>;
enum RnnInput : uint8_t { kInput, kH, kC, kWInput, kWState, kBInput, kBState, kWProject };

// output, h and c as _rnn_layer gives them, by ops for each step.
std::array<Tensor, 3> composed_rnn_layer(const RnnInputs& in, RnnMode mode, IntList batch_sizes,
                                         bool reverse);
// output, h and c as _rnn_network gives them; `in`: its tensors, params at the end.
std::vector<Tensor> composed_rnn_network(TensorList in, RnnMode mode, IntList batch_sizes,
                                         bool has_biases, int64_t layers, bool bidirectional);
// h and c (or h alone) as _lstm_gates and _gru_gates give them.
std::vector<Tensor> composed_cell(RnnMode mode, const Tensor& input_sums, const Tensor& state_sums,
                                  const Tensor& b_input, const Tensor& b_state,
                                  const Tensor& before);

// What the table of device/nn/rnn.h is asked about.
RnnNetwork rnn_network(const Tensor& x, TensorList params, RnnMode mode, IntList batch_sizes,
                       bool has_biases, int64_t layers, bool bidirectional);

// The gradients of f(in), with a graph where one is wanted. Each argument stands for itself alone:
// where one was computed from another, the derivative must not flow on through it.
Grads composed_grads(const Ctx& c, GradSpan grads, std::vector<Tensor> in,
                     const std::function<std::vector<Tensor>(TensorList)>& f);

}  // namespace rush
