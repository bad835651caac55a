// hooks.h: what a user hangs onto the graph. The bindings give the callables life; the engine calls
// them through the functions at the end of this file.
//
// - A node without anything attached pays one null test: everything hangs on Node::extras().
// - One mutex guards all lists. It is held to read or change a list, never while a hook runs or
//   dies: either may run the user's code.
// - A list belongs to a tensor or a node, which closes it when it dies. A handle that the user
//   still holds then keeps an empty list, and no hook.
#pragma once

#include <atomic>
#include <vector>

#include "autograd/node.h"

namespace rush {

// An object of the program that embeds us, kept for it; its destructor may run on any thread.
class RUSH_API HostObject : public Counted<HostObject> {
 public:
  virtual ~HostObject() = default;
  static void destroy(HostObject* o) noexcept { delete o; }
};

// One callable. Only the function that fits the place where it hangs is called.
class RUSH_API Hook : public HostObject {
 public:
  virtual void on_gradient(Tensor& grad);                          // may replace it
  virtual void before_node(std::span<Tensor> grads);               // of the node's results
  virtual void after_node(std::span<Tensor> out, GradSpan grads);  // of its inputs, results
  virtual void after_accumulation(const Tensor& leaf);
};

class RUSH_API HookList : public Counted<HookList> {
 public:
  void add(Ref<Hook> hook);  // runs after those that are there
  void remove(const Hook* hook);
  void close();  // drops all hooks: the owner dies
  bool empty() const;
  std::vector<Ref<Hook>> snapshot() const;
  static void destroy(HookList* l) noexcept { delete l; }

 private:
  std::vector<Ref<Hook>> hooks_;
};

// A HookList made on first use, and closed with its owner.
class RUSH_API OwnedHooks {
 public:
  OwnedHooks() = default;
  ~OwnedHooks() {
    if (list_) list_->close();
  }
  OwnedHooks(OwnedHooks&&) noexcept = default;
  OwnedHooks& operator=(OwnedHooks&&) noexcept = default;
  const Ref<HookList>& make() {
    if (!list_) list_ = Ref<HookList>::adopt(new HookList);
    return list_;
  }
  const Ref<HookList>& get() const { return list_; }

 private:
  Ref<HookList> list_;
};

// Where a node finds the tensor that wants to keep its gradient; cleared when the tensor dies.
class RUSH_API RetainedGrad : public Counted<RetainedGrad> {
 public:
  explicit RetainedGrad(TensorImpl* tensor) : tensor_(tensor) {}
  void store(const Tensor& grad);
  void forget();
  static void destroy(RetainedGrad* r) noexcept { delete r; }

 private:
  TensorImpl* tensor_;
};

// What hangs on a tensor (GradMeta::hooks). The hooks of a tensor with a grad_fn hang on that node
// instead, so that an in-place operation leaves them with the old value.
struct RUSH_API TensorHooks {
  OwnedHooks gradient;         // leaves: before the gradient is added
  OwnedHooks accumulated;      // leaves: after it
  Ref<RetainedGrad> retained;  // moves with the tensor from node to node
  ~TensorHooks() {
    if (retained) retained->forget();
  }
};

// A pointer to TensorHooks that is filled on first use, from any thread.
class RUSH_API TensorHooksPointer {
 public:
  TensorHooksPointer() = default;
  ~TensorHooksPointer() { delete get(); }
  TensorHooksPointer(const TensorHooksPointer&) = delete;
  TensorHooksPointer& operator=(const TensorHooksPointer&) = delete;
  TensorHooks* get() const { return p_.load(std::memory_order_acquire); }
  explicit operator bool() const { return get(); }
  TensorHooks& operator*() const { return *get(); }
  TensorHooks* operator->() const { return get(); }
  TensorHooks& make();

 private:
  std::atomic<TensorHooks*> p_{nullptr};
};

// What hangs on a node.
struct RUSH_API NodeExtras {
  struct OfResult {
    uint32_t slot;
    OwnedHooks hooks;
  };
  struct Retained {
    uint32_t slot;
    Ref<RetainedGrad> target;
  };
  std::vector<OfResult> gradient;
  std::vector<Retained> retained;
  OwnedHooks before, after;
  Ref<HostObject> metadata;   // the user's dict
  Ref<HostObject> traceback;  // anomaly mode: the stack of the forward call
  bool made_nan = false;      // anomaly mode: the forward result held a NaN
  void* py_object = nullptr;  // the bindings' wrapper, while it lives; the GIL guards it
};

// The list that register_hook(t) adds to; t requires grad.
RUSH_API Ref<HookList> gradient_hooks(const Tensor& t);
RUSH_API Ref<HookList> before_hooks(Node& node);
RUSH_API Ref<HookList> after_hooks(Node& node);
RUSH_API Ref<HookList> accumulation_hooks(const Tensor& leaf);
RUSH_API void retain_grad(const Tensor& t);
RUSH_API bool retains_grad(const Tensor& t);
// t's history changed from `from` to result `slot` of `to`: a kept gradient is that of the new
// value.
RUSH_API void move_retained_grad(TensorHooks& hooks, Node* from, Node* to, uint32_t slot);

// Called by the engine when node.extras() is there. First the gradients of the node's results, then
// its own hooks before and after it runs.
RUSH_API void run_gradient_hooks(Node& node, std::span<Tensor> grads);
RUSH_API void run_before_hooks(Node& node, std::span<Tensor> grads);
RUSH_API void run_after_hooks(Node& node, std::span<Tensor> out, GradSpan grads);
RUSH_API void run_accumulation_hooks(const Tensor& leaf, TensorHooks& hooks);

}  // namespace rush
