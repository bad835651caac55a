// execution_trace.cpp: records for rushlight/profiler/_execution_trace.py, which writes the file.
#include "bindings/execution_trace.h"

#include "bindings/handle.h"
#include "bindings/source.h"
#include "bindings/tensor/tensor_object.h"
#include "profiler/execution_trace.h"

namespace rush::py {
namespace {

using profiler::ExecutionTrace;
using Pointer = std::shared_ptr<ExecutionTrace>;
constexpr const char* kCapsule = "rushlight.execution_trace";

Pointer& trace_of(PyObject* capsule) {
  auto* p = static_cast<Pointer*>(PyCapsule_GetPointer(capsule, kCapsule));
  if (!p) throw PythonError{};
  return *p;
}

// _execution_trace_make() -> trace, which records nothing yet.
PyObject* make(PyObject*, PyObject*) {
  return guarded([&] {
    auto made = std::make_unique<Pointer>(std::make_shared<ExecutionTrace>());
    PyObject* capsule = PyCapsule_New(made.get(), kCapsule, [](PyObject* c) {
      auto* p = static_cast<Pointer*>(PyCapsule_GetPointer(c, kCapsule));
      stream::remove_listener(p->get());
      delete p;
    });
    if (!capsule) throw PythonError{};
    made.release();
    return capsule;
  });
}

// _execution_trace_start(trace): records this thread, and those that are watched from it.
PyObject* start(PyObject*, PyObject* capsule) {
  return guarded([&] {
    stream::add_listener(trace_of(capsule));
    stream::watch_this_thread();
    return Py_NewRef(Py_None);
  });
}

PyObject* stop(PyObject*, PyObject* capsule) {
  return guarded([&] {
    stream::remove_listener(trace_of(capsule).get());
    return Py_NewRef(Py_None);
  });
}

// _execution_trace_take(trace) -> [(id, parent, kind, thread, name, overload, inputs, outputs,
// sequence, forward, forward thread, failed)]; inputs and outputs are JSON.
PyObject* take(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const std::vector<ExecutionTrace::Record> found = trace_of(capsule)->take();
    const Handle list = Handle::steal(PyList_New(Py_ssize_t(found.size())));
    for (size_t i = 0; i < found.size(); ++i) {
      const ExecutionTrace::Record& r = found[i];
      PyObject* item = Py_BuildValue("(KKiIssssLKIO)", static_cast<unsigned long long>(r.id),
                                     static_cast<unsigned long long>(r.parent), int(r.kind),
                                     r.thread, r.name.c_str(), r.overload.c_str(), r.inputs.c_str(),
                                     r.outputs.c_str(), static_cast<long long>(r.sequence),
                                     static_cast<unsigned long long>(r.forward), r.forward_thread,
                                     r.failed ? Py_True : Py_False);
      if (!item) throw PythonError{};
      PyList_SET_ITEM(list.get(), Py_ssize_t(i), item);
    }
    return Py_NewRef(list.get());
  });
}

PyMethodDef functions[] = {{"_execution_trace_make", make, METH_NOARGS, nullptr},
                           {"_execution_trace_start", start, METH_O, nullptr},
                           {"_execution_trace_stop", stop, METH_O, nullptr},
                           {"_execution_trace_take", take, METH_O, nullptr},
                           {}};

}  // namespace

bool init_execution_trace(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace rush::py
