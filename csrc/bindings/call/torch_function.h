// torch_function.h: __torch_function__, by which a class takes over the ops that get its objects.
//
// As in PyTorch: a subclass of Tensor inherits Tensor's own, which runs the op and turns plain
// tensors among the results into the subclass; `__torch_function__ = _disabled_torch_function_impl`
// leaves the subclass out (Parameter does); any other class may define one, too. A mode
// (overrides.TorchFunctionMode) that is entered in a thread gets all its calls, before the classes.
// Until such a class exists, the cost is one test of a flag.
#pragma once

#include "bindings/call/parse.h"

namespace rush::py {

// Nonzero when somebody may want to be asked: the lowest bit for classes and modes, which stay
// known, the others count the symbolic traces (fx) that run.
extern int g_overrides_exist;

// Is a TorchFunctionMode entered in this thread?
bool in_torch_function_mode();
// Looks whether a new subclass takes part. -1 with an exception set on failure.
int note_subclass(PyTypeObject* type);
// The result of an override; null when no argument has one. Throws PythonError.
PyObject* torch_function_result(std::span<const OpEntry> overloads, const PythonCall& call);
// The same for the operators of Python: `method` is "__add__"; args as that method takes them.
PyObject* operator_override(const char* method, PyObject* a, PyObject* b, PyObject* c = nullptr);

// What the first of these objects returns from its method `name`(function, types, args, kwargs);
// raises where all say NotImplemented.
PyObject* ask_each(const std::vector<PyObject*>& found, const char* name, PyObject* function,
                   PyObject* args, PyObject* kwargs);

inline PyObject* try_torch_function(std::span<const OpEntry> overloads, const PythonCall& call) {
  if (!g_overrides_exist) [[likely]]
    return nullptr;
  return torch_function_result(overloads, call);
}

// For arguments of classes of which nobody told us: only when no signature fits.
PyObject* last_resort_override(std::span<const OpEntry> overloads, const PythonCall& call);

bool init_torch_function(PyObject* module);

}  // namespace rush::py
