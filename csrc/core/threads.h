// threads.h: how many threads, and the one parallel loop that every CPU kernel uses.
//
// Threads come from OpenMP (libgomp), so that oneDNN and our loops share one pool. No thread starts
// before the first loop that is long enough. A forked child is serial: libgomp hangs there, because
// the pool it remembers did not survive the fork.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "core/export.h"

namespace rush {

// Default: OMP_NUM_THREADS if set, else min(affinity, cgroup quota, physical cores). 1 in a forked
// child. Libraries that use OpenMP by themselves are told this number by their glue.
RUSH_API int num_threads();
RUSH_API void set_num_threads(int n);

// Threads for independent pieces of work (jit fork/join, engine helpers); not used by parallel_for.
RUSH_API int num_interop_threads();
RUSH_API void set_num_interop_threads(int n);

namespace detail {

// initial-exec: read by every loop, and the call for a dynamic TLS address would cost more.
RUSH_API extern constinit thread_local bool t_in_parallel [[gnu::tls_model("initial-exec")]];

using RangeFn = void (*)(void* context, int64_t begin, int64_t end);
RUSH_API void parallel_run(int64_t n, int64_t grain, bool whole, RangeFn fn, void* context);

// After each shared loop (parallel.cpp), and in tests: the calling thread took `own` for its part,
// and waited for others who began late. Nanoseconds of the steady clock.
RUSH_API void learn_from_team(int64_t own, int64_t waited, int64_t time);

template <class F>
void parallel(int64_t n, int64_t grain, bool whole, F& f) {
  parallel_run(
      n, grain, whole,
      [](void* context, int64_t begin, int64_t end) { (*static_cast<F*>(context))(begin, end); },
      const_cast<void*>(static_cast<const void*>(std::addressof(f))));
}

}  // namespace detail

// True inside the body of a parallel_for that was really split, whoever runs its pieces.
inline bool in_parallel_region() { return detail::t_in_parallel; }

// In this scope loops run on the calling thread alone, and libraries that use OpenMP do, too: they
// are left no more threads than they find inside a loop that is shared.
class RUSH_API OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  bool was_parallel_;
  int libraries_;
};

// Calls f(begin, end) over pieces that cover [0, n) once each, at most one piece per `grain`
// elements. Serial when n <= grain (then with one call), with one thread, when nested, and in a
// forked child. Between the pieces of a thread it can be interrupted (core/interrupt.h): pieces
// begin small and grow to some ten milliseconds, so a call of f should do little but its elements.
// Where it does much (packs an operand, say), parallel_for_whole gives each thread one piece only.
// An exception in f is rethrown here, after every thread has stopped. On a busy machine the calling
// thread may do all pieces of a small loop, see Note [Threads that do not run] in parallel.cpp.
// Boundaries depend on the number of threads, so what f computes for an element must not depend on
// them: that is how results stay bit-equal for any number of threads.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& f) {
  if (n <= 0) return;
  if (n <= grain || n == 1) {
    f(int64_t{0}, n);
    return;
  }
  detail::parallel(n, grain, false, f);
}

template <class F>
void parallel_for_whole(int64_t n, int64_t grain, F&& f) {
  if (n <= 0) return;
  if (n <= grain || n == 1 || detail::t_in_parallel) {
    f(int64_t{0}, n);
    return;
  }
  detail::parallel(n, grain, true, f);
}

}  // namespace rush
