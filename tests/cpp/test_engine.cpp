// The engine under threads, in depth and under failure. A thread sanitiser build of this program is
// the test that the locks are right.
#include <atomic>
#include <functional>
#include <thread>

#include "autograd/accumulate_grad.h"
#include "autograd/engine.h"
#include "autograd/forward.h"
#include "core/allocator.h"
#include "ops/framework/operators.h"
#include "testing.h"

using namespace rush;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kScale = 20;  // sanitisers are slow
#else
constexpr int kScale = 1;
#endif

Tensor leaf(const Dims& sizes, double value = 1) {
  Tensor t = full(sizes, Scalar(value), DType::Float64);
  set_requires_grad(t, true);
  return t;
}
void backward_of(const Tensor& root, BackwardOptions options = {}) {
  const Tensor roots[] = {root};
  backward(roots, {}, options);
}
double first(const Tensor& t) { return load_scalar(t.data(), t.dtype()).to_double(); }
bool all_equal(const Tensor& t, double value) {
  return equal(t, full(t.sizes(), Scalar(value), t.dtype()));
}

template <class F>
void on_threads(int n, F&& f) {
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back([&f, i] { f(i); });
  for (std::thread& t : threads) t.join();
}

// A node that calls back, as a hook or a Function of Python's would.
class Callback final : public Node {
 public:
  Callback(const Tensor& x, std::function<void()> f) : f_(std::move(f)) {
    set_trait(kRunsUserCode);
    add_edge(gradient_edge(x));
  }
  const char* name() const override { return "Callback"; }
  Grads apply(GradSpan grads, std::span<const bool>) override {
    ModeGuard records(kNoGrad, false);
    f_();
    return {grads[0]};
  }
  static Tensor on(const Tensor& x, std::function<void()> f) {
    Tensor y = clone(detached(x));
    Ref<Node> node = Ref<Node>::adopt(new Callback(x, std::move(f)));
    set_history(y, node, node->add_result(y));
    return y;
  }

 private:
  std::function<void()> f_;
};

struct Boom : std::exception {
  const char* what() const noexcept override { return "boom"; }
};

}  // namespace

// Each thread its own graph on shared leaves: the sum of all gradients must be there, to the bit.
TEST(threads_share_leaves) {
  constexpr int kThreads = 4, kSteps = 400 / kScale;
  const Tensor w = leaf({64}), b = leaf({});
  on_threads(kThreads, [&](int) {
    for (int i = 0; i < kSteps; ++i) backward_of(sum(w * w * Scalar(2) + b));
  });
  EXPECT(all_equal(grad_of(w), 4.0 * kThreads * kSteps));
  EXPECT(first(grad_of(b)) == 64.0 * kThreads * kSteps);
}

// Readers and resets of .grad beside backward: any value is fine, a torn pointer is not.
TEST(grad_is_read_and_reset_meanwhile) {
  const Tensor w = leaf({16});
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) {
      const Tensor g = grad_of(w);
      if (g.defined()) EXPECT(g.sizes() == w.sizes());
      exchange_grad(w, {});
    }
  });
  on_threads(2, [&](int) {
    for (int i = 0; i < 400 / kScale; ++i) backward_of(sum(w * Scalar(3)));
  });
  done = true;
  reader.join();
}

TEST(threads_share_a_graph_that_is_kept) {
  constexpr int kThreads = 4, kSteps = 200 / kScale;
  const Tensor x = leaf({8}, 3);
  Tensor y = x;
  for (int i = 0; i < 20; ++i) y = (y * x) / x;
  const Tensor loss = sum(y * x);
  on_threads(kThreads, [&](int) {
    for (int i = 0; i < kSteps; ++i) backward_of(loss, {.retain_graph = true});
  });
  EXPECT(all_equal(grad_of(x), 6.0 * kThreads * kSteps));
}

// Without keeping it, one wins and the others are told; nobody reads what was freed.
TEST(threads_share_a_graph_that_is_freed) {
  for (int round = 0; round < 40 / kScale + 2; ++round) {
    const Tensor x = leaf({8}, 2);
    Tensor y = x;
    for (int i = 0; i < 50; ++i) y = tanh(y * x);
    const Tensor loss = sum(y);
    std::atomic<int> told{0};
    on_threads(3, [&](int) {
      const std::string message = testing::message_of([&] { backward_of(loss); });
      if (!message.empty()) {
        ++told;
        EXPECT(message.find("retain_graph") != std::string::npos);
      }
    });
    EXPECT(told >= 2);
  }
}

TEST(threads_capture_from_a_shared_graph) {
  const Tensor x = leaf({4}, 2), y = leaf({4}, 5);
  const Tensor z = x * y;
  const Tensor loss = sum(z * z);
  on_threads(4, [&](int i) {
    for (int k = 0; k < 100 / kScale; ++k) {
      const Tensor roots[] = {loss}, inputs[] = {i % 2 ? x : z};
      const auto g = grad(roots, {}, inputs, {.retain_graph = true});
      EXPECT(all_equal(g[0], i % 2 ? 2 * 10 * 5 : 2 * 10));
    }
  });
  EXPECT(!grad_of(x).defined());
}

// A graph begun on one thread and continued on another: a node stays younger than its inputs.
TEST(sequence_numbers_follow_edges) {
  const Tensor x = leaf({2});
  Tensor y = x;
  for (int i = 0; i < 100; ++i) y = y * Scalar(1);
  std::thread([&] {
    for (int i = 0; i < 100; ++i) {
      const Tensor next = y * Scalar(1);
      EXPECT(grad_fn(next)->sequence() > grad_fn(y)->sequence());
      y = next;
    }
  }).join();
  const Tensor here = y * Scalar(1);
  EXPECT(grad_fn(here)->sequence() > grad_fn(y)->sequence());
}

TEST(backward_inside_backward) {
  const Tensor x = leaf({2});
  int depth = 0, deepest = 0;
  std::function<void()> again = [&] {
    deepest = std::max(deepest, ++depth);
    if (depth < 1000) backward_of(sum(Callback::on(x, again)));
    --depth;
  };
  backward_of(sum(Callback::on(x, again)));
  EXPECT(deepest == 1000);
  EXPECT(all_equal(grad_of(x), 1000));
}

TEST(endless_nesting_is_an_error) {
  const Tensor x = leaf({2});
  std::function<void()> again = [&] { backward_of(sum(Callback::on(x, again))); };
  if (kScale == 1)
    EXPECT(testing::message_of([&] { backward_of(sum(Callback::on(x, again))); }).find("endless") !=
           std::string::npos);
}

// The inner call walks the outer's own graph, node by node the same.
TEST(backward_inside_backward_on_one_graph) {
  const Tensor x = leaf({2}, 3);
  Tensor loss;
  int calls = 0;
  const Tensor y = Callback::on(x * x, [&] {
    if (calls++ == 0) backward_of(loss, {.retain_graph = true});
  });
  loss = sum(y * y);
  backward_of(loss, {.retain_graph = true});
  EXPECT(calls == 2);
  EXPECT(all_equal(grad_of(x), 2 * 4 * 27));
}

TEST(exceptions_pass_and_leave_the_engine_usable) {
  for (int levels : {1, 100}) {
    const Tensor x = leaf({2});
    int depth = 0;
    std::function<void()> f = [&] {
      if (++depth == levels) throw Boom();
      backward_of(sum(Callback::on(x, f)));
    };
    bool caught = false;
    try {
      backward_of(sum(Callback::on(x * x, f)));
    } catch (const Boom&) {
      caught = true;
    }
    EXPECT(caught);
    EXPECT(!grad_of(x).defined());
    EXPECT(grad_enabled());
    backward_of(sum(x * x));
    EXPECT(all_equal(grad_of(x), 2));
  }
}

TEST(long_chains_are_freed) {
  const int64_t before = cpu_memory_stats().allocated;
  {
    const Tensor x = leaf({1});
    Tensor y = x;
    for (int i = 0; i < 1'000'000 / kScale; ++i) y = y * x;
    backward_of(sum(y));
    EXPECT(first(grad_of(x)) == 1'000'000 / kScale + 1);
  }
  EXPECT(cpu_memory_stats().allocated == before);
}

// .grad of .grad of .grad, and tangents of tangents.
TEST(chains_of_metadata_are_freed) {
  const int64_t before = cpu_memory_stats().allocated;
  const int level = enter_forward_level();
  for (const bool tangent : {false, true}) {
    Tensor t = zeros(Dims{1});
    for (int i = 0; i < 1'000'000 / kScale; ++i) {
      Tensor next = zeros(Dims{1});
      if (tangent)
        set_own_tangent(next, level, t);
      else
        grad_meta(next).grad = std::move(t);
      t = std::move(next);
    }
  }
  exit_forward_level();
  EXPECT(cpu_memory_stats().allocated == before);
}

TEST(gradients_are_taken_not_copied) {
  const Tensor x = leaf({4096});
  reset_peak_memory_stats();
  const Tensor y = x * x;
  const Tensor roots[] = {y};
  const Tensor seed = ones(Dims{4096}, DType::Float64);
  const Tensor seeds[] = {seed};
  backward(roots, seeds, {});
  EXPECT(grad_of(x).ref()->use_count() == 2);
  EXPECT(!grad_of(x).storage()->read_only());
  // The caller's own gradient is never taken.
  const Tensor z = leaf({4096});
  const Tensor leaves[] = {z};
  backward(leaves, seeds, {});
  EXPECT(grad_of(z).data() != seed.data());
}

TEST(layout_follows_the_leaf) {
  const Tensor base = leaf({3, 4});
  Tensor x = detached(transpose(detached(base), 0, 1));
  set_requires_grad(x, true);
  backward_of(sum(x * Scalar(2)));
  EXPECT(grad_of(x).strides() == x.strides());
  Tensor wide = detached(expand(zeros(Dims{4, 1}), Dims{4, 3}));
  set_requires_grad(wide, true);
  backward_of(sum(wide * Scalar(2)));
  EXPECT(grad_of(wide).is_contiguous());
}
