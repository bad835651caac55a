// errors.cpp: C++ failures as Python exceptions. Ours are both the natural class and RuntimeError,
// which is what PyTorch raises, so that `except RuntimeError` in existing programs still works.
#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "bindings/call/carried_error.h"
#include "bindings/distributed/distributed.h"
#include "core/warn.h"

namespace rush::py {
namespace {

struct Row {
  ErrorKind kind;
  const char* name;  // of a class of ours, or null: then the one base itself
  std::array<PyObject* const*, 4>
      bases;  // the natural class, and what PyTorch raises in such places
  const char* doc;
};

// PyTorch says NotImplementedError, TypeError or RuntimeError when a dtype does not fit, and one of
// four classes when an int does not: ours are all of them.
const Row kRows[] = {
    {ErrorKind::Runtime, nullptr, {&PyExc_RuntimeError}, nullptr},
    {ErrorKind::Shape,
     "rushlight.ShapeError",
     {&PyExc_ValueError, &PyExc_RuntimeError},
     "Shapes do not go together."},
    {ErrorKind::DType,
     "rushlight.DTypeError",
     {&PyExc_TypeError, &PyExc_NotImplementedError},
     "A dtype is not possible here."},
    {ErrorKind::Argument,
     "rushlight.ArgumentError",
     {&PyExc_ValueError, &PyExc_RuntimeError},
     "An argument has an impossible value."},
    {ErrorKind::Device,
     "rushlight.DeviceError",
     {&PyExc_ValueError, &PyExc_RuntimeError},
     "A device is missing or does not fit."},
    {ErrorKind::Index, nullptr, {&PyExc_IndexError}, nullptr},
    {ErrorKind::Range,
     "rushlight.RangeError",
     {&PyExc_IndexError, &PyExc_RuntimeError},
     "An index held by a tensor is out of range."},
    {ErrorKind::Value, nullptr, {&PyExc_ValueError}, nullptr},
    {ErrorKind::Type, nullptr, {&PyExc_TypeError}, nullptr},
    {ErrorKind::NotImplemented, nullptr, {&PyExc_NotImplementedError}, nullptr},
    {ErrorKind::OutOfMemory,
     "rushlight.OutOfMemoryError",
     {&PyExc_MemoryError, &PyExc_RuntimeError},
     "There is not enough memory."},
    {ErrorKind::Internal,
     "rushlight.InternalError",
     {&PyExc_RuntimeError},
     "A bug of Rushlight's own."},
    {ErrorKind::ArgumentType,
     "rushlight.ArgumentTypeError",
     {&PyExc_TypeError, &PyExc_RuntimeError},
     "An argument has an impossible type."},
    {ErrorKind::Overflow,
     "rushlight.IntOverflowError",
     {&PyExc_OverflowError, &PyExc_ValueError, &PyExc_TypeError, &PyExc_RuntimeError},
     "An int does not fit into 64 bits."},
};
constexpr size_t kKinds = std::size(kRows);
PyObject* g_classes[kKinds];

PyObject* make_class(const Row& row) {
  if (!row.name) return Py_NewRef(*row.bases[0]);
  const auto n = std::count_if(row.bases.begin(), row.bases.end(), [](auto base) { return base; });
  PyObject* bases = PyTuple_New(Py_ssize_t(n));
  if (!bases) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) PyTuple_SET_ITEM(bases, i, Py_NewRef(*row.bases[size_t(i)]));
  PyObject* made = PyErr_NewExceptionWithDoc(row.name, row.doc, bases, nullptr);
  Py_DECREF(bases);
  return made;
}

// The text of an error about a full GPU, with a table of what fills it; made by Python.
PyObject* explained(const char* text) noexcept {
  PyObject* module = PyImport_ImportModule("rushlight.cuda._out_of_memory");
  PyObject* longer = module ? PyObject_CallMethod(module, "explain", "s", text) : nullptr;
  Py_XDECREF(module);
  if (longer) return longer;
  PyErr_Clear();
  return PyUnicode_FromString(text);
}

// Plain classes say nothing about who raised them; a mark tells nn.Module that it was an op.
void raise_kind(ErrorKind kind, const char* text) noexcept {
  PyErr_Clear();  // a parser may have left the exception that this one explains
  PyObject* cls = g_classes[size_t(kind)];
  const bool is_gpu = kind == ErrorKind::OutOfMemory && std::strstr(text, "CUDA out of memory");
  PyObject* message = is_gpu ? explained(text) : PyUnicode_FromString(text);
  PyObject* error = message ? PyObject_CallOneArg(cls, message) : nullptr;
  Py_XDECREF(message);
  if (!error) return;  // the exception that this one raised stands instead
  if (PyObject_SetAttrString(error, "_rushlight_op", Py_True) < 0) PyErr_Clear();
  PyErr_SetObject(cls, error);
  Py_DECREF(error);
}

}  // namespace

PyObject* raise_current() noexcept {
  assert_gil("an exception is raised without the GIL");
  try {
    throw;
  } catch (const PythonError&) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "an exception got lost");
  } catch (const CarriedError& e) {
    e.restore();
  } catch (const Error& e) {
    if (!raise_distributed(e)) raise_kind(e.kind(), e.what());
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

// A warning of the core becomes Python's; one that the user's filters turn into an error is thrown
// on.
void warn_python(const char* text) {
  const TakeGil gil;
  if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) throw PythonError{};
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
