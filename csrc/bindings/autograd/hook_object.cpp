// hook_object.cpp: Python callables as hooks of the graph.
#include <cstddef>

#include "bindings/autograd/node_object.h"

namespace rush::py {
namespace {

std::string hook_name(PyObject* callable) {
  const Handle name = Handle::maybe(PyObject_GetAttrString(callable, "__name__"));
  if (name && PyUnicode_Check(name.get())) return std::string(text_of(name.get()));
  PyErr_Clear();
  return type_name(callable);
}

// A hook replaces a gradient by one of the same kind.
void check_replacement(PyObject* callable, const Tensor& was, PyObject* is) {
  const auto named = [&] { return concat("hook '", hook_name(callable), "'"); };
  check(is_tensor(is), ErrorKind::Type, "", named(),
        ": expected a Tensor or None, but it returned ", type_name(is));
  check(was.defined(), ErrorKind::Runtime, "", named(),
        ": a gradient that is None cannot be replaced by a tensor");
  const Tensor& t = unwrap(is);
  check_shape(t.sizes() == was.sizes(), "", named(), " changed the shape of the gradient from ",
              was.sizes(), " to ", t.sizes());
  check_dtype(t.dtype() == was.dtype(), "", named(), " changed the dtype of the gradient from ",
              was.dtype(), " to ", t.dtype());
  check(t.device() == was.device(), ErrorKind::Device, "", named(), " moved the gradient from ",
        was.device(), " to ", t.device());
}

Handle tuple_of_grads(std::span<const Tensor> grads) {
  Handle tuple = Handle::steal(PyTuple_New(Py_ssize_t(grads.size())));
  for (size_t i = 0; i < grads.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(i), Handle::steal(wrap(grads[i])).release());
  }
  return tuple;
}

// Puts what a hook of a node returned in place of `grads`: None or a tuple.
void replace_grads(PyObject* callable, std::span<Tensor> grads, PyObject* result) {
  if (result == Py_None) return;
  check(PyTuple_Check(result), ErrorKind::Type, "", "hook '", hook_name(callable),
        "': a node's hook must return a tuple of gradients or None, it returned ",
        type_name(result));
  const Py_ssize_t n = PyTuple_GET_SIZE(result);
  check(size_t(n) == grads.size(), ErrorKind::Runtime, "", "hook '", hook_name(callable),
        "' returned ", n, " gradients, expected ", grads.size());
  for (size_t i = 0; i < grads.size(); ++i) {
    PyObject* item = PyTuple_GET_ITEM(result, Py_ssize_t(i));
    if (item != Py_None) check_replacement(callable, grads[i], item);
  }
  for (size_t i = 0; i < grads.size(); ++i) {
    PyObject* item = PyTuple_GET_ITEM(result, Py_ssize_t(i));
    grads[i] = item == Py_None ? Tensor() : unwrap(item);
  }
}

class PyHook final : public Hook {
 public:
  explicit PyHook(PyObject* callable) : callable_(callable) {}

  void on_gradient(Tensor& grad) override {
    call_python([&] {
      const Handle result = call(Handle::steal(wrap(grad)));
      if (result.get() == Py_None) return;
      check_replacement(callable_.get(), grad, result.get());
      grad = unwrap(result.get());
    });
  }
  void before_node(std::span<Tensor> grads) override {
    call_python([&] {
      const Handle result = call(tuple_of_grads(grads));
      replace_grads(callable_.get(), grads, result.get());
    });
  }
  void after_node(std::span<Tensor> out, GradSpan grads) override {
    call_python([&] {
      const Handle inputs = tuple_of_grads(out), outputs = tuple_of_grads(grads);
      const Handle result = Handle::steal(
          PyObject_CallFunctionObjArgs(callable_.get(), inputs.get(), outputs.get(), nullptr));
      replace_grads(callable_.get(), out, result.get());
    });
  }
  void after_accumulation(const Tensor& leaf) override {
    call_python([&] {
      call(Handle::steal(wrap(leaf)));  // what it returns is of no use to anybody
    });
  }

  PyObject* callable() const { return callable_.get(); }

 private:
  Handle call(const Handle& argument) {
    return Handle::steal(PyObject_CallOneArg(callable_.get(), argument.get()));
  }
  PyRef callable_;
};

// The handle: takes its hook off the list. Neither keeps the hook's callable alive by itself once
// the tensor or node is gone.
struct HookHandle {
  PyObject_HEAD Ref<HookList> list;
  const Hook* hook;  // an identity only
  PyObject* dict;
  PyObject* weakrefs;
};
PyTypeObject* HandleType = nullptr;
HookHandle* handle_of(PyObject* o) { return reinterpret_cast<HookHandle*>(o); }

void handle_dealloc(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (handle_of(o)->weakrefs) PyObject_ClearWeakRefs(o);
  handle_of(o)->list.~Ref<HookList>();
  type->tp_free(o);
  Py_DECREF(type);
}
PyObject* handle_remove(PyObject* o, PyObject*) {
  HookHandle* h = handle_of(o);
  if (h->list) h->list->remove(h->hook);
  h->list = nullptr;
  Py_RETURN_NONE;
}
PyObject* handle_enter(PyObject* o, PyObject*) { return Py_NewRef(o); }
PyObject* handle_exit(PyObject* o, PyObject*) { return handle_remove(o, nullptr); }
PyObject* handle_id(PyObject* o, void*) {
  return PyLong_FromVoidPtr(const_cast<Hook*>(handle_of(o)->hook));
}

PyMethodDef handle_methods[] = {
    {"remove", handle_remove, METH_NOARGS,
     "remove($self)\n--\n\nTakes the hook off; twice is fine."},
    {"__enter__", handle_enter, METH_NOARGS, nullptr},
    {"__exit__", handle_exit, METH_VARARGS, nullptr},
    {},
};
PyGetSetDef handle_getset[] = {
    {"id", handle_id, nullptr, "A number that no other live hook has.", nullptr}, {}};
PyMemberDef handle_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(HookHandle, weakrefs), READONLY, nullptr}, {}};
PyType_Slot handle_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(handle_dealloc)},
    {Py_tp_methods, handle_methods},
    {Py_tp_getset, handle_getset},
    {Py_tp_members, handle_members},
    {Py_tp_doc, const_cast<char*>("What registering a hook returns: remove() takes it off.")},
    {},
};
PyType_Spec handle_spec = {"rushlight._C._HookHandle", sizeof(HookHandle), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, handle_slots};

}  // namespace

PyObject* add_hook(const Ref<HookList>& list, PyObject* callable, const char* function) {
  check(PyCallable_Check(callable), ErrorKind::Type, function, "expected a callable, not ",
        type_name(callable));
  auto* handle = PyObject_New(HookHandle, HandleType);
  if (!handle) throw PythonError{};
  auto hook = Ref<Hook>::adopt(new PyHook(callable));
  new (&handle->list) Ref<HookList>(list);
  handle->hook = hook.get();
  handle->dict = handle->weakrefs = nullptr;
  list->add(std::move(hook));
  return reinterpret_cast<PyObject*>(handle);
}

int traverse_hooks(const Ref<HookList>& list, visitproc visit, void* arg) {
  if (!list) return 0;
  for (const Ref<Hook>& hook : list->snapshot()) {
    // The list and this snapshot: while a backward holds it too, it is in use.
    if (hook->use_count() != 2) continue;
    if (auto* h = dynamic_cast<PyHook*>(hook.get())) Py_VISIT(h->callable());
  }
  return 0;
}

bool init_hooks(PyObject* module) {
  HandleType = add_type(module, &handle_spec);
  return HandleType;
}

}  // namespace rush::py
