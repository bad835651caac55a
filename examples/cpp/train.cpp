// train.cpp: loads a program that was traced in Python, runs it, trains it for some steps on random
// data, and saves it for Python.
//
//   train MODEL SAVE_AS sgd|adam BATCH SIZE...
//
// Losses are printed as hexadecimal floats: every bit of them.
#include <rushlight/rushlight.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr int kSteps = 5;
constexpr int kClasses = 10;

std::unique_ptr<rush::optim::Optimizer> make_optimizer(const std::string& name,
                                                       std::vector<rush::Tensor> params) {
  if (name == "adam") {
    rush::optim::AdamOptions options;
    options.lr(1e-2);
    options.weight_decay(1e-3);
    return std::make_unique<rush::optim::Adam>(std::move(params), options);
  }
  rush::optim::SGDOptions options;
  options.lr(0.05);
  options.momentum(0.9);
  options.weight_decay(1e-3);
  return std::make_unique<rush::optim::SGD>(std::move(params), options);
}

void run(const std::string& model, const std::string& save_as, const std::string& optimizer_name,
         const std::vector<int64_t>& sizes) {
  std::printf("rushlight %s\n", RUSHLIGHT_VERSION);
  const rush::Program net = rush::jit::load(model);
  rush::manual_seed(0);
  const rush::Tensor x = rush::randn(sizes);
  const std::vector<int64_t> batch = {sizes[0]};
  const rush::Tensor target = rush::randint(0, kClasses, batch);

  const auto optimizer = make_optimizer(optimizer_name, net.parameters());
  for (int step = 0; step < kSteps; ++step) {
    const rush::Tensor loss = net.run_method("loss", {x, target});
    optimizer->zero_grad();
    rush::backward(loss);
    optimizer->step();
    std::printf("step %d loss %a\n", step, loss.item().to_double());
  }
  {
    const rush::NoGradGuard no_grad;
    const rush::Tensor y = net({x});
    std::printf("sum %a\n", rush::sum(y).item().to_double());
  }
  net.save(save_as);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: train MODEL SAVE_AS sgd|adam BATCH SIZE...\n");
    return 2;
  }
  std::vector<int64_t> sizes;
  for (int i = 4; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  try {
    run(argv[1], argv[2], argv[3], sizes);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return 1;
  }
}
