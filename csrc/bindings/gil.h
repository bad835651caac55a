// gil.h: giving the GIL up for long work, and taking it back for Python code of the user.
#pragma once

#include "bindings/python.h"
#include "core/source.h"

namespace rush::py {

// A thread without the GIL must not look at Python's frames: while `fixed`, the place at which it
// gave the GIL up stands for everything it does. Taking the GIL back lifts that.
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

class ReleaseGil {
 public:
  ReleaseGil() : state_(PyEval_SaveThread()) {}
  ~ReleaseGil() { PyEval_RestoreThread(state_); }
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

 private:
  const FixedSource source_{true};
  PyThreadState* state_;
};

// For callbacks into Python from any thread.
class TakeGil {
 public:
  TakeGil() : state_(PyGILState_Ensure()) {}
  ~TakeGil() { PyGILState_Release(state_); }
  TakeGil(const TakeGil&) = delete;
  TakeGil& operator=(const TakeGil&) = delete;

 private:
  PyGILState_STATE state_;
  const FixedSource source_{false};
};

}  // namespace rush::py
