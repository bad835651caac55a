// gil.h: holding the GIL and letting it go. The GIL is the outermost lock (Note [Lock order] in
// core/mutex.h); debug builds check that, and that Python objects are touched with it only.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

#include "core/mutex.h"
#include "core/source.h"

namespace rush::py {

// Ends the process, in debug builds, when this thread does not hold the GIL. `what` needs it.
inline void assert_gil([[maybe_unused]] const char* what) {
#if defined(RUSH_DEBUG)
  if (!PyGILState_Check()) Py_FatalError(what);
#endif
}

// A thread without the GIL must not look at Python's frames: while `fixed`, the place at which it
// gave the GIL up stands for everything it does. Taking the GIL back lifts that. (source.cpp)
class FixedSource {
 public:
  explicit FixedSource(bool fixed);
  ~FixedSource();
  FixedSource(const FixedSource&) = delete;
  FixedSource& operator=(const FixedSource&) = delete;

 private:
  SourcePoint saved_;
  bool was_fixed_;
};

// Note [Threads at the end of the process]
// Until Python 3.14, the interpreter on its way out ends every thread that asks for the GIL by
// unwinding its stack, which the C++ frames in between do not survive. Such a daemon thread sleeps
// here instead until the process is gone, as it does in 3.14.
[[noreturn]] inline void sleep_for_good() {
  for (;;) pause();
}

template <class F>
auto take_or_sleep(F&& take) {
  try {
    return take();
  } catch (abi::__forced_unwind&) {
    sleep_for_good();
  }
}

class TakeGil {
 public:
  TakeGil()
      : state_((assert_no_lock_held("the GIL is taken"),
                take_or_sleep([] { return PyGILState_Ensure(); }))) {}
  ~TakeGil() { PyGILState_Release(state_); }
  TakeGil(const TakeGil&) = delete;
  TakeGil& operator=(const TakeGil&) = delete;

 private:
  PyGILState_STATE state_;
  const FixedSource source_{false};
};

class ReleaseGil {
 public:
  ReleaseGil()
      : state_((assert_gil("the GIL is released without being held"), PyEval_SaveThread())) {}
  ~ReleaseGil() {
    assert_no_lock_held("the GIL is taken back");
    take_or_sleep([&] { PyEval_RestoreThread(state_); });
  }
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

 private:
  const FixedSource source_{true};
  PyThreadState* state_;
};

// Is the interpreter gone, or on its way out? Then nothing of Python may be touched any more.
inline bool python_is_gone() {
#if PY_VERSION_HEX >= 0x030D0000
  return !Py_IsInitialized() || Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

// Is this a thread that Python ends by unwinding (see above), from inside a call that we made into
// Python? It must touch nothing more.
inline bool is_being_ended() { return python_is_gone() && !PyGILState_Check(); }

// Runs f with the GIL, from any thread; does nothing once the interpreter is on its way out.
template <class F>
void with_gil(F&& f) noexcept {
  if (python_is_gone()) return;
  const TakeGil gil;
  f();
}

}  // namespace rush::py
