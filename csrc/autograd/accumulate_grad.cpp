#include "autograd/accumulate_grad.h"

#include "autograd/engine.h"
#include "core/mutex.h"

namespace rush {
namespace {

Mutex g_accumulators{LockRank::Accumulators};

}  // namespace

AccumulateGrad::AccumulateGrad(const Tensor& leaf) : leaf_(leaf) {
  set_sequence(UINT64_MAX);  // leaves first: their gradients are complete as soon as they arrive
  add_result(leaf);
}

AccumulateGrad::~AccumulateGrad() {
  std::lock_guard lock(g_accumulators);
  GradMeta* meta = grad_meta_or_null(leaf_);
  if (meta && meta->accumulator == this) meta->accumulator = nullptr;
}

Ref<Node> AccumulateGrad::of(const Tensor& leaf) {
  GradMeta& meta = grad_meta(leaf);
  std::lock_guard lock(g_accumulators);
  if (meta.accumulator && meta.accumulator->try_retain()) return Ref<Node>::adopt(meta.accumulator);
  meta.accumulator = new AccumulateGrad(leaf);
  return Ref<Node>::adopt(meta.accumulator);
}

Grads AccumulateGrad::apply(GradSpan grads, std::span<const bool>) {
  const Tensor& g = grads[0];
  if (!g.defined()) return {};
  const EngineOps& ops = engine_ops();
  GradMeta& meta = grad_meta(leaf_);
  const bool keeps_graph = grad_enabled();
  if (!meta.grad.defined()) {
    // Nobody else holds this gradient and it is laid out like the leaf: take it instead of copying.
    // One reference is the engine's buffer.
    const bool mine = g.ref()->use_count() == 1 && g.storage()->use_count() == 1 &&
                      !g.impl()->base && g.strides() == leaf_.strides();
    meta.grad = keeps_graph ? (mine ? g : ops.clone(g))
                : mine      ? detached(g)
                            : detached(ops.clone(g));
  } else if (keeps_graph) {
    meta.grad = ops.add(meta.grad, g);
  } else {
    ops.add_in_place(meta.grad, g);
  }
  return {};
}

}  // namespace rush
