// memoryless.cpp: objects of Python classes that are tensors without memory, and what the engine does
// with them. See Note [Tensors without memory] in core/memoryless.h.
#include "bindings/memoryless.h"

#include "bindings/call/carried_error.h"
#include "bindings/handle.h"
#include "core/memoryless.h"

namespace rush::py {
namespace {

Dims sizes_of(const char* function, PyObject* o) {
  const Handle items = Handle::steal(PySequence_Tuple(o));
  check(PyTuple_GET_SIZE(items.get()) <= kMaxDims, ErrorKind::Argument, function, "at most ",
        int64_t(kMaxDims), " dims are possible, got ", int64_t(PyTuple_GET_SIZE(items.get())));
  Dims sizes;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    int64_t n = 0;
    check(int_from_python(PyTuple_GET_ITEM(items.get(), i), n), ErrorKind::Type, function,
          "sizes must be ints");
    check(n >= 0, ErrorKind::Runtime, function, "sizes must not be negative, got ", n);
    sizes.push_back(n);
  }
  return sizes;
}

// _make_memoryless(cls, sizes, dtype, device)
PyObject* make(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    check(n == 4 && PyType_Check(args[0]) && is_dtype(args[2]) && is_device(args[3]),
          ErrorKind::Type, "_make_memoryless", "expected a class, sizes, a dtype and a device");
    auto* cls = reinterpret_cast<PyTypeObject*>(args[0]);
    check(PyType_IsSubtype(cls, TensorType) && cls != TensorType, ErrorKind::Type,
          "_make_memoryless", "expected a class derived from Tensor");
    return wrap_as(cls, make_memoryless(sizes_of("sparse tensor", args[1]), as_dtype(args[2]),
                                        as_device(args[3])));
  });
}

// _reset_memoryless(tensor, sizes, dtype, device): the same object stands for something else.
PyObject* reset(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    check(n == 4 && is_tensor(args[0]) && is_memoryless(unwrap(args[0])) && is_dtype(args[2]) &&
              is_device(args[3]),
          ErrorKind::Type, "_reset_memoryless",
          "expected a tensor without memory, sizes, a dtype and a device");
    TensorImpl* t = unwrap(args[0]).impl();
    const Dims sizes = sizes_of("sparse tensor", args[1]);
    t->numel = memoryless_numel(sizes);
    t->sizes = sizes;
    t->strides = contiguous_strides(sizes);
    t->dtype = as_dtype(args[2]);
    t->device = as_device(args[3]);
    return Py_NewRef(Py_None);
  });
}

Tensor add(const Tensor& a, const Tensor& b, bool in_place) {
  return call_python([&] {
    Handle x = Handle::steal(wrap(a)), y = Handle::steal(wrap(b));
    if (is_memoryless(a) && !is_memoryless(b))
      std::swap(x, y);  // the dense one takes the sparse one
    const Handle sum = Handle::steal(in_place ? PyObject_CallMethod(x.get(), "add_", "O", y.get())
                                              : PyNumber_Add(x.get(), y.get()));
    check(is_tensor(sum.get()), ErrorKind::Type, "backward",
          "the sum of two gradients is no tensor");
    return Tensor(unwrap(sum.get()));
  });
}

bool any_nan(const Tensor& t) {
  return call_python([&] {
    const Handle found =
        Handle::steal(PyObject_CallMethod(Handle::steal(wrap(t)).get(), "_any_nan", nullptr));
    return PyObject_IsTrue(found.get()) == 1;
  });
}

PyMethodDef functions[] = {
    {"_make_memoryless", as_method(make), METH_FASTCALL, nullptr},
    {"_reset_memoryless", as_method(reset), METH_FASTCALL, nullptr},
    {},
};

}  // namespace

bool init_memoryless(PyObject* module) {
  g_add_memoryless = add;
  g_any_nan_memoryless = any_nan;
  return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace rush::py
