// anomaly.cpp: detect_anomaly's switch, and the stacks of forward calls that it remembers.
#include "autograd/anomaly.h"

#include "autograd/node_name.h"
#include "bindings/call/carried_error.h"

namespace rush::py {
namespace {

// The stack as traceback.format_stack() gives it: a list of strings.
struct Stack final : HostObject {
  explicit Stack(PyObject* l) : lines(l) {}
  PyRef lines;
};

Handle anomaly_function(const char* name) {
  const Handle module = Handle::steal(PyImport_ImportModule("rushlight.autograd.anomaly_mode"));
  return Handle::steal(PyObject_GetAttrString(module.get(), name));
}

Ref<HostObject> current_stack() {
  return call_python([&] {
    const Handle lines = Handle::steal(PyObject_CallNoArgs(anomaly_function("_stack").get()));
    return Ref<HostObject>(Ref<HostObject>::adopt(new Stack(lines.get())));
  });
}

void warn_of_call(const Node& node, HostObject& stack) {
  call_python([&] {
    const Handle warn = anomaly_function("_warn_of_call");
    PyObject* lines = static_cast<Stack&>(stack).lines.get();
    Handle::steal(PyObject_CallFunction(warn.get(), "sO", node_name(node).c_str(), lines));
  });
}

void warn_of_nan(const std::string& node) {
  call_python([&] {
    const Handle warn = anomaly_function("_warn_of_nan");
    Handle::steal(PyObject_CallFunction(warn.get(), "s", node.c_str()));
  });
}

PyObject* set_anomaly_(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    check(n == 2 && PyBool_Check(args[0]) && PyBool_Check(args[1]), ErrorKind::Type,
          "set_detect_anomaly", "'mode' and 'check_nan' must be bools");
    set_anomaly(args[0] == Py_True, args[1] == Py_True);
    return Py_NewRef(Py_None);
  });
}
PyObject* is_enabled(PyObject*, PyObject*) { return PyBool_FromLong(g_anomaly & kAnomaly); }
PyObject* checks_nan(PyObject*, PyObject*) { return PyBool_FromLong(g_anomaly & kAnomalyNan); }

PyMethodDef functions[] = {
    {"_set_anomaly", as_method(set_anomaly_), METH_FASTCALL, nullptr},
    {"is_anomaly_enabled", is_enabled, METH_NOARGS,
     "is_anomaly_enabled()\n--\n\n"
     "Whether anomaly detection is on.\n"
     "\n"
     "Example:\n"
     "    >>> rl.is_anomaly_enabled()\n"
     "    False"},
    {"is_anomaly_check_nan_enabled", checks_nan, METH_NOARGS,
     "is_anomaly_check_nan_enabled()\n--\n\n"
     "Whether anomaly detection looks for NaN.\n"
     "\n"
     "Example:\n"
     "    >>> rl.is_anomaly_check_nan_enabled()\n"
     "    True"},
    {},
};

}  // namespace

bool init_anomaly(PyObject* module) {
  set_anomaly(false, true);
  anomaly_host() = {current_stack, warn_of_call, warn_of_nan};
  return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace rush::py
