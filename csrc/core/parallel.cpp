// parallel.cpp: the loop behind parallel_for: who runs which piece, when nobody is waited for, and
// how a loop is left in the middle.
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "core/futex.h"
#include "core/interrupt.h"
#include "core/signal_stack.h"
#include "core/threads.h"

namespace rush {

namespace {

using namespace std::chrono_literals;

// Note [Threads that do not run]
// A shared loop ends when the last of its threads has done its part. On a busy machine a thread may
// stand in the kernel's queue for many milliseconds, while the loop takes microseconds. So each
// shared loop compares how long the calling thread had to wait because others began late with what
// they did for it, which is as much as its own part. (One that is held up in the middle of its part
// cannot be told from one whose part takes longer; but it begins late soon enough.) What was lost
// over some loops is a debt; once it is large, small loops run on the calling thread alone, for a
// multiple of the debt that doubles each time the others are late again at once: so one hiccup
// costs little, and under a lasting load it costs little to look whether it has gone. The parts
// stay the same, so results do not depend on the load. Loops that take long share their work even
// then: a wait is little beside the work, and more threads get more of a busy machine.
constexpr int64_t kMicrosecond = 1000;          // of the steady clock
constexpr int64_t kDebt = 1000 * kMicrosecond;  // waking a thread that sleeps takes up to 100
constexpr int64_t kLong = 4000 * kMicrosecond;  // about the slice of time that Linux gives
constexpr int64_t kLeastRest = 16;              // times the debt
constexpr int64_t kLongestRest = 2'000'000 * kMicrosecond;
constexpr int64_t kTrial = 50'000 * kMicrosecond;  // who is on time for so long is late anew
constexpr int64_t kManyGrains = 256;               // a grain is some 10 us of work
constexpr int kConvincing = 4;  // loops in a row that took long, and were not just held up

// Threads that had nothing to do for so long sleep, and may take so long to wake up.
constexpr int64_t kAsleep = 20'000 * kMicrosecond, kWakingUp = 2000 * kMicrosecond;

constinit std::atomic<int64_t> g_debt{0}, g_alone_until{0}, g_rest{kLeastRest}, g_last_team{0};
constinit std::atomic<int> g_long_alone{0};

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

void rest(int64_t debt, int64_t time) {
  const bool again = time - g_alone_until.load(std::memory_order_relaxed) < kTrial;
  const int64_t longer = 2 * g_rest.load(std::memory_order_relaxed);
  const int64_t times = again ? std::min(longer, kLongestRest / kDebt) : kLeastRest;
  g_rest.store(times, std::memory_order_relaxed);
  g_alone_until.store(time + std::min(times * debt, kLongestRest), std::memory_order_relaxed);
  g_debt.store(0, std::memory_order_relaxed);
}

// Small loops were meant. Long ones had better be shared.
void learn_from_one(int64_t own) {
  if (own < kLong) [[likely]] {
    g_long_alone.store(0, std::memory_order_relaxed);
  } else if (g_long_alone.fetch_add(1, std::memory_order_relaxed) + 1 == kConvincing) {
    g_alone_until.store(0, std::memory_order_relaxed);
    g_long_alone.store(0, std::memory_order_relaxed);
  }
}

// Runs [begin, end) in steps of at least a grain and at most some ten milliseconds, asking for
// interrupts between them. Nobody to ask for: in one.
void run_in_steps(detail::RangeFn fn, void* context, int64_t begin, int64_t end, int64_t step) {
  // Some grains are done soon; one element of a grain of 1 may be a long row.
  if (step > 1) step *= 64;
  if (end - begin <= step || !is_interruptible()) return fn(context, begin, end);
  const int64_t least = step;
  auto last = InterruptClock::now();
  while (true) {
    const int64_t stop = end - begin <= step + step / 2 ? end : begin + step;
    fn(context, begin, stop);
    if (stop == end) return;
    begin = stop;
    const auto time = InterruptClock::now();
    check_interrupt(time);
    if (time - last < 10ms)
      step *= 2;
    else if (time - last > 50ms)
      step = std::max(least, step / 2);
    last = time;
  }
}

// What the threads of one loop share.
struct Job {
  detail::RangeFn fn;
  void* context;
  int64_t n, piece, step;
  bool interruptible;  // is the thread that called parallel_for?
  int64_t own = 0;     // the time that thread 0, which is the caller, took for its part
  std::atomic<int64_t> last_start{0};  // when the last of the others began
  std::atomic<bool> failed{false};
  std::exception_ptr error{};
  std::atomic<int> done{0};  // threads besides the first that have finished
  std::atomic<bool> waiting{false};

  // Thread `id` of `count` takes every count-th piece: right even when fewer threads came.
  void run(int id, int count) noexcept {
    if (id != 0) ensure_signal_stack();  // oneDNN will use this thread, too
    const bool nested = std::exchange(detail::t_in_parallel, true);
    const int64_t start = now();
    if (id != 0) note_start(start);
    {
      const StopScope stop(interruptible ? &failed : nullptr);
      for (int64_t begin = id * piece; begin < n; begin += count * piece) {
        if (failed.load(std::memory_order_relaxed)) break;
        try {
          run_in_steps(fn, context, begin, std::min(n, begin + piece), step);
        } catch (const LoopStopped&) {
          break;
        } catch (...) {
          if (!failed.exchange(true)) error = std::current_exception();
        }
      }
    }
    detail::t_in_parallel = nested;
    if (id != 0) return finish(count);
    own = now() - start;
    wait(count);
  }

  void note_start(int64_t time) noexcept {
    int64_t seen = last_start.load(std::memory_order_relaxed);
    while (seen < time &&
           !last_start.compare_exchange_weak(seen, time, std::memory_order_relaxed)) {
    }
  }

  void finish(int count) noexcept {
    if (done.fetch_add(1) + 2 == count && waiting.load()) wake_waiting(done);
  }

  // The first thread is the one that can be interrupted, and in libgomp's barrier it would not be:
  // in a long loop it joins that only once the others are about to. A short one is over soon,
  // and the barrier knows best how to wait for it.
  void wait(int count) noexcept {
    if (own < 5 * kLong || !interruptible) return;
    const auto over = [&] { return done.load() + 1 >= count; };
    waiting = true;
    wait_interruptibly(failed, error, [&](auto limit) {
      const int seen = done.load();
      if (seen + 1 < count) wait_for_change(done, seen, limit);
      return over();
    });
  }
};

void run_alone(Job& job) {
  const OneThread serial;
  job.run(0, 1);
}

#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer does not see libgomp's barriers and would report every loop.
void run_team(Job& job, int threads) {
  std::vector<std::thread> team;
  for (int id = 1; id < threads; ++id)
    team.emplace_back([&job, id, threads] { job.run(id, threads); });
  job.run(0, threads);
  for (std::thread& member : team) member.join();
}
#else
void run_team(Job& job, int threads) {
#pragma omp parallel num_threads(threads)
  job.run(omp_get_thread_num(), omp_get_num_threads());
}
#endif

// Long loops run over elements: pieces of whole cache lines and vectors. Short ones may run over
// rows, which are better shared evenly.
int64_t rounded(int64_t count) {
  const int64_t unit = count >= 1024 ? 64 : count >= 256 ? 16 : 1;
  return (count + unit - 1) / unit * unit;
}

}  // namespace

void detail::learn_from_team(int64_t own, int64_t waited, int64_t time) {
  const int64_t before = g_debt.load(std::memory_order_relaxed);
  if (waited <= own && before == 0) [[likely]]
    return;
  const int64_t debt = own < kLong ? std::max<int64_t>(0, before + waited - own) : 0;
  if (debt > kDebt)
    rest(debt, time);
  else
    g_debt.store(debt, std::memory_order_relaxed);
}

OneThread::OneThread()
    : was_parallel_(std::exchange(detail::t_in_parallel, true)), libraries_(omp_get_max_threads()) {
  omp_set_num_threads(1);
}
OneThread::~OneThread() {
  omp_set_num_threads(libraries_);
  detail::t_in_parallel = was_parallel_;
}

void detail::parallel_run(int64_t n, int64_t grain, bool whole, RangeFn fn, void* context) {
  check_interrupt();
  const bool interruptible = is_interruptible();
  const int64_t step = whole || !interruptible ? n : rounded(std::max<int64_t>(grain, 1));
  if (t_in_parallel) return run_in_steps(fn, context, 0, n, step);
  const int64_t most = (n - 1) / std::max<int64_t>(grain, 1) + 1;
  const int threads = int(std::min<int64_t>(num_threads(), most));
  if (threads <= 1) return run_in_steps(fn, context, 0, n, step);
  Job job{.fn = fn,
          .context = context,
          .n = n,
          .piece = rounded((n - 1) / threads + 1),
          .step = step,
          .interruptible = interruptible};
  const int64_t start = now();
  if (most < kManyGrains && start < g_alone_until.load(std::memory_order_relaxed)) [[unlikely]] {
    run_alone(job);
    learn_from_one(job.own);
  } else {
    run_team(job, threads);
    const int64_t end = now();
    const int64_t late = job.last_start.load(std::memory_order_relaxed) - start;
    const bool asleep = start - g_last_team.exchange(end, std::memory_order_relaxed) > kAsleep;
    const int64_t waited = std::min(late, end - start - job.own);
    learn_from_team(job.own, asleep ? waited - kWakingUp : waited, end);
  }
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace rush
