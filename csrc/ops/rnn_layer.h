// rnn_layer.h: a recurrent layer written over ops, for derivatives that the fused passes lack.
#pragma once

#include <array>

#include "cpu/rnn.h"

namespace rush {

// The tensor arguments of _rnn_layer, in its order.
using RnnInputs = std::array<Tensor, 8>;
enum RnnInput : uint8_t { kInput, kH, kC, kWInput, kWState, kBInput, kBState, kWProject };

// output, h and c as _rnn_layer gives them, by ops for each step.
std::array<Tensor, 3> composed_rnn_layer(const RnnInputs& in, RnnMode mode, IntList batch_sizes,
                                         bool reverse);

}  // namespace rush
