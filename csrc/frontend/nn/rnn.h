// rnn.h: recurrent layers. Inputs are (length, batch, features), or (batch, length, features) with
// batch_first; without a batch they have one dim less.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "frontend/arg.h"
#include "frontend/nn/module.h"

namespace rush::nn {

struct RNNOptionsBase {
  RNNOptionsBase(int64_t input_size, int64_t hidden_size)
      : input_size_(input_size), hidden_size_(hidden_size) {}
  RUSH_ARG(int64_t, input_size);
  RUSH_ARG(int64_t, hidden_size);
  RUSH_ARG(int64_t, num_layers) = 1;
  RUSH_ARG(bool, bias) = true;
  RUSH_ARG(bool, batch_first) = false;
  RUSH_ARG(double, dropout) = 0;
  RUSH_ARG(bool, bidirectional) = false;
};

// What all three share; each setter returns the whole.
#define RUSH_RNN_OPTIONS(Name)                 \
  struct Name##Options : RNNOptionsBase {      \
    using RNNOptionsBase::RNNOptionsBase;      \
    RUSH_RNN_SETTER(Name, int64_t, num_layers) \
    RUSH_RNN_SETTER(Name, bool, bias)          \
    RUSH_RNN_SETTER(Name, bool, batch_first)   \
    RUSH_RNN_SETTER(Name, double, dropout)     \
    RUSH_RNN_SETTER(Name, bool, bidirectional)
#define RUSH_RNN_SETTER(Name, T, name) \
  using RNNOptionsBase::name;          \
  Name##Options& name(const T& v) {    \
    RNNOptionsBase::name(v);           \
    return *this;                      \
  }
RUSH_RNN_OPTIONS(RNN)
RUSH_ARG(std::string, nonlinearity) = "tanh";  // or "relu"
};
RUSH_RNN_OPTIONS(LSTM)
RUSH_ARG(int64_t, proj_size) = 0;
}
;
RUSH_RNN_OPTIONS(GRU)
}
;
#undef RUSH_RNN_SETTER
#undef RUSH_RNN_OPTIONS

// Parameters by layer and direction: weight_ih_l0, weight_hh_l0, bias_ih_l0, ..., weight_ih_l0_reverse.
class RUSH_API RNNBase {
 public:
  std::vector<Tensor> all_weights() const { return weights_; }

 protected:
  void make_parameters(Module& module, const RNNOptionsBase& options, int64_t gates,
                       int64_t proj_size);
  // The input with a batch; whether it had none.
  static std::pair<Tensor, bool> batched(const Tensor& input, const RNNOptionsBase& options);

  std::vector<Tensor> weights_;
};

class RUSH_API RNNImpl : public Cloneable<RNNImpl>, public RNNBase {
  RUSH_MODULE_MEMBERS(RNN);
  // The outputs of the last layer at all steps, and the last state of every layer.
  std::tuple<Tensor, Tensor> forward(const Tensor& input, Tensor hx = {});
};
RUSH_MODULE(RNN);

class RUSH_API GRUImpl : public Cloneable<GRUImpl>, public RNNBase {
  RUSH_MODULE_MEMBERS(GRU);
  std::tuple<Tensor, Tensor> forward(const Tensor& input, Tensor hx = {});
};
RUSH_MODULE(GRU);

class RUSH_API LSTMImpl : public Cloneable<LSTMImpl>, public RNNBase {
  RUSH_MODULE_MEMBERS(LSTM);
  using State = std::tuple<Tensor, Tensor>;
  std::tuple<Tensor, State> forward(const Tensor& input, std::optional<State> hx = std::nullopt);
};
RUSH_MODULE(LSTM);

}  // namespace rush::nn
