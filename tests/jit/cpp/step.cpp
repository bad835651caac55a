// step.cpp: loads a program and its inputs (a program without inputs that gives them), runs it,
// takes one step of training and saves it. Prints the outputs' bytes as sums, and the loss.
//
//   step MODEL INPUTS SAVE_AS
#include <rushlight/rushlight.h>

#include <cstdio>
#include <exception>

namespace {

// FNV-1a, over the bytes of all tensors; numbers do not count.
uint64_t sum_of(const rush::jit::IValue& v, uint64_t sum = 0xcbf29ce484222325) {
  if (!v.isTensor() && v.kind() < rush::jit::IValue::Kind::Tuple) return sum;
  if (!v.isTensor()) {
    for (const rush::jit::IValue& item : v.elements()) sum = sum_of(item, sum);
    return sum;
  }
  const rush::Tensor t = rush::contiguous(v.toTensor());
  const auto* bytes = t.data<unsigned char>();
  for (int64_t i = 0; i < t.nbytes(); ++i) sum = (sum ^ bytes[i]) * 0x100000001b3;
  return sum;
}

void run(char** argv) {
  const rush::Program net = rush::jit::load(argv[1]);
  const rush::jit::IValue inputs = rush::jit::load(argv[2])({});
  {
    const rush::NoGradGuard no_grad;
    rush::manual_seed(7);
    std::printf("%016lx\n", (unsigned long)sum_of(net(inputs.elements())));
  }
  rush::optim::SGDOptions options;
  options.lr(0.01);
  options.momentum(0.9);
  rush::optim::SGD optimizer(net.parameters(), options);
  rush::manual_seed(8);
  const rush::Tensor loss = net.run_method("loss", inputs.elements());
  rush::backward(loss);
  optimizer.step();
  std::printf("%a\n", loss.item().to_double());
  net.save(argv[3]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    run(argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step: %s\n", error.what());
    return 1;
  }
}
