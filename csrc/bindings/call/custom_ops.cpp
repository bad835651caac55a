// custom_ops.cpp: operators that users define, for rushlight/_library: rushlight._C._CustomOp is
// one overload, and kernels may be Python functions.
#include "bindings/call/custom_values.h"
#include "bindings/call/dispatch.h"
#include "bindings/call/parse.h"
#include "frontend/library.h"
#include "ops/framework/boxing.h"

namespace rush::py {
namespace {

PyTypeObject* CustomOpType = nullptr;

struct CustomOpObject {
  PyObject ob_base;
  CustomOp* op;
  std::vector<PyObject*>* names;  // interned; owned for good, as the op is
  vectorcallfunc call;
};
CustomOpObject* as_custom(PyObject* o) { return reinterpret_cast<CustomOpObject*>(o); }
const CustomOp& op_of(PyObject* o) { return *as_custom(o)->op; }

// Kernels in Python --------------------------------------------------------------------------------

class PythonKernel final : public CustomKernel {
 public:
  PythonKernel(const CustomOp& op, PyObject* function, bool fresh_results)
      : op_(op), function_(function), fresh_results_(fresh_results) {}

  void call(Value* args, Value* results) override {
    call_python([&] {
      const CustomArguments given = custom_arguments(op_, args);
      const Handle returned = Handle::steal(
          PyObject_Call(function_.get(), given.positional.get(), given.keywords.get()));
      take_custom_results(op_, returned.get(), results);
    });
    if (fresh_results_) check_fresh(args, results);
  }

 private:
  template <class F>
  static void for_tensors(const Value& v, F&& f) {
    if (v.tag() == Value::Tag::Tensor) f(v.tensor());
    if (v.tag() != Value::Tag::Tensors) return;
    for (const Tensor& t : v.tensors()) {
      if (t.defined()) f(t);
    }
  }
  static bool share(const Tensor& a, const Tensor& b) {
    if (a.is_same(b)) return true;
    const Storage* s = a.impl()->storage.load();
    return s && s == b.impl()->storage.load() && a.numel() > 0 && b.numel() > 0;
  }
  // Callers of a custom_op rely on results that are nobody else's memory.
  void check_fresh(const Value* args, const Value* results) const {
    std::vector<Tensor> seen;
    for (size_t i = 0; i < op_.schema().parameters.size(); ++i)
      for_tensors(args[i], [&](const Tensor& t) { seen.push_back(t); });
    for (size_t i = 0; i < op_.schema().results.size(); ++i) {
      if (op_.schema().results[i].returned >= 0) continue;
      for_tensors(results[i], [&](const Tensor& t) {
        for (const Tensor& other : seen) {
          check(!share(t, other), ErrorKind::Runtime, op_.display_name(),
                "a result of a custom operator must not be one of its inputs, nor share memory "
                "with one or with another result; return a clone of it");
        }
        seen.push_back(t);
      });
    }
  }

  const CustomOp& op_;
  PyRef function_;
  bool fresh_results_;
};

// function(samples, in_dims, args, kwargs) -> (results, out_dims), with dims 0 or -1.
class PythonBatchRule final : public CustomBatchRule {
 public:
  PythonBatchRule(const CustomOp& op, PyObject* function) : op_(op), function_(function) {}

  std::vector<int64_t> call(int64_t samples, const std::vector<int64_t>& in_dims, Value* args,
                            Value* results) override {
    return call_python([&] {
      const CustomArguments given = custom_arguments(op_, args);
      const Handle dims = Handle::steal(PyTuple_New(Py_ssize_t(in_dims.size())));
      for (size_t i = 0; i < in_dims.size(); ++i) {
        PyTuple_SET_ITEM(dims.get(), Py_ssize_t(i),
                         Handle::steal(PyLong_FromLongLong(in_dims[i])).release());
      }
      const Handle returned = Handle::steal(PyObject_CallFunction(
          function_.get(), "LOOO", static_cast<long long>(samples), dims.get(),
          given.positional.get(), given.keywords ? given.keywords.get() : Py_None));
      check(PyTuple_Check(returned.get()) && PyTuple_GET_SIZE(returned.get()) == 2, ErrorKind::Type,
            op_.display_name(), "the rule for vmap must return (results, out_dims)");
      take_custom_results(op_, PyTuple_GET_ITEM(returned.get(), 0), results);
      const Handle out = Handle::steal(PySequence_Fast(PyTuple_GET_ITEM(returned.get(), 1), ""));
      std::vector<int64_t> out_dims;
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(out.get()); ++i)
        out_dims.push_back(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(out.get(), i)));
      if (PyErr_Occurred()) throw PythonError{};
      check(out_dims.size() == op_.schema().results.size(), ErrorKind::Type, op_.display_name(),
            "the rule for vmap must name a dimension for each of ", op_.schema().results.size(),
            " results, not ", out_dims.size());
      return out_dims;
    });
  }

 private:
  const CustomOp& op_;
  PyRef function_;
};

// Calls --------------------------------------------------------------------------------------------

using Way = void (CustomOp::*)(Value*, Value*) const;

PyObject* run(const CustomOp& op, Parser& parser, Way way) {
  Value* values = parser.values();
  for (size_t i = 0; i < op.entry().args.size(); ++i) {
    if (!parser.given(i)) values[i] = op.default_value(i);
  }
  std::array<Value, kMaxResults> results;
  const bool large = parser.elements() >= kReleaseGilFrom;
  if (large && way == &CustomOp::call)
    run_boxed(op.entry(), values, results.data(), parser.elements());
  else
    (op.*way)(values, results.data());
  return give_custom_results(op, results.data());
}

PyObject* call_one(PyObject* self, const PythonCall& call, Way way) {
  const CustomOp& op = op_of(self);
  Parser parser;
  std::string why;
  if (!parser.parse(op.entry(), as_custom(self)->names->data(), call, &why)) {
    fail(ErrorKind::ArgumentType, "", op.display_name(), "(): ", why,
         ". Accepted: ", op.schema().text());
  }
  return run(op, parser, way);
}

PyObject* custom_vectorcall(PyObject* self, PyObject* const* args, size_t flags,
                            PyObject* kwnames) {
  return guarded([&] {
    return call_one(self, {nullptr, args, PyVectorcall_NARGS(flags), kwnames}, &CustomOp::call);
  });
}
PyObject* run_kernel(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded(
      [&] { return call_one(self, {nullptr, args, nargs, kwnames}, &CustomOp::call_kernel); });
}

// _call_custom_overloads(ops, *args, **kwargs): the first whose signature fits.
PyObject* call_overloads(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    check(nargs >= 1 && PyTuple_Check(args[0]), ErrorKind::Type, "_call_custom_overloads",
          "expected a tuple of operators");
    const PythonCall call{nullptr, args + 1, nargs - 1, kwnames};
    std::string texts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[0]); ++i) {
      PyObject* self = PyTuple_GET_ITEM(args[0], i);
      Parser parser;
      if (parser.parse(op_of(self).entry(), as_custom(self)->names->data(), call))
        return run(op_of(self), parser, &CustomOp::call);
      texts += "\n  " + op_of(self).schema().text();
    }
    fail(ErrorKind::ArgumentType, "", op_of(PyTuple_GET_ITEM(args[0], 0)).schema().qualified(),
         "(): no signature fits ", given_text(call), ". Accepted:", texts);
  });
}

// The object ---------------------------------------------------------------------------------------

PyObject* wrap_op(CustomOp* op) {
  auto names = std::make_unique<std::vector<PyObject*>>();
  for (const ArgSpec& a : op->entry().args)
    names->push_back(Handle::steal(PyUnicode_InternFromString(a.name)).release());
  Handle self = Handle::steal(CustomOpType->tp_alloc(CustomOpType, 0));
  as_custom(self.get())->op = op;
  as_custom(self.get())->names = names.release();
  as_custom(self.get())->call = custom_vectorcall;
  return self.release();
}

void custom_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (auto* names = as_custom(self)->names) {
    for (PyObject* name : *names) Py_DECREF(name);
    delete names;
  }
  type->tp_free(self);
  Py_DECREF(type);
}

CustomKey key_argument(PyObject* o) {
  check(PyUnicode_Check(o), ErrorKind::Type, "impl", "a dispatch key is a string, not ",
        type_name(o));
  const auto key = parse_custom_key(text_of(o));
  check(key.has_value(), ErrorKind::Runtime, "impl", "could not parse dispatch key: ", text_of(o));
  return *key;
}

// set_kernel(key, function, fresh_results)
PyObject* set_kernel(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&] {
    check(nargs == 3 && PyCallable_Check(args[1]), ErrorKind::Type, "set_kernel",
          "expected (key, function, bool)");
    CustomOp& op = *as_custom(self)->op;
    op.set_kernel(key_argument(args[0]),
                  std::make_unique<PythonKernel>(op, args[1], args[2] == Py_True));
    return Py_NewRef(Py_None);
  });
}
PyObject* has_kernel(PyObject* self, PyObject* key) {
  return guarded([&] { return PyBool_FromLong(op_of(self).has_kernel(key_argument(key))); });
}
PyObject* set_batch_rule(PyObject* self, PyObject* function) {
  return guarded([&] {
    CustomOp& op = *as_custom(self)->op;
    op.set_batch_rule(std::make_unique<PythonBatchRule>(op, function));
    return Py_NewRef(Py_None);
  });
}
// set_autocast(device, dtype)
PyObject* set_autocast(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&] {
    Device device;
    check(nargs == 2 && device_from_python(args[0], device) && is_dtype(args[1]), ErrorKind::Type,
          "register_autocast", "expected a device type and a dtype");
    as_custom(self)->op->set_autocast(device.type, as_dtype(args[1]));
    return Py_NewRef(Py_None);
  });
}
// call_key(key, *args): exactly that kernel.
PyObject* call_key(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    check(nargs >= 1, ErrorKind::Type, "call_key", "expected a dispatch key");
    const CustomKey key = key_argument(args[0]);
    const CustomOp& op = op_of(self);
    Parser parser;
    std::string why;
    if (!parser.parse(op.entry(), as_custom(self)->names->data(),
                      {nullptr, args + 1, nargs - 1, kwnames}, &why))
      fail(ErrorKind::ArgumentType, "", op.display_name(), "(): ", why);
    for (size_t i = 0; i < op.entry().args.size(); ++i) {
      if (!parser.given(i)) parser.values()[i] = op.default_value(i);
    }
    std::array<Value, kMaxResults> results;
    op.call_key(key, parser.values(), results.data());
    return give_custom_results(op, results.data());
  });
}

PyObject* get_text(const std::string& s) { return PyUnicode_FromString(s.c_str()); }
// [(name, type, keyword_only, mutated, has_default), ...]
PyObject* get_arguments(PyObject* self, void*) {
  return guarded([&] {
    Handle list = Handle::steal(PyList_New(0));
    for (const CustomParameter& p : op_of(self).schema().parameters) {
      const Handle item = Handle::steal(Py_BuildValue(
          "(ssOOO)", p.name.c_str(), type_text(p).c_str(), p.keyword_only ? Py_True : Py_False,
          p.mutated ? Py_True : Py_False, p.has_default ? Py_True : Py_False));
      check_status(PyList_Append(list.get(), item.get()));
    }
    return list.release();
  });
}
PyObject* get_results(PyObject* self, void*) {
  return guarded([&] {
    Handle list = Handle::steal(PyList_New(0));
    for (const CustomResult& r : op_of(self).schema().results)
      check_status(PyList_Append(list.get(), Handle::steal(get_text(type_text(r))).get()));
    return list.release();
  });
}

PyMethodDef methods[] = {
    {"set_kernel", as_method(set_kernel), METH_FASTCALL, nullptr},
    {"has_kernel", has_kernel, METH_O, nullptr},
    {"set_batch_rule", set_batch_rule, METH_O, nullptr},
    {"set_autocast", as_method(set_autocast), METH_FASTCALL, nullptr},
    {"run_kernel", as_method(run_kernel), kFastcall, nullptr},
    {"call_key", as_method(call_key), kFastcall, nullptr},
    {},
};
PyGetSetDef properties[] = {
    {"qualified", [](PyObject* s, void*) { return get_text(op_of(s).schema().qualified()); },
     nullptr, nullptr, nullptr},
    {"overload", [](PyObject* s, void*) { return get_text(op_of(s).schema().overload); }, nullptr,
     nullptr, nullptr},
    {"schema", [](PyObject* s, void*) { return get_text(op_of(s).schema().text()); }, nullptr,
     nullptr, nullptr},
    {"arguments", get_arguments, nullptr, nullptr, nullptr},
    {"results", get_results, nullptr, nullptr, nullptr},
    {},
};
PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CustomOpObject, call), READONLY, nullptr},
    {},
};
PyType_Slot slots[] = {
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(custom_dealloc)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {},
};
PyType_Spec spec = {
    "rushlight._C._CustomOp", sizeof(CustomOpObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

// _define_custom_op(schema)
PyObject* define(PyObject*, PyObject* schema) {
  return guarded([&] {
    check(PyUnicode_Check(schema), ErrorKind::Type, "define", "a schema is a string, not ",
          type_name(schema));
    return wrap_op(&define_custom_op(CustomSchema::parse(text_of(schema))));
  });
}
// _find_custom_ops(qualname): its overloads, perhaps none.
PyObject* find(PyObject*, PyObject* name) {
  return guarded([&] {
    check(PyUnicode_Check(name), ErrorKind::Type, "_find_custom_ops", "expected a string");
    Handle list = Handle::steal(PyList_New(0));
    if (text_of(name).find("::") == std::string_view::npos) return list.release();
    for (const OpEntry& entry : find_ops(text_of(name)))
      check_status(PyList_Append(list.get(), Handle::steal(wrap_op(custom_op_of(entry))).get()));
    return list.release();
  });
}
PyObject* remove_op(PyObject*, PyObject* name) {
  return guarded([&] {
    remove_custom_op(text_of(name));
    return Py_NewRef(Py_None);
  });
}
PyObject* all_names(PyObject*, PyObject*) {
  return guarded([&] {
    Handle list = Handle::steal(PyList_New(0));
    for (const std::string& name : custom_op_names())
      check_status(PyList_Append(list.get(), Handle::steal(get_text(name)).get()));
    return list.release();
  });
}

// _take_library_errors(): what went wrong in blocks of libraries that were loaded since the last
// call, as text; empty when nothing did.
PyObject* take_errors(PyObject*, PyObject*) {
  return guarded([&] { return get_text(take_library_errors()); });
}

PyMethodDef functions[] = {
    {"_take_library_errors", take_errors, METH_NOARGS, nullptr},
    {"_define_custom_op", define, METH_O, nullptr},
    {"_find_custom_ops", find, METH_O, nullptr},
    {"_call_custom_overloads", as_method(call_overloads), kFastcall, nullptr},
    {"_remove_custom_op", remove_op, METH_O, nullptr},
    {"_custom_op_names", all_names, METH_NOARGS, nullptr},
    {},
};

}  // namespace

bool init_custom_ops(PyObject* module) {
  CustomOpType = add_type(module, &spec);
  return CustomOpType && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace rush::py
