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

// None ends it, a bool begins to mark every op: with shapes or without.
void emit(PyObject* shapes) {
  if (g_emitter) stream::remove_listener(g_emitter.get());
  g_emitter.reset();
  if (shapes == Py_None) return;
  g_emitter = nvtx::make_emitter(shapes == Py_True);
  stream::add_listener(g_emitter);
  stream::watch_this_thread();
}

uint64_t number_of(PyObject* o) {
  const unsigned long long number = PyLong_AsUnsignedLongLong(o);
  if (number == static_cast<unsigned long long>(-1) && PyErr_Occurred()) throw PythonError{};
  return number;
}

// _nvtx(what, argument) -> what the tool answers, or None. What: mark, push, pop, start, end, emit.
PyObject* call(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    check(n == 2, ErrorKind::Type, "nvtx", "expected what to do, and with what");
    const std::string what(text_of(args[0]));
    if (what == "pop") return PyLong_FromLong(nvtx::range_pop());
    if (what == "emit") {
      emit(args[1]);
    } else if (what == "end") {
      nvtx::range_end(number_of(args[1]));
    } else {
      const std::string message(text_of(args[1]));
      if (what == "push") return PyLong_FromLong(nvtx::range_push(message.c_str()));
      if (what == "start") return PyLong_FromUnsignedLongLong(nvtx::range_start(message.c_str()));
      nvtx::mark(message.c_str());
    }
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {{"_nvtx", as_method(call), METH_FASTCALL, nullptr}, {}};

}  // namespace

bool init_nvtx(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace rush::py
