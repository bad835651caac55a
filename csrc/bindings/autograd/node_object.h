// node_object.h: nodes of the graph as Python objects, and the hooks on them.
#pragma once

#include "autograd/hooks.h"
#include "bindings/call/carried_error.h"

namespace rush::py {

struct NodeObject {
  PyObject_HEAD Ref<Node> node;  // empty in a Function's ctx that its node owns, or that has none
  PyObject* weakrefs;
};
extern PyTypeObject* NodeType;  // rushlight.autograd.graph.Node

inline NodeObject* as_node_object(PyObject* o) { return reinterpret_cast<NodeObject*>(o); }
inline bool is_node(PyObject* o) { return PyObject_TypeCheck(o, NodeType); }
const Ref<Node>& node_of(PyObject* o);  // raises for a ctx without a node

// The one Python object of a node while it lives; None for null.
PyObject* wrap_node(const Ref<Node>& node);

// A node that is a Python object of its own accord (a custom Function) gives it out itself.
class NodeWithObject : public Node {
 public:
  virtual PyObject* object() = 0;                              // a new reference
  virtual int traverse_owned(visitproc visit, void* arg) = 0;  // what only this node holds
};

// hook_object.cpp: a callable on a list, and the handle that takes it off again.
PyObject* add_hook(const Ref<HookList>& list, PyObject* callable, const char* function);
int traverse_hooks(const Ref<HookList>& list, visitproc visit, void* arg);

// Visits what a node holds of Python, for owners that hold its only count.
int traverse_node(const Node& node, visitproc visit, void* arg);
// The same for what autograd keeps with a tensor.
int traverse_grad_meta(const Tensor& t, visitproc visit, void* arg);
void clear_grad_meta(const Tensor& t);
// Does autograd keep Python objects with this tensor, so that it may be part of a cycle?
bool holds_python(const Tensor& t);

}  // namespace rush::py
