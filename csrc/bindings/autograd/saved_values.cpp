// saved_values.cpp: what nodes have saved, as Python sees it. The names come from the op table
// (ops/framework/kept.h).
//
// A node may run, and release what it saved, on another thread. So its values are copied under its
// lock, without the GIL (who holds that lock may be waiting for it), and looked at afterwards.
#include "bindings/autograd/saved_values.h"

#include <optional>
#include <string>

#include "autograd/node_lock.h"
#include "autograd/snapshot.h"
#include "bindings/autograd/function_node.h"
#include "ops/framework/kept.h"

namespace rush::py {
namespace {

constexpr std::string_view kSaved = "_saved_", kRaw = "_raw_saved_";

// Where a node keeps a tensor.
struct Place {
  enum class In : uint8_t { Argument, Result, Function } in;
  size_t index;     // of the argument or the result
  size_t item = 0;  // of a list, or of what a Function saved
};

// f(KeptCall&) under the lock; f must not touch Python.
template <class F>
void with_kept(const Ref<Node>& node, F&& f) {
  const ReleaseGilForGraph released;
  const NodeLock lock(*node);
  KeptCall call;
  if (node->show_kept(call)) f(call);
}

std::span<SavedTensor> tensors_at(KeptCall& call, Place place) {
  return place.in == Place::In::Argument
             ? call.arguments[place.index].tensors
             : call.results.subspan(std::min(place.index, call.results.size()));
}

SavedTensor read(const Ref<Node>& node, Place place) {
  if (place.in == Place::In::Function)
    return static_cast<FunctionNode*>(node.get())->saved(place.item);
  SavedTensor found;
  with_kept(node, [&](KeptCall& call) {
    const auto tensors = tensors_at(call, place);
    if (place.item < tensors.size()) found = tensors[place.item];
  });
  return found;
}

void write(const Ref<Node>& node, Place place, SavedTensor saved) {
  if (place.in == Place::In::Function)
    return static_cast<FunctionNode*>(node.get())->set_saved(place.item, std::move(saved));
  with_kept(node, [&](KeptCall& call) {
    const auto tensors = tensors_at(call, place);
    // What was released meanwhile stays so.
    if (place.item < tensors.size() && !tensors[place.item].released())
      std::swap(tensors[place.item], saved);
  });
}

void check_not_freed(const Node& node, const SavedTensor& saved, const char* what) {
  check(!saved.released(), ErrorKind::Runtime, node.name(), what,
        " after they have already been freed: an earlier backward", at_source(node.released_at()),
        " did that. Pass retain_graph=True to it to keep them");
}

PyObject* unpacked(const Ref<Node>& node, const SavedTensor& saved) {
  check_not_freed(*node, saved, "saved tensors cannot be accessed");
  return wrap(saved.unpack(node.get(), true));
}

// The Python object rushlight._C._autograd.SavedTensor.
struct SavedTensorObject {
  PyObject_HEAD Ref<Node> node;
  Place place;
};
PyTypeObject* SavedTensorType = nullptr;

SavedTensorObject* as_saved(PyObject* o) { return reinterpret_cast<SavedTensorObject*>(o); }

PyObject* make_saved_tensor(const Ref<Node>& node, Place place) {
  auto* o = PyObject_New(SavedTensorObject, SavedTensorType);
  if (!o) throw PythonError{};
  new (&o->node) Ref<Node>(node);
  o->place = place;
  return reinterpret_cast<PyObject*>(o);
}

void saved_dealloc(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  as_saved(o)->node.~Ref<Node>();
  type->tp_free(o);
  Py_DECREF(type);
}

PyObject* register_hooks(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    const Ref<Node>& node = as_saved(o)->node;
    const Place place = as_saved(o)->place;
    const Ref<SavedTensorHooks> hooks = hooks_from_python("register_hooks", args, n);
    SavedTensor saved = read(node, place);
    check_not_freed(*node, saved, "hooks cannot be registered on saved tensors");
    check(saved.defined(), ErrorKind::Runtime, "register_hooks",
          "nothing was saved here: a saved tensor with value None takes no hooks");
    check(!saved.packed() || !saved.packed()->is_users(), ErrorKind::Runtime, "register_hooks",
          "the hooks of this saved tensor have already been set; it takes one pair");
    saved.pack(*hooks);
    write(node, place, std::move(saved));
    return Py_NewRef(Py_None);
  });
}

PyObject* unpack(PyObject* o, PyObject*) {
  return guarded(
      [&] { return unpacked(as_saved(o)->node, read(as_saved(o)->node, as_saved(o)->place)); });
}

PyObject* data(PyObject* o, void*) {
  return guarded([&] {
    const SavedTensor saved = read(as_saved(o)->node, as_saved(o)->place);
    check_not_freed(*as_saved(o)->node, saved, "saved tensors cannot be accessed");
    if (saved.packed() && !saved.packed()->is_users()) return wrap(saved.packed()->unpack());
    return saved.packed() ? Py_NewRef(packed_object(*saved.packed())) : wrap(saved.bytes());
  });
}

PyObject* unpack_hook(PyObject* o, void*) {
  return guarded([&] {
    const SavedTensor saved = read(as_saved(o)->node, as_saved(o)->place);
    const bool hooked = saved.packed() && saved.packed()->is_users();
    return Py_NewRef(hooked ? unpack_hook_of(*saved.packed()) : Py_None);
  });
}

PyMethodDef methods[] = {
    {"register_hooks", as_method(register_hooks), METH_FASTCALL,
     "register_hooks($self, pack_hook, unpack_hook, /)\n--\n\nCalls pack_hook with the saved "
     "tensor now, and unpack_hook with what it returned when backward asks for it."},
    {"unpack", unpack, METH_NOARGS, "unpack($self)\n--\n\nThe tensor as backward would read it."},
    {},
};
PyGetSetDef getset[] = {
    {"data", data, nullptr, "What is kept: the tensor, or what pack_hook made of it.", nullptr},
    {"unpack_hook", unpack_hook, nullptr, "The hook that brings the tensor back, or None.",
     nullptr},
    {},
};
PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(saved_dealloc)},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_doc, const_cast<char*>("A tensor that a node has saved for backward.")},
    {},
};
PyType_Spec spec = {"rushlight._C._autograd.SavedTensor", sizeof(SavedTensorObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

template <class T, class Make>
PyObject* tuple_of(std::span<const T> items, Make make) {
  Handle tuple = Handle::steal(PyTuple_New(Py_ssize_t(items.size())));
  for (size_t i = 0; i < items.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(i), Handle::steal(make(items[i], i)).release());
  return tuple.release();
}

PyObject* value_to_python(const Value& v) {
  switch (v.tag()) {
    case Value::Tag::Scalar:
      return wrap(v.scalar());
    case Value::Tag::Int:
      return PyLong_FromLongLong(v.integer());
    case Value::Tag::Float:
      return PyFloat_FromDouble(v.real());
    case Value::Tag::Bool:
      return PyBool_FromLong(v.boolean());
    case Value::Tag::Ints:
      return tuple_of(v.ints(), [](int64_t i, size_t) { return PyLong_FromLongLong(i); });
    case Value::Tag::Floats:
      return tuple_of(v.floats(), [](double d, size_t) { return PyFloat_FromDouble(d); });
    case Value::Tag::String:
      return PyUnicode_FromStringAndSize(v.string().data(), Py_ssize_t(v.string().size()));
    case Value::Tag::DType:
      return wrap(v.dtype());
    case Value::Tag::Device:
      return wrap(v.device());
    case Value::Tag::Layout:
      return wrap(v.layout());
    case Value::Tag::MemoryFormat:
      return wrap(v.memory_format());
    default:
      return Py_NewRef(Py_None);
  }
}

// One name of a node, with a copy of what it stands for.
struct Found {
  SavedName name;
  ArgKind kind = ArgKind::Tensor;
  std::vector<SavedTensor> tensors;
  Value value;

  bool is_list() const { return kind == ArgKind::Tensors; }
  bool is_tensors() const {
    return name.what != SavedName::What::Sizes && (kind == ArgKind::Tensor || is_list());
  }
  Place place(size_t item) const {
    const bool argument = name.what == SavedName::What::Argument;
    return {argument ? Place::In::Argument : Place::In::Result, name.index, item};
  }
};

std::optional<Found> find(const Ref<Node>& node, std::string_view name) {
  std::optional<Found> found;
  with_kept(node, [&](KeptCall& call) {
    for (SavedName& each : saved_names(*node, call)) {
      if (each.name != name) continue;
      found.emplace().name = std::move(each);
      const size_t i = found->name.index;
      if (found->name.what == SavedName::What::Argument) {
        found->kind = call.arguments[i].kind;
        found->tensors.assign(call.arguments[i].tensors.begin(), call.arguments[i].tensors.end());
        found->value = std::move(call.arguments[i].value);
      } else if (i < call.results.size()) {
        found->tensors.push_back(call.results[i]);
      }
      return;
    }
  });
  return found;
}

}  // namespace

PyObject* saved_attribute(const Ref<Node>& node, std::string_view attribute) {
  const bool raw = attribute.starts_with(kRaw);
  if (!raw && !attribute.starts_with(kSaved)) return nullptr;
  const auto found = find(node, attribute.substr((raw ? kRaw : kSaved).size()));
  if (!found || (raw && !found->is_tensors())) return nullptr;
  if (found->name.what == SavedName::What::Sizes) {
    const Edge& edge = node->edges()[found->name.edge];
    return tuple_of(IntList(edge.node->results()[edge.slot].sizes),
                    [](int64_t i, size_t) { return PyLong_FromLongLong(i); });
  }
  if (!found->is_tensors()) return value_to_python(found->value);
  if (found->is_list()) {
    return tuple_of(std::span<const SavedTensor>(found->tensors),
                    [&](const SavedTensor& saved, size_t i) {
                      return raw ? make_saved_tensor(node, found->place(i)) : unpacked(node, saved);
                    });
  }
  if (raw) return make_saved_tensor(node, found->place(0));
  return found->tensors.empty() ? Py_NewRef(Py_None) : unpacked(node, found->tensors[0]);
}

PyObject* saved_attributes(const Ref<Node>& node) {
  std::vector<std::string> names;
  with_kept(node, [&](KeptCall& call) {
    for (const SavedName& each : saved_names(*node, call)) {
      names.push_back(concat(kSaved, each.name));
      const bool of_tensors = each.what == SavedName::What::Result ||
                              (each.what == SavedName::What::Argument &&
                               (call.arguments[each.index].kind == ArgKind::Tensor ||
                                call.arguments[each.index].kind == ArgKind::Tensors));
      if (of_tensors) names.push_back(concat(kRaw, each.name));
    }
  });
  const Handle list = Handle::steal(PyList_New(0));
  for (const std::string& name : names) {
    const Handle text =
        Handle::steal(PyUnicode_FromStringAndSize(name.data(), Py_ssize_t(name.size())));
    check_status(PyList_Append(list.get(), text.get()));
  }
  return Py_NewRef(list.get());
}

PyObject* raw_saved_tensors(const Ref<Node>& node, size_t count) {
  Handle tuple = Handle::steal(PyTuple_New(Py_ssize_t(count)));
  for (size_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(i),
                     make_saved_tensor(node, {Place::In::Function, 0, i}));
  return tuple.release();
}

bool init_saved_values(PyObject* module) {
  SavedTensorType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return SavedTensorType &&
         PyModule_AddObjectRef(module, "_SavedTensor", (PyObject*)SavedTensorType) == 0;
}

}  // namespace rush::py
