#include "frontend/nn/rnn.h"

#include <cmath>

#include "frontend/nn/init.h"
#include "ops/ops.h"

namespace rush::nn {
namespace {

void print(std::ostream& stream, const char* name, const RNNOptionsBase& o) {
  stream << "rush::nn::" << name << "(input_size=" << o.input_size()
         << ", hidden_size=" << o.hidden_size() << ", num_layers=" << o.num_layers()
         << ", bias=" << truth(o.bias()) << ", batch_first=" << truth(o.batch_first())
         << ", dropout=" << o.dropout() << ", bidirectional=" << truth(o.bidirectional()) << ')';
}

int batch_dim(const RNNOptionsBase& o) { return o.batch_first() ? 0 : 1; }

// States lack a batch where the input does.
Tensor state_with_batch(const Tensor& state, bool single) {
  return single && state.defined() ? unsqueeze(state, 1) : state;
}

}  // namespace

void RNNBase::make_parameters(Module& module, const RNNOptionsBase& o, int64_t gates,
                              int64_t proj_size) {
  check(o.input_size() > 0 && o.hidden_size() > 0 && o.num_layers() > 0, ErrorKind::Value, "RNN",
        "input_size, hidden_size and num_layers must be greater than zero, got ", o.input_size(),
        ", ", o.hidden_size(), " and ", o.num_layers());
  check(o.dropout() >= 0 && o.dropout() <= 1, ErrorKind::Value, "RNN",
        "dropout must be a probability between 0 and 1, got ", o.dropout());
  check(proj_size >= 0 && proj_size < o.hidden_size(), ErrorKind::Value, "RNN",
        "proj_size must be 0 or positive and smaller than hidden_size, got ", proj_size, " and ",
        o.hidden_size());
  weights_.clear();
  const int64_t outputs = proj_size ? proj_size : o.hidden_size();
  const int64_t directions = o.bidirectional() ? 2 : 1;
  const int64_t sums = gates * o.hidden_size();
  for (int64_t layer = 0; layer < o.num_layers(); ++layer) {
    const int64_t inputs = layer == 0 ? o.input_size() : outputs * directions;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const std::string suffix = concat("_l", layer, direction ? "_reverse" : "");
      const auto add = [&](const char* kind, const Dims& sizes) {
        weights_.push_back(
            module.register_parameter(kind + suffix, make_tensor(sizes, default_dtype())));
      };
      add("weight_ih", Dims{sums, inputs});
      add("weight_hh", Dims{sums, outputs});
      if (o.bias()) {
        add("bias_ih", Dims{sums});
        add("bias_hh", Dims{sums});
      }
      if (proj_size) add("weight_hr", Dims{outputs, o.hidden_size()});
    }
  }
  const double bound = 1 / std::sqrt(double(o.hidden_size()));
  for (const Tensor& weight : weights_) init::uniform_(weight, -bound, bound);
}

std::pair<Tensor, bool> RNNBase::batched(const Tensor& input, const RNNOptionsBase& o) {
  check_shape(input.dim() == 2 || input.dim() == 3, "RNN",
              "the input must have 3 dimensions, or 2 without a batch, got shape ", input.sizes());
  check_shape(input.size(-1) == o.input_size(), "RNN",
              "the last dim of the input must be input_size=", o.input_size(), ", got shape ",
              input.sizes());
  const bool single = input.dim() == 2;
  return {single ? unsqueeze(input, batch_dim(o)) : input, single};
}

RNNImpl::RNNImpl(const RNNOptions& o) : options(o) {
  check(o.nonlinearity() == "tanh" || o.nonlinearity() == "relu", ErrorKind::Value, "RNN",
        "nonlinearity must be 'tanh' or 'relu', got '", o.nonlinearity(), "'");
  RNNImpl::reset();
}
void RNNImpl::reset() { make_parameters(*this, options, 1, 0); }
void RNNImpl::pretty_print(std::ostream& stream) const { print(stream, "RNN", options); }
std::tuple<Tensor, Tensor> RNNImpl::forward(const Tensor& input, Tensor hx) {
  const auto& o = options;
  const auto [x, single] = batched(input, o);
  const auto call = [&](auto function) {
    return function(x, state_with_batch(hx, single), weights_, o.bias(), o.num_layers(),
                    o.dropout(), is_training(), o.bidirectional(), o.batch_first());
  };
  auto [y, h] = o.nonlinearity() == "tanh" ? call([](auto&&... a) { return rnn_tanh(a...); })
                                           : call([](auto&&... a) { return rnn_relu(a...); });
  if (!single) return {y, h};
  return {squeeze(y, Dims{batch_dim(o)}), squeeze(h, Dims{1})};
}

GRUImpl::GRUImpl(const GRUOptions& o) : options(o) { GRUImpl::reset(); }
void GRUImpl::reset() { make_parameters(*this, options, 3, 0); }
void GRUImpl::pretty_print(std::ostream& stream) const { print(stream, "GRU", options); }
std::tuple<Tensor, Tensor> GRUImpl::forward(const Tensor& input, Tensor hx) {
  const auto& o = options;
  const auto [x, single] = batched(input, o);
  auto [y, h] = gru(x, state_with_batch(hx, single), weights_, o.bias(), o.num_layers(),
                    o.dropout(), is_training(), o.bidirectional(), o.batch_first());
  if (!single) return {y, h};
  return {squeeze(y, Dims{batch_dim(o)}), squeeze(h, Dims{1})};
}

LSTMImpl::LSTMImpl(const LSTMOptions& o) : options(o) { LSTMImpl::reset(); }
void LSTMImpl::reset() { make_parameters(*this, options, 4, options.proj_size()); }
void LSTMImpl::pretty_print(std::ostream& stream) const { print(stream, "LSTM", options); }
std::tuple<Tensor, LSTMImpl::State> LSTMImpl::forward(const Tensor& input,
                                                      std::optional<State> hx) {
  const auto& o = options;
  const auto [x, single] = batched(input, o);
  std::vector<Tensor> states;
  if (hx)
    states = {state_with_batch(std::get<0>(*hx), single),
              state_with_batch(std::get<1>(*hx), single)};
  auto [y, h, c] = lstm(x, states, weights_, o.bias(), o.num_layers(), o.dropout(), is_training(),
                        o.bidirectional(), o.batch_first());
  if (!single) return {y, State{h, c}};
  return {squeeze(y, Dims{batch_dim(o)}), State{squeeze(h, Dims{1}), squeeze(c, Dims{1})}};
}

}  // namespace rush::nn
