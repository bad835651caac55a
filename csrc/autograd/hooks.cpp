#include "autograd/hooks.h"

#include <algorithm>

#include "autograd/accumulate_grad.h"
#include "autograd/engine.h"
#include "core/make_once.h"
#include "core/mutex.h"

namespace rush {
namespace {

Mutex g_hooks{LockRank::Hooks};

TensorHooks& tensor_hooks(const Tensor& t) { return grad_meta(t).hooks.make(); }

// The hooks of a leaf hang on the leaf; its node must know that there is something to look at.
TensorHooks& leaf_hooks(const Tensor& leaf) {
  TensorHooks& hooks = tensor_hooks(leaf);
  AccumulateGrad::of(leaf)->make_extras();
  return hooks;
}

void drop_retained(NodeExtras& extras, const RetainedGrad* target) {
  auto& list = extras.retained;
  list.erase(std::remove_if(list.begin(), list.end(),
                            [&](const auto& r) { return r.target.get() == target; }),
             list.end());
}

// Owners make their lists on first use, and may be read at the same time.
Ref<HookList> made_locked(OwnedHooks& hooks) {
  std::lock_guard lock(g_hooks);
  return hooks.make();
}
Ref<HookList> read_locked(const OwnedHooks& hooks) {
  std::lock_guard lock(g_hooks);
  return hooks.get();
}

void run_list(const Ref<HookList>& list, Tensor& grad) {
  if (!list) return;
  for (const Ref<Hook>& hook : list->snapshot()) hook->on_gradient(grad);
}

}  // namespace

TensorHooks& TensorHooksPointer::make() { return make_once(p_); }

void Hook::on_gradient(Tensor&) {}
void Hook::before_node(std::span<Tensor>) {}
void Hook::after_node(std::span<Tensor>, GradSpan) {}
void Hook::after_accumulation(const Tensor&) {}

void HookList::add(Ref<Hook> hook) {
  std::lock_guard lock(g_hooks);
  hooks_.push_back(std::move(hook));
}

void HookList::remove(const Hook* hook) {
  Ref<Hook> dies_unlocked;
  std::lock_guard lock(g_hooks);
  const auto it = std::find_if(hooks_.begin(), hooks_.end(),
                               [&](const Ref<Hook>& h) { return h.get() == hook; });
  if (it == hooks_.end()) return;
  dies_unlocked = std::move(*it);
  hooks_.erase(it);
}

void HookList::close() {
  std::vector<Ref<Hook>> die_unlocked;
  std::lock_guard lock(g_hooks);
  die_unlocked.swap(hooks_);
}

bool HookList::empty() const {
  std::lock_guard lock(g_hooks);
  return hooks_.empty();
}

std::vector<Ref<Hook>> HookList::snapshot() const {
  std::lock_guard lock(g_hooks);
  return hooks_;
}

void RetainedGrad::store(const Tensor& grad) {
  Ref<TensorImpl> alive;
  {
    std::lock_guard lock(g_hooks);
    if (tensor_ && tensor_->try_retain()) alive = Ref<TensorImpl>::adopt(tensor_);
  }
  if (!alive) return;
  // A copy: the engine goes on with `grad`, and may write into it.
  const Tensor tensor(alive), kept = grad_of(tensor);
  exchange_grad(tensor, kept.defined() ? engine_ops().add(kept, grad) : engine_ops().clone(grad));
}

void RetainedGrad::forget() {
  std::lock_guard lock(g_hooks);
  tensor_ = nullptr;
}

Ref<HookList> gradient_hooks(const Tensor& t) {
  const Ref<Node> node = grad_fn(t);
  if (!node) return made_locked(leaf_hooks(t).gradient);
  const uint32_t slot = grad_meta(t).slot;
  NodeExtras& extras = node->make_extras();
  std::lock_guard lock(g_hooks);
  for (auto& of : extras.gradient) {
    if (of.slot == slot) return of.hooks.make();
  }
  extras.gradient.push_back({slot, {}});
  return extras.gradient.back().hooks.make();
}

Ref<HookList> before_hooks(Node& node) { return made_locked(node.make_extras().before); }
Ref<HookList> after_hooks(Node& node) { return made_locked(node.make_extras().after); }

Ref<HookList> accumulation_hooks(const Tensor& leaf) {
  return made_locked(leaf_hooks(leaf).accumulated);
}

void retain_grad(const Tensor& t) {
  const Ref<Node> node = grad_fn(t);
  if (!node || retains_grad(t)) return;
  TensorHooks& hooks = tensor_hooks(t);
  NodeExtras& extras = node->make_extras();
  std::lock_guard lock(g_hooks);
  t.impl()->set(TensorImpl::kRetainsGrad, true);
  hooks.retained = Ref<RetainedGrad>::adopt(new RetainedGrad(t.impl()));
  extras.retained.push_back({grad_meta(t).slot, hooks.retained});
}

bool retains_grad(const Tensor& t) {
  const GradMeta* meta = grad_meta_or_null(t);
  return meta && meta->hooks && meta->hooks->retained;
}

void move_retained_grad(TensorHooks& hooks, Node* from, Node* to, uint32_t slot) {
  if (!hooks.retained) return;
  NodeExtras* there = to ? &to->make_extras() : nullptr;
  std::lock_guard lock(g_hooks);
  if (from && from->extras()) drop_retained(*from->extras(), hooks.retained.get());
  if (there) {
    drop_retained(*there, hooks.retained.get());
    there->retained.push_back({slot, hooks.retained});
  }
}

void run_gradient_hooks(Node& node, std::span<Tensor> grads) {
  if (AccumulateGrad* leaf = node.as_accumulator()) {
    const GradMeta* meta = grad_meta_or_null(leaf->leaf());
    if (meta && meta->hooks && !grads.empty() && grads[0].defined())
      run_list(read_locked(meta->hooks->gradient), grads[0]);
    return;
  }
  NodeExtras& extras = *node.extras();
  std::vector<std::pair<uint32_t, Ref<HookList>>> lists;
  std::vector<NodeExtras::Retained> retained;
  {
    std::lock_guard lock(g_hooks);
    for (const auto& of : extras.gradient) lists.emplace_back(of.slot, of.hooks.get());
    retained = extras.retained;
  }
  for (const auto& [slot, list] : lists) {
    if (slot < grads.size() && grads[slot].defined()) run_list(list, grads[slot]);
  }
  for (const auto& r : retained) {  // last: it keeps what the hooks made of the gradient
    if (r.slot < grads.size() && grads[r.slot].defined()) r.target->store(grads[r.slot]);
  }
}

void run_before_hooks(Node& node, std::span<Tensor> grads) {
  const Ref<HookList> list = read_locked(node.extras()->before);
  if (!list) return;
  for (const Ref<Hook>& hook : list->snapshot()) hook->before_node(grads);
}

void run_after_hooks(Node& node, std::span<Tensor> out, GradSpan grads) {
  const Ref<HookList> list = read_locked(node.extras()->after);
  if (!list) return;
  for (const Ref<Hook>& hook : list->snapshot()) hook->after_node(out, grads);
}

void run_accumulation_hooks(const Tensor& leaf, TensorHooks& hooks) {
  const Ref<HookList> list = read_locked(hooks.accumulated);
  if (!list) return;
  for (const Ref<Hook>& hook : list->snapshot()) hook->after_accumulation(leaf);
}

}  // namespace rush
