// futex.h: waiting for a number in memory to change, with a limit, which std::atomic::wait lacks.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>

namespace rush {

// Until `word` is no longer `seen` and somebody calls wake_waiting, or the time is over, or for no
// reason at all.
inline void wait_for_change(std::atomic<int>& word, int seen, std::chrono::nanoseconds limit) {
  timespec time{};
  time.tv_sec = time_t(limit.count() / 1'000'000'000);
  time.tv_nsec = long(limit.count() % 1'000'000'000);
  syscall(SYS_futex, reinterpret_cast<int*>(&word), FUTEX_WAIT_PRIVATE, seen, &time, nullptr, 0);
}

inline void wake_waiting(std::atomic<int>& word) {
  syscall(SYS_futex, reinterpret_cast<int*>(&word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace rush
