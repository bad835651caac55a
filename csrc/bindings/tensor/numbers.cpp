// numbers.cpp: Python's and NumPy's numbers as Scalars, without importing NumPy.
#include "bindings/handle.h"

#include <cstring>

namespace rush::py {
namespace {

int64_t checked_int(PyObject* o) {
  int overflow = 0;
  const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (v == -1 && !overflow && PyErr_Occurred()) throw PythonError{};
  if (overflow) {
    const Handle text = Handle::steal(PyObject_Str(o));
    fail(ErrorKind::Overflow, "", "overflow: the int ", text_of(text.get()),
         " does not fit into 64 bits");
  }
  return v;
}

Scalar complex_scalar(PyObject* o) {
  const Py_complex z = PyComplex_AsCComplex(o);
  if (z.real == -1.0 && PyErr_Occurred()) throw PythonError{};
  return Scalar(complex<double>{z.real, z.imag});
}

Scalar float_scalar(PyObject* o) {
  const double v = PyFloat_AsDouble(o);
  if (v == -1.0 && PyErr_Occurred()) throw PythonError{};
  return Scalar(v);
}

// NumPy's scalars and 0-d arrays say what they are by dtype.kind; 0 for everything else.
char numpy_kind(PyObject* o) {
  const Handle dtype = optional_attribute(o, "dtype");
  if (!dtype || is_dtype(dtype.get())) return 0;
  const Handle ndim = optional_attribute(o, "ndim");
  if (!ndim || PyLong_AsLong(ndim.get()) != 0) {
    PyErr_Clear();
    return 0;
  }
  const Handle kind = optional_attribute(dtype.get(), "kind");
  return kind && PyUnicode_Check(kind.get()) ? text_of(kind.get()).front() : 0;
}

bool from_numpy_scalar(PyObject* o, Scalar& out) {
  const char kind = numpy_kind(o);
  if (!kind || !std::strchr("biufcV", kind)) return false;
  if (kind == 'c') {
    out = complex_scalar(Handle::steal(PyObject_CallMethod(o, "__complex__", nullptr)).get());
  } else if (kind == 'b') {
    const int truth = PyObject_IsTrue(o);
    check_status(truth);
    out = Scalar(truth != 0);
  } else if (kind == 'i' || kind == 'u') {
    out = Scalar(checked_int(Handle::steal(PyNumber_Index(o)).get()));
  } else {
    if (!Py_TYPE(o)->tp_as_number || !Py_TYPE(o)->tp_as_number->nb_float) return false;
    out = float_scalar(o);
  }
  return true;
}

}  // namespace

bool scalar_from_python(PyObject* o, Scalar& out) {
  if (PyFloat_Check(o)) {
    out = Scalar(PyFloat_AS_DOUBLE(o));
    return true;
  }
  if (PyBool_Check(o)) {
    out = Scalar(o == Py_True);
    return true;
  }
  if (PyLong_Check(o)) {
    out = Scalar(checked_int(o));
    return true;
  }
  if (PyComplex_Check(o)) {
    out = complex_scalar(o);
    return true;
  }
  // The rest is rare. Strings, sequences and tensors leave quickly: they have no number slots, or
  // a length.
  const PyNumberMethods* number = Py_TYPE(o)->tp_as_number;
  if (!number || is_tensor(o)) return false;
  if (from_numpy_scalar(o, out)) return true;
  const PySequenceMethods* sequence = Py_TYPE(o)->tp_as_sequence;
  if (sequence && sequence->sq_length) return false;  // arrays define __float__ whatever their size
  if (number->nb_index) {
    out = Scalar(checked_int(Handle::steal(PyNumber_Index(o)).get()));
    return true;
  }
  if (number->nb_float) {
    out = float_scalar(o);
    return true;
  }
  return false;
}

bool int_from_python(PyObject* o, int64_t& out) {
  if (PyLong_CheckExact(o)) {
    out = checked_int(o);
    return true;
  }
  if (PyBool_Check(o)) return false;
  if (is_tensor(o)) {
    const Tensor& t = unwrap(o);
    if (t.numel() != 1 || !is_integral(t.dtype()) || t.is_meta()) return false;
    out = t.item().to_int();
    return true;
  }
  const PyNumberMethods* number = Py_TYPE(o)->tp_as_number;
  if (!number || !number->nb_index) return false;
  PyObject* index = PyNumber_Index(o);
  if (!index) {  // an array with more than one element has the slot, and refuses
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw PythonError{};
    PyErr_Clear();
    return false;
  }
  out = checked_int(Handle::steal(index).get());
  return true;
}

PyObject* wrap(const Scalar& s) {
  switch (s.category()) {
    case Category::Bool:
      return PyBool_FromLong(s.to<bool>());
    case Category::Integer:
      return PyLong_FromLongLong(s.to_int());
    case Category::Floating:
      return PyFloat_FromDouble(s.to_double());
    default: {
      const auto z = s.to<complex<double>>();
      return PyComplex_FromDoubles(z.re, z.im);
    }
  }
}

}  // namespace rush::py
