// tensor_object.h: the memory of a rushlight.Tensor; see tensor_object.cpp. Included by python.h.
#pragma once

#include "bindings/python.h"

namespace rush::py {

struct TensorObject {
  PyObject_HEAD Tensor tensor;
  PyObject* dict;  // null until the first attribute
  PyObject* weakrefs;
};

inline bool is_tensor(PyObject* o) {
  return Py_TYPE(o) == TensorType || PyType_IsSubtype(Py_TYPE(o), TensorType);
}
inline const Tensor& unwrap(PyObject* o) { return reinterpret_cast<TensorObject*>(o)->tensor; }

// From now on the cyclic collector looks at the wrapper: autograd keeps Python objects with it.
inline void track_tensor(PyObject* o) {
  if (!PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
}

// The parts of the type's definition, one a file.
extern PyType_Slot number_slots[];    // number_slots.cpp: operators; ends with {0, nullptr}
extern PyGetSetDef tensor_getset[];   // tensor_getset.cpp: properties
extern PyMethodDef tensor_methods[];  // tensor_methods.cpp: methods that are no ops
void resolve_operators();             // after the op table is there

}  // namespace rush::py
