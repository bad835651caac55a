// mnist.cpp: a small convolutional net learns handwritten digits, all in C++.
//
//   mnist DATA [EPOCHS [SAVE_AS]]
//
// DATA is a folder with the four files of MNIST, unpacked. The net is saved as its state dict, which
// Python reads by rushlight.load.
#include <rushlight/rushlight.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

namespace {

constexpr int kBatch = 64;

struct NetImpl : rush::nn::Module {
  NetImpl()
      : conv1(register_module("conv1", rush::nn::Conv2d(rush::nn::Conv2dOptions(1, 16, 3)))),
        conv2(register_module("conv2", rush::nn::Conv2d(rush::nn::Conv2dOptions(16, 32, 3)))),
        drop(register_module("drop", rush::nn::Dropout(0.25))),
        fc1(register_module("fc1", rush::nn::Linear(32 * 5 * 5, 64))),
        fc2(register_module("fc2", rush::nn::Linear(64, 10))) {}

  rush::Tensor forward(rush::Tensor x) {
    x = rush::max_pool2d(conv1(x).relu(), 2);
    x = rush::max_pool2d(conv2(x).relu(), 2);
    x = drop(x.flatten(1));
    return rush::log_softmax(fc2(fc1(x).relu()), 1);
  }

  rush::nn::Conv2d conv1, conv2;
  rush::nn::Dropout drop;
  rush::nn::Linear fc1, fc2;
};
RUSH_MODULE(Net);

auto dataset(const std::string& folder, rush::data::datasets::MNIST::Mode mode) {
  return rush::data::datasets::MNIST(folder, mode)
      .map(rush::data::transforms::Normalize<>(0.1307, 0.3081))
      .map(rush::data::transforms::Stack<>());
}

template <class Loader>
double train(Net& net, Loader& loader, rush::optim::Optimizer& optimizer, rush::Device device) {
  net->train();
  double total = 0;
  int64_t count = 0;
  for (auto& batch : loader) {
    const rush::Tensor loss = rush::nll_loss(net(batch.data.to(device)), batch.target.to(device));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    total += loss.item<double>() * double(batch.data.size(0));
    count += batch.data.size(0);
  }
  return total / double(count);
}

template <class Loader>
double accuracy(Net& net, Loader& loader, rush::Device device) {
  const rush::NoGradGuard no_grad;
  net->eval();
  int64_t right = 0, count = 0;
  for (auto& batch : loader) {
    const rush::Tensor guess = net(batch.data.to(device)).argmax(1);
    right += guess.eq(batch.target.to(device)).sum().template item<int64_t>();
    count += batch.data.size(0);
  }
  return double(right) / double(count);
}

void run(const std::string& folder, int epochs, const std::string& save_as) {
  rush::manual_seed(0);
  const rush::Device device(rush::cuda::is_available() ? rush::kCUDA : rush::kCPU);
  Net net;
  net->to(device);
  using Mode = rush::data::datasets::MNIST::Mode;
  const auto options = rush::data::DataLoaderOptions(kBatch).workers(2);
  const auto training = rush::data::make_data_loader(dataset(folder, Mode::kTrain), options);
  const auto testing = rush::data::make_data_loader<rush::data::samplers::SequentialSampler>(
      dataset(folder, Mode::kTest), options);
  rush::optim::Adam optimizer(net->parameters(), rush::optim::AdamOptions(1e-3));
  rush::optim::StepLR scheduler(optimizer, 1, 0.7);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const double loss = train(net, *training, optimizer, device);
    scheduler.step();
    std::printf("epoch %d loss %.4f accuracy %.4f\n", epoch, loss, accuracy(net, *testing, device));
  }
  if (!save_as.empty()) rush::save(net, save_as);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: mnist DATA [EPOCHS [SAVE_AS]]\n");
    return 2;
  }
  try {
    run(argv[1], argc > 2 ? std::atoi(argv[2]) : 2, argc > 3 ? argv[3] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mnist: %s\n", error.what());
    return 1;
  }
}
