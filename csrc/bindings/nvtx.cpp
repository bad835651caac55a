// nvtx.cpp: ranges and marks for NVIDIA's tools (rushlight/cuda/nvtx.py, autograd.profiler.emit_nvtx).
#include "bindings/nvtx.h"

#include <string>

#include "bindings/handle.h"
#include "bindings/source.h"
#include "bindings/tensor/tensor_object.h"
#include "profiler/nvtx.h"

namespace rush::py {
namespace {

std::shared_ptr<StreamListener> g_emitter;  // with the GIL

PyObject* has_tool(PyObject*, PyObject*) { return PyBool_FromLong(nvtx::has_tool()); }

PyObject* mark(PyObject*, PyObject* message) {
  return guarded([&] {
    nvtx::mark(std::string(text_of(message)).c_str());
    return Py_NewRef(Py_None);
  });
}

PyObject* range_push(PyObject*, PyObject* message) {
  return guarded(
      [&] { return PyLong_FromLong(nvtx::range_push(std::string(text_of(message)).c_str())); });
}

PyObject* range_pop(PyObject*, PyObject*) { return PyLong_FromLong(nvtx::range_pop()); }

PyObject* range_start(PyObject*, PyObject* message) {
  return guarded([&] {
    const std::string text(text_of(message));
    return PyLong_FromUnsignedLongLong(nvtx::range_start(text.c_str()));
  });
}

PyObject* range_end(PyObject*, PyObject* range) {
  return guarded([&] {
    const unsigned long long number = PyLong_AsUnsignedLongLong(range);
    if (number == static_cast<unsigned long long>(-1) && PyErr_Occurred()) throw PythonError{};
    nvtx::range_end(number);
    return Py_NewRef(Py_None);
  });
}

// _nvtx_emit(None or whether shapes are shown): ends, or begins to mark every op.
PyObject* emit(PyObject*, PyObject* shapes) {
  return guarded([&] {
    if (g_emitter) stream::remove_listener(g_emitter.get());
    g_emitter.reset();
    if (shapes != Py_None) {
      g_emitter = nvtx::make_emitter(shapes == Py_True);
      stream::add_listener(g_emitter);
      stream::watch_this_thread();
    }
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"_nvtx_has_tool", has_tool, METH_NOARGS, nullptr},
    {"_nvtx_mark", mark, METH_O, nullptr},
    {"_nvtx_range_push", range_push, METH_O, nullptr},
    {"_nvtx_range_pop", range_pop, METH_NOARGS, nullptr},
    {"_nvtx_range_start", range_start, METH_O, nullptr},
    {"_nvtx_range_end", range_end, METH_O, nullptr},
    {"_nvtx_emit", emit, METH_O, nullptr},
    {},
};

}  // namespace

bool init_nvtx(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace rush::py
