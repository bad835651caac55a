// module_slots.cpp: what every line of a model does, reading self.layer and calling it, as slots.
//
// Python would look for an attribute, make the text of an AttributeError, and only then run
// Module.__getattr__, which finds the layer; and Module.__call__ is a frame of its own per call.
// Both are slots of the type here, for classes that inherit them from Module. A class that defines
// either method itself keeps it, and one that gets it later gets Python's slot back from Python.
#include "bindings/module_slots.h"

#include <array>

#include "bindings/handle.h"

namespace rush::py {
namespace {

// What Module itself has, given once by _set_module_methods.
PyObject* g_getattr;          // Module.__getattr__, for what is not found here
PyObject* g_call;             // Module.__call__
PyObject* g_call_with_hooks;  // call_with_hooks(module, args, kwargs)
PyObject* g_tell_path;        // add_module_path(error, module, is_outermost)
PyObject* g_global_hooks;     // a dict, not empty while hooks of all modules are registered

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

// In the order in which Module.__getattr__ looks.
const std::array<PyObject*, 3>& groups() {
  static const std::array names = {interned("_parameters"), interned("_modules"),
                                   interned("_buffers")};
  return names;
}

const std::array<PyObject*, 4>& hooks_of_calls() {
  static const std::array names = {interned("_forward_hooks"), interned("_forward_pre_hooks"),
                                   interned("_backward_hooks"), interned("_backward_pre_hooks")};
  return names;
}

// Subclasses may read their items in another way.
bool is_plain(PyObject* dict) {
  return dict && (PyDict_CheckExact(dict) || Py_IS_TYPE(dict, &PyODict_Type));
}

PyObject* get_attribute(PyObject* self, PyObject* name) {
  if (PyObject* found = _PyObject_GenericGetAttrWithDict(self, name, nullptr, 1)) return found;
  if (PyErr_Occurred()) return nullptr;
  const Handle own = Handle::maybe(PyObject_GenericGetDict(self, nullptr));
  if (!own) return nullptr;
  for (PyObject* group : groups()) {
    PyObject* const members = PyDict_GetItemWithError(own.get(), group);
    if (!is_plain(members)) break;
    if (PyObject* found = PyDict_GetItemWithError(members, name)) return Py_NewRef(found);
  }
  if (PyErr_Occurred()) return nullptr;
  return PyObject_CallFunctionObjArgs(g_getattr, self, name, nullptr);
}

// False also where Module.__init__ has not run: call_with_hooks says so.
bool has_no_hooks(PyObject* self) {
  const Handle own = Handle::maybe(PyObject_GenericGetDict(self, nullptr));
  const auto is_empty = [](PyObject* dict) {
    return dict && PyDict_Check(dict) && PyDict_GET_SIZE(dict) == 0;
  };
  bool none = own && is_empty(g_global_hooks);
  for (PyObject* name : hooks_of_calls())
    none = none && is_empty(PyDict_GetItemWithError(own.get(), name));
  PyErr_Clear();
  return none;
}

// Tells the exception that is set through which module it came. It stays set in any case.
void tell_path(PyObject* self, bool is_outermost) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return;
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  if (trace) PyException_SetTraceback(error, trace);
  Py_XDECREF(PyObject_CallFunctionObjArgs(g_tell_path, error, self,
                                          is_outermost ? Py_True : Py_False, nullptr));
  PyErr_Restore(type, error, trace);  // instead of what telling may have raised
}

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  static PyObject* const forward = interned("forward");
  static thread_local int depth = 0;  // calls of modules under way
  ++depth;
  PyObject* result = nullptr;
  if (has_no_hooks(self)) {
    const Handle function = Handle::maybe(PyObject_GetAttr(self, forward));
    if (function) result = PyObject_Call(function.get(), args, kwargs);
  } else if (const Handle given = kwargs ? Handle::borrow(kwargs) : Handle::maybe(PyDict_New())) {
    result = PyObject_CallFunctionObjArgs(g_call_with_hooks, self, args, given.get(), nullptr);
  }
  --depth;
  if (!result) [[unlikely]]
    tell_path(self, depth == 0);
  return result;
}

// _call_module(module, args, kwargs): for Module.__call__, where that is called by its name.
PyObject* call_module(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    check(n == 3 && PyTuple_Check(args[1]) && PyDict_Check(args[2]), ErrorKind::Type,
          "_call_module", "expected a module, a tuple and a dict");
    return call(args[0], args[1], args[2]);
  });
}

// _set_module_methods(getattr, call, call_with_hooks, add_module_path, global_hooks)
PyObject* set_methods(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    check(n == 5, ErrorKind::Type, "_set_module_methods", "expected five objects");
    PyObject** const places[] = {&g_getattr, &g_call, &g_call_with_hooks, &g_tell_path,
                                 &g_global_hooks};
    for (int i = 0; i < 5; ++i) Py_XSETREF(*places[i], Py_NewRef(args[i]));
    return Py_NewRef(Py_None);
  });
}

bool inherits(PyObject* cls, const char* name, PyObject* from) {
  return Handle::steal(PyObject_GetAttrString(cls, name)).get() == from;
}

// _set_module_slots(cls): the slots of a class that inherits Module's methods.
PyObject* set_slots(PyObject*, PyObject* cls) {
  return guarded([&] {
    check(PyType_Check(cls) &&
              PyType_HasFeature(reinterpret_cast<PyTypeObject*>(cls), Py_TPFLAGS_HEAPTYPE),
          ErrorKind::Type, "_set_module_slots", "expected a class written in Python");
    auto* const type = reinterpret_cast<PyTypeObject*>(cls);
    const Handle plain = Handle::steal(PyObject_GetAttrString(
        reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__getattribute__"));
    if (inherits(cls, "__getattr__", g_getattr) && inherits(cls, "__getattribute__", plain.get()))
      type->tp_getattro = get_attribute;
    if (inherits(cls, "__call__", g_call)) type->tp_call = call;
    PyType_Modified(type);
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {{"_call_module", as_method(call_module), METH_FASTCALL, nullptr},
                           {"_set_module_methods", as_method(set_methods), METH_FASTCALL, nullptr},
                           {"_set_module_slots", set_slots, METH_O, nullptr},
                           {}};

}  // namespace

bool init_module_slots(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace rush::py
