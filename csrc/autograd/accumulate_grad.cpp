#include "autograd/accumulate_grad.h"

#include <array>

#include "autograd/engine.h"
#include "core/interrupt.h"
#include "core/layout.h"
#include "core/memoryless.h"
#include "core/mutex.h"

namespace rush {
namespace {

// Which tensor is being added to. Held as long as an addition takes; what is dropped is dropped
// after it, as that may want the GIL.
Mutex& adding_to(const Tensor& t) {
  struct Ranked : Mutex {
    Ranked() : Mutex(LockRank::Gradients) {}
  };
  static std::array<Ranked, 64> mutexes;
  return mutexes[reinterpret_cast<uintptr_t>(t.impl()) / 64 % mutexes.size()];
}

bool same_layout(IntList sizes, IntList a, IntList b) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1 && a[i] != b[i]) return false;
  }
  return true;
}

// One reference is the engine's.
bool nobody_else_holds(const Tensor& g) {
  return owns_memory(g) && !g.impl()->base && !g.impl()->py_object;
}

// A view that is all that is left of its base, and shows all of it, as a tensor of its own, so that
// reshaped and transposed gradients need no copy. Undefined: somebody else could see the memory.
Tensor without_base(const Tensor& g) {
  const TensorImpl *view = g.impl(), *base = view->base.get();
  if (!base || view->use_count() != 1 || base->use_count() != 1) return {};
  if (view->py_object || base->py_object || view->autograd || is_arranged(g)) return {};
  const Storage* s = view->storage.load();
  if (s->use_count() != 2 || s->read_only()) return {};
  if (size_t(g.numel() * g.element_size()) != s->nbytes()) return {};
  return make_tensor(g.storage(), g.sizes(), g.strides(), g.offset(), g.dtype());
}

Tensor first_gradient(const Tensor& t, const Tensor& g) {
  if (is_memoryless(g)) return g;
  const bool dense = is_dense(t.sizes(), t.strides());
  const bool fits = dense ? same_layout(t.sizes(), g.strides(), t.strides()) : g.is_contiguous();
  const bool keeps_graph = grad_enabled();
  if (fits && !keeps_graph && is_pending(g) && is_laid_out_otherwise(g)) {
    // It is wanted as it is seen: by optimisers, which would have it copied.
    if (Tensor own = engine_ops().lay_out_pending(g); own.defined()) return own;
  }
  if (fits && nobody_else_holds(g) && (keeps_graph || !g.impl()->autograd)) return g;
  if (fits && !keeps_graph) {
    if (Tensor own = without_base(g); own.defined()) return own;
  }
  return engine_ops().clone_strided(g, dense ? t.strides() : contiguous_strides(t.sizes()));
}

// With a graph of the addition, which may call into Python (anomaly mode): no lock is held while it
// is made, and it is made again when another thread came first.
void accumulate_with_history(const Tensor& t, const Tensor& g) {
  while (true) {
    const Tensor old = grad_of(t);
    const uint32_t version = old.defined() ? old.version() : 0;
    Tensor sum = old.defined() ? engine_ops().add(old, g) : first_gradient(t, g);
    std::lock_guard lock(adding_to(t));
    if (!grad_of(t).is_same(old) || (old.defined() && old.version() != version)) continue;
    sum = exchange_grad(t, std::move(sum));  // `old` keeps it alive until the lock is released
    return;
  }
}

}  // namespace

AccumulateGrad::AccumulateGrad(const Tensor& leaf) : leaf_(leaf) {
  set_sequence(kLeafSequence);
  set_trait(kRunsUserCode);  // post-accumulate hooks; accumulate_grad has a lock of its own
  add_result(leaf);
  if (grad_meta(leaf).hooks) make_extras();  // the engine looks for hooks where it sees some
}

AccumulateGrad::~AccumulateGrad() {
  GradMeta* meta = grad_meta_or_null(leaf_);
  std::lock_guard lock(meta->lock);
  if (meta->accumulator == this) meta->accumulator = nullptr;
}

Ref<Node> AccumulateGrad::of(const Tensor& leaf) {
  GradMeta& meta = grad_meta(leaf);
  auto find = [&] {
    const bool alive = meta.accumulator && meta.accumulator->try_retain();
    return Ref<Node>::adopt(alive ? meta.accumulator : nullptr);
  };
  {
    std::lock_guard lock(meta.lock);
    if (Ref<Node> node = find()) return node;
  }
  Ref<Node> fresh = Ref<Node>::adopt(new AccumulateGrad(leaf));
  std::lock_guard lock(meta.lock);
  if (Ref<Node> node = find()) return node;  // another thread was faster
  meta.accumulator = fresh.get();
  return fresh;
}

Grads AccumulateGrad::apply(GradSpan grads, std::span<const bool>) {
  if (!grads[0].defined() || !requires_grad(leaf_)) return {};  // it may have changed its mind
  accumulate_grad(leaf_, grads[0]);
  if (const GradMeta& meta = grad_meta(leaf_); meta.hooks) [[unlikely]]
    run_accumulation_hooks(leaf_, *meta.hooks);
  return {};
}

void accumulate_grad(const Tensor& t, const Tensor& g) {
  // A sum with a tensor without memory calls into Python, too.
  if (grad_enabled() || is_memoryless(g)) return accumulate_with_history(t, g);
  Tensor dropped, sum;
  {
    std::lock_guard lock(adding_to(t));
    const HoldInterrupts hold;  // a handler may call backward: for this lock, too
    sum = grad_of(t);
    if (!sum.defined())
      dropped = exchange_grad(t, first_gradient(t, g));
    else if (!is_memoryless(sum))
      engine_ops().add_in_place(sum, g);
  }
  if (sum.defined() && is_memoryless(sum)) accumulate_with_history(t, g);
}

}  // namespace rush
