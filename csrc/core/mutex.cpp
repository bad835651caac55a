#include "core/mutex.h"

#if defined(RUSH_DEBUG)

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>

namespace rush {

namespace {

// The mutexes that this thread holds. Never destroyed, and never allocates: the allocator is one of
// its users, on threads that are ending too.
struct Held {
  static constexpr int kMost = 64;
  const Mutex* mutexes[kMost];
  LockRank ranks[kMost];
  int count;
};
constinit thread_local Held t_held{};

[[noreturn]] void end(const char* what, int rank, int held) {
  std::fprintf(stderr, "rushlight: lock order: %s (rank %d) while a mutex of rank %d is held\n",
               what, rank, held);
  std::abort();
}

}  // namespace

void Mutex::lock() {
  for (int i = 0; i < t_held.count; ++i) {
    const bool in_order =
        t_held.ranks[i] < rank_ ||
        (t_held.ranks[i] == rank_ && std::less<const Mutex*>()(t_held.mutexes[i], this));
    if (!in_order) end("a mutex is taken", int(rank_), int(t_held.ranks[i]));
  }
  if (t_held.count == Held::kMost) end("too many mutexes are taken", int(rank_), int(rank_));
  mutex_.lock();
  t_held.mutexes[t_held.count] = this;
  t_held.ranks[t_held.count++] = rank_;
}

void Mutex::unlock() {
  const Mutex** last = t_held.mutexes + t_held.count;
  const Mutex** found = std::find(t_held.mutexes, last, this);
  if (found == last) end("a mutex is released that this thread does not hold", int(rank_), -1);
  LockRank* rank = t_held.ranks + (found - t_held.mutexes);
  std::copy(found + 1, last, found);
  std::copy(rank + 1, t_held.ranks + t_held.count, rank);
  --t_held.count;
  mutex_.unlock();
}

void assert_no_lock_held(const char* what) {
  if (t_held.count > 0) end(what, -1, int(t_held.ranks[t_held.count - 1]));
}

}  // namespace rush

#endif
