#include "core/threads.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/cpu_features.h"
#include "core/error.h"
#include "core/futex.h"
#include "core/interrupt.h"
#include "core/signal_stack.h"

namespace rush {

constinit thread_local bool detail::t_in_parallel = false;

namespace {

constinit std::atomic<int> g_threads{0};  // 0: the default, not yet computed
constinit std::atomic<int> g_interop_threads{0};
constinit std::atomic<bool> g_forked_child{false};

constexpr int kNoQuota = 1 << 20;

// Rounded up: a container with 1.5 processors runs two threads better than one.
int to_processors(double quota, double period) {
  if (quota <= 0 || period <= 0) return kNoQuota;
  return int(std::clamp((quota + period - 1) / period, 1.0, double(kNoQuota)));
}

int quota_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max") return kNoQuota;
  return to_processors(std::strtod(quota.c_str(), nullptr), period);
}

int quota_v1(const std::string& folder) {
  double quota = 0, period = 0;
  if (!(std::ifstream(folder + "/cpu.cfs_quota_us") >> quota)) return kNoQuota;
  if (!(std::ifstream(folder + "/cpu.cfs_period_us") >> period)) return kNoQuota;
  return to_processors(quota, period);
}

// The smallest quota from the group up to the root. Inside a container the path of the host may
// not exist, and then only the root of the mount, which is the container itself, answers.
template <class Quota>
int smallest_quota(const std::string& mount, std::string path, Quota quota) {
  int best = quota(mount);
  while (path.size() > 1) {
    best = std::min(best, quota(mount + path));
    path.resize(path.find_last_of('/'));
  }
  return best;
}

int cgroup_quota() {
  int best = kNoQuota;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "id:controllers:path"
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"})
        best = std::min(best, smallest_quota(mount, path, quota_v2));
    } else if (controllers.find(",cpu,") != std::string::npos) {
      for (const char* mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"})
        best = std::min(best, smallest_quota(mount, path, quota_v1));
    }
  }
  return best;
}

int default_threads() {
  if (const char* text = std::getenv("OMP_NUM_THREADS")) {
    const long wanted = std::strtol(text, nullptr, 10);  // of a list "4,2" the outermost level
    if (wanted > 0 && wanted <= kNoQuota) return int(wanted);
  }
  // With OMP_PROC_BIND this thread is bound to one core by now: its affinity no longer tells what
  // the process may use, but libgomp remembers.
  const bool bound = omp_get_proc_bind() != omp_proc_bind_false;
  return std::min(
      {omp_get_num_procs(), cgroup_quota(), bound ? omp_get_num_places() : physical_cores()});
}

// In the child only the forking thread lives on, while libgomp still believes in its pool. The
// library's own setting is lowered too, so that others who use OpenMP stay serial as well.
void after_fork_in_child() {
  g_forked_child.store(true, std::memory_order_relaxed);
  detail::t_in_parallel = false;
  omp_set_num_threads(1);
}

// When the library is loaded: also a child that was forked before its parent computed anything is
// serial, or many children would start as many pools.
[[gnu::constructor]] void watch_forks() { pthread_atfork(nullptr, nullptr, after_fork_in_child); }

// Runs [begin, end) in steps of at least a grain and at most some ten milliseconds, asking for
// interrupts between them. Nobody to ask for: in one.
void run_in_steps(detail::RangeFn fn, void* context, int64_t begin, int64_t end, int64_t step) {
  using namespace std::chrono_literals;
  // A few grains are done soon; one element of a grain of 1 may be a long row.
  const int64_t short_enough = step > 1 ? 4 * step : 1;
  if (end - begin <= short_enough || !is_interruptible()) return fn(context, begin, end);
  const int64_t least = step;
  auto last = InterruptClock::now();
  while (true) {
    const int64_t stop = end - begin <= step + step / 2 ? end : begin + step;
    fn(context, begin, stop);
    if (stop == end) return;
    begin = stop;
    const auto now = InterruptClock::now();
    check_interrupt(now);
    if (now - last < 10ms)
      step *= 2;
    else if (now - last > 50ms)
      step = std::max(least, step / 2);
    last = now;
  }
}

// What the threads of one loop share.
struct Job {
  detail::RangeFn fn;
  void* context;
  int64_t n, piece, step;
  bool interruptible;  // is the thread that called parallel_for?
  std::atomic<bool> failed{false};
  std::exception_ptr error{};
  std::atomic<int> done{0};  // threads besides the first that have finished
  std::atomic<bool> waiting{false};
  InterruptClock::time_point begin = InterruptClock::now();

  // Thread `id` of `count` takes every count-th piece: right even when fewer threads came.
  void run(int id, int count) noexcept {
    if (id != 0) ensure_signal_stack();  // oneDNN will use this thread, too
    detail::t_in_parallel = true;
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
    detail::t_in_parallel = false;
    if (id != 0)
      finish(count);
    else
      wait(count);
  }

  void finish(int count) noexcept {
    if (done.fetch_add(1) + 2 == count && waiting.load()) wake_waiting(done);
  }

  // The first thread is the one that can be interrupted, and in libgomp's barrier it would not be:
  // in a long loop it joins that only once the others are about to. A short one is over soon,
  // and the barrier knows best how to wait for it.
  void wait(int count) noexcept {
    using namespace std::chrono_literals;
    if (!interruptible || InterruptClock::now() - begin < 20ms) return;
    const auto over = [&] { return done.load() + 1 >= count; };
    waiting = true;
    wait_interruptibly(failed, error, [&](auto limit) {
      const int seen = done.load();
      if (seen + 1 < count) wait_for_change(done, seen, limit);
      return over();
    });
  }
};

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

}  // namespace

int num_threads() {
  if (g_forked_child.load(std::memory_order_relaxed)) return 1;
  int n = g_threads.load(std::memory_order_relaxed);
  if (n > 0) return n;
  const int fresh = default_threads();
  return g_threads.compare_exchange_strong(n, fresh) ? fresh : n;
}

void set_num_threads(int n) {
  check_argument(n > 0, "set_num_threads", "expected a positive number, got ", n);
  g_threads.store(n, std::memory_order_relaxed);
  if (!g_forked_child.load(std::memory_order_relaxed)) omp_set_num_threads(n);
}

int num_interop_threads() {
  const int n = g_interop_threads.load(std::memory_order_relaxed);
  return n > 0 ? n : num_threads();
}

void set_num_interop_threads(int n) {
  check_argument(n > 0, "set_num_interop_threads", "expected a positive number, got ", n);
  g_interop_threads.store(n, std::memory_order_relaxed);
}

void detail::parallel_run(int64_t n, int64_t grain, bool whole, RangeFn fn, void* context) {
  check_interrupt();
  // Long loops run over elements: pieces of whole cache lines and vectors. Short ones may run over
  // rows, which are better shared evenly.
  const auto rounded = [](int64_t count) {
    const int64_t unit = count >= 1024 ? 64 : count >= 256 ? 16 : 1;
    return (count + unit - 1) / unit * unit;
  };
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
  run_team(job, threads);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace rush
