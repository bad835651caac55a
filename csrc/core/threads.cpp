#include "core/threads.h"

#include <omp.h>
#include <pthread.h>

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/cpu_features.h"
#include "core/error.h"

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

// Note [Threads that do not run]
// A shared loop ends when the last of its threads has done its part. On a busy machine a thread may
// stand in the kernel's queue for many milliseconds, while the loop takes microseconds. So each
// shared loop compares how long the calling thread had to wait for the others with what they did
// for it, which is as much as its own part. What was lost over some loops is a debt; once it is
// large, small loops run on the calling thread alone for kRest times as long, so that trying again
// costs a few percent at the most. The pieces stay the same, so results do not depend on the load.
// Loops that take long share their work even then: a wait is little beside the work, and more
// threads get more of a busy machine.
constexpr int64_t kMicrosecond = 1000;          // of the steady clock
constexpr int64_t kDebt = 300 * kMicrosecond;   // waking a thread that sleeps takes up to 100
constexpr int64_t kLong = 4000 * kMicrosecond;  // about the slice of time that Linux gives
constexpr int64_t kRest = 40, kLongestRest = 1'000'000 * kMicrosecond;
constexpr int64_t kManyGrains = 256;  // a grain is some 10 us of work
constinit std::atomic<int64_t> g_debt{0}, g_alone_until{0};

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// own: what the caller's part took; waited: for the others, before it and after it.
void learn_from_team(int64_t own, int64_t waited, int64_t time) {
  const int64_t before = g_debt.load(std::memory_order_relaxed);
  if (waited <= own && before == 0) [[likely]]
    return;
  const int64_t debt = own < kLong ? std::max<int64_t>(0, before + waited - own) : 0;
  if (debt > kDebt) {
    g_alone_until.store(time + std::min(kRest * debt, kLongestRest), std::memory_order_relaxed);
    g_debt.store(0, std::memory_order_relaxed);
  } else {
    g_debt.store(debt, std::memory_order_relaxed);
  }
}

// What the threads of one loop share.
struct Job {
  detail::RangeFn fn;
  void* context;
  int64_t n, piece;
  int64_t own = 0;  // the time that thread 0, which is the caller, took for its part
  std::atomic<bool> failed{false};
  std::exception_ptr error{};

  // Thread `id` of `count` takes every count-th piece: right even when fewer threads came.
  void run(int id, int count) noexcept {
    const bool nested = std::exchange(detail::t_in_parallel, true);
    const int64_t start = id == 0 ? now() : 0;
    for (int64_t begin = id * piece; begin < n; begin += count * piece) {
      if (failed.load(std::memory_order_relaxed)) break;
      try {
        fn(context, begin, std::min(n, begin + piece));
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
      }
    }
    detail::t_in_parallel = nested;
    if (id == 0) own = now() - start;
  }
};

// The time that this thread really ran.
int64_t processor_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

void run_alone(Job& job) {
  const int64_t start = processor_time();
  {
    const OneThread serial;
    job.run(0, 1);
  }
  // It was no small loop. The next one like it had better be shared.
  if (processor_time() - start > kLong) g_alone_until.store(0, std::memory_order_relaxed);
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

}  // namespace

OneThread::OneThread()
    : was_parallel_(std::exchange(detail::t_in_parallel, true)), libraries_(omp_get_max_threads()) {
  omp_set_num_threads(1);
}
OneThread::~OneThread() {
  omp_set_num_threads(libraries_);
  detail::t_in_parallel = was_parallel_;
}

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

void detail::parallel_run(int64_t n, int64_t grain, RangeFn fn, void* context) {
  const int64_t most = (n - 1) / std::max<int64_t>(grain, 1) + 1;
  const int threads = int(std::min<int64_t>(num_threads(), most));
  if (threads <= 1) {
    fn(context, 0, n);
    return;
  }
  Job job{.fn = fn, .context = context, .n = n, .piece = (n - 1) / threads + 1};
  // Long loops run over elements: pieces of whole cache lines and vectors. Short ones may run over
  // rows, which are better shared evenly.
  const int64_t whole = job.piece >= 1024 ? 64 : job.piece >= 256 ? 16 : 1;
  job.piece = (job.piece + whole - 1) / whole * whole;
  const int64_t start = now();
  if (most < kManyGrains && start < g_alone_until.load(std::memory_order_relaxed)) [[unlikely]] {
    run_alone(job);
  } else {
    run_team(job, threads);
    const int64_t end = now();
    learn_from_team(job.own, end - start - job.own, end);
  }
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace rush
