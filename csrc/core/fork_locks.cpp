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

// Those that a fork has taken; meanwhile others may be added. Written and read while all are held.
struct Taken {
  const ForkLock* locks[kMost];
  int count;
};
constinit Taken g_taken{};

void before_fork() {
  Taken mine{};
  for (const auto& slot : g_locks) {
    if (const ForkLock* lock = slot.load(std::memory_order_acquire))
      mine.locks[mine.count++] = lock;
  }
  std::sort(mine.locks, mine.locks + mine.count,
            [](const ForkLock* a, const ForkLock* b) { return a->rank < b->rank; });
  for (int i = 0; i < mine.count; ++i) mine.locks[i]->lock();
  g_taken = mine;
}

void after_fork(void (*ForkLock::*unlock)()) {
  const Taken mine = g_taken;  // behind the last one another thread may fork
  for (int i = mine.count; i-- > 0;) (mine.locks[i]->*unlock)();
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
