// carried_error.h: where C++ calls Python: carrying a Python exception through C++ frames, and
// dropping references from wherever the last owner happens to die.
#pragma once

#include <exception>
#include <memory>

#include "bindings/handle.h"

namespace rush::py {

// Note [Dropping Python references]
// Graphs die on any thread, mostly without the GIL, and perhaps under a lock of the core. With the
// GIL the reference goes at once; without it, it is queued, and dropped at the end of a backward or
// by the interpreter's main thread, whichever comes first.
void drop_reference(PyObject* o) noexcept;
void drop_waiting_references() noexcept;  // with the GIL

// Gives the GIL away for a scope, and catches up with dropped references afterwards.
class ReleaseGilForGraph {
 private:
  struct CatchUp {
    ~CatchUp() { drop_waiting_references(); }
  };
  const CatchUp last_;
  const ReleaseGil released_;
};

// An owned reference that may die anywhere.
class PyRef {
 public:
  PyRef() = default;
  explicit PyRef(PyObject* borrowed) : p_(Py_XNewRef(borrowed)) {}
  PyRef(PyRef&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  PyRef& operator=(PyRef&& o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~PyRef() {
    if (p_) drop_reference(p_);
  }
  PyObject* get() const { return p_; }

 private:
  PyObject* p_ = nullptr;
};

// The exception that Python raised, on its way through C++ to the caller of backward(): type, value
// and traceback as they were, so that the user sees the frames of the hook that failed.
class CarriedError : public std::exception {
 public:
  static CarriedError take();  // from this thread's error indicator; with the GIL
  void restore() const;        // puts it back; with the GIL
  const char* what() const noexcept override { return "a Python exception"; }

 private:
  struct Parts {
    PyRef type, value, traceback;
  };
  std::shared_ptr<const Parts> parts_;
};

// Calls f with the GIL; a Python exception leaves as CarriedError.
template <class F>
auto call_python(F&& f) {
  const TakeGil gil;
  try {
    return f();
  } catch (const PythonError&) {
    throw CarriedError::take();
  }
}

}  // namespace rush::py
