#include "autograd/node.h"

#include <vector>

#include "autograd/anomaly.h"
#include "autograd/hooks.h"

namespace rush {
namespace {

thread_local uint64_t t_next_sequence = 0;

}  // namespace

Node::Node() : sequence_(t_next_sequence++) {
  if (anomaly_enabled()) [[unlikely]]
    note_forward_call(*this);
}

Node::~Node() { delete extras(); }

NodeExtras& Node::make_extras() {
  NodeExtras* known = extras();
  if (known) return *known;
  auto* made = new NodeExtras;
  if (extras_.compare_exchange_strong(known, made, std::memory_order_acq_rel)) return *made;
  delete made;  // another thread was faster
  return *known;
}

uint32_t Node::add_result(const Tensor& t) {
  results_.push_back(ResultMeta{t.sizes(), t.dtype(), t.device()});
  if (anomaly_checks_nan()) [[unlikely]]
    note_forward_result(*this, t);
  return uint32_t(results_.size() - 1);
}

// Deleting a node drops its edges, which may delete further nodes, and so on along the whole graph.
// The first call on a thread works off a list; calls from inside it only add to the list.
struct NodeReaper {
  std::vector<Node*> doomed;
  bool active = false;

  void reap(Node* n) {
    doomed.push_back(n);
    if (active) return;
    active = true;
    while (!doomed.empty()) {
      Node* next = doomed.back();
      doomed.pop_back();
      delete next;
    }
    active = false;
  }
};

void Node::destroy(Node* n) noexcept {
  static thread_local NodeReaper reaper;
  reaper.reap(n);
}

}  // namespace rush
