// tensor_object.cpp: the Python type rushlight.Tensor: birth, death and identity of wrappers.
//
// Note [One Python object a tensor]
// TensorImpl::py_object remembers the wrapper, so that the same tensor is the same Python object.
// - Normally the wrapper owns the tensor. When the last Python reference goes, the wrapper is
//   freed, and a tensor that C++ still holds gets a new one when it next comes to Python.
// - A wrapper that would be missed (of a subclass, with attributes, or with weak references) is
//   kept instead: it is brought back to life with one reference, which now the tensor owns
//   (kOwnsPyObject), and its own count on the tensor is dropped. `wrap` turns this round again.
// - CPython's dealloc of a subclass can be cancelled only once in an object's life, so our
//   metaclass gives every subclass a dealloc of ours.
// - Everything here happens with the GIL held. A tensor may die on any thread, with any lock of the
//   core released: return_to_wrapper takes the GIL.
//
// A wrapper is not tracked by the cyclic collector until it has a __dict__, or a hook, or comes out
// of a custom Function: it cannot be in a cycle.
#include "bindings/tensor/tensor_object.h"

#include <cstddef>

#include "bindings/autograd/node_object.h"
#include "bindings/call/dispatch.h"
#include "bindings/call/torch_function.h"
#include "bindings/handle.h"
#include "bindings/type_docs.h"

namespace rush::py {

PyTypeObject* TensorType = nullptr;

namespace {

PyTypeObject* MetaType = nullptr;

TensorObject* cast(PyObject* o) { return reinterpret_cast<TensorObject*>(o); }

// Wrappers of the exact type that died lately. The GIL guards the list.
constexpr int kFreeCapacity = 64;
PyObject* g_free[kFreeCapacity];
int g_free_count = 0;

PyObject* allocate(Tensor&& t) {
  assert_gil("a tensor is wrapped without the GIL");
  PyObject* self;
  if (g_free_count > 0) {
    self = PyObject_Init(g_free[--g_free_count], TensorType);
  } else {
    self = reinterpret_cast<PyObject*>(PyObject_GC_New(TensorObject, TensorType));
    if (!self) return nullptr;
  }
  TensorObject* o = cast(self);
  o->dict = o->weakrefs = nullptr;
  new (&o->tensor) Tensor(std::move(t));
  o->tensor.impl()->py_object = self;
  return self;
}

bool would_be_missed(TensorObject* o) {
  return Py_TYPE(o) != TensorType || (o->dict && PyDict_GET_SIZE(o->dict) > 0) || o->weakrefs;
}

// See Note [One Python object a tensor]. True: the wrapper lives on.
bool hand_to_tensor(PyObject* self) {
  assert_gil("a wrapper dies without the GIL");
  TensorObject* o = cast(self);
  TensorImpl* impl = o->tensor.impl();
  if (!impl || impl->py_object != self || impl->use_count() == 1 || !would_be_missed(o)) {
    return false;
  }
  Py_SET_REFCNT(self, 1);
  impl->set(TensorImpl::kOwnsPyObject, true);
  // Others may drop the tensor at this moment, so this may be the last count; then it comes back at
  // once, through return_to_wrapper.
  impl->release();
  return true;
}

// Frees what the base part of a wrapper holds; the caller frees the memory.
Tensor take_apart(TensorObject* o) {
  PyObject* self = reinterpret_cast<PyObject*>(o);
  if (o->weakrefs) PyObject_ClearWeakRefs(self);
  Py_CLEAR(o->dict);
  Tensor t = std::move(o->tensor);
  o->tensor.~Tensor();
  if (t.defined() && t.impl()->py_object == self) t.impl()->py_object = nullptr;
  return t;
}

void tensor_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (type == TensorType && hand_to_tensor(self)) return;
  if (PyObject_GC_IsTracked(self)) PyObject_GC_UnTrack(self);
  const Tensor dies_last = take_apart(cast(self));
  if (type == TensorType && g_free_count < kFreeCapacity) {
    g_free[g_free_count++] = self;
  } else {
    type->tp_free(self);
  }
  Py_DECREF(type);
}

// The members that __slots__ added between Tensor and the object's type.
void clear_slots(PyObject* self) {
  for (PyTypeObject* t = Py_TYPE(self); t && t != TensorType; t = t->tp_base) {
    // CPython keeps a heap type's own members right behind the type object.
    auto* member =
        reinterpret_cast<PyMemberDef*>(reinterpret_cast<char*>(t) + Py_TYPE(t)->tp_basicsize);
    for (Py_ssize_t i = 0; i < Py_SIZE(t); ++i, ++member) {
      if (member->type != T_OBJECT_EX || (member->flags & READONLY)) continue;
      auto** slot = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(self) + member->offset);
      Py_CLEAR(*slot);
    }
  }
}

// In place of CPython's subtype_dealloc; does the same, and may be cancelled more than once.
void subclass_dealloc(PyObject* self) {
  if (hand_to_tensor(self)) return;
  PyTypeObject* type = Py_TYPE(self);
  if (type->tp_finalize) {  // __del__; it must see a tracked object, and may bring it back
    if (!PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
    if (PyObject_CallFinalizerFromDealloc(self) < 0) return;
  }
  PyObject_GC_UnTrack(self);
  clear_slots(self);
  const Tensor dies_last = take_apart(cast(self));
  type->tp_free(self);
  Py_DECREF(type);
}

int meta_init(PyObject* cls, PyObject* args, PyObject* kwargs) {
  if (PyType_Type.tp_init(cls, args, kwargs) < 0) return -1;
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  type->tp_dealloc = subclass_dealloc;
  return note_subclass(type);
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (g_threads_without_gil > 0) return 0;  // Note [Collections beside running threads]
  // While C++ holds the tensor, the wrapper may come back: what it refers to is not garbage.
  const TensorImpl* impl = cast(self)->tensor.impl();
  if (impl && impl->py_object == self && impl->use_count() > 1) return 0;
  Py_VISIT(cast(self)->dict);
  return impl && impl->autograd ? traverse_grad_meta(cast(self)->tensor, visit, arg) : 0;
}

int tensor_clear(PyObject* self) {
  Py_CLEAR(cast(self)->dict);
  const Tensor& t = cast(self)->tensor;
  if (t.defined() && t.impl()->use_count() == 1) clear_grad_meta(t);
  return 0;
}

void track(PyObject* self) {
  if (cast(self)->dict && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
}

int tensor_setattro(PyObject* self, PyObject* name, PyObject* value) {
  const int status = PyObject_GenericSetAttr(self, name, value);
  track(self);
  return status;
}

PyObject* get_dict(PyObject* self, void* context) {
  PyObject* dict = PyObject_GenericGetDict(self, context);
  track(self);
  return dict;
}
int set_dict(PyObject* self, PyObject* value, void* context) {
  const int status = PyObject_GenericSetDict(self, value, context);
  track(self);
  return status;
}

// The core's hook, see HostHooks. A wrapper may have been found through a weak reference or
// gc.get_objects(); and its __del__ may look at the tensor. Where the GIL cannot be had, both stay
// as they are, see Note [Objects that die while the interpreter ends].
void return_to_wrapper(TensorImpl* impl) noexcept {
  with_gil([&] {
    impl->retain();
    impl->set(TensorImpl::kOwnsPyObject, false);
    Py_DECREF(static_cast<PyObject*>(impl->py_object));
  });
}

PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    Tensor t = legacy_from_python(args, kwargs);
    return type == TensorType ? wrap(std::move(t)) : wrap_as(type, t);
  });
}

// Note: an index, not a value: tensors are compared elementwise, but hashed as objects.
Py_hash_t tensor_hash(PyObject* self) { return PyBaseObject_Type.tp_hash(self); }

PyObject* tensor_repr(PyObject* self) {
  return guarded([&] {
    static PyObject* format = nullptr;
    if (!format) {
      const Handle module = Handle::steal(PyImport_ImportModule("rushlight._tensor_str"));
      format = Handle::steal(PyObject_GetAttrString(module.get(), "_str")).release();
    }
    return PyObject_CallOneArg(format, self);
  });
}

PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(TensorObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weakrefs), READONLY, nullptr},
    {},
};

PyGetSetDef dict_getset = {"__dict__", get_dict, set_dict, nullptr, nullptr};

// Our own methods first, then those of the table whose names are still free.
PyMethodDef* all_methods() {
  auto* all = new std::vector<PyMethodDef>;  // the type refers to it for ever
  for (PyMethodDef* m = tensor_methods; m->ml_name; ++m) all->push_back(*m);
  const size_t own = all->size();
  for (PyMethodDef* m = op_methods(); m->ml_name; ++m) {
    const bool taken = std::any_of(all->begin(), all->begin() + long(own), [&](const auto& o) {
      return std::string_view(o.ml_name) == m->ml_name;
    });
    if (!taken) all->push_back(*m);
  }
  all->push_back({});
  return all->data();
}

PyGetSetDef* all_getset() {
  auto* all = new std::vector<PyGetSetDef>;
  for (PyGetSetDef* g = tensor_getset; g->name; ++g) all->push_back(*g);
  all->push_back(dict_getset);
  all->push_back({});
  return all->data();
}

template <class F>
PyType_Slot slot(int id, F* f) {
  return {id, reinterpret_cast<void*>(f)};
}

bool make_meta_type() {
  PyType_Slot slots[] = {slot(Py_tp_init, meta_init), {}};
  PyType_Spec spec = {"rushlight._C._TensorMeta", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                      slots};
  PyObject* type = PyType_FromSpecWithBases(&spec, reinterpret_cast<PyObject*>(&PyType_Type));
  MetaType = reinterpret_cast<PyTypeObject*>(type);
  return type;
}

PyObject* make_type(PyObject* module, PyType_Spec* spec) {
#if PY_VERSION_HEX >= 0x030C0000
  return PyType_FromMetaclass(MetaType, module, spec, nullptr);
#else
  PyObject* type = PyType_FromModuleAndSpec(module, spec, nullptr);
  if (type) {
    Py_INCREF(MetaType);
    Py_SET_TYPE(type, MetaType);  // nothing has looked at the type yet
  }
  return type;
#endif
}

bool make_tensor_type(PyObject* module) {
  std::vector<PyType_Slot> slots = {
      slot(Py_tp_new, tensor_new),           slot(Py_tp_dealloc, tensor_dealloc),
      slot(Py_tp_traverse, tensor_traverse), slot(Py_tp_clear, tensor_clear),
      slot(Py_tp_setattro, tensor_setattro), slot(Py_tp_hash, tensor_hash),
      slot(Py_tp_repr, tensor_repr),         slot(Py_tp_methods, all_methods()),
      slot(Py_tp_getset, all_getset()),      slot(Py_tp_members, members),
  };
  slots.push_back({Py_tp_doc, const_cast<char*>(kTensorDoc)});
  for (PyType_Slot* s = number_slots; s->slot; ++s) slots.push_back(*s);
  slots.push_back({});
  PyType_Spec spec = {"rushlight.Tensor", sizeof(TensorObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots.data()};
  TensorType = reinterpret_cast<PyTypeObject*>(make_type(module, &spec));
  return TensorType;
}

}  // namespace

PyObject* wrap(Tensor&& t) {
  TensorImpl* impl = t.impl();
  if (!impl) return Py_NewRef(Py_None);
  auto* known = static_cast<PyObject*>(impl->py_object);
  if (!known) return allocate(std::move(t));
  if (!impl->has(TensorImpl::kOwnsPyObject)) return Py_NewRef(known);
  // Python owns it again: the tensor's reference goes to the caller, t's count to the wrapper.
  impl->set(TensorImpl::kOwnsPyObject, false);
  std::move(t).detach_impl();
  return known;
}

PyObject* wrap(const Tensor& t) { return wrap(Tensor(t)); }

PyObject* wrap_as(PyTypeObject* type, const Tensor& t) {
  internal_assert(!t.impl()->py_object, "a tensor cannot have two Python objects");
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  new (&cast(self)->tensor) Tensor(t);
  t.impl()->py_object = self;
  return self;
}

bool init_tensor(PyObject* module) {
  if (!intern_names()) return false;
  resolve_ops();
  if (!make_meta_type() || !make_tensor_type(module)) return false;
  resolve_operators();
  host_hooks().return_to_wrapper = return_to_wrapper;
  PyObject* priority = PyLong_FromLong(1000);  // NumPy leaves `array * tensor` to us
  if (!priority) return false;
  auto* type = reinterpret_cast<PyObject*>(TensorType);
  const bool ok = PyObject_SetAttrString(type, "__array_priority__", priority) == 0;
  Py_DECREF(priority);
  return ok && PyModule_AddObjectRef(module, "_TensorMeta", (PyObject*)MetaType) == 0 &&
         PyModule_AddObjectRef(module, "Tensor", type) == 0 &&
         PyModule_AddFunctions(module, op_functions()) == 0 && init_torch_function(module) &&
         init_return_types(module);
}

}  // namespace rush::py
