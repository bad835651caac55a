// One op of every kind, from C++: gradients against finite differences, tangents against gradients,
// the forms that derive from a block, the by-name call; and a linear layer trained by hand on top
// of them.
#include <cmath>
#include <functional>

#include "autograd/engine.h"
#include "ops/framework/operators.h"
#include "ops/framework/registry.h"
#include "testing.h"

using namespace rush;

namespace {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

Tensor random(IntList sizes) { return randn(sizes, nullptr, DType::Float64); }
double total(const Tensor& t) { return sum(t).item().to_double(); }

// <v, J t> by forward mode, by backward mode and by central differences must agree.
void check_derivatives(const Function& f, const std::vector<Tensor>& points) {
  const int level = enter_forward_level();
  std::vector<Tensor> leaves, duals, tangents;
  for (const Tensor& p : points) {
    tangents.push_back(random(p.sizes()));
    leaves.push_back(clone(p));
    set_requires_grad(leaves.back(), true);
    duals.push_back(clone(p));
    set_tangent(duals.back(), level, tangents.back());
  }
  const Tensor out = f(leaves);
  const Tensor v = random(out.sizes());
  const Tensor seeds[] = {v};
  const Tensor roots[] = {out};
  double backward_mode = 0;
  const std::vector<Tensor> grads = grad(roots, seeds, leaves, {});
  for (size_t i = 0; i < grads.size(); ++i) backward_mode += total(grads[i] * tangents[i]);

  const Tensor tangent = tangent_at(f(duals), level);
  EXPECT(tangent.defined());
  const double forward_mode = tangent.defined() ? total(v * tangent) : NAN;
  exit_forward_level();

  NoGradGuard no_grad;
  const double h = 1e-6;
  std::vector<Tensor> ahead, behind;
  for (size_t i = 0; i < points.size(); ++i) {
    ahead.push_back(points[i] + tangents[i] * Scalar(h));
    behind.push_back(points[i] - tangents[i] * Scalar(h));
  }
  const double difference = total(v * (f(ahead) - f(behind))) / (2 * h);
  const double scale = 1 + std::abs(difference);
  EXPECT(std::abs(backward_mode - difference) < 1e-7 * scale);
  EXPECT(std::abs(forward_mode - backward_mode) < 1e-10 * scale);
}

}  // namespace

TEST(unary) {
  check_derivatives([](const auto& x) { return exp(x[0]); }, {random(Dims{3, 4})});
}
TEST(binary_with_broadcasting) {
  check_derivatives([](const auto& x) { return add(x[0], x[1], 3) * x[1]; },
                    {random(Dims{3, 4}), random(Dims{4})});
}
TEST(reduction) {
  check_derivatives([](const auto& x) { return sum(x[0] * x[0], Dims{1}); }, {random(Dims{3, 4})});
}
TEST(views) {
  check_derivatives([](const auto& x) { return exp(select(transpose(x[0], 0, 1), 0, 1)); },
                    {random(Dims{3, 4})});
}
TEST(write_through_a_view) {
  check_derivatives(
      [](const auto& x) {
        const Tensor base = x[0] * x[0];
        copy_(select(base, 0, 1), x[1]);
        mul_(slice(base, 1, 0, 2), narrow(x[1], 0, wrap_number(0), 2));
        return base * base;
      },
      {random(Dims{3, 4}), random(Dims{4})});
  check_derivatives(
      [](const auto& x) {
        const Tensor y = x[0] * x[0];
        add_(y, x[1]);
        exp_(y);
        return y;
      },
      {random(Dims{3, 4}), random(Dims{4})});
}
TEST(indexing) {
  const Tensor rows = cast(arange(Scalar(3)), DType::Int64);
  const Tensor picks[] = {cat(std::array<Tensor, 2>{rows, rows})};
  check_derivatives([&](const auto& x) { return index(exp(x[0]), picks); }, {random(Dims{3, 4})});
}
TEST(matrix_product) {
  check_derivatives([](const auto& x) { return matmul(x[0], x[1]); },
                    {random(Dims{3, 4}), random(Dims{4, 2})});
}
TEST(concatenation) {
  check_derivatives([](const auto& x) { return exp(cat(x, 1)); },
                    {random(Dims{3, 1}), random(Dims{3, 2})});
}
TEST(composite) {
  check_derivatives([](const auto& x) { return log_softmax(reshape(x[0], Dims{4, 3}), 1); },
                    {random(Dims{3, 4})});
}

TEST(second_derivatives) {
  const Tensor x = random(Dims{5});
  set_requires_grad(x, true);
  const Tensor roots[] = {sum(exp(x) * x)};
  const Tensor leaves[] = {x};
  BackwardOptions keep;
  keep.create_graph = keep.retain_graph = true;
  const Tensor first = grad(roots, {}, leaves, keep)[0];
  const Tensor again[] = {sum(first)};
  const Tensor second = grad(again, {}, leaves, {})[0];
  EXPECT(allclose(detach(second), exp(detach(x)) * (detach(x) + Scalar(2))));
}

TEST(forms_agree) {
  const Tensor a = random(Dims{3, 4}), b = random(Dims{4});
  const Tensor want = add(a, b, 2);
  Tensor out = empty(Dims{0}, DType::Float64);
  add_out(out, a, b, 2);
  EXPECT(equal(out, want));
  const Tensor own = clone(a);
  add_(own, b, 2);
  EXPECT(equal(own, want) && own.version() == 1);
  const Device nowhere{DeviceType::Meta};
  const Tensor meta = add(empty(Dims{3, 4}, DType::Float64, std::nullopt, nowhere),
                          empty(Dims{4}, DType::Float64, std::nullopt, nowhere), 2);
  EXPECT(meta.is_meta() && meta.sizes() == want.sizes() && meta.dtype() == want.dtype());
  Value args[3];
  args[0].borrow(a.impl());
  args[1].borrow(b.impl());
  args[2].set(Scalar(2));
  const std::vector<Value> boxed = call_by_name("add", args);
  EXPECT(boxed.size() == 1 && equal(boxed[0].tensor(), want));
}

TEST(seeds_repeat) {
  default_generator().manual_seed(7);
  const Tensor a = rand(Dims{100});
  default_generator().manual_seed(7);
  EXPECT(equal(a, rand(Dims{100})));
}

TEST(unsafe_writes_are_caught) {
  const Tensor x = random(Dims{3});
  set_requires_grad(x, true);
  const Tensor y = exp(x);
  mul_(y, wrap_number(2));  // exp's gradient needs y as it was
  const Tensor roots[] = {sum(y)};
  const std::string message = testing::message_of([&] { backward(roots, {}, {}); });
  EXPECT(message.find("exp") != std::string::npos && message.find("mul") != std::string::npos);
  EXPECT(testing::message_of([&] { add_(x, wrap_number(1)); }).find("leaf") != std::string::npos);
}

TEST(long_graphs_neither_overflow_nor_leak) {
  Tensor y = random(Dims{1});
  set_requires_grad(y, true);
  for (int i = 0; i < 200000; ++i) y = add(y, wrap_number(0));
  const Tensor roots[] = {y};
  backward(roots, {}, {});
  EXPECT(y.defined());
}

// y = x w + b fitted to a known w by gradient descent: a Linear layer and SGD, written by hand.
TEST(linear_layer_learns) {
  default_generator().manual_seed(0);
  const Tensor x = random(Dims{64, 3}), truth = random(Dims{3, 2}),
               target = matmul(x, truth) + Scalar(0.5);
  const Tensor w = zeros(Dims{3, 2}, DType::Float64), b = zeros(Dims{2}, DType::Float64);
  set_requires_grad(w, true);
  set_requires_grad(b, true);
  double loss = 0;
  for (int step = 0; step < 300; ++step) {
    const Tensor error = matmul(x, w) + b - target;
    const Tensor roots[] = {mean(error * error)};
    loss = roots[0].item().to_double();
    backward(roots, {}, {});
    NoGradGuard no_grad;
    for (const Tensor* p : {&w, &b}) {
      sub_(*p, grad_meta(*p).grad, Scalar(0.2));
      grad_meta(*p).grad = Tensor();
    }
  }
  EXPECT(loss < 1e-10);
  EXPECT(allclose(detach(w), truth, 1e-4, 1e-4) &&
         allclose(detach(b), full(Dims{2}, Scalar(0.5), DType::Float64), 1e-4, 1e-4));
}
