#include "core/threads.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>

#include "core/cpu_features.h"
#include "core/error.h"
#include "core/openmp.h"

namespace rush {

constinit thread_local bool detail::t_in_parallel = false;

namespace {

constinit std::atomic<int> g_threads{0};  // 0: the default, not yet computed
constinit std::atomic<int> g_interop_threads{0};
constinit std::atomic<bool> g_forked_child{false};

// What tell_openmp last said on this thread; 0: nothing.
constinit thread_local int t_told = 0;

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

// 0: not set.
int threads_of_environment() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr) return 0;
  const long wanted = std::strtol(text, nullptr, 10);  // of a list "4,2" the outermost level
  return wanted > 0 && wanted <= kNoQuota ? int(wanted) : 0;
}

int default_threads() {
  if (const int wanted = threads_of_environment()) return wanted;
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

// Programs that run several pools of threads (threadpoolctl, and with it scikit-learn and joblib)
// lower OpenMP's own number on the thread that calls: less than it begins with, and not what we
// told it. Inside our loops the number is ours.
int left_by_others() {
  if (detail::t_in_parallel) return kNoQuota;
  static const int wanted = threads_of_environment();
  static const int first = wanted > 0 ? wanted : omp_get_num_procs();
  const int left = omp_get_max_threads();
  if (left == t_told) return kNoQuota;
  return left < std::max(t_told, first) ? left : kNoQuota;
}

}  // namespace

int num_threads() {
  if (g_forked_child.load(std::memory_order_relaxed)) return 1;
  int n = g_threads.load(std::memory_order_relaxed);
  if (n == 0) {
    const int fresh = default_threads();
    if (g_threads.compare_exchange_strong(n, fresh)) n = fresh;
  }
  return n == 1 ? 1 : std::min(n, left_by_others());
}

void detail::tell_openmp(int n) {
  t_told = n;
  omp_set_num_threads(n);
}

void set_num_threads(int n) {
  check_argument(n > 0, "set_num_threads", "expected a positive number, got ", n);
  g_threads.store(n, std::memory_order_relaxed);
  if (!g_forked_child.load(std::memory_order_relaxed)) detail::tell_openmp(n);
}

int num_interop_threads() {
  const int n = g_interop_threads.load(std::memory_order_relaxed);
  return n > 0 ? n : num_threads();
}

void set_num_interop_threads(int n) {
  check_argument(n > 0, "set_num_interop_threads", "expected a positive number, got ", n);
  g_interop_threads.store(n, std::memory_order_relaxed);
}

}  // namespace rush
