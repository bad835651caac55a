#include "autograd/node.h"

#include "autograd/anomaly.h"
#include "autograd/deferred_delete.h"
#include "autograd/hooks.h"
#include "autograd/task_streams.h"
#include "core/layout.h"
#include "core/make_once.h"
#include "core/object_pool.h"

namespace rush {
namespace {

constinit thread_local uint64_t t_next_sequence = 0;

}  // namespace

Node::Node() : sequence_(t_next_sequence++) {
  if (anomaly_enabled()) [[unlikely]]
    note_forward_call(*this);
}

Node::~Node() {
  forget_stream(*this);
  delete extras();
}

NodeExtras& Node::make_extras() { return make_once(extras_); }

void Node::overtake(uint64_t sequence) {
  sequence_ = sequence + 1;
  t_next_sequence = sequence_ + 1;
}

uint32_t Node::add_result(const Tensor& t) {
  results_.push_back(ResultMeta{t.sizes(), t.dtype(), t.device(), is_laid_out_otherwise(t)});
  if (device_traits(t).asynchronous) [[unlikely]]
    note_stream(*this, t.device());
  if (anomaly_checks_nan()) [[unlikely]]
    note_forward_result(*this, t);
  return uint32_t(results_.size() - 1);
}

void* Node::operator new(size_t bytes) { return pool_allocate(bytes); }
void Node::operator delete(void* p, size_t bytes) noexcept { pool_free(p, bytes); }

void Node::destroy(Node* n) noexcept { DeferredDelete::add(n); }

}  // namespace rush
