// Hooks without Python: the core's half of what the bindings build on, threads included.
#include <atomic>
#include <functional>
#include <thread>

#include "autograd/accumulate_grad.h"
#include "autograd/engine.h"
#include "autograd/node_name.h"
#include "autograd/saved_hooks.h"
#include "ops/framework/operators.h"
#include "testing.h"

using namespace rush;

namespace {

std::atomic<int> g_alive{0};

class TestHook final : public Hook {
 public:
  explicit TestHook(std::function<void(Tensor&)> f) : f_(std::move(f)) { ++g_alive; }
  ~TestHook() override { --g_alive; }
  void on_gradient(Tensor& grad) override { f_(grad); }
  void after_accumulation(const Tensor& leaf) override {
    Tensor t = leaf;
    f_(t);
  }

 private:
  std::function<void(Tensor&)> f_;
};

Ref<Hook> hook(std::function<void(Tensor&)> f) {
  return Ref<Hook>::adopt(new TestHook(std::move(f)));
}

Tensor leaf(double value) {
  Tensor t = full(Dims{2}, Scalar(value), DType::Float64);
  set_requires_grad(t, true);
  return t;
}
double first(const Tensor& t) { return load_scalar(t.data(), t.dtype()).to_double(); }
void backward_of(const Tensor& t) {
  const Tensor roots[] = {sum(t)};
  backward(roots, {}, {});
}

}  // namespace

TEST(hooks_replace_and_are_freed) {
  {
    const Tensor x = leaf(1);
    const Tensor y = mul(x, full(Dims{}, Scalar(3.0), DType::Float64));
    gradient_hooks(y)->add(hook([](Tensor& g) { g = add(g, g); }));
    double seen = 0;
    gradient_hooks(x)->add(hook([&](Tensor& g) { seen = first(g); }));
    accumulation_hooks(x)->add(hook([&](Tensor& t) { seen += 100 * first(grad_of(t)); }));
    backward_of(y);
    EXPECT(seen == 606);
    EXPECT(first(grad_of(x)) == 6);
    EXPECT(g_alive == 3);
  }
  EXPECT(g_alive == 0);
}

TEST(a_list_outlives_its_owner_empty) {
  Ref<HookList> list;
  {
    const Tensor x = leaf(1);
    list = gradient_hooks(x);
    list->add(hook([](Tensor&) {}));
    EXPECT(!list->empty());
  }
  EXPECT(list->empty());
  EXPECT(g_alive == 0);
}

TEST(kept_gradients_follow_the_tensor) {
  const Tensor x = leaf(2);
  const Tensor y = mul(x, x);
  retain_grad(y);
  EXPECT(retains_grad(y) && !retains_grad(x));
  mul_(y, full(Dims{}, Scalar(10.0), DType::Float64));
  backward_of(y);
  EXPECT(first(grad_of(y)) == 1);
  EXPECT(first(grad_of(x)) == 40);
}

TEST(an_exception_in_a_hook_leaves_backward) {
  const Tensor x = leaf(1);
  gradient_hooks(x)->add(hook([](Tensor&) { fail(ErrorKind::Value, "hook", "no"); }));
  bool thrown = false;
  try {
    backward_of(mul(x, x));
  } catch (const Error& e) {
    thrown = e.kind() == ErrorKind::Value;
  }
  EXPECT(thrown);
}

TEST(threads_register_and_run) {
  const Tensor x = leaf(1);
  std::atomic<int> calls{0};
  std::atomic<bool> stop{false};
  std::thread registering([&] {
    while (!stop) {
      const Ref<HookList> list = gradient_hooks(x);
      const Ref<Hook> h = hook([&](Tensor&) { ++calls; });
      list->add(h);
      list->remove(h.get());
    }
  });
  std::vector<std::thread> running;
  for (int i = 0; i < 3; ++i) {
    running.emplace_back([&] {
      for (int k = 0; k < 200; ++k) backward_of(mul(x, x));
    });
  }
  for (std::thread& t : running) t.join();
  stop = true;
  registering.join();
  EXPECT(first(grad_of(x)) == 1200);
  EXPECT(g_alive == 0);
}

namespace {

struct Doubled final : PackedTensor {
  explicit Doubled(Tensor t) : tensor(std::move(t)) {}
  Tensor unpack() override { return tensor; }
  Tensor tensor;
};
struct Doubling final : SavedTensorHooks {
  Ref<PackedTensor> pack(const Tensor& t) override {
    return Ref<PackedTensor>::adopt(new Doubled(add(t, t)));
  }
};

}  // namespace

TEST(saved_tensors_go_through_hooks) {
  const Tensor x = leaf(3);
  push_saved_tensor_hooks(Ref<SavedTensorHooks>::adopt(new Doubling));
  const Tensor y = mul(x, x);
  pop_saved_tensor_hooks();
  backward_of(y);
  EXPECT(first(grad_of(x)) == 12);  // 2 * (3 + 3)
}

TEST(names) {
  const Tensor x = leaf(1);
  EXPECT(node_name(*grad_fn(mul(x, x))) == "MulBackward0");
  EXPECT(node_name(*grad_fn(log1p(x))) == "Log1PBackward0");
  EXPECT(node_name(*AccumulateGrad::of(x)) == "AccumulateGrad");
}
