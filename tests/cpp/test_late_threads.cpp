// Small loops do not wait for threads that do not run: Note [Threads that do not run] in
// core/parallel.cpp. Here loops are told that threads were late.
#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/threads.h"
#include "ops/ops.h"
#include "testing.h"

using namespace rush;
using namespace std::chrono_literals;

namespace {

// Runs a small loop on two threads and says whether another thread did a piece of it.
bool is_shared(int64_t n = 2) {
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> shared{false};
  std::atomic<int64_t> sum{0};
  parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    EXPECT(in_parallel_region());
    if (std::this_thread::get_id() != caller) shared = true;
    for (int64_t i = begin; i < end; ++i) sum += i;
  });
  EXPECT(sum == n * (n - 1) / 2);
  EXPECT(!in_parallel_region());
  return shared;
}

void learn(std::chrono::nanoseconds own, std::chrono::nanoseconds waited) {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  detail::learn_from_team(own.count(), waited.count(), time.count());
}

// Two seconds are the longest rest. No loop may run meanwhile: on a machine that is busy it would
// find its threads late, and begin another rest.
void let_the_rest_end() {
  set_num_threads(2);
  std::this_thread::sleep_for(2100ms);
}
void make_late() {
  set_num_threads(2);
  learn(10us, 100ms);
}

std::vector<float> values(const Tensor& t) {
  const Tensor flat = contiguous(t);
  return {flat.data<float>(), flat.data<float>() + flat.numel()};
}

}  // namespace

TEST(a_late_thread_is_not_waited_for_again) {
  make_late();
  for (int i = 0; i < 10; ++i) EXPECT(!is_shared());
}

TEST(small_delays_add_up_and_are_paid_back) {
  let_the_rest_end();
  for (int i = 0; i < 100; ++i) learn(100us, 50us);  // more is won than is lost
  EXPECT(is_shared());
  for (int i = 0; i < 100; ++i) learn(10us, 500us);
  EXPECT(!is_shared());
}

TEST(a_wait_beside_long_work_does_not_count) {
  let_the_rest_end();
  learn(50ms, 100ms);
  EXPECT(is_shared());
}

TEST(long_loops_are_shared_all_the_same) {
  make_late();
  EXPECT(is_shared(1000));
}

TEST(after_a_rest_loops_are_shared_again) {
  make_late();
  EXPECT(!is_shared());
  let_the_rest_end();
  EXPECT(is_shared());
}

TEST(loops_that_turn_out_long_end_the_rest) {
  make_late();
  std::atomic<int64_t> turns{0};
  for (int i = 0; i < 4; ++i) {
    parallel_for(2, 1, [&](int64_t, int64_t) {
      const auto start = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - start < 5ms) ++turns;
    });
  }
  EXPECT(is_shared());
}

TEST(errors_leave_a_loop_that_one_thread_runs) {
  make_late();
  const auto failing = [] {
    parallel_for(2, 1, [](int64_t begin, int64_t) {
      if (begin == 1) throw std::runtime_error("piece 1");
    });
  };
  EXPECT(testing::message_of(failing) == "piece 1");
  EXPECT(!in_parallel_region());
}

TEST(results_do_not_depend_on_the_load) {
  const Tensor x = randn(Dims{33, 16, 12, 12}), w = randn(Dims{32, 16, 3, 3});
  const Tensor a = randn(Dims{300, 200}), b = randn(Dims{200, 250});
  const auto results = [&] {
    std::vector<std::vector<float>> out;
    const Dims one{1, 1};
    const Tensor y = conv2d(x, w, {}, one, one, one, 1);
    out.push_back(values(y));
    out.push_back(values(_convolution_input_grad(y, w, x.sizes(), one, one, one, 1)));
    out.push_back(values(_convolution_weight_grad(x, y, w.sizes(), one, one, one, 1)));
    out.push_back(values(matmul(a, b)));
    out.push_back(values(sum(x)));
    return out;
  };
  let_the_rest_end();
  const auto shared = results();
  make_late();
  const auto alone = results();
  EXPECT(!is_shared());
  for (size_t i = 0; i < shared.size(); ++i) {
    EXPECT(shared[i].size() == alone[i].size());
    EXPECT(std::memcmp(shared[i].data(), alone[i].data(), shared[i].size() * sizeof(float)) == 0);
  }
}
