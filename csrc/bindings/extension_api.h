// extension_api.h: what extension modules need of the Python side. They do not link to the module
// _C; they find this table in the capsule rushlight._C._extension_api.
#pragma once

#include <Python.h>

#include <exception>

#include "core/tensor.h"

// A static variable of an inline function is one for all modules of a process, unless the function is
// hidden: what a module does once for itself stands in functions that are.
#define RUSH_OF_THIS_MODULE __attribute__((visibility("hidden")))

namespace rush {

struct ExtensionApi {
  int version;  // kExtensionApi; grows with the table
  // The Python object of a tensor, a new reference; None for an undefined one. Null with an
  // exception set on failure.
  PyObject* (*wrap)(const Tensor& t);
  // The tensor of an object, or null where it is none.
  const Tensor* (*unwrap)(PyObject* o);
  PyObject* (*wrap_dtype)(DType dtype);
  bool (*unwrap_dtype)(PyObject* o, DType& dtype);
  PyObject* (*wrap_device)(Device device);
  bool (*unwrap_device)(PyObject* o, Device& device);
  PyObject* (*wrap_scalar)(const Scalar& s);
  bool (*unwrap_scalar)(PyObject* o, Scalar& s);
  // In a catch block: sets the Python exception if the one in flight is Rushlight's. For modules
  // that were built for version 1.
  bool (*raise_current)();
  // Sets the Python exception if the error is Rushlight's. By a pointer: an exception that is in
  // flight is known to the C++ runtime of the module that caught it, which may be another one.
  bool (*raise)(const std::exception_ptr& error);
};
inline constexpr int kExtensionApi = 2;

// The table; null with an exception set where the package cannot be had. With the GIL.
RUSH_OF_THIS_MODULE inline const ExtensionApi* extension_api() {
  static const ExtensionApi* found = nullptr;
  if (found) return found;
  PyObject* module = PyImport_ImportModule("rushlight._C");
  PyObject* capsule = module ? PyObject_GetAttrString(module, "_extension_api") : nullptr;
  Py_XDECREF(module);
  if (!capsule) return nullptr;
  const auto* api = static_cast<const ExtensionApi*>(
      PyCapsule_GetPointer(capsule, "rushlight._C._extension_api"));
  Py_DECREF(capsule);  // the module keeps it
  if (api && api->version < kExtensionApi) {
    PyErr_SetString(PyExc_ImportError,
                    "this extension was built for a newer rushlight; build it again");
    return nullptr;
  }
  return found = api;
}

}  // namespace rush
