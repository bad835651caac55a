// errors.cpp: C++ failures as Python exceptions. Ours are both the natural class and RuntimeError,
// which is what PyTorch raises, so that `except RuntimeError` in existing programs still works.
#include <new>

#include "bindings/python.h"
#include "core/warn.h"

namespace rush::py {
namespace {

struct Row {
  ErrorKind kind;
  const char* name;  // of a class of ours, or null
  PyObject** base;   // the natural class
  const char* doc;
};

const Row kRows[] = {
    {ErrorKind::Runtime, nullptr, &PyExc_RuntimeError, nullptr},
    {ErrorKind::Shape, "rushlight.ShapeError", &PyExc_ValueError, "Shapes do not go together."},
    {ErrorKind::DType, "rushlight.DTypeError", &PyExc_TypeError, "A dtype is not possible here."},
    {ErrorKind::Argument, "rushlight.ArgumentError", &PyExc_ValueError,
     "An argument has an impossible value."},
    {ErrorKind::Device, "rushlight.DeviceError", &PyExc_ValueError,
     "A device is missing or does not fit."},
    {ErrorKind::Index, nullptr, &PyExc_IndexError, nullptr},
    {ErrorKind::Range, "rushlight.RangeError", &PyExc_IndexError,
     "An index held by a tensor is out of range."},
    {ErrorKind::Value, nullptr, &PyExc_ValueError, nullptr},
    {ErrorKind::Type, nullptr, &PyExc_TypeError, nullptr},
    {ErrorKind::NotImplemented, nullptr, &PyExc_NotImplementedError, nullptr},
    {ErrorKind::OutOfMemory, "rushlight.OutOfMemoryError", &PyExc_MemoryError,
     "There is not enough memory."},
    {ErrorKind::Internal, "rushlight.InternalError", nullptr, "A bug of Rushlight's own."},
};
constexpr size_t kKinds = std::size(kRows);
PyObject* g_classes[kKinds];

PyObject* make_class(const Row& row) {
  if (!row.name) return Py_NewRef(*row.base);
  // PyTorch has no kernel for a dtype, and says so: its error is a NotImplementedError, a RuntimeError.
  PyObject* second = row.kind == ErrorKind::DType ? PyExc_NotImplementedError : PyExc_RuntimeError;
  PyObject* bases = row.base ? PyTuple_Pack(2, *row.base, second)
                             : PyTuple_Pack(1, PyExc_RuntimeError);
  if (!bases) return nullptr;
  PyObject* made = PyErr_NewExceptionWithDoc(row.name, row.doc, bases, nullptr);
  Py_DECREF(bases);
  return made;
}

}  // namespace

PyObject* raise_current() noexcept {
  try {
    throw;
  } catch (const PythonError&) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "an exception got lost");
  } catch (const Error& e) {
    PyErr_SetString(g_classes[size_t(e.kind())], e.what());
  } catch (const std::bad_alloc&) {
    PyErr_SetString(g_classes[size_t(ErrorKind::OutOfMemory)], "out of memory");
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (...) {
    PyErr_SetString(g_classes[size_t(ErrorKind::Internal)], "an unknown C++ exception");
  }
  return nullptr;
}

namespace {

// A warning of the core becomes Python's; one that the user's filters turn into an error is thrown on.
void warn_python(const char* text) {
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool raised = PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0;
  PyGILState_Release(state);
  if (raised) throw PythonError{};
}

}  // namespace

bool init_errors(PyObject* module) {
  set_warning_handler(warn_python);
  for (size_t i = 0; i < kKinds; ++i) {
    const Row& row = kRows[i];
    PyObject*& made = g_classes[size_t(row.kind)];
    made = make_class(row);
    if (!made) return false;
    const char* plain = row.name ? row.name + sizeof("rushlight.") - 1 : nullptr;
    if (plain && PyModule_AddObjectRef(module, plain, made) < 0) return false;
  }
  return true;
}

}  // namespace rush::py
