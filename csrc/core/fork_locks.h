// fork_locks.h: locks that are held while the process forks, so that the child finds none of them
// taken by a thread that it does not have.
#pragma once

#include "core/mutex.h"

namespace rush {

struct ForkLock {
  LockRank rank;  // the lowest that `lock` takes
  void (*lock)();
  void (*in_parent)();  // these two unlock
  void (*in_child)();
};

// From now on and for good; the lock is never destroyed. Forks take them in the order of their ranks
// (Note [Lock order]); pthread_atfork alone would take first what was registered last, and each is
// registered when it is first used.
void hold_across_forks(const ForkLock& lock);

// What the whole process has one of, with a `mutex` that is held so. It outlives whatever is freed at
// exit.
template <class Shared, LockRank rank>
Shared& shared_across_forks() {
  static Shared* const shared = [] {
    static Shared* const made = new Shared;
    static constexpr auto unlock = [] { made->mutex.unlock(); };
    static const ForkLock lock{rank, [] { made->mutex.lock(); }, unlock, unlock};
    hold_across_forks(lock);
    return made;
  }();
  return *shared;
}

}  // namespace rush
