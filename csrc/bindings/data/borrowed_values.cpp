// borrowed_values.cpp: reads a list or dict of plain values without touching the values.
//
// Taking a Python object out of a list writes its reference count, and a process that was forked
// gets its own copy of the page. These views hand out copies instead: the original is only read,
// so its pages stay shared with the parent, however many processes read all of it. Values that are
// not plain (objects, arrays, lists in lists) are handed out as they are.
#include "bindings/data/processes.h"
#include "bindings/handle.h"

#include <structmember.h>

namespace rush::py {
namespace {

PyObject* g_path_type = nullptr;  // pathlib.PurePath, once it is known

PyObject* copied(PyObject* o);

// Fresh strings are made by the interpreter's own rules (one-letter strings are shared, and so on).
PyObject* copied_text(PyObject* o) {
#if PY_VERSION_HEX < 0x030C0000
  if (!PyUnicode_IS_READY(o)) return Py_NewRef(o);
#endif
  return PyUnicode_FromKindAndData(int(PyUnicode_KIND(o)), PyUnicode_DATA(o),
                                   PyUnicode_GET_LENGTH(o));
}

PyObject* copied_int(PyObject* o) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (!overflow) return PyLong_FromLongLong(value);
  const Handle negative = Handle::steal(PyLong_Type.tp_as_number->nb_negative(o));
  return PyLong_Type.tp_as_number->nb_negative(negative.get());
}

// A tuple, or a named tuple: a class that adds names to a tuple and nothing to its memory.
bool is_tuple_like(PyTypeObject* type) {
  if (type == &PyTuple_Type) return true;
  return PyType_IsSubtype(type, &PyTuple_Type) && type->tp_base == &PyTuple_Type &&
         type->tp_basicsize == PyTuple_Type.tp_basicsize && type->tp_dictoffset == 0 &&
         !type->tp_finalize && type->tp_dict && PyDict_GetItemString(type->tp_dict, "_fields");
}

PyObject* copied_tuple(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  const Py_ssize_t n = PyTuple_GET_SIZE(o);
  Handle out = Handle::steal(type == &PyTuple_Type ? PyTuple_New(n) : type->tp_alloc(type, n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* value = copied(PyTuple_GET_ITEM(o, i));
    if (!value) throw PythonError{};
    PyTuple_SET_ITEM(out.get(), i, value);
  }
  return out.release();
}

// A path keeps its parts, and what it has computed, in slots; the lists among them are its own.
PyObject* copied_path(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  Handle out = Handle::steal(type->tp_alloc(type, 0));
  for (PyTypeObject* t = type; t && (t->tp_flags & Py_TPFLAGS_HEAPTYPE); t = t->tp_base) {
    for (PyMemberDef* m = t->tp_members; m && m->name; ++m) {
      if (m->type != T_OBJECT_EX) continue;
      PyObject* value = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(o) + m->offset);
      if (!value) continue;
      Handle fresh;
      if (PyList_CheckExact(value)) {
        fresh = Handle::steal(PyList_New(PyList_GET_SIZE(value)));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i) {
          PyObject* part = copied(PyList_GET_ITEM(value, i));
          if (!part) throw PythonError{};
          PyList_SET_ITEM(fresh.get(), i, part);
        }
      } else {
        fresh = Handle::steal(copied(value));
      }
      *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(out.get()) + m->offset) =
          fresh.release();
    }
  }
  return out.release();
}

// A new reference to an equal value. Of a plain one nothing is written, not even its count.
PyObject* copied(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (type == &PyUnicode_Type) return copied_text(o);
  if (type == &PyLong_Type) return copied_int(o);
  if (type == &PyFloat_Type) return PyFloat_FromDouble(PyFloat_AS_DOUBLE(o));
  if (type == &PyBytes_Type)
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(o), PyBytes_GET_SIZE(o));
  if (type == &PyComplex_Type) return PyComplex_FromCComplex(PyComplex_AsCComplex(o));
  const bool tuple = is_tuple_like(type);
  const bool path = !tuple && g_path_type && type->tp_dictoffset == 0 &&
                    PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(g_path_type)) != 0;
  if (!tuple && !path) return Py_NewRef(o);
  if (Py_EnterRecursiveCall(" while a value was copied")) throw PythonError{};
  try {
    PyObject* out = tuple ? copied_tuple(o) : copied_path(o);
    Py_LeaveRecursiveCall();
    return out;
  } catch (...) {
    Py_LeaveRecursiveCall();
    throw;
  }
}

struct ViewObject {
  PyObject_HEAD PyObject* owner;
};
PyObject* owner_of(PyObject* self) { return reinterpret_cast<ViewObject*>(self)->owner; }

PyObject* view_new(PyTypeObject* type, PyObject* args, PyTypeObject* expected) {
  return guarded([&] {
    PyObject *owner, *path_type;
    if (!PyArg_ParseTuple(args, "OO", &owner, &path_type)) throw PythonError{};
    check(Py_TYPE(owner) == expected && PyType_Check(path_type), ErrorKind::Type, "borrowed values",
          "expected a ", expected->tp_name, " and the class of paths");
    if (!g_path_type) g_path_type = Py_NewRef(path_type);
    PyObject* self = type->tp_alloc(type, 0);
    if (!self) throw PythonError{};
    reinterpret_cast<ViewObject*>(self)->owner = Py_NewRef(owner);
    return self;
  });
}
PyObject* list_view_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return view_new(type, args, &PyList_Type);
}
PyObject* dict_view_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return view_new(type, args, &PyDict_Type);
}

void view_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(owner_of(self));
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* get_owner(PyObject* self, void*) { return Py_NewRef(owner_of(self)); }
PyGetSetDef getters[] = {
    {"owner", get_owner, nullptr, "The list or dict itself.", nullptr},
    {},
};

// ---- lists ----

Py_ssize_t list_length(PyObject* self) { return PyList_GET_SIZE(owner_of(self)); }

PyObject* list_item(PyObject* self, Py_ssize_t i) {
  return guarded([&] {
    PyObject* list = owner_of(self);
    check_index(i >= 0 && i < PyList_GET_SIZE(list), "list", "index ", i, " is out of range");
    return copied(PyList_GET_ITEM(list, i));
  });
}

PyType_Slot list_slots[] = {
    {Py_tp_doc, const_cast<char*>("A list's values as copies, made without touching the list.")},
    {Py_tp_new, reinterpret_cast<void*>(list_view_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(view_dealloc)},
    {Py_tp_getset, getters},
    {Py_sq_length, reinterpret_cast<void*>(list_length)},
    {Py_sq_item, reinterpret_cast<void*>(list_item)},
    {},
};
PyType_Spec list_spec = {"rushlight._BorrowedValues", sizeof(ViewObject), 0, Py_TPFLAGS_DEFAULT,
                         list_slots};

// ---- dicts ----

Py_ssize_t dict_length(PyObject* self) { return PyDict_Size(owner_of(self)); }

// lookup(key, default): (strings that are keys are compared without a reference being taken)
PyObject* dict_lookup(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject *key, *otherwise;
    if (!PyArg_ParseTuple(args, "OO", &key, &otherwise)) throw PythonError{};
    PyObject* value = PyDict_GetItemWithError(owner_of(self), key);
    if (!value && PyErr_Occurred()) throw PythonError{};
    return value ? copied(value) : Py_NewRef(otherwise);
  });
}

// step(place): (the next place, key, value), or None at the end.
PyObject* dict_step(PyObject* self, PyObject* place) {
  return guarded([&]() -> PyObject* {
    Py_ssize_t at = PyLong_AsSsize_t(place);
    if (at == -1 && PyErr_Occurred()) throw PythonError{};
    PyObject *key, *value;
    if (!PyDict_Next(owner_of(self), &at, &key, &value)) return Py_NewRef(Py_None);
    const Handle first = Handle::steal(copied(key)), second = Handle::steal(copied(value));
    return Py_BuildValue("nOO", at, first.get(), second.get());
  });
}

PyMethodDef dict_methods[] = {
    {"lookup", dict_lookup, METH_VARARGS, "A copy of the value of a key, or the default."},
    {"step", dict_step, METH_O, "The item behind a place, and the next place."},
    {},
};
PyType_Slot dict_slots[] = {
    {Py_tp_doc, const_cast<char*>("A dict's items as copies, made without touching the dict.")},
    {Py_tp_new, reinterpret_cast<void*>(dict_view_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(view_dealloc)},
    {Py_tp_getset, getters},
    {Py_tp_methods, dict_methods},
    {Py_mp_length, reinterpret_cast<void*>(dict_length)},
    {},
};
PyType_Spec dict_spec = {"rushlight._BorrowedItems", sizeof(ViewObject), 0, Py_TPFLAGS_DEFAULT,
                         dict_slots};

// _replace_in_tuple(tuple, place, value): puts an equal container in the place of another one. What
// holds a list or a dict has no hash, so that nobody can have filed the tuple under its value.
PyObject* replace_in_tuple(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject *tuple, *value;
    Py_ssize_t i = 0;
    if (!PyArg_ParseTuple(args, "O!nO", &PyTuple_Type, &tuple, &i, &value)) throw PythonError{};
    check_index(i >= 0 && i < PyTuple_GET_SIZE(tuple), "tuple", "index ", i, " is out of range");
    PyObject* old = PyTuple_GET_ITEM(tuple, i);
    check((PyList_Check(old) && PyList_Check(value)) || (PyDict_Check(old) && PyDict_Check(value)),
          ErrorKind::Type, "tuple", "only a list by a list, or a dict by a dict");
    PyTuple_SET_ITEM(tuple, i, Py_NewRef(value));
    Py_DECREF(old);
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"_replace_in_tuple", replace_in_tuple, METH_VARARGS,
     "Puts an equal container in the place of a list or dict in a tuple."},
    {},
};

}  // namespace

bool init_borrowed_values(PyObject* module) {
  return add_type(module, &list_spec) && add_type(module, &dict_spec) &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace rush::py
