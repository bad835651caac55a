#include "bindings/handle.h"

#include "bindings/printed_package.h"

#include <cstring>

namespace rush::py {

Handle optional_attribute(PyObject* o, const char* name) {
  PyObject* value = PyObject_GetAttrString(o, name);
  if (!value) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw PythonError{};
    PyErr_Clear();
  }
  return Handle::maybe(value);
}

std::string type_name(PyObject* o) {
  if (!is_unsupported_dtype(o)) return Py_TYPE(o)->tp_name;
  const Handle text = Handle::steal(PyObject_Repr(o));  // its type says nothing: its name does
  return concat(text_of(text.get()), ", which no tensor has here");
}

std::string_view text_of(PyObject* str) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(str, &size);
  if (!text) throw PythonError{};
  return {text, size_t(size)};
}

namespace {

void take_keyword(const Parameters& p, PyObject* key, PyObject* value, PyObject** out) {
  const std::string_view name = text_of(key);
  for (size_t i = 0; i < p.names.size(); ++i) {
    if (name != p.names[i]) continue;
    check(!out[i], ErrorKind::Type, p.function, "argument '", name,
          "' is given by position and by name");
    out[i] = value;
    return;
  }
  fail(ErrorKind::Type, p.function, "unknown keyword argument '", name, "'");
}

void take_positional(const Parameters& p, PyObject* const* args, Py_ssize_t nargs, PyObject** out) {
  std::fill_n(out, p.names.size(), nullptr);
  check(size_t(nargs) <= p.positional, ErrorKind::Type, p.function, "takes at most ", p.positional,
        " positional argument", p.positional == 1 ? "" : "s", ", got ", nargs);
  std::copy_n(args, nargs, out);
}

void check_required(const Parameters& p, PyObject** out) {
  for (size_t i = 0; i < p.required; ++i) {
    check(out[i], ErrorKind::Type, p.function, "missing the required argument '", p.names[i], "'");
  }
}

}  // namespace

void parse_arguments(const Parameters& p, PyObject* const* args, Py_ssize_t nargs,
                     PyObject* kwnames, PyObject** out) {
  take_positional(p, args, nargs, out);
  const Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    take_keyword(p, PyTuple_GET_ITEM(kwnames, i), args[nargs + i], out);
  }
  check_required(p, out);
}

void parse_arguments(const Parameters& p, PyObject* args, PyObject* kwargs, PyObject** out) {
  take_positional(p, PySequence_Fast_ITEMS(args), PyTuple_GET_SIZE(args), out);
  PyObject *key, *value;
  for (Py_ssize_t at = 0; kwargs && PyDict_Next(kwargs, &at, &key, &value);) {
    take_keyword(p, key, value, out);
  }
  check_required(p, out);
}

bool bool_argument(const char* function, const char* name, PyObject* o, bool otherwise) {
  if (!given(o)) return otherwise;
  check(PyBool_Check(o), ErrorKind::Type, function, "argument '", name, "' must be a bool, got ",
        type_name(o));
  return o == Py_True;
}

std::optional<DType> dtype_argument(const char* function, PyObject* o) {
  if (!given(o)) return std::nullopt;
  check(is_dtype(o), ErrorKind::Type, function, "argument 'dtype' must be a rushlight.dtype, got ",
        type_name(o));
  return as_dtype(o);
}

DType dtype_argument(const char* function, PyObject* o, DType otherwise) {
  return dtype_argument(function, o).value_or(otherwise);
}

std::optional<Device> device_argument(const char* function, PyObject* o) {
  if (!given(o)) return std::nullopt;
  Device device;
  check(device_from_python(o, device), ErrorKind::Type, function,
        "argument 'device' must be a rushlight.device, a string or an int, got ", type_name(o));
  if (device.is_cpu()) device.index = -1;  // as in parse
  return device;
}

PyTypeObject* add_type(PyObject* module, PyType_Spec* spec, PyObject* base) {
  PyObject* type = base ? PyType_FromSpecWithBases(spec, base) : PyType_FromSpec(spec);
  if (!type) return nullptr;
  if (PyModule_AddObjectRef(module, std::strrchr(spec->name, '.') + 1, type) < 0) {
    Py_DECREF(type);
    return nullptr;
  }
  return reinterpret_cast<PyTypeObject*>(type);
}

namespace {

bool set_item(PyTypeObject* type, const char* name, PyObject* descriptor) {
  const Handle owned = Handle::maybe(descriptor);
  return owned && PyObject_SetAttrString(reinterpret_cast<PyObject*>(type), name, descriptor) == 0;
}

}  // namespace

bool add_methods(PyTypeObject* type, PyMethodDef* methods) {
  for (; methods->ml_name; ++methods) {
    if (!set_item(type, methods->ml_name, PyDescr_NewMethod(type, methods))) return false;
  }
  return true;
}

bool add_properties(PyTypeObject* type, PyGetSetDef* properties) {
  for (; properties->name; ++properties) {
    if (!set_item(type, properties->name, PyDescr_NewGetSet(type, properties))) return false;
  }
  return true;
}

}  // namespace rush::py
