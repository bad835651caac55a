// function_node.h: the node of one call of a custom autograd.Function, and its ctx.
//
// Note [A ctx and its node]
// The ctx that forward() was given is also the Python object of the node: y.grad_fn is ctx. As with
// tensors, one owns the other: while Python holds the ctx, it owns a count of the node; when the
// last Python reference goes and the graph still holds the node, the node takes over the one
// reference to the ctx. So both live exactly as long as somebody can reach them, and no cycle is
// left over.
#pragma once

#include <vector>

#include "autograd/saved_tensor.h"
#include "bindings/autograd/node_object.h"

namespace rush::py {

class FunctionNode;

// The memory of rushlight._C._FunctionBase: a node wrapper with what forward() leaves for backward.
struct FunctionObject {
  NodeObject base;
  PyObject* dict;
  PyObject* to_save;             // save_for_backward's tuple, until apply() is done
  PyObject* saved_for_forward;   // save_for_forward's
  PyObject* needs_input_grad;    // a tuple of bools, one an argument
  PyObject* dirty_tensors;       // mark_dirty's
  PyObject* non_differentiable;  // mark_non_differentiable's
  FunctionNode* owner;           // while the node owns this object
  char materialize_grads;
};
inline FunctionObject* as_function(PyObject* o) { return reinterpret_cast<FunctionObject*>(o); }

class FunctionNode final : public NodeWithObject {
 public:
  FunctionNode(PyObject* ctx, std::vector<bool> is_tensor);
  ~FunctionNode() override;

  const char* name() const override { return name_.c_str(); }
  Grads apply(GradSpan grads, std::span<const bool> wanted) override;
  PyObject* object() override;
  int traverse_owned(visitproc visit, void* arg) override;

  // The ctx loses its last Python reference while the graph lives on; takes over its count.
  void adopt_object();

  void add_other_result();  // an output that is no tensor: its gradient is always None
  void save(const Tensor& t);
  void save_output(const Tensor& t, uint32_t slot);
  Handle saved_tensors() const;  // a tuple; checks versions
  // One of them, for those who show it; a released one when all are.
  size_t saved_count() const;
  SavedTensor saved(size_t i) const;
  void set_saved(size_t i, SavedTensor saved);

 private:
  void release_saved() override;
  Handle call_backward(GradSpan grads);
  Grads gradients_from(PyObject* result);
  void check_gradient(const Tensor& g, size_t argument, const Edge& edge) const;

  PyObject* ctx_;
  bool owns_ctx_ = false;
  std::vector<bool> is_tensor_;  // an entry an argument of apply()
  std::vector<uint32_t> other_results_;
  // Threads may differentiate a graph they share, and the engine locks no node that runs a user's
  // code; saved_ and released_ are guarded here.
  mutable SpinLock lock_;
  bool released_ = false;
  std::vector<SavedTensor> saved_;
  std::string name_;
};

inline FunctionNode* function_node(PyObject* ctx) {
  FunctionObject* f = as_function(ctx);
  return f->owner ? f->owner : static_cast<FunctionNode*>(f->base.node.get());
}

}  // namespace rush::py
