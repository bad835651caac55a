// packed_bytes.cpp: packed lists of strings, and of other plain values by way of marshal, for
// datasets whose file names and labels all workers share.
#include "core/packed_bytes.h"

#include <cstring>

#include "bindings/data/processes.h"
#include "bindings/handle.h"
#include "core/shared_memory.h"

#include <marshal.h>

namespace rush::py {
namespace {

// One value as bytes. Text is UTF-8, and lets through what file names may hold besides; everything
// else is what marshal makes of it, which takes only plain, unchangeable values here.
bool is_plain(PyObject* o) {
  if (o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) ||
      PyComplex_CheckExact(o) || PyUnicode_CheckExact(o) || PyBytes_CheckExact(o))
    return true;
  if (!PyTuple_CheckExact(o)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) {
    if (!is_plain(PyTuple_GET_ITEM(o, i))) return false;
  }
  return true;
}

std::string_view view_of(PyObject* bytes) {
  return {PyBytes_AS_STRING(bytes), size_t(PyBytes_GET_SIZE(bytes))};
}

// Without references to earlier objects: equal values have equal bytes.
constexpr int kMarshal = 2;

// Calls f with the bytes of a value; false when it cannot be packed.
template <class F>
bool with_bytes(PyObject* o, bool text, F&& f) {
  if (text) {
    if (!PyUnicode_CheckExact(o)) return false;
    if (PyUnicode_IS_COMPACT_ASCII(o)) {
      f(std::string_view(static_cast<const char*>(PyUnicode_DATA(o)),
                         size_t(PyUnicode_GET_LENGTH(o))));
      return true;
    }
    const Handle bytes = Handle::steal(PyUnicode_AsEncodedString(o, "utf-8", "surrogatepass"));
    f(view_of(bytes.get()));
    return true;
  }
  if (!is_plain(o)) return false;
  const Handle bytes = Handle::steal(PyMarshal_WriteObjectToString(o, kMarshal));
  f(view_of(bytes.get()));
  return true;
}

// _pack_values(iterable, text, with_index): bytes, or None when a value cannot be packed.
PyObject* pack_values(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* values;
    int text = 0, with_index = 0;
    if (!PyArg_ParseTuple(args, "Opp", &values, &text, &with_index)) throw PythonError{};
    const Handle iterator = Handle::steal(PyObject_GetIter(values));
    PackedBytesWriter writer;
    while (const Handle item = Handle::maybe(PyIter_Next(iterator.get()))) {
      if (!with_bytes(item.get(), text != 0, [&](std::string_view b) { writer.add(b); }))
        return Py_NewRef(Py_None);
    }
    if (PyErr_Occurred()) throw PythonError{};
    const std::string packed = writer.finish(with_index != 0);
    Ref<Storage> storage = allocate_shared(packed.size());
    std::memcpy(storage->data(), packed.data(), packed.size());
    return wrap(std::move(storage));
  });
}

struct PackedObject {
  PyObject_HEAD Ref<Storage> storage;
  PackedBytes packed;
  bool text;
};
PackedObject* packed_of(PyObject* o) { return reinterpret_cast<PackedObject*>(o); }

PyObject* packed_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&] {
    PyObject* o;
    int text = 0;
    if (!PyArg_ParseTuple(args, "Op", &o, &text)) throw PythonError{};
    check(is_storage(o), ErrorKind::Type, "packed list", "expected an UntypedStorage");
    const Ref<Storage>& storage = storage_from_python(o);
    const PackedBytes packed(storage->data(), storage->nbytes());
    PyObject* self = type->tp_alloc(type, 0);
    if (!self) throw PythonError{};
    new (&packed_of(self)->storage) Ref<Storage>(storage);
    new (&packed_of(self)->packed) PackedBytes(packed);
    packed_of(self)->text = text != 0;
    return self;
  });
}

void packed_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  std::destroy_at(&packed_of(self)->storage);
  type->tp_free(self);
  Py_DECREF(type);
}

Py_ssize_t packed_length(PyObject* self) { return Py_ssize_t(packed_of(self)->packed.size()); }

PyObject* packed_item(PyObject* self, Py_ssize_t i) {
  return guarded([&] {
    std::string bytes;
    packed_of(self)->packed.get(size_t(i), bytes);
    if (packed_of(self)->text)
      return PyUnicode_DecodeUTF8(bytes.data(), Py_ssize_t(bytes.size()), "surrogatepass");
    return PyMarshal_ReadObjectFromString(bytes.data(), Py_ssize_t(bytes.size()));
  });
}

PyObject* packed_find(PyObject* self, PyObject* key) {
  return guarded([&] {
    int64_t found = -1;
    with_bytes(key, packed_of(self)->text,
               [&](std::string_view b) { found = packed_of(self)->packed.find(b); });
    return PyLong_FromLongLong(found);
  });
}

PyMethodDef methods[] = {
    {"find", packed_find, METH_O, "The place of a value, or -1; needs the index."},
    {},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("Reads what _pack_values packed.")},
    {Py_tp_new, reinterpret_cast<void*>(packed_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(packed_dealloc)},
    {Py_tp_methods, methods},
    {Py_sq_length, reinterpret_cast<void*>(packed_length)},
    {Py_sq_item, reinterpret_cast<void*>(packed_item)},
    {},
};
PyType_Spec spec = {"rushlight._PackedValues", sizeof(PackedObject), 0, Py_TPFLAGS_DEFAULT, slots};

PyMethodDef functions[] = {
    {"_pack_values", pack_values, METH_VARARGS,
     "Packs strings, or other plain values, into a shared storage; None if one cannot be packed."},
    {},
};

}  // namespace

bool init_packed_bytes(PyObject* module) {
  return add_type(module, &spec) && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace rush::py
