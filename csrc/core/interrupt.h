// interrupt.h: long work that can be left in the middle, as Ctrl-C asks for.
//
// Note [Interrupts]
// A signal's Python handler runs on Python's main thread, with the GIL, and only when that thread
// asks for it. Inside a call nobody asks, so long work has to: check_interrupt() stands in every
// loop that may take long, once per some milliseconds of work. On the one thread that may run
// handlers it asks at most every kInterruptInterval, through a function of the bindings (the core
// knows no Python); what the handler raises leaves from there as a C++ exception. On the threads of
// a parallel loop it looks whether another one has failed, and leaves as LoopStopped, which the
// loop catches. Everywhere else it does nothing.
//
// - parallel_for runs its pieces in steps and asks between them, so a loop whose elements are
//   short needs nothing more. What runs long inside one element, or outside of parallel_for, uses
//   in_steps, or calls check_interrupt itself.
// - A handler is arbitrary Python, and may compute: no lock of the core may be held (use
//   HoldInterrupts with one), and no thread-local state may be half-changed.
// - A result that is being computed is dropped. What is written in place, or given as out=, stays
//   as far as it was written.
// - A destructor must not compute: it could not throw.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>

#include "core/export.h"

namespace rush {

using InterruptClock = std::chrono::steady_clock;
inline constexpr std::chrono::milliseconds kInterruptInterval{200};

// Throws when the work on this thread is to be left.
RUSH_API void check_interrupt();
RUSH_API void check_interrupt(InterruptClock::time_point now);

// Could check_interrupt() ever throw on this thread, right now?
RUSH_API bool is_interruptible();

// Calls f(begin, end) over steps that cover [0, n), and asks between them. A step should take about
// a millisecond; a loop that needs one step only does not ask.
template <class F>
void in_steps(int64_t n, int64_t step, F&& f) {
  for (int64_t begin = 0; begin < n;) {
    const int64_t end = n - begin <= step ? n : begin + step;
    f(begin, end);
    begin = end;
    if (begin < n) check_interrupt();
  }
}

// For loops whose turns differ in length: asks once per so many units of work.
class InterruptCounter {
 public:
  explicit InterruptCounter(int64_t units) : units_(units), left_(units) {}
  void add(int64_t work = 1) {
    if ((left_ -= work) > 0) [[likely]]
      return;
    left_ = units_;
    check_interrupt();
  }

 private:
  int64_t units_, left_;
};

// No interrupts for a scope: while a lock is held, or while something must be done as a whole.
class RUSH_API HoldInterrupts {
 public:
  HoldInterrupts();
  ~HoldInterrupts();
  HoldInterrupts(const HoldInterrupts&) = delete;
  HoldInterrupts& operator=(const HoldInterrupts&) = delete;
};

// What leaves a thread of a parallel loop, or a helper thread, whose work is not wanted any more.
struct LoopStopped {};

// While it lives, this thread's work is to be left once `stop` is true.
class RUSH_API StopScope {
 public:
  explicit StopScope(const std::atomic<bool>* stop);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  const std::atomic<bool>* before_;
};

// Runs f, which waits for a thread that works for this one, asking in between: f(timeout) returns
// whether the wait is over. What an interrupt throws is kept until then, with `stop` set.
template <class F>
void wait_interruptibly(std::atomic<bool>& stop, std::exception_ptr& error, F&& f) {
  while (!f(kInterruptInterval)) {
    try {
      check_interrupt();
    } catch (...) {
      if (!stop.exchange(true)) error = std::current_exception();
    }
  }
}

// ---- for the bindings --------------------------------------------------------------------------

// `poll` runs the handlers of signals that came, and throws what they raise. It is called on the
// given thread (pthread_self) only; nullptr: never. A forked child has no such thread until it is
// named again.
RUSH_API void set_interrupt_poll(void (*poll)());
RUSH_API void set_interrupt_thread(uintptr_t thread);

}  // namespace rush
