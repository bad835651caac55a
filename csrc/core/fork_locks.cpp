#include "core/fork_locks.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace rush {

namespace {

constexpr int kMost = 16;

// Whoever adds one may hold a lock that a fork takes: no lock of its own guards the list.
constinit std::atomic<const ForkLock*> g_locks[kMost];

// Those that this thread took for its fork; meanwhile others may be added.
struct Taken {
  const ForkLock* locks[kMost];
  int count;
};
constinit thread_local Taken t_taken{};

void before_fork() {
  int count = 0;
  for (const auto& slot : g_locks) {
    if (const ForkLock* lock = slot.load(std::memory_order_acquire)) t_taken.locks[count++] = lock;
  }
  std::sort(t_taken.locks, t_taken.locks + count,
            [](const ForkLock* a, const ForkLock* b) { return a->rank < b->rank; });
  for (int i = 0; i < count; ++i) t_taken.locks[i]->lock();
  t_taken.count = count;
}

void after_fork(void (*ForkLock::*unlock)()) {
  while (t_taken.count > 0) (t_taken.locks[--t_taken.count]->*unlock)();
}

}  // namespace

void hold_across_forks(const ForkLock& lock) {
  static const int registered = pthread_atfork(
      before_fork, [] { after_fork(&ForkLock::in_parent); },
      [] { after_fork(&ForkLock::in_child); });
  (void)registered;
  for (auto& slot : g_locks) {
    const ForkLock* none = nullptr;
    if (slot.compare_exchange_strong(none, &lock, std::memory_order_acq_rel)) return;
  }
  std::fputs("rushlight: too many locks are held across forks\n", stderr);
  std::abort();
}

}  // namespace rush
