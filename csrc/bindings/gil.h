// gil.h: holding the GIL and letting it go. The GIL is the outermost lock (Note [Lock order] in
// core/mutex.h); debug builds check that, and that Python objects are touched with it only.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
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
struct KeptCalls;
bool runs_without_gil();  // is the place fixed, on this thread?
class FixedSource {
 public:
  explicit FixedSource(bool fixed);
  ~FixedSource();
  FixedSource(const FixedSource&) = delete;
  FixedSource& operator=(const FixedSource&) = delete;

 private:
  SourcePoint saved_;
  KeptCalls* saved_kept_;
  bool was_fixed_;
};

// Note [Threads at the end of the process]
// Until Python 3.14, the interpreter on its way out ends every thread that asks for the GIL by
// unwinding its stack, which the C++ frames in between do not survive. Such a daemon thread sleeps
// here instead until the process is gone, as it does in 3.14.
[[noreturn]] inline void sleep_for_good() {
  for (;;) pause();
}

// (What unwinds has no object that could be caught by its type, and `take`, which is C, throws
// nothing else.)
template <class F>
auto take_or_sleep(F&& take) {
  try {
    return take();
  } catch (...) {
    sleep_for_good();
  }
}

// Note [Collections beside running threads]
// The cyclic collector walks every object several times with the GIL held, and what it is shown
// must not change meanwhile: what it saw the first time and not the second it takes for garbage.
// Threads that run ops or a backward without the GIL change use counts and graphs. So while there
// are any, tensors and nodes show nothing that belongs to a graph; a later collection finds it. The
// number changes with the GIL held only, and so not while the collector walks. A thread that took
// the GIL back, for a hook, does not count: it stands still where it was.
extern int g_threads_without_gil;

class TakeGil {
 public:
  TakeGil() : counted_(runs_without_gil()) { g_threads_without_gil -= counted_; }
  ~TakeGil() { g_threads_without_gil += counted_; }
  TakeGil(const TakeGil&) = delete;
  TakeGil& operator=(const TakeGil&) = delete;

 private:
  struct Held {
    Held()
        : state((assert_no_lock_held("the GIL is taken"),
                 take_or_sleep([] { return PyGILState_Ensure(); }))) {}
    ~Held() { PyGILState_Release(state); }
    PyGILState_STATE state;
  };
  const Held held_;
  const int counted_;
  const FixedSource source_{false};
};

class ReleaseGil {
 public:
  ReleaseGil() {
    assert_gil("the GIL is released without being held");
    ++g_threads_without_gil;
    state_ = PyEval_SaveThread();
  }
  ~ReleaseGil() {
    assert_no_lock_held("the GIL is taken back");
    take_or_sleep([&] { PyEval_RestoreThread(state_); });
    --g_threads_without_gil;
  }
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

 private:
  const FixedSource source_{true};
  PyThreadState* state_;
};

// Is the interpreter gone, or on its way out? Then only the thread that ends it, while it holds the
// GIL, may touch anything of Python.
inline bool python_is_gone() {
#if PY_VERSION_HEX >= 0x030D0000
  return !Py_IsInitialized() || Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

// Does this thread hold the GIL? Unlike PyGILState_Check, it says no once the interpreter is gone.
inline bool holds_gil() {
#if PY_VERSION_HEX >= 0x030D0000
  return PyThreadState_GetUnchecked() != nullptr;
#else
  return _PyThreadState_UncheckedGet() != nullptr && PyGILState_Check();
#endif
}

// Is this a thread that Python ends by unwinding (see above), from inside a call that we made into
// Python? It must touch nothing more.
inline bool is_being_ended() { return python_is_gone() && !PyGILState_Check(); }

// Note [Objects that die while the interpreter ends]
// Modules' globals are cleared, and the collector runs, after the interpreter has declared itself
// to be on its way out. Graphs and tensors that die then, on that thread, must take their Python
// objects with them as always: the collector still walks all objects, and one that was left behind
// with a pointer to freed memory would crash it. Other threads leave their objects as they are,
// intact.

// Runs f with the GIL, from any thread; does nothing when it cannot be had any more.
template <class F>
void with_gil(F&& f) noexcept {
  if (python_is_gone() && !holds_gil()) return;
  const TakeGil gil;
  f();
}

}  // namespace rush::py
