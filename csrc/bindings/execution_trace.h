// execution_trace.h: the functions that profiler.ExecutionTraceObserver calls.
#pragma once

#include "bindings/python.h"

namespace rush::py {

bool init_execution_trace(PyObject* module);

}  // namespace rush::py
