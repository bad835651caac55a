// dcgan.cpp: two nets against each other: one draws digits, one tells them from those of MNIST.
//
//   dcgan DATA [STEPS [SAVE_AS]]
//
// The pictures that the first one draws at the end are saved as a tensor (64, 1, 28, 28).
#include <rushlight/rushlight.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

namespace {

namespace nn = rush::nn;

constexpr int64_t kNoise = 100, kBatch = 64;

nn::Sequential make_generator() {
  const auto up = [](int64_t from, int64_t to, int64_t kernel) {
    return nn::ConvTranspose2dOptions(from, to, kernel).bias(false);
  };
  return nn::Sequential(
      nn::ConvTranspose2d(up(kNoise, 128, 4)), nn::BatchNorm2d(128), nn::ReLU(true),
      nn::ConvTranspose2d(up(128, 64, 3).stride(2).padding(1)), nn::BatchNorm2d(64), nn::ReLU(true),
      nn::ConvTranspose2d(up(64, 32, 4).stride(2).padding(1)), nn::BatchNorm2d(32), nn::ReLU(true),
      nn::ConvTranspose2d(up(32, 1, 4).stride(2).padding(1)), nn::Tanh());
}

nn::Sequential make_discriminator() {
  const auto down = [](int64_t from, int64_t to) {
    return nn::Conv2dOptions(from, to, 4).stride(2).padding(1).bias(false);
  };
  const auto slope = nn::LeakyReLUOptions().negative_slope(0.2);
  return nn::Sequential(nn::Conv2d(down(1, 32)), nn::LeakyReLU(slope), nn::Conv2d(down(32, 64)),
                        nn::BatchNorm2d(64), nn::LeakyReLU(slope), nn::Conv2d(down(64, 128)),
                        nn::BatchNorm2d(128), nn::LeakyReLU(slope),
                        nn::Conv2d(nn::Conv2dOptions(128, 1, 3).bias(false)), nn::Flatten());
}

void run(const std::string& folder, int steps, const std::string& save_as) {
  rush::manual_seed(0);
  const rush::Device device(rush::cuda::is_available() ? rush::kCUDA : rush::kCPU);
  nn::Sequential generator = make_generator(), discriminator = make_discriminator();
  generator->to(device);
  discriminator->to(device);

  auto dataset = rush::data::datasets::MNIST(folder)
                     .map(rush::data::transforms::Normalize<>(0.5, 0.5))
                     .map(rush::data::transforms::Stack<>());
  const auto loader = rush::data::make_data_loader(
      std::move(dataset), rush::data::DataLoaderOptions(kBatch).workers(2).drop_last(true));

  const auto options = rush::optim::AdamOptions(2e-4).betas({0.5, 0.999});
  rush::optim::Adam for_generator(generator->parameters(), options);
  rush::optim::Adam for_discriminator(discriminator->parameters(), options);
  const auto noise = [&] { return rush::randn({kBatch, kNoise, 1, 1}, device); };
  const rush::Tensor real_label = rush::ones({kBatch, 1}, device);
  const rush::Tensor fake_label = rush::zeros({kBatch, 1}, device);
  const nn::BCEWithLogitsLoss criterion;

  for (int step = 0; step < steps;) {
    const int before = step;
    for (auto& batch : *loader) {
      const rush::Tensor fake = generator->forward(noise());
      for_discriminator.zero_grad();
      const rush::Tensor on_real =
          criterion(discriminator->forward(batch.data.to(device)), real_label);
      const rush::Tensor on_fake = criterion(discriminator->forward(fake.detach()), fake_label);
      (on_real + on_fake).backward();
      for_discriminator.step();

      for_generator.zero_grad();
      const rush::Tensor fooled = criterion(discriminator->forward(fake), real_label);
      fooled.backward();
      for_generator.step();
      if (step % 10 == 0) {
        std::printf("step %d discriminator %.4f generator %.4f\n", step,
                    (on_real + on_fake).item<double>(), fooled.item<double>());
      }
      if (++step == steps) break;
    }
    if (step == before) throw std::runtime_error("there are fewer pictures than a batch has");
  }
  if (save_as.empty()) return;
  const rush::NoGradGuard no_grad;
  generator->eval();
  rush::save(generator->forward(noise()).cpu(), save_as);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: dcgan DATA [STEPS [SAVE_AS]]\n");
    return 2;
  }
  try {
    run(argv[1], argc > 2 ? std::atoi(argv[2]) : 200, argc > 3 ? argv[3] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dcgan: %s\n", error.what());
    return 1;
  }
}
