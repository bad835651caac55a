// node_table.h: which number a node has in one backward pass. Open addressing with linear probing;
// nodes are only added, so there is nothing to delete.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/node.h"

namespace rush {

class NodeTable {
 public:
  NodeTable() : slots_(64) {}

  // The number of `node`; a node seen for the first time gets the next one.
  uint32_t number(const Node* node) {
    if (2 * count_ >= slots_.size()) [[unlikely]]
      grow();
    Slot& s = slots_[place(node)];
    if (!s.node) {
      s.node = node;
      s.number = count_++;
    }
    return s.number;
  }
  // Its number, or `count()` when it was never added.
  uint32_t find(const Node* node) const {
    const Slot& s = slots_[place(node)];
    return s.node ? s.number : count_;
  }
  uint32_t count() const { return count_; }

 private:
  struct Slot {
    const Node* node = nullptr;
    uint32_t number = 0;
  };
  size_t place(const Node* node) const {
    const size_t mask = slots_.size() - 1;
    size_t i = (reinterpret_cast<uintptr_t>(node) * 0x9E3779B97F4A7C15u >> 32) & mask;
    while (slots_[i].node && slots_[i].node != node) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& s : old) {
      if (s.node) slots_[place(s.node)] = s;
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, at most half full
  uint32_t count_ = 0;
};

}  // namespace rush
