// modules.cpp: modules, losses and optimisers, each from a seed; all tensors go into one file, which
// test_modules.py compares with Python's in every bit.
//
//   modules SAVE_AS
#include <rushlight/rushlight.h>

#include <cstdio>
#include <exception>
#include <string>

namespace {

namespace nn = rush::nn;
using rush::Tensor;

rush::serialize::OutputArchive results;

// The module's parameters, its output, and the gradients of the sum of squares.
template <class M, class... Inputs>
void record(const std::string& name, M module, const Inputs&... inputs) {
  rush::manual_seed(3);
  Tensor y;
  if constexpr (requires { std::get<0>(module(inputs...)); }) {
    y = std::get<0>(module(inputs...));
  } else {
    y = module(inputs...);
  }
  (y * y).sum().backward();
  results.write(name + ".output", y.detach());
  for (const auto& p : module->named_parameters()) {
    results.write(name + ".parameter." + p.key(), p->detach());
    results.write(name + ".gradient." + p.key(), p->grad());
  }
  for (const auto& b : module->named_buffers()) results.write(name + ".buffer." + b.key(), *b);
}

Tensor input(std::initializer_list<int64_t> sizes) {
  rush::manual_seed(2);
  return rush::randn(sizes);
}

template <class M, class... Options>
M made(const Options&... options) {
  rush::manual_seed(1);
  return M(options...);
}

void record_modules() {
  record("linear", made<nn::Linear>(7, 5), input({3, 7}));
  record("linear_no_bias", made<nn::Linear>(nn::LinearOptions(7, 5).bias(false)), input({3, 7}));
  record("conv1d", made<nn::Conv1d>(3, 4, 3), input({2, 3, 9}));
  record("conv2d", made<nn::Conv2d>(nn::Conv2dOptions(4, 6, {3, 2}).stride(2).padding(1).groups(2)),
         input({2, 4, 8, 8}));
  record("conv2d_same", made<nn::Conv2d>(nn::Conv2dOptions(3, 4, 3).padding(rush::kSame)),
         input({2, 3, 6, 6}));
  record("conv3d", made<nn::Conv3d>(nn::Conv3dOptions(2, 3, 2).bias(false)),
         input({1, 2, 4, 4, 4}));
  record("conv_transpose2d",
         made<nn::ConvTranspose2d>(
             nn::ConvTranspose2dOptions(4, 3, 3).stride(2).padding(1).output_padding(1)),
         input({2, 4, 5, 5}));
  record("batch_norm", made<nn::BatchNorm2d>(4), input({3, 4, 5, 5}));
  record("batch_norm_average",
         made<nn::BatchNorm1d>(nn::BatchNormOptions(4).momentum(std::nullopt)), input({6, 4}));
  record("instance_norm", made<nn::InstanceNorm2d>(nn::InstanceNormOptions(4).affine(true)),
         input({3, 4, 5, 5}));
  record("layer_norm", made<nn::LayerNorm>(nn::LayerNormOptions({6})), input({4, 6}));
  record("group_norm", made<nn::GroupNorm>(2, 6), input({3, 6, 4}));
  record("embedding", made<nn::Embedding>(nn::EmbeddingOptions(10, 4).padding_idx(2)),
         rush::tensor({{1, 2}, {2, 9}}));
  record("prelu", made<nn::PReLU>(), input({3, 4}));
  record("rnn", made<nn::RNN>(nn::RNNOptions(5, 6).nonlinearity("relu")), input({4, 2, 5}));
  record("gru", made<nn::GRU>(nn::GRUOptions(5, 6).num_layers(2).bidirectional(true)),
         input({4, 2, 5}));
  record("lstm", made<nn::LSTM>(nn::LSTMOptions(5, 6).num_layers(2).batch_first(true).proj_size(3)),
         input({2, 4, 5}));
  record("lstm_single", made<nn::LSTM>(5, 6), input({4, 5}));
  const Tensor x = input({5, 2, 8});
  const Tensor memory = x * 2;
  record("attention", made<nn::MultiheadAttention>(8, 2), x, x, x);
  record("attention_to_memory", made<nn::MultiheadAttention>(8, 2), x, memory, memory);
  record("attention_of_three", made<nn::MultiheadAttention>(8, 2), x, memory, x);
  record("encoder_layer",
         made<nn::TransformerEncoderLayer>(
             nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0).activation(
                 "gelu")),
         x);
  rush::manual_seed(1);
  nn::Sequential net;
  net->push_back(nn::Linear(7, 5));
  net->push_back(nn::ReLU());
  net->push_back(nn::Dropout(0.5));
  net->push_back(nn::Linear(5, 2));
  record("sequential", net, input({3, 7}));
}

// Functions and modules without parameters.
void record_functions() {
  const Tensor x = input({2, 3, 8, 8}), row = input({4, 6});
  const auto keep = [](const std::string& name, const Tensor& y) {
    results.write("function." + name, y);
  };
  keep("max_pool2d", nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1))(x));
  keep("avg_pool2d", nn::AvgPool2d(nn::AvgPool2dOptions({2, 3}).stride(1))(x));
  keep("adaptive_avg_pool2d", nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({3, 5}))(x));
  keep("leaky_relu", nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.3))(row));
  keep("elu", nn::ELU(nn::ELUOptions().alpha(0.7))(row));
  keep("hardtanh", nn::Hardtanh(nn::HardtanhOptions().min_val(-0.5).max_val(0.25))(row));
  keep("softplus", nn::Softplus(nn::SoftplusOptions().beta(2))(row));
  keep("gelu", nn::GELU(nn::GELUOptions().approximate("tanh"))(row));
  keep("softmax", nn::Softmax(nn::SoftmaxOptions(0))(row));
  keep("log_softmax", nn::LogSoftmax(nn::LogSoftmaxOptions(1))(row));
  keep("silu", nn::SiLU()(row));
  rush::manual_seed(3);
  keep("dropout", nn::Dropout(0.4)(row));
  rush::manual_seed(3);
  keep("dropout2d", nn::Dropout2d(0.4)(x));

  const Tensor other = rush::rand({4, 6}), target = rush::tensor({0, 5, 2, -100});
  keep("other", other);
  keep("mse", nn::MSELoss()(row, other));
  keep("l1_sum", nn::L1Loss(nn::L1LossOptions(rush::kSum))(row, other));
  keep("smooth_l1", nn::SmoothL1Loss(nn::SmoothL1LossOptions().beta(0.5))(row, other));
  keep("huber_none", nn::HuberLoss(nn::HuberLossOptions(rush::kNone).delta(0.7))(row, other));
  keep("bce", nn::BCELoss()(other, rush::rand_like(other).round()));
  keep("bce_logits", nn::BCEWithLogitsLoss(nn::BCEWithLogitsLossOptions().pos_weight(
                         rush::full({6}, 2.0)))(row, other));
  keep("kl", nn::KLDivLoss(nn::KLDivLossOptions(rush::kSum))(row.log_softmax(1), other));
  keep("nll", nn::NLLLoss()(row.log_softmax(1), target));
  keep("cross_entropy",
       nn::CrossEntropyLoss(nn::CrossEntropyLossOptions().label_smoothing(0.1))(row, target));
}

// Five steps of a linear map; the learning rate follows a schedule.
template <class Optimizer, class Options>
void record_optimizer(const std::string& name, const Options& options) {
  nn::Linear net = made<nn::Linear>(4, 3);
  const Tensor x = input({6, 4});
  Optimizer optimizer(net->parameters(), options);
  rush::optim::StepLR scheduler(optimizer, 2, 0.5);
  for (int step = 0; step < 5; ++step) {
    const Tensor loss = optimizer.step([&] {
      optimizer.zero_grad();
      const Tensor y = (net(x) * net(x)).mean();
      y.backward();
      return y;
    });
    scheduler.step();
    results.write("optimizer." + name + "." + std::to_string(step), loss.detach());
  }
  results.write("optimizer." + name + ".weight", net->weight.detach());
}

void record_optimizers() {
  namespace optim = rush::optim;
  record_optimizer<optim::SGD>("sgd", optim::SGDOptions(0.1));
  record_optimizer<optim::SGD>(
      "nesterov", optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01));
  record_optimizer<optim::Adam>("adam", optim::AdamOptions(0.05).betas({0.8, 0.99}).amsgrad(true));
  record_optimizer<optim::AdamW>("adamw", optim::AdamWOptions(0.05));
  record_optimizer<optim::RMSprop>("rmsprop",
                                   optim::RMSpropOptions(0.01).momentum(0.5).centered(true));
  record_optimizer<optim::Adagrad>(
      "adagrad", optim::AdagradOptions(0.1).lr_decay(0.1).initial_accumulator_value(0.2));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    record_modules();
    record_functions();
    record_optimizers();
    results.save_to(std::string(argv[1]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "modules: %s\n", error.what());
    return 1;
  }
}
