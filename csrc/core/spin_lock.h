// spin_lock.h: one byte that guards a few instructions, such as copying a counted pointer. Whoever
// holds it neither allocates nor frees nor calls anybody.
#pragma once

#include <atomic>
#include <thread>

namespace rush {

class SpinLock {
 public:
  void lock() noexcept {
    while (taken_.exchange(true, std::memory_order_acquire)) {
      for (int spins = 0; taken_.load(std::memory_order_relaxed); ++spins) {
        if (spins >= 64) std::this_thread::yield();  // its holder may have lost the processor
      }
    }
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

}  // namespace rush
