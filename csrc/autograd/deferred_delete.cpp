#include "autograd/deferred_delete.h"

namespace rush {
namespace {

// Plain data: tensors may still die while a thread's other variables are being destroyed.
struct Doomed {
  Node* nodes;
  GradMeta* metas;
  bool active;
};
constinit thread_local Doomed t_doomed{};

}  // namespace

void DeferredDelete::add(Node* n) noexcept {
  n->next_doomed_ = t_doomed.nodes;
  t_doomed.nodes = n;
  if (!t_doomed.active) work();
}

void DeferredDelete::add(GradMeta* m) noexcept {
  m->next_doomed = t_doomed.metas;
  t_doomed.metas = m;
  if (!t_doomed.active) work();
}

void DeferredDelete::work() noexcept {
  t_doomed.active = true;
  while (true) {
    if (Node* n = t_doomed.nodes) {
      t_doomed.nodes = n->next_doomed_;
      delete n;
    } else if (GradMeta* m = t_doomed.metas) {
      t_doomed.metas = m->next_doomed;
      delete m;
    } else {
      break;
    }
  }
  t_doomed.active = false;
}

}  // namespace rush
