// autograd.cpp: gradients from Python: a tensor's properties, grad mode, backward, graph nodes.
#include "bindings/autograd.h"

#include <cstring>

#include "autograd/accumulate_grad.h"
#include "autograd/engine.h"
#include "bindings/gil.h"
#include "bindings/handle.h"
#include "ops/ops.h"
#include "ops/vmap.h"

namespace rush::py {
namespace {

// A node of the graph, as grad_fn shows it.
struct NodeObject {
  PyObject_HEAD Ref<Node> node;
};
PyTypeObject* NodeType = nullptr;

const Ref<Node>& node_of(PyObject* o) { return reinterpret_cast<NodeObject*>(o)->node; }

PyObject* wrap_node(Ref<Node> node) {
  if (!node) return Py_NewRef(Py_None);
  auto* o = PyObject_New(NodeObject, NodeType);
  if (!o) return nullptr;
  new (&o->node) Ref<Node>(std::move(node));
  return reinterpret_cast<PyObject*>(o);
}

void node_dealloc(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  reinterpret_cast<NodeObject*>(o)->node.~Ref<Node>();
  type->tp_free(o);
  Py_DECREF(type);
}
PyObject* node_name(PyObject* o, PyObject*) { return PyUnicode_FromString(node_of(o)->name()); }
PyObject* node_repr(PyObject* o) {
  return PyUnicode_FromFormat("<%s object at %p>", node_of(o)->name(), node_of(o).get());
}
// Two objects of one node are equal: they are made on demand.
PyObject* node_compare(PyObject* a, PyObject* b, int op) {
  if (Py_TYPE(b) != NodeType || (op != Py_EQ && op != Py_NE)) return Py_NewRef(Py_NotImplemented);
  return PyBool_FromLong((node_of(a) == node_of(b)) == (op == Py_EQ));
}
Py_hash_t node_hash(PyObject* o) {
  return Py_hash_t(reinterpret_cast<uintptr_t>(node_of(o).get()) >> 4);
}
PyObject* node_next(PyObject* o, void*) {
  return guarded([&] {
    const auto& edges = node_of(o)->edges();
    Handle result = Handle::steal(PyTuple_New(Py_ssize_t(edges.size())));
    for (size_t i = 0; i < edges.size(); ++i) {
      const Handle next = Handle::steal(wrap_node(edges[i].node));
      PyTuple_SET_ITEM(result.get(), Py_ssize_t(i),
                       Handle::steal(Py_BuildValue("OI", next.get(), edges[i].slot)).release());
    }
    return result.release();
  });
}
PyObject* node_variable(PyObject* o, void*) {
  return guarded([&] {
    if (std::strcmp(node_of(o)->name(), "AccumulateGrad") == 0) {
      return wrap(static_cast<AccumulateGrad*>(node_of(o).get())->leaf());
    }
    PyErr_SetString(PyExc_AttributeError, "only AccumulateGrad has a variable");
    return static_cast<PyObject*>(nullptr);
  });
}

PyMethodDef node_methods[] = {{"name", node_name, METH_NOARGS, "What made the tensor."}, {}};
PyGetSetDef node_getset[] = {
    {"next_functions", node_next, nullptr, "The nodes of the inputs, as (node, slot).", nullptr},
    {"variable", node_variable, nullptr, "The leaf whose gradient this node adds to.", nullptr},
    {},
};
PyType_Slot node_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
    {Py_tp_repr, reinterpret_cast<void*>(node_repr)},
    {Py_tp_richcompare, reinterpret_cast<void*>(node_compare)},
    {Py_tp_hash, reinterpret_cast<void*>(node_hash)},
    {Py_tp_methods, node_methods},
    {Py_tp_getset, node_getset},
    {},
};
PyType_Spec node_spec = {"rushlight.autograd.Node", sizeof(NodeObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, node_slots};

bool truth(PyObject* o) {
  const int value = PyObject_IsTrue(o);
  check_status(value);
  return value;
}

// A tensor, None (undefined) or a sequence of these.
std::vector<Tensor> tensors_argument(const char* function, const char* name, PyObject* o) {
  std::vector<Tensor> list;
  auto add = [&](PyObject* item) {
    check(is_tensor(item) || item == Py_None, ErrorKind::Type, function, "'", name,
          "' must hold tensors, not ", type_name(item));
    list.push_back(item == Py_None ? Tensor() : unwrap(item));
  };
  if (!o || o == Py_None) return list;
  if (is_tensor(o)) return {unwrap(o)};
  const Handle items = Handle::steal(PySequence_Fast(o, "expected tensors"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    add(PySequence_Fast_GET_ITEM(items.get(), i));
  }
  return list;
}

void run_backward(const std::vector<Tensor>& roots, std::vector<Tensor> grads,
                  const BackwardOptions& options, const std::vector<Tensor>& inputs) {
  grads.resize(std::max(grads.size(), roots.size()));
  for (const Tensor& t : roots)
    check(!t.defined() || !t.is_batched(), ErrorKind::Runtime, "backward",
          "backward() is not supported inside vmap; use func.grad or func.vjp");
  const ReleaseGil guard;  // hooks take the GIL for themselves
  rush::backward(roots, grads, options, inputs);
}

// _backward(tensors, grad_tensors, retain_graph, create_graph, inputs)
PyObject* backward_(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* names[] = {"tensors", "grad_tensors", "retain_graph", "create_graph",
                                     "inputs"};
    PyObject* a[5];
    parse_arguments({"backward", names, 5, 1}, args, nargs, kwnames, a);
    BackwardOptions options;
    options.create_graph = bool_argument("backward", "create_graph", a[3], false);
    options.retain_graph = bool_argument("backward", "retain_graph", a[2], options.create_graph);
    run_backward(tensors_argument("backward", "tensors", a[0]),
                 tensors_argument("backward", "grad_tensors", a[1]), options,
                 tensors_argument("backward", "inputs", a[4]));
    return Py_NewRef(Py_None);
  });
}

// _grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused) -> tuple
PyObject* grad_(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* names[] = {"outputs",      "inputs",       "grad_outputs",
                                     "retain_graph", "create_graph", "allow_unused"};
    PyObject* a[6];
    parse_arguments({"grad", names, 6, 2}, args, nargs, kwnames, a);
    BackwardOptions options;
    options.create_graph = bool_argument("grad", "create_graph", a[4], false);
    options.retain_graph = bool_argument("grad", "retain_graph", a[3], options.create_graph);
    options.allow_unused = bool_argument("grad", "allow_unused", a[5], false);
    const auto roots = tensors_argument("grad", "outputs", a[0]);
    const auto inputs = tensors_argument("grad", "inputs", a[1]);
    auto grads = tensors_argument("grad", "grad_outputs", a[2]);
    grads.resize(std::max(grads.size(), roots.size()));
    std::vector<Tensor> found;
    {
      const ReleaseGil guard;
      found = batched_grad(roots, grads, inputs, options);
    }
    Handle result = Handle::steal(PyTuple_New(Py_ssize_t(found.size())));
    for (size_t i = 0; i < found.size(); ++i) {
      PyTuple_SET_ITEM(result.get(), Py_ssize_t(i), Handle::steal(wrap(found[i])).release());
    }
    return result.release();
  });
}

PyObject* is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(grad_enabled()); }
PyObject* set_grad_enabled(PyObject*, PyObject* on) {
  return guarded([&] {
    set_mode(kNoGrad, !truth(on));
    return Py_NewRef(Py_None);
  });
}
PyObject* is_inference(PyObject*, PyObject*) { return PyBool_FromLong(t_modes & kInferenceMode); }
PyObject* set_inference(PyObject*, PyObject* on) {
  return guarded([&] {
    set_mode(kInferenceMode, truth(on));
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"_backward", as_method(backward_), kFastcall, nullptr},
    {"_grad", as_method(grad_), kFastcall, nullptr},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS,
     "is_grad_enabled()\n--\n\nWhether operations are recorded on this thread."},
    {"_set_grad_enabled", set_grad_enabled, METH_O, nullptr},
    {"is_inference_mode_enabled", is_inference, METH_NOARGS,
     "is_inference_mode_enabled()\n--\n\nWhether inference mode is on for this thread."},
    {"_set_inference_mode", set_inference, METH_O, nullptr},
    {},
};

const GradMeta* meta_of(PyObject* o) { return grad_meta_or_null(unwrap(o)); }

}  // namespace

PyObject* get_requires_grad(PyObject* o, void*) {
  return guarded([&] { return PyBool_FromLong(requires_grad(unwrap(o))); });
}
int set_requires_grad_(PyObject* o, PyObject* value, void*) {
  return guarded_int([&] {
    check(value, ErrorKind::Type, "requires_grad", "cannot be deleted");
    set_requires_grad(innermost(unwrap(o)), truth(value));
    return 0;
  });
}

PyObject* get_grad(PyObject* o, void*) {
  const GradMeta* meta = meta_of(o);
  return meta ? wrap(meta->grad) : Py_NewRef(Py_None);
}
int set_grad(PyObject* o, PyObject* value, void*) {
  return guarded_int([&] {
    const Tensor& t = unwrap(o);
    if (!value || value == Py_None) {
      if (meta_of(o)) grad_meta(t).grad = Tensor();
      return 0;
    }
    check(is_tensor(value), ErrorKind::Type, "grad", "expected a tensor or None, not ",
          type_name(value));
    const Tensor& g = unwrap(value);
    check(!g.is_same(t), ErrorKind::Runtime, "grad", "a tensor cannot be its own gradient");
    check_shape(equal(g.sizes(), t.sizes()), "grad", "the tensor has shape ", t.sizes(),
                ", the gradient ", g.sizes());
    check(g.dtype() == t.dtype(), ErrorKind::DType, "grad", "the tensor is ", t.dtype(),
          ", the gradient ", g.dtype());
    check(g.device() == t.device(), ErrorKind::Device, "grad", "the tensor is on ", t.device(),
          ", the gradient on ", g.device());
    grad_meta(t).grad = g;
    return 0;
  });
}

PyObject* get_grad_fn(PyObject* o, void*) {
  return guarded([&] { return wrap_node(grad_fn(innermost(unwrap(o)))); });
}
PyObject* get_is_leaf(PyObject* o, void*) {
  return guarded([&] { return PyBool_FromLong(is_leaf(innermost(unwrap(o)))); });
}
PyObject* get_output_nr(PyObject* o, void*) {
  return PyLong_FromLong(meta_of(o) ? long(meta_of(o)->slot) : 0);
}
PyObject* get_retains_grad(PyObject* o, void*) {
  return PyBool_FromLong(meta_of(o) && meta_of(o)->retains_grad);
}

// Unlike detach(), .data counts its writes apart: they are the user's own risk.
PyObject* get_data(PyObject* o, void*) {
  return guarded([&] {
    const Tensor& self = unwrap(o);
    if (self.is_batched()) return wrap(detach(self));
    Tensor t = self.alias();
    t.impl()->version = nullptr;
    if (is_tracked(self)) {
      if (requires_grad(self))
        mark_cut(t, ".data");
      else
        inherit_cut(t, self);
    }
    return wrap(std::move(t));
  });
}

// Puts other memory under the same tensor: graph, Python object and gradient stay.
int set_data(PyObject* o, PyObject* value, void*) {
  return guarded_int([&] {
    check(value && is_tensor(value), ErrorKind::Type, "data", "expected a tensor");
    check(!requires_grad(unwrap(o)) || is_differentiable(unwrap(value).dtype()), ErrorKind::Runtime,
          "data", "this tensor requires grad, so its data must be floating or complex, not ",
          unwrap(value).dtype());
    TensorImpl* to = unwrap(o).impl();
    const TensorImpl* from = unwrap(value).impl();
    to->storage = from->storage;
    to->sizes = from->sizes;
    to->strides = from->strides;
    to->offset = from->offset;
    to->numel = from->numel;
    to->dtype = from->dtype;
    to->device = from->device;
    to->set(TensorImpl::kContiguous, from->has(TensorImpl::kContiguous));
    return 0;
  });
}

PyObject* tensor_requires_grad_(PyObject* o, PyObject* const* args, Py_ssize_t n,
                                PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* names[] = {"requires_grad"};
    PyObject* on;
    parse_arguments({"requires_grad_", names, 1, 0}, args, n, kwnames, &on);
    set_requires_grad(innermost(unwrap(o)), bool_argument("requires_grad_", "requires_grad", on, true));
    return Py_NewRef(o);
  });
}

PyObject* tensor_backward(PyObject* o, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* names[] = {"gradient", "retain_graph", "create_graph", "inputs"};
    PyObject* a[4];
    parse_arguments({"backward", names, 4, 0}, args, n, kwnames, a);
    BackwardOptions options;
    options.create_graph = bool_argument("backward", "create_graph", a[2], false);
    options.retain_graph = bool_argument("backward", "retain_graph", a[1], options.create_graph);
    run_backward({unwrap(o)}, tensors_argument("backward", "gradient", a[0]), options,
                 tensors_argument("backward", "inputs", a[3]));
    return Py_NewRef(Py_None);
  });
}

PyObject* tensor_retain_grad(PyObject* o, PyObject*) {
  return guarded([&] {
    const Tensor& t = unwrap(o);
    check(requires_grad(t), ErrorKind::Runtime, "retain_grad",
          "the tensor does not require a gradient");
    if (!is_leaf(t)) grad_meta(t).retains_grad = true;
    return Py_NewRef(Py_None);
  });
}

bool init_autograd(PyObject* module) {
  NodeType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&node_spec));
  return NodeType && PyModule_AddObjectRef(module, "_Node", (PyObject*)NodeType) == 0 &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace rush::py
