// Several threads at once: graphs, shared leaves, the allocator, random numbers, parallel loops.
// `make sanitize-threads` runs these under ThreadSanitizer; the numbers must be right anyway.
#include <atomic>
#include <functional>
#include <thread>

#include "autograd/engine.h"
#include "core/allocator.h"
#include "core/generator.h"
#include "core/threads.h"
#include "ops/framework/operators.h"
#include "testing.h"

using namespace rush;

namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 25;

// Runs f(thread) on several threads that start together.
void on_threads(const std::function<void(int)>& f) {
  std::atomic<int> waiting{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      --waiting;
      while (waiting.load() > 0) std::this_thread::yield();
      f(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Tensor leaf(IntList sizes, double value) {
  const Tensor t = full(sizes, value, DType::Float64);
  set_requires_grad(t, true);
  return t;
}

void run_backward(const Tensor& root) {
  const Tensor roots[] = {root};
  const Tensor seeds[] = {Tensor()};
  backward(roots, seeds, {}, {});
}

bool all_equal(const Tensor& t, double value) {
  return rush::all(eq(t, full(Dims{}, value, t.dtype()))).item().to_double() != 0;
}

}  // namespace

TEST(each_thread_its_own_graph) {
  std::atomic<int> wrong{0};
  on_threads([&](int id) {
    for (int round = 0; round < kRounds; ++round) {
      const Tensor w = leaf(Dims{7}, id + 1);
      run_backward(sum(w * w * w));
      if (!all_equal(grad_meta(w).grad, 3.0 * (id + 1) * (id + 1))) ++wrong;
    }
  });
  EXPECT(wrong == 0);
}

TEST(shared_leaves_lose_no_gradient) {
  const Tensor w = leaf(Dims{64}, 2), b = leaf(Dims{}, 1);
  on_threads([&](int id) {
    for (int round = 0; round < kRounds; ++round) run_backward(sum(w * Scalar(id + 1) + b));
  });
  EXPECT(all_equal(grad_meta(w).grad, kRounds * (1 + 2 + 3 + 4)));
  EXPECT(all_equal(grad_meta(b).grad, kThreads * kRounds * 64));
}

TEST(shared_inner_nodes) {
  // One graph below, one above it per thread; the lower part is walked by all of them.
  const Tensor w = leaf(Dims{16}, 3);
  const Tensor middle = w * w;
  on_threads([&](int) {
    const Tensor roots[] = {sum(middle * Scalar(2))};
    const Tensor seeds[] = {Tensor()};
    for (int round = 0; round < kRounds; ++round)
      backward(roots, seeds, {.retain_graph = true}, {});
  });
  EXPECT(all_equal(grad_meta(w).grad, 2.0 * 2 * 3 * kThreads * kRounds));
}

TEST(tensors_die_on_other_threads) {
  const int64_t before = cpu_memory_stats().allocated;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Tensor> made(kThreads * 8);
    on_threads([&](int id) {
      for (int i = 0; i < 8; ++i) made[size_t(id * 8 + i)] = rush::zeros(Dims{1 << (2 * i)});
    });
    on_threads([&](int id) {
      for (int i = 0; i < 8; ++i) made[size_t(((id + 1) % kThreads) * 8 + i)] = Tensor();
    });
  }
  EXPECT(cpu_memory_stats().allocated == before);
}

TEST(one_generator_for_all) {
  std::vector<Tensor> drawn(kThreads);
  on_threads([&](int id) { drawn[size_t(id)] = rand(Dims{1000}, nullptr, DType::Float64); });
  // No two threads got the same numbers.
  for (size_t i = 0; i < drawn.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT(!equal(drawn[i], drawn[j]));
}

TEST(parallel_loops_of_several_threads) {
  const int before = num_threads();
  set_num_threads(2);
  const Tensor x = rush::ones(Dims{200'000});
  std::atomic<int> wrong{0};
  on_threads([&](int id) {
    for (int round = 0; round < 3; ++round) {
      const Tensor y = x * Scalar(id + 2) + x;
      if (sum(y).item().to_double() != 200'000.0 * (id + 3)) ++wrong;
    }
  });
  set_num_threads(before);
  EXPECT(wrong == 0);
}
