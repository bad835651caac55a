// node_lock.h: keeps two threads out of one node.
#pragma once

#include "autograd/node.h"

namespace rush {

// Note [One thread a node]
// Threads may run backward through a graph they share. A node's saved tensors are then read by one
// thread while another would release them, so the engine locks a node while it runs. One compare
// and exchange when nobody is there. The lock is for a line of nested calls rather than for a
// thread: what a hook deep inside apply() calls may come by the same node again, perhaps on one of
// the engine's threads. Nodes that run a user's code by design are not locked: they guard their own
// state, and two of them could otherwise wait for each other.
class RUSH_API NodeLock {
 public:
  explicit NodeLock(Node& node) {
    if (node.has(Node::kRunsUserCode)) return;
    uint32_t owner = 0;
    if (!node.busy_.compare_exchange_strong(owner, line(), std::memory_order_acquire)) {
      if (owner == line()) return;
      wait(node);
    }
    node_ = &node;
  }
  ~NodeLock() {
    if (node_) node_->busy_.store(0, std::memory_order_release);
  }
  NodeLock(const NodeLock&) = delete;
  NodeLock& operator=(const NodeLock&) = delete;

  // The number of this thread's line of calls; the engine's threads take over their caller's.
  static uint32_t line() { return t_line ? t_line : new_line(); }
  static void continue_line(uint32_t line) { t_line = line; }

 private:
  static uint32_t new_line();
  static void wait(Node& node);
  static constinit thread_local uint32_t t_line;
  Node* node_ = nullptr;
};

}  // namespace rush
