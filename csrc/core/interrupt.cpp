#include "core/interrupt.h"

#include <pthread.h>

namespace rush {
namespace {

constinit std::atomic<void (*)()> g_poll{nullptr};
constinit std::atomic<uintptr_t> g_thread{0};
// Written by the thread that polls; another one may become that thread.
constinit std::atomic<InterruptClock::rep> g_last_poll{0};

constinit thread_local const std::atomic<bool>* t_stop = nullptr;
constinit thread_local int t_held = 0;

bool is_polling_thread() {
  return uintptr_t(pthread_self()) == g_thread.load(std::memory_order_relaxed);
}

// The GIL may be held for good by a thread that did not survive the fork, unless Python forked, and
// then it names the thread once it has put itself in order.
[[gnu::constructor]] void watch_forks() {
  pthread_atfork(nullptr, nullptr, [] { g_thread.store(0, std::memory_order_relaxed); });
}

bool is_stopped() { return t_stop && t_stop->load(std::memory_order_relaxed); }

}  // namespace

void set_interrupt_poll(void (*poll)()) { g_poll.store(poll); }
void set_interrupt_thread(uintptr_t thread) { g_thread.store(thread); }

bool is_interruptible() { return t_held == 0 && (t_stop || is_polling_thread()); }

void check_interrupt() {
  if (t_held > 0) return;
  if (is_stopped()) throw LoopStopped{};
  if (is_polling_thread()) check_interrupt(InterruptClock::now());
}

void check_interrupt(InterruptClock::time_point now) {
  if (t_held > 0) return;
  if (is_stopped()) throw LoopStopped{};
  if (!is_polling_thread()) return;
  const InterruptClock::rep ticks = now.time_since_epoch().count();
  const InterruptClock::duration since(ticks - g_last_poll.load(std::memory_order_relaxed));
  if (since < kInterruptInterval) return;
  g_last_poll.store(ticks, std::memory_order_relaxed);
  // What a handler computes has nothing to do with the loop that is asking.
  const StopScope none(nullptr);
  if (void (*poll)() = g_poll.load(std::memory_order_relaxed)) poll();
}

HoldInterrupts::HoldInterrupts() { ++t_held; }
HoldInterrupts::~HoldInterrupts() { --t_held; }

StopScope::StopScope(const std::atomic<bool>* stop) : before_(t_stop) { t_stop = stop; }
StopScope::~StopScope() { t_stop = before_; }

}  // namespace rush
