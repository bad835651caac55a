#include "autograd/node.h"

#include "autograd/reaper.h"

namespace rush {
namespace {

constinit thread_local uint64_t t_next_sequence = 0;

}  // namespace

Node::Node() : sequence_(t_next_sequence++) {}

void Node::overtake(uint64_t sequence) {
  sequence_ = sequence + 1;
  t_next_sequence = sequence_ + 1;
}

uint32_t Node::add_result(const Tensor& t) {
  results_.push_back(ResultMeta{t.sizes(), t.dtype(), t.device()});
  return uint32_t(results_.size() - 1);
}

void* Node::operator new(size_t bytes) { return ::operator new(bytes); }
void Node::operator delete(void* p, size_t) noexcept { ::operator delete(p); }

void Node::destroy(Node* n) noexcept { Reaper::bury(n); }

}  // namespace rush
