#include "bindings/call/dispatch_mode.h"

#include "bindings/call/carried_error.h"
#include "bindings/call/custom_values.h"
#include "bindings/call/dispatch.h"
#include "bindings/call/torch_function.h"

namespace rush::py {

bool dispatches(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (type == TensorType || !is_tensor(o)) return false;
  const Handle f = optional_attribute(reinterpret_cast<PyObject*>(type), "__torch_dispatch__");
  return f && f.get() != Py_None;
}

PyObject* function_for(const char* op) {
  static PyObject* find = nullptr;  // with the GIL
  if (!find) {
    const Handle module = Handle::steal(PyImport_ImportModule("rushlight._library.dispatch"));
    find = Handle::steal(PyObject_GetAttrString(module.get(), "function_for")).release();
  }
  return PyObject_CallFunction(find, "s", op);
}

namespace {

// The Python objects of a call: positional arguments without the Nones at their end, and those of
// the keyword-only ones that are something.
CustomArguments arguments_of(const OpEntry& entry, const Value* args) {
  std::vector<Handle> positional;
  CustomArguments out;
  out.keywords = Handle::steal(PyDict_New());
  for (size_t i = 0; i < entry.args.size(); ++i) {
    const ArgSpec& spec = entry.args[i];
    // (What takes tensors alone gets a tensor.)
    const bool number = spec.kind == ArgKind::Operand && args[i].tag() == Value::Tag::Tensor &&
                        args[i].tensor().is_wrapped_number();
    Handle o = number ? Handle::steal(wrap(args[i].tensor().item())) : python_value(args[i], false);
    if (!spec.keyword_only)
      positional.push_back(std::move(o));
    else if (o.get() != Py_None)
      check_status(PyDict_SetItemString(out.keywords.get(), spec.name, o.get()));
  }
  while (!positional.empty() && positional.back().get() == Py_None &&
         entry.args[positional.size() - 1].default_kind == DefaultKind::None)
    positional.pop_back();
  out.positional = Handle::steal(PyTuple_New(Py_ssize_t(positional.size())));
  for (size_t i = 0; i < positional.size(); ++i)
    PyTuple_SET_ITEM(out.positional.get(), Py_ssize_t(i), positional[i].release());
  return out;
}

void take_one(const OpEntry& entry, PyObject* o, Value& v) {
  Scalar s;
  if (o == Py_None) return;
  if (is_tensor(o)) return v.own(unwrap(o));
  if (PyList_Check(o) || PyTuple_Check(o)) {
    std::vector<Tensor> list;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); ++k) {
      PyObject* item = PySequence_Fast_GET_ITEM(o, k);
      check(is_tensor(item), ErrorKind::Type, entry.name,
            "__torch_dispatch__ returned a list with ", type_name(item), " in it");
      list.push_back(unwrap(item));
    }
    return own_list(v, std::move(list));
  }
  if (is_dtype(o) && !PyType_Check(o)) return v.set(as_dtype(o));
  check(scalar_from_python(o, s), ErrorKind::Type, entry.name, "__torch_dispatch__ returned ",
        type_name(o), ", which is no result of this operator");
  v.set(s);  // its first word is what readers of ints, floats and bools look at
}

class DispatchMode final : public Interceptor {
 public:
  explicit DispatchMode(PyObject* mode) : mode_(mode) {}
  PyObject* object() const { return mode_.get(); }

  void call(const OpEntry& entry, Value* args, Value* results) override {
    call_python([&] {
      const CustomArguments given = arguments_of(entry, args);
      const Handle function = Handle::steal(function_for(entry.name));
      const Handle types = Handle::steal(PyTuple_New(0));
      const Handle f = Handle::steal(PyObject_GetAttrString(mode_.get(), "__torch_dispatch__"));
      const Handle result = Handle::steal(
          PyObject_CallFunctionObjArgs(f.get(), function.get(), types.get(), given.positional.get(),
                                       given.keywords.get(), nullptr));
      take(entry, result.get(), args, results);
    });
  }

 private:
  static void take(const OpEntry& entry, PyObject* o, Value* args, Value* results) {
    check(o != Py_NotImplemented, ErrorKind::Type, entry.name,
          "the mode's __torch_dispatch__ returned NotImplemented");
    if (entry.form == Form::InPlace) {
      results[0].borrow(args[0].tensor().impl());
      return;
    }
    if (entry.form == Form::Out && entry.num_results == 1) {
      results[0].borrow(args[entry.args.size() - 1].tensor().impl());
      return;
    }
    if (entry.num_results == 1) return take_one(entry, o, results[0]);
    check((PyTuple_Check(o) || PyList_Check(o)) &&
              PySequence_Fast_GET_SIZE(o) == Py_ssize_t(entry.num_results),
          ErrorKind::Type, entry.name, "__torch_dispatch__ must return ", int(entry.num_results),
          " results, it returned ", type_name(o));
    for (size_t i = 0; i < entry.num_results; ++i)
      take_one(entry, PySequence_Fast_GET_ITEM(o, Py_ssize_t(i)), results[i]);
  }
  PyRef mode_;
};

constexpr const char* kCapsule = "rushlight.dispatch_mode";

// _push_torch_dispatch_mode(mode): what _pop_torch_dispatch_mode takes, in reverse order and on the
// same thread.
PyObject* push_mode(PyObject*, PyObject* mode) {
  return guarded([&] {
    auto made = std::make_unique<DispatchMode>(mode);
    Handle capsule = Handle::steal(PyCapsule_New(made.get(), kCapsule, nullptr));
    push_interceptor(made.get());
    made.release();
    return capsule.release();
  });
}
PyObject* pop_mode(PyObject*, PyObject* capsule) {
  return guarded([&] {
    auto* mode = static_cast<DispatchMode*>(PyCapsule_GetPointer(capsule, kCapsule));
    if (!mode) throw PythonError{};
    pop_interceptor(mode);
    check_status(PyCapsule_SetName(capsule, "gone"));
    delete mode;
    return Py_NewRef(Py_None);
  });
}

// _call_table_op(name, *args, **kwargs); _is_table_op(name)
PyObject* call_table_op(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    check(nargs >= 1 && PyUnicode_Check(args[0]), ErrorKind::Type, "_call_table_op",
          "expected the name of an operator");
    const auto found = find_ops(text_of(args[0]));
    check(!found.empty(), ErrorKind::Runtime, text_of(args[0]), "there is no such operator");
    const PythonCall call{nullptr, args + 1, nargs - 1, kwnames};
    if (PyObject* result = try_torch_function(found, call)) return result;
    return call_entry_of(found, call);
  });
}
PyObject* is_table_op(PyObject*, PyObject* name) {
  return guarded([&] { return PyBool_FromLong(!find_ops(text_of(name)).empty()); });
}

PyMethodDef functions[] = {
    {"_call_table_op", as_method(call_table_op), kFastcall, nullptr},
    {"_is_table_op", is_table_op, METH_O, nullptr},
    {"_push_torch_dispatch_mode", push_mode, METH_O, nullptr},
    {"_pop_torch_dispatch_mode", pop_mode, METH_O, nullptr},
    {},
};

}  // namespace

bool init_dispatch_modes(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace rush::py
