// size_object.cpp: rushlight.Size, a tuple of ints whose slices, sums and products are Sizes too.
#include "bindings/handle.h"
#include "bindings/printed_package.h"
#include "bindings/type_docs.h"

namespace rush::py {
namespace {

PyTypeObject* SizeType;

// Turns an exact tuple into a Size without looking at its items again. Steals the tuple.
PyObject* from_tuple(PyObject* tuple) {
  if (!tuple || !PyTuple_CheckExact(tuple)) return tuple;
  const Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  PyObject* size = SizeType->tp_alloc(SizeType, n);
  for (Py_ssize_t i = 0; size && i < n; ++i) {
    PyTuple_SET_ITEM(size, i, Py_NewRef(PyTuple_GET_ITEM(tuple, i)));
  }
  Py_DECREF(tuple);
  return size;
}

// An item as an int: ints, things with __index__ and 0-d integer tensors. Objects of classes derived
// from int stay what they are, so that sizes can carry where they came from (rushlight/export).
Handle checked_item(PyObject* item, Py_ssize_t at) {
  int64_t number = item == Py_True;
  check(PyBool_Check(item) || int_from_python(item, number), ErrorKind::Type, "Size", "item ", at,
        " must be an int, got ", type_name(item));
  if (PyLong_Check(item) && !PyBool_Check(item)) return Handle::borrow(item);
  return Handle::steal(PyLong_FromLongLong(number));
}

PyObject* size_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    Handle raw = Handle::steal(PyTuple_Type.tp_new(&PyTuple_Type, args, kwargs));
    const Py_ssize_t n = PyTuple_GET_SIZE(raw.get());
    Handle size = Handle::steal(type->tp_alloc(type, n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyTuple_SET_ITEM(size.get(), i, checked_item(PyTuple_GET_ITEM(raw.get(), i), i).release());
    }
    return size.release();
  });
}

PyObject* size_repr(PyObject* self) {
  std::string text = printed_package() + std::string(".Size([");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
    const long long v = PyLong_AsLongLong(PyTuple_GET_ITEM(self, i));
    if (v == -1 && PyErr_Occurred()) return nullptr;
    text += (i ? ", " : "") + std::to_string(v);
  }
  text += "])";
  return PyUnicode_FromStringAndSize(text.data(), Py_ssize_t(text.size()));
}

PyObject* size_numel(PyObject* self, PyObject*) {
  long long n = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
    const long long v = PyLong_AsLongLong(PyTuple_GET_ITEM(self, i));
    if (v == -1 && PyErr_Occurred()) return nullptr;
    n *= v;
  }
  return PyLong_FromLongLong(n);
}

PyObject* size_reduce(PyObject* self, PyObject*) {
  PyObject* items = PyTuple_GetSlice(self, 0, PyTuple_GET_SIZE(self));
  return items ? Py_BuildValue("O(N)", SizeType, items) : nullptr;
}

PyObject* size_subscript(PyObject* self, PyObject* key) {
  PyObject* result = PyTuple_Type.tp_as_mapping->mp_subscript(self, key);
  return PySlice_Check(key) ? from_tuple(result) : result;
}

PyObject* size_repeat(PyObject* self, Py_ssize_t times) {
  return from_tuple(PyTuple_Type.tp_as_sequence->sq_repeat(self, times));
}

// A Size on either side makes the sum a Size; what else may be added is the tuple's own business.
PyObject* size_add(PyObject* a, PyObject* b) {
  if (!PyTuple_Check(a) || !PyTuple_Check(b)) Py_RETURN_NOTIMPLEMENTED;
  Handle joined = Handle::maybe(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
  if (!joined) return nullptr;
  Handle args = Handle::maybe(PyTuple_Pack(1, joined.get()));
  return args ? size_new(SizeType, args.get(), nullptr) : nullptr;
}

PyMethodDef methods[] = {
    {"numel", size_numel, METH_NOARGS, "numel($self, /)\n--\n\nThe product of the sizes."},
    {"__reduce__", size_reduce, METH_NOARGS, nullptr},
    {},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>(kSizeDoc)},
    {Py_tp_new, reinterpret_cast<void*>(size_new)},
    {Py_tp_repr, reinterpret_cast<void*>(size_repr)},
    {Py_tp_methods, methods},
    {Py_mp_subscript, reinterpret_cast<void*>(size_subscript)},
    {Py_sq_repeat, reinterpret_cast<void*>(size_repeat)},
    {Py_nb_add, reinterpret_cast<void*>(size_add)},
    {},
};
PyType_Spec spec = {"rushlight.Size", 0, 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

bool is_size(PyObject* o) { return Py_IS_TYPE(o, SizeType); }

PyObject* wrap_size(IntList sizes) {
  PyObject* out = SizeType->tp_alloc(SizeType, Py_ssize_t(sizes.size()));
  for (size_t i = 0; out && i < sizes.size(); ++i) {
    PyObject* item = PyLong_FromLongLong(sizes[i]);
    if (!item) {
      Py_DECREF(out);
      return nullptr;
    }
    PyTuple_SET_ITEM(out, Py_ssize_t(i), item);
  }
  return out;
}

bool init_size(PyObject* module) {
  Handle bases = Handle::maybe(PyTuple_Pack(1, &PyTuple_Type));
  SizeType = bases ? add_type(module, &spec, bases.get()) : nullptr;
  return SizeType != nullptr;
}

}  // namespace rush::py
