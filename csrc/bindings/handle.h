// handle.h: small tools for hand-written binding code: an owned reference and an argument parser.
#pragma once

#include <array>
#include <span>
#include <utility>

#include "bindings/gil.h"
#include "bindings/python.h"

namespace rush::py {

// An owned reference. `steal` takes a new reference from the C API and throws PythonError on null.
class Handle {
 public:
  Handle() = default;
  Handle(const Handle& o) : p_(o.p_) {
    if (p_) assert_gil("a reference is copied without the GIL");
    Py_XINCREF(p_);
  }
  Handle(Handle&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Handle& operator=(Handle o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Handle() {
    if (!p_) return;
    if (is_being_ended()) [[unlikely]]
      sleep_for_good();
    assert_gil("a reference is dropped without the GIL");
    Py_DECREF(p_);
  }

  static Handle steal(PyObject* p) {
    if (!p) throw PythonError{};
    return maybe(p);
  }
  static Handle maybe(PyObject* p) {  // null is kept
    Handle h;
    h.p_ = p;
    return h;
  }
  static Handle borrow(PyObject* p) {
    Py_XINCREF(p);
    return maybe(p);
  }
  PyObject* get() const { return p_; }
  PyObject* release() { return std::exchange(p_, nullptr); }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  PyObject* p_ = nullptr;
};

// Throws when the C API says that an exception is set.
inline void check_status(int status) {
  if (status < 0) throw PythonError{};
}

// Calls f for a slot that returns an int: -1 with the exception set when it throws.
template <class F>
int guarded_int(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    raise_current();
    return -1;
  }
}

// An attribute of an object; empty (and no exception) where there is none.
Handle optional_attribute(PyObject* o, const char* name);
// Python's type name for messages: "list", "numpy.ndarray".
std::string type_name(PyObject* o);
// The UTF-8 text of a str.
std::string_view text_of(PyObject* str);

// The parameters of one hand-written function; the first `positional` may be given by position.
struct Parameters {
  const char* function;
  std::span<const char* const> names;
  size_t positional;
  size_t required;
};
// Fills `out` (borrowed, null where not given) from a fastcall or from a tuple and a dict.
// Throws a TypeError that names the function and the offending argument.
void parse_arguments(const Parameters& p, PyObject* const* args, Py_ssize_t nargs,
                     PyObject* kwnames, PyObject** out);
void parse_arguments(const Parameters& p, PyObject* args, PyObject* kwargs, PyObject** out);

inline bool given(PyObject* o) { return o && o != Py_None; }
bool bool_argument(const char* function, const char* name, PyObject* o, bool otherwise);
// None or absent: the fallback.
DType dtype_argument(const char* function, PyObject* o, DType otherwise);
std::optional<DType> dtype_argument(const char* function, PyObject* o);
std::optional<Device> device_argument(const char* function, PyObject* o);

// A fastcall function as PyMethodDef wants it.
template <class F>
PyCFunction as_method(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}
inline constexpr int kFastcall = METH_FASTCALL | METH_KEYWORDS;

// Makes a heap type and adds it to the module under the last part of its name.
PyTypeObject* add_type(PyObject* module, PyType_Spec* spec, PyObject* base = nullptr);

// Adds methods or properties to a type made elsewhere, so that each topic keeps its own.
bool add_methods(PyTypeObject* type, PyMethodDef* methods);
bool add_properties(PyTypeObject* type, PyGetSetDef* properties);

// The parts of init_objects, one a file.
bool init_device(PyObject* module);
bool init_size(PyObject* module);
bool init_type_info(PyObject* module);
bool init_generator(PyObject* module);

}  // namespace rush::py
