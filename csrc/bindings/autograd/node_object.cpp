// node_object.cpp: nodes of the graph as Python objects.
//
// A wrapper is made when grad_fn is read and owns a count of its node; the node remembers it, so
// that x.grad_fn is x.grad_fn. Each kind of node has a Python type of its own (MulBackward0), made
// when first seen, and all of them derive from rushlight.autograd.graph.Node.
#include "bindings/autograd/node_object.h"

#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <unordered_set>

#include "autograd/accumulate_grad.h"
#include "autograd/node_name.h"
#include "bindings/autograd/saved_values.h"
#include "bindings/type_docs.h"

namespace rush::py {

PyTypeObject* NodeType = nullptr;

namespace {

void node_dealloc(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  PyObject_GC_UnTrack(o);
  NodeObject* self = as_node_object(o);
  if (self->weakrefs) PyObject_ClearWeakRefs(o);
  if (self->node) self->node->extras()->py_object = nullptr;
  const Ref<Node> dies_last = std::move(self->node);
  self->node.~Ref<Node>();
  type->tp_free(o);
  Py_DECREF(type);
}

int node_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(o));
  if (g_threads_without_gil > 0) return 0;  // Note [Collections beside running threads]
  const Ref<Node>& node = as_node_object(o)->node;
  return node && node->use_count() == 1 ? traverse_node(*node, visit, arg) : 0;
}

int node_clear(PyObject* o) {
  const Ref<Node>& node = as_node_object(o)->node;
  if (!node || node->use_count() != 1 || !node->extras()) return 0;
  NodeExtras& extras = *node->extras();
  const Ref<HostObject> dies_last = std::move(extras.metadata);
  for (auto& of : extras.gradient) of.hooks.make()->close();
  extras.before.make()->close();
  extras.after.make()->close();
  return 0;
}

PyObject* node_name_(PyObject* o, PyObject*) {
  return guarded([&] { return PyUnicode_FromString(node_name(*node_of(o)).c_str()); });
}

PyObject* node_repr(PyObject* o) {
  const char* dot = std::strrchr(Py_TYPE(o)->tp_name, '.');
  return PyUnicode_FromFormat("<%s object at %p>", dot ? dot + 1 : Py_TYPE(o)->tp_name,
                              static_cast<void*>(o));
}

// What a node has saved depends on its call, and several kinds of call may share a type.
PyObject* node_getattro(PyObject* o, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(o, name);
  const Ref<Node>& node = as_node_object(o)->node;
  if (found || !node || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  found = guarded([&] { return saved_attribute(node, text_of(name)); });
  if (!found && !PyErr_Occurred()) {
    PyErr_Restore(type, value, traceback);
    return nullptr;
  }
  Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(traceback);
  return found;
}

PyObject* node_dir(PyObject* o, PyObject*) {
  return guarded([&]() -> PyObject* {
    const auto* base = reinterpret_cast<PyObject*>(&PyBaseObject_Type);
    Handle names =
        Handle::steal(PyObject_CallMethod(const_cast<PyObject*>(base), "__dir__", "O", o));
    const Ref<Node>& node = as_node_object(o)->node;
    if (!node) return names.release();
    const Handle saved = Handle::steal(saved_attributes(node));
    return PySequence_InPlaceConcat(names.get(), saved.get());
  });
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
    if (AccumulateGrad* leaf = node_of(o)->as_accumulator()) return wrap(leaf->leaf());
    PyErr_Format(PyExc_AttributeError,
                 "'%s' object has no attribute 'variable': only "
                 "AccumulateGrad has one",
                 Py_TYPE(o)->tp_name);
    return static_cast<PyObject*>(nullptr);
  });
}

struct Metadata final : HostObject {
  explicit Metadata(PyObject* d) : dict(d) {}
  PyRef dict;
};

PyObject* node_metadata(PyObject* o, void*) {
  return guarded([&] {
    NodeExtras& extras = node_of(o)->make_extras();
    if (!extras.metadata) {
      const Handle dict = Handle::steal(PyDict_New());
      extras.metadata = Ref<HostObject>::adopt(new Metadata(dict.get()));
    }
    return Py_NewRef(static_cast<Metadata*>(extras.metadata.get())->dict.get());
  });
}

PyObject* node_sequence(PyObject* o, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(node_of(o)->sequence()); });
}

PyObject* node_register_hook(PyObject* o, PyObject* callable) {
  return guarded([&] { return add_hook(after_hooks(*node_of(o)), callable, "register_hook"); });
}
PyObject* node_register_prehook(PyObject* o, PyObject* callable) {
  return guarded([&] { return add_hook(before_hooks(*node_of(o)), callable, "register_prehook"); });
}

PyObject* node_input_metadata(PyObject* o, void*) {
  return guarded([&] {
    const auto& results = node_of(o)->results();
    Handle list = Handle::steal(PyTuple_New(Py_ssize_t(results.size())));
    for (size_t i = 0; i < results.size(); ++i) {
      const Handle shape = Handle::steal(wrap_size(results[i].sizes));
      const Handle dtype = Handle::steal(wrap(results[i].dtype));
      const Handle device = Handle::steal(wrap(results[i].device));
      PyTuple_SET_ITEM(
          list.get(), Py_ssize_t(i),
          Handle::steal(PyTuple_Pack(3, shape.get(), dtype.get(), device.get())).release());
    }
    return list.release();
  });
}

PyMethodDef methods[] = {
    {"name", node_name_, METH_NOARGS, "name($self)\n--\n\nWhat kind of node this is."},
    {"register_hook", node_register_hook, METH_O,
     "register_hook($self, fn, /)\n--\n\nCalls fn(grad_inputs, grad_outputs) after the node ran; "
     "what it returns, unless None, replaces grad_inputs."},
    {"register_prehook", node_register_prehook, METH_O,
     "register_prehook($self, fn, /)\n--\n\nCalls fn(grad_outputs) before the node runs; what it "
     "returns, unless None, replaces them."},
    {"__dir__", node_dir, METH_NOARGS, "__dir__($self)\n--\n\nAll names, saved values included."},
    {"_sequence_nr", node_sequence, METH_NOARGS,
     "_sequence_nr($self)\n--\n\nA number that grows with each node recorded on a thread."},
    {},
};
PyGetSetDef getset[] = {
    {"next_functions", node_next, nullptr, "The nodes of the inputs, as (node, slot).", nullptr},
    {"variable", node_variable, nullptr, "The leaf whose gradient this node adds to.", nullptr},
    {"metadata", node_metadata, nullptr, "A dict for whatever you want to keep here.", nullptr},
    {"_input_metadata", node_input_metadata, nullptr,
     "Shape, dtype and device of each gradient that the node is given.", nullptr},
    {},
};
PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(NodeObject, weakrefs), READONLY, nullptr}, {}};
PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
    {Py_tp_repr, reinterpret_cast<void*>(node_repr)},
    {Py_tp_getattro, reinterpret_cast<void*>(node_getattro)},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_members, members},
    {Py_tp_doc, const_cast<char*>(kNodeDoc)},
    {},
};
PyType_Spec spec = {"rushlight.autograd.graph.Node", sizeof(NodeObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                        Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

// The type of a kind of node. The GIL guards the map; types live as long as the process.
PyTypeObject* type_of(const Node& node) {
  static auto* types = new std::map<std::string, PyTypeObject*>;
  const auto [it, fresh] = types->try_emplace("rushlight.autograd.graph." + node_name(node));
  if (!fresh) return it->second;
  PyType_Slot kind_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
                              {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
                              {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
                              {}};
  PyType_Spec kind = {it->first.c_str(), sizeof(NodeObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      kind_slots};
  const Handle bases = Handle::steal(PyTuple_Pack(1, NodeType));
  PyObject* type = PyType_FromSpecWithBases(&kind, bases.get());
  if (!type) {
    types->erase(it);
    throw PythonError{};
  }
  return it->second = reinterpret_cast<PyTypeObject*>(type);
}

// How far the collector follows nodes that nobody else holds. Cycles of more nodes stay
// uncollected; a longer walk would cost a visible part of a collection.
constexpr size_t kTraversed = 64;

int traverse_extras(const NodeExtras& extras, visitproc visit, void* arg) {
  for (const auto& of : extras.gradient) {
    if (const int stop = traverse_hooks(of.hooks.get(), visit, arg)) return stop;
  }
  if (const int stop = traverse_hooks(extras.before.get(), visit, arg)) return stop;
  if (const int stop = traverse_hooks(extras.after.get(), visit, arg)) return stop;
  if (extras.metadata) Py_VISIT(static_cast<Metadata*>(extras.metadata.get())->dict.get());
  return 0;
}

}  // namespace

const Ref<Node>& node_of(PyObject* o) {
  const Ref<Node>& node = as_node_object(o)->node;
  check(bool(node), ErrorKind::Runtime, Py_TYPE(o)->tp_name,
        "this context belongs to no graph: nothing was recorded for its call");
  return node;
}

PyObject* wrap_node(const Ref<Node>& node) {
  if (!node) return Py_NewRef(Py_None);
  if (auto* own = dynamic_cast<NodeWithObject*>(node.get())) return own->object();
  NodeExtras& extras = node->make_extras();
  if (extras.py_object) return Py_NewRef(static_cast<PyObject*>(extras.py_object));
  auto* o = PyObject_GC_New(NodeObject, type_of(*node));
  if (!o) return nullptr;
  new (&o->node) Ref<Node>(node);
  o->weakrefs = nullptr;
  extras.py_object = o;
  PyObject_GC_Track(o);
  return reinterpret_cast<PyObject*>(o);
}

int traverse_node(const Node& first, visitproc visit, void* arg) {
  std::vector<const Node*> stack = {&first};
  for (size_t seen = 0; !stack.empty() && seen < kTraversed; ++seen) {
    const Node* node = stack.back();
    stack.pop_back();
    if (const NodeExtras* extras = node->extras()) {
      if (const int stop = traverse_extras(*extras, visit, arg)) return stop;
    }
    if (auto* own = dynamic_cast<const NodeWithObject*>(node)) {
      const int stop = const_cast<NodeWithObject*>(own)->traverse_owned(visit, arg);
      if (stop) return stop;
    }
    for (const Edge& e : node->edges()) {
      if (e && e.node->use_count() == 1) stack.push_back(e.node.get());
    }
  }
  return 0;
}

int traverse_grad_meta(const Tensor& t, visitproc visit, void* arg) {
  const GradMeta* meta = grad_meta_or_null(t);
  if (!meta) return 0;
  if (meta->hooks) {
    if (const int stop = traverse_hooks(meta->hooks->gradient.get(), visit, arg)) return stop;
    if (const int stop = traverse_hooks(meta->hooks->accumulated.get(), visit, arg)) return stop;
  }
  return meta->grad_fn && meta->grad_fn->use_count() == 1
             ? traverse_node(*meta->grad_fn, visit, arg)
             : 0;
}

void clear_grad_meta(const Tensor& t) {
  GradMeta* meta = grad_meta_or_null(t);
  if (!meta) return;
  const Ref<Node> dies_last = std::move(meta->grad_fn);
  if (meta->hooks && meta->hooks->gradient.get()) meta->hooks->gradient.get()->close();
  if (meta->hooks && meta->hooks->accumulated.get()) meta->hooks->accumulated.get()->close();
}

bool holds_python(const Tensor& t) {
  const GradMeta* meta = grad_meta_or_null(t);
  if (!meta) return false;
  if (meta->hooks) return true;
  return meta->grad_fn &&
         (meta->grad_fn->extras() || dynamic_cast<NodeWithObject*>(meta->grad_fn.get()));
}

bool init_nodes(PyObject* module) {
  NodeType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return NodeType && PyModule_AddObjectRef(module, "_Node", (PyObject*)NodeType) == 0;
}

}  // namespace rush::py
