#include "bindings/call/torch_function.h"

#include <algorithm>

#include "bindings/call/dispatch_mode.h"
#include "bindings/handle.h"

namespace rush::py {

int g_overrides_exist = 0;

namespace {

PyObject* g_disabled = nullptr;  // the marker function
PyObject* g_module = nullptr;
thread_local int t_disabled = 0;  // inside Tensor's own __torch_function__
// Objects entered by overrides.TorchFunctionMode, the innermost last; made when first needed.
thread_local std::vector<PyObject*>* t_modes = nullptr;

bool in_mode() { return t_modes && !t_modes->empty(); }

// Does this object take over the ops that get it?
bool overrides(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (type == TensorType || o == Py_None || PyLong_CheckExact(o) || PyFloat_CheckExact(o) ||
      PyUnicode_CheckExact(o) || PyBool_Check(o)) {
    return false;
  }
  const Handle f = optional_attribute(reinterpret_cast<PyObject*>(type), "__torch_function__");
  return f && f.get() != g_disabled;
}

// Adds o to those to ask, a subclass before its bases, one object per type.
void note(std::vector<PyObject*>& found, PyObject* o, bool (*counts)(PyObject*) = overrides) {
  if (!counts(o)) return;
  for (PyObject* other : found) {
    if (Py_TYPE(other) == Py_TYPE(o)) return;
  }
  auto at = found.begin();
  while (at != found.end() && !PyType_IsSubtype(Py_TYPE(o), Py_TYPE(*at))) ++at;
  found.insert(at, o);
}

constexpr int kDeepestIndex = 64;  // as many dims as a tensor has; a list may hold itself

// The same for an index, whose tuples and slices are looked into.
void note_index(std::vector<PyObject*>& found, PyObject* o, int depth = 0) {
  note(found, o);
  if (depth < kDeepestIndex && (PyTuple_CheckExact(o) || PyList_CheckExact(o))) {
    for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(o); ++j) {
      note_index(found, PySequence_Fast_GET_ITEM(o, j), depth + 1);
    }
  } else if (PySlice_Check(o)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(o);
    for (PyObject* part : {slice->start, slice->stop, slice->step}) note(found, part);
  }
}

std::vector<PyObject*> find_overrides(const PythonCall& call,
                                      bool (*counts)(PyObject*) = overrides) {
  std::vector<PyObject*> found;
  if (call.self) note(found, call.self, counts);
  for (Py_ssize_t i = 0; i < call.nargs + call.num_keywords(); ++i) {
    PyObject* o = call.args[i];
    note(found, o, counts);
    if (!PyTuple_CheckExact(o) && !PyList_CheckExact(o)) continue;
    for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(o); ++j) {
      note(found, PySequence_Fast_GET_ITEM(o, j), counts);
    }
  }
  return found;
}

// Takes the innermost mode off while its __torch_function__ runs, so that the calls it makes go to
// the next one.
class WithoutInnermost {
 public:
  WithoutInnermost() : mode_(t_modes->back()) { t_modes->pop_back(); }
  ~WithoutInnermost() { t_modes->push_back(mode_); }
  PyObject* mode() const { return mode_; }

 private:
  PyObject* mode_;
};

PyObject* call_override(PyObject* owner, const char* name, PyObject* function,
                        const std::vector<PyObject*>& found, PyObject* args, PyObject* kwargs) {
  const Handle types = Handle::steal(PyTuple_New(Py_ssize_t(found.size())));
  for (size_t i = 0; i < found.size(); ++i) {
    PyTuple_SET_ITEM(types.get(), Py_ssize_t(i),
                     Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(found[i]))));
  }
  const Handle f = Handle::steal(PyObject_GetAttrString(owner, name));
  return PyObject_CallFunctionObjArgs(f.get(), function, types.get(), args, kwargs, nullptr);
}

}  // namespace

PyObject* ask_each(const std::vector<PyObject*>& found, const char* name, PyObject* function,
                   PyObject* args, PyObject* kwargs) {
  for (PyObject* o : found) {
    Handle result = Handle::steal(call_override(o, name, function, found, args, kwargs));
    if (result.get() != Py_NotImplemented) return result.release();
  }
  const Handle text = Handle::steal(PyObject_Repr(function));
  fail(ErrorKind::Type, "", "no ", name, " of the arguments' types implements ",
       text_of(text.get()));
}

namespace {

PyObject* ask(const std::vector<PyObject*>& found, PyObject* function, PyObject* args,
              PyObject* kwargs) {
  if (in_mode()) {
    const WithoutInnermost guard;
    Handle result = Handle::steal(
        call_override(guard.mode(), "__torch_function__", function, found, args, kwargs));
    if (result.get() != Py_NotImplemented) return result.release();
  }
  return ask_each(found, "__torch_function__", function, args, kwargs);
}

// A call's arguments, the method's object among them.
std::pair<Handle, Handle> arguments_of(const PythonCall& call) {
  const Py_ssize_t self = call.self ? 1 : 0;
  const Handle args = Handle::steal(PyTuple_New(call.nargs + self));
  if (self) PyTuple_SET_ITEM(args.get(), 0, Py_NewRef(call.self));
  for (Py_ssize_t i = 0; i < call.nargs; ++i) {
    PyTuple_SET_ITEM(args.get(), i + self, Py_NewRef(call.args[i]));
  }
  const Handle kwargs = Handle::steal(PyDict_New());
  for (Py_ssize_t j = 0; j < call.num_keywords(); ++j) {
    check_status(
        PyDict_SetItem(kwargs.get(), PyTuple_GET_ITEM(call.kwnames, j), call.args[call.nargs + j]));
  }
  return {args, kwargs};
}

PyObject* ask_for_op(const std::vector<PyObject*>& found, std::span<const OpEntry> overloads,
                     const PythonCall& call) {
  const auto [args, kwargs] = arguments_of(call);
  PyObject* owner = call.self ? reinterpret_cast<PyObject*>(TensorType) : g_module;
  const Handle function = Handle::steal(PyObject_GetAttrString(owner, overloads.front().name));
  return ask(found, function.get(), args.get(), kwargs.get());
}

// A plain tensor among an op's results becomes one of the subclass; containers are looked into.
Handle as_class(Handle result, PyTypeObject* cls) {
  if (Py_TYPE(result.get()) == TensorType) {
    const Tensor& t = unwrap(result.get());
    // An in-place op returns its argument, which keeps its class.
    if (Py_REFCNT(result.get()) > 1) return result;
    Tensor own = t;
    own.impl()->py_object = nullptr;
    return Handle::steal(wrap_as(cls, own));
  }
  if (PyTuple_Check(result.get()) && !PyTuple_CheckExact(result.get())) {  // a named one
    Handle items = Handle::steal(PySequence_List(result.get()));
    const Handle type =
        Handle::maybe(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(result.get()))));
    result = Handle();
    items = as_class(std::move(items), cls);
    return Handle::steal(PyObject_CallOneArg(type.get(), items.get()));
  }
  if (!PyTuple_CheckExact(result.get()) && !PyList_CheckExact(result.get())) return result;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result.get()); ++i) {
    PyObject** item = PySequence_Fast_ITEMS(result.get()) + i;
    *item = as_class(Handle::maybe(*item), cls).release();
  }
  return result;
}

class Disabled {
 public:
  Disabled() { ++t_disabled; }
  ~Disabled() { --t_disabled; }
};

// Tensor.__torch_function__(func, types, args=(), kwargs=None), a class method.
PyObject* default_torch_function(PyObject* cls, PyObject* const* args, Py_ssize_t nargs,
                                 PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* names[] = {"func", "types", "args", "kwargs"};
    PyObject* given_args[4];
    parse_arguments({"__torch_function__", names, 4, 2}, args, nargs, kwnames, given_args);
    const Handle positional = given_args[2] ? Handle::steal(PySequence_Tuple(given_args[2]))
                                            : Handle::steal(PyTuple_New(0));
    PyObject* keywords = given(given_args[3]) ? given_args[3] : nullptr;
    Handle result;
    {
      const Disabled guard;
      result = Handle::steal(PyObject_Call(given_args[0], positional.get(), keywords));
    }
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    if (type == TensorType) return result.release();
    return as_class(std::move(result), type).release();
  });
}

// Marks a class whose objects count as plain tensors; calling it just calls the function.
PyObject* disabled_torch_function(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&] {
    check(nargs >= 2, ErrorKind::Type, "__torch_function__",
          "expected (func, types, args, kwargs)");
    const Disabled guard;
    const Handle none = Handle::steal(PyTuple_New(0));
    PyObject* keywords = nargs > 3 && args[3] != Py_None ? args[3] : nullptr;
    return PyObject_Call(args[0], nargs > 2 ? args[2] : none.get(), keywords);
  });
}

PyMethodDef default_def = {"__torch_function__", as_method(default_torch_function),
                           kFastcall | METH_CLASS, "Runs the op and keeps the subclass."};
// For overrides.DisableTorchFunctionSubclass: nested with blocks count.
PyObject* enter_off(PyObject*, PyObject*) {
  ++t_disabled;
  return Py_NewRef(Py_None);
}
PyObject* leave_off(PyObject*, PyObject*) {
  if (t_disabled > 0) --t_disabled;
  return Py_NewRef(Py_None);
}

// The objects to ask among the arguments of a function that is written in Python. Nobody is asked
// while subclasses count as plain tensors, but for modes.
std::vector<PyObject*> asked(PyObject* args, PyObject* kwargs) {
  std::vector<PyObject*> found;
  if (t_disabled > 0) return found;
  const auto look = [&](PyObject* o) {
    note(found, o);
    if (!PyTuple_CheckExact(o) && !PyList_CheckExact(o)) return;
    for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(o); ++j) {
      note(found, PySequence_Fast_GET_ITEM(o, j));
    }
  };
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) look(PyTuple_GET_ITEM(args, i));
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(kwargs, &at, &key, &value)) look(value);
  return found;
}

// _is_overridden(args, kwargs): does a mode, or one of the arguments, take over the call?
PyObject* is_overridden(PyObject*, PyObject* const* given, Py_ssize_t nargs) {
  return guarded([&] {
    check(nargs == 2 && PyTuple_Check(given[0]) && PyDict_Check(given[1]), ErrorKind::Type,
          "_is_overridden", "expected (tuple, dict)");
    return Py_NewRef(in_mode() || !asked(given[0], given[1]).empty() ? Py_True : Py_False);
  });
}
// _ask_overrides(function, args, kwargs): what they return for it.
PyObject* ask_overrides(PyObject*, PyObject* const* given, Py_ssize_t nargs) {
  return guarded([&] {
    check(nargs == 3 && PyTuple_Check(given[1]) && PyDict_Check(given[2]), ErrorKind::Type,
          "_ask_overrides", "expected (function, tuple, dict)");
    return ask(asked(given[1], given[2]), given[0], given[1], given[2]);
  });
}

PyObject* push_mode(PyObject*, PyObject* mode) {
  if (!t_modes) t_modes = new std::vector<PyObject*>;
  t_modes->push_back(Py_NewRef(mode));
  g_overrides_exist |= 1;
  return Py_NewRef(Py_None);
}
PyObject* pop_mode(PyObject*, PyObject*) {
  if (!in_mode()) {
    PyErr_SetString(PyExc_RuntimeError, "TorchFunctionMode: no mode is entered in this thread");
    return nullptr;
  }
  PyObject* mode = t_modes->back();
  t_modes->pop_back();
  return mode;
}
PyObject* modes_entered(PyObject*, PyObject*) {
  PyObject* list = PyList_New(0);
  for (size_t i = 0; list && t_modes && i < t_modes->size(); ++i) {
    if (PyList_Append(list, (*t_modes)[i]) < 0) Py_CLEAR(list);
  }
  return list;
}

// _count_symbolic_traces(1) at the start of a trace by fx, (-1) at its end: meanwhile operators ask
// objects of any class.
PyObject* count_symbolic_traces(PyObject*, PyObject* change) {
  const long by = PyLong_AsLong(change);
  if (by == -1 && PyErr_Occurred()) return nullptr;
  g_overrides_exist = std::max(g_overrides_exist & 1, g_overrides_exist + 2 * int(by));
  return Py_NewRef(Py_None);
}

PyMethodDef functions[] = {
    {"_count_symbolic_traces", count_symbolic_traces, METH_O, nullptr},
    {"_is_overridden", as_method(is_overridden), METH_FASTCALL, nullptr},
    {"_ask_overrides", as_method(ask_overrides), METH_FASTCALL, nullptr},
    {"_push_torch_function_mode", push_mode, METH_O, nullptr},
    {"_pop_torch_function_mode", pop_mode, METH_NOARGS, nullptr},
    {"_torch_function_modes", modes_entered, METH_NOARGS, nullptr},
    {"_enter_torch_function_off", enter_off, METH_NOARGS, nullptr},
    {"_leave_torch_function_off", leave_off, METH_NOARGS, nullptr},
    {"_disabled_torch_function_impl", as_method(disabled_torch_function), METH_FASTCALL, nullptr},
    {},
};

}  // namespace

namespace {

// Does a class below Tensor say what its __torch_function__ is?
bool has_own_torch_function(PyTypeObject* type) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* t = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (t == TensorType) return false;
    if (PyDict_GetItemString(t->tp_dict, "__torch_function__")) return true;
  }
  return true;
}

}  // namespace

bool in_torch_function_mode() { return in_mode(); }

int note_subclass(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  if (PyObject_HasAttrString(object, "__torch_dispatch__")) {
    // Whoever has it gets results as it returns them: Tensor's own __torch_function__ would make
    // the class's objects of them.
    g_overrides_exist = true;
    if (!has_own_torch_function(type) &&
        PyObject_SetAttrString(object, "__torch_function__", g_disabled) < 0)
      return -1;
  }
  PyObject* f = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__torch_function__");
  if (!f) return -1;
  if (f != g_disabled) g_overrides_exist |= 1;
  Py_DECREF(f);
  return 0;
}

PyObject* torch_function_result(std::span<const OpEntry> overloads, const PythonCall& call) {
  std::vector<PyObject*> found;
  if (t_disabled == 0) found = find_overrides(call);
  if (!found.empty() || in_mode()) return ask_for_op(found, overloads, call);
  // Below __torch_function__: classes whose objects have no memory of their own.
  const std::vector<PyObject*> wrappers = find_overrides(call, dispatches);
  if (wrappers.empty()) return nullptr;
  const Handle function = Handle::steal(function_for(overloads.front().name));
  const auto [args, kwargs] = arguments_of(call);
  return ask_each(wrappers, "__torch_dispatch__", function.get(), args.get(), kwargs.get());
}

PyObject* last_resort_override(std::span<const OpEntry> overloads, const PythonCall& call) {
  return torch_function_result(overloads, call);
}

PyObject* operator_override(const char* method, PyObject* a, PyObject* b, PyObject* c) {
  std::vector<PyObject*> found;
  if (t_disabled == 0) {
    note(found, a);
    if (b) note_index(found, b);
    if (c) note(found, c);
  }
  std::vector<PyObject*> wrappers;
  if (found.empty() && !in_mode()) {
    for (PyObject* o : {a, b, c}) {
      if (o) note(wrappers, o, dispatches);
    }
    if (wrappers.empty()) return nullptr;
  }
  const Handle args = Handle::steal(PyTuple_Pack(c ? 3 : b ? 2 : 1, a, b, c));
  const Handle kwargs = Handle::steal(PyDict_New());
  if (!wrappers.empty()) {
    const Handle function = Handle::steal(function_for(method));
    return ask_each(wrappers, "__torch_dispatch__", function.get(), args.get(), kwargs.get());
  }
  const Handle function =
      Handle::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(TensorType), method));
  return ask(found, function.get(), args.get(), kwargs.get());
}

bool init_torch_function(PyObject* module) {
  g_module = module;
  if (PyModule_AddFunctions(module, functions) < 0) return false;
  g_disabled = PyObject_GetAttrString(module, "_disabled_torch_function_impl");
  PyObject* method = PyDescr_NewClassMethod(TensorType, &default_def);
  if (!g_disabled || !method) return false;
  const int status =
      PyObject_SetAttrString(reinterpret_cast<PyObject*>(TensorType), "__torch_function__", method);
  Py_DECREF(method);
  return status == 0;
}

}  // namespace rush::py
