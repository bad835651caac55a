// lstm.h: LSTMs step by step: a product and a kernel for each. See lstm.cpp.
#pragma once

#include "device/nn/rnn.h"

namespace rush::cuda {

bool lstm_takes(const RnnNetwork& n);
int64_t lstm_reserve(const RnnNetwork& n);
void lstm_forward(const RnnNetwork& n, const RnnNetworkTensors& t);
void lstm_backward(const RnnNetwork& n, const RnnNetworkTensors& t, const RnnNetworkGrads& g);

}  // namespace rush::cuda
