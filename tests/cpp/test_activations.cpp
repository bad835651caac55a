// test_activations.cpp: the activations have no Python name of their own before nn; their first and
// second derivatives are compared with central differences here, in float64.
#include <cmath>
#include <functional>

#include "autograd/engine.h"
#include "ops/framework/operators.h"
#include "testing.h"

using namespace rush;

namespace {

using Function = std::function<Tensor(const Tensor&)>;

constexpr double kPoints[] = {-5.0, -2.5, -1.3, -0.7, -0.2, 0.1, 0.4, 0.9, 1.6, 2.9, 4.5};
constexpr double kStep = 1e-5;

Tensor leaf(double shift) {
  const Tensor x = zeros(Dims{int64_t(std::size(kPoints))}, DType::Float64);
  for (size_t i = 0; i < std::size(kPoints); ++i) x.data<double>()[i] = kPoints[i] + shift;
  set_requires_grad(x, true);
  return x;
}

// Elementwise functions: the gradient of the sum holds each element's derivative.
Tensor derivative(const Tensor& y, const Tensor& x, bool again) {
  BackwardOptions options;
  options.create_graph = options.retain_graph = again;
  options.allow_unused = true;
  const Tensor roots[] = {sum(y)}, inputs[] = {x};
  const Tensor seeds[] = {ones_like(roots[0])};
  return grad(roots, seeds, inputs, options)[0];
}

void check_slope(const char* name, const char* order, const Tensor& got, const Tensor& above,
                 const Tensor& below) {
  for (size_t i = 0; i < std::size(kPoints); ++i) {
    const double want = (above.data<double>()[i] - below.data<double>()[i]) / (2 * kStep);
    const double have = got.defined() ? got.data<double>()[i] : 0.0;
    const bool close = std::abs(have - want) <= 1e-8 * (1 + std::abs(want));
    if (!close)
      std::cerr << name << ", " << order << " derivative at " << kPoints[i] << ": " << have
                << ", expected " << want << "\n";
    EXPECT(close);
  }
}

void check(const char* name, const Function& f) {
  const Tensor x = leaf(0), above = leaf(kStep), below = leaf(-kStep);
  const Tensor first = derivative(f(x), x, true);
  check_slope(name, "first", first, f(above), f(below));
  const Tensor second = requires_grad(first) ? derivative(first, x, false) : Tensor();
  check_slope(name, "second", second, derivative(f(above), above, false),
              derivative(f(below), below, false));
}

}  // namespace

TEST(smooth) {
  check("silu", [](const Tensor& x) { return silu(x); });
  check("mish", [](const Tensor& x) { return mish(x); });
  check("gelu", [](const Tensor& x) { return gelu(x, "none"); });
  check("gelu by tanh", [](const Tensor& x) { return gelu(x, "tanh"); });
  check("softplus", [](const Tensor& x) { return softplus(x, 1.5, 3); });
  check("log_sigmoid", [](const Tensor& x) { return log_sigmoid(x); });
  check("sigmoid", [](const Tensor& x) { return sigmoid(x); });
  check("tanh", [](const Tensor& x) { return tanh(x); });
  check("softsign", [](const Tensor& x) { return softsign(x); });
  check("tanhshrink", [](const Tensor& x) { return tanhshrink(x); });
}

TEST(with_corners) {
  check("relu", [](const Tensor& x) { return relu(x); });
  check("relu6", [](const Tensor& x) { return relu6(x); });
  check("threshold", [](const Tensor& x) { return threshold(x, 0.5, 2); });
  check("hardtanh", [](const Tensor& x) { return hardtanh(x, -1, 1); });
  check("leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.1); });
  check("elu", [](const Tensor& x) { return elu(x, 0.7, 1.2, 0.9); });
  check("selu", [](const Tensor& x) { return selu(x); });
  check("celu", [](const Tensor& x) { return celu(x, 0.6); });
  check("hardsigmoid", [](const Tensor& x) { return hardsigmoid(x); });
  check("hardswish", [](const Tensor& x) { return hardswish(x); });
  check("softshrink", [](const Tensor& x) { return softshrink(x, 0.5); });
  check("hardshrink", [](const Tensor& x) { return hardshrink(x, 0.5); });
}

TEST(bad_arguments) {
  const Tensor x = leaf(0), whole = zeros(Dims{2}, DType::Int64);
  EXPECT(testing::message_of([&] { gelu(x, "erf"); }) ==
         "gelu: approximate must be 'none' or 'tanh', got 'erf'");
  EXPECT(testing::message_of([&] { softshrink(x, -1); }) ==
         "softshrink: lambd must not be negative, got -1");
  EXPECT(testing::message_of([&] { hardtanh(x, 2, 1); }) ==
         "hardtanh: min_val 2 must not be greater than max_val 1");
  EXPECT(testing::message_of([&] { elu(whole); }) == "elu: not implemented for int64 tensors");
}
