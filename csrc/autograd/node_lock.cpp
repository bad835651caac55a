#include "autograd/node_lock.h"

#include <chrono>
#include <thread>

namespace rush {

constinit thread_local uint32_t NodeLock::t_line = 0;

uint32_t NodeLock::new_line() {
  static std::atomic<uint32_t> next{1};
  do {
    t_line = next.fetch_add(1, std::memory_order_relaxed);
  } while (t_line == 0);  // wrapped around
  return t_line;
}

// Rare, and as long as one op: looking again from time to time costs less than what waking would
// cost everybody.
void NodeLock::wait(Node& node) {
  for (int tries = 0;; ++tries) {
    uint32_t owner = 0;
    if (node.busy_.compare_exchange_weak(owner, t_line, std::memory_order_acquire)) return;
    if (tries < 64)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(tries < 256 ? 20 : 200));
  }
}

}  // namespace rush
