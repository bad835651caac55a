// jit_script.cpp: what the front end of jit.script needs: the tables it compiles to, and its way in.
#include "bindings/call/carried_error.h"
#include "bindings/jit_values.h"
#include "jit/graph_function.h"
#include "jit/program_json.h"

namespace rush::py {
namespace {

using jit::Code;
using jit::CodePointer;
using VariablesPointer = std::shared_ptr<jit::Variables>;

// _jit_script(program.json, state, constants) -> code. Everything is checked as if it came from a file.
PyObject* script(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *source, *state, *constants;
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyUnicode_Type, &source, &PyList_Type, &state,
                          &PyList_Type, &constants))
      return nullptr;
    jit::StoredState stored;
    auto code = std::make_shared<Code>(jit::parse_code(text_of(source), "script", stored));
    code->constants = tensors_in("script", constants);
    code->verify();
    check(size_t(PyList_GET_SIZE(state)) == code->state.size(), ErrorKind::Internal, "script",
          "the state does not fit the program");
    return capsule_of(CodePointer(std::move(code)), kCode);
  });
}

// _jit_as_functions(code) -> program.json, with each traced method as a function. What it makes of
// constants and state: names and numbers only.
PyObject* as_functions(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const Code made = jit::with_functions(code_in(capsule));
    jit::StoredState stored;
    stored.devices.resize(made.state.size());
    stored.constant_devices.resize(made.constants.size());
    return text(jit::code_text(made, stored)).release();
  });
}

// _jit_attributes(code) -> the attributes of one program of this code, as they are at first.
PyObject* attributes(PyObject*, PyObject* capsule) {
  return guarded([&] {
    auto variables = std::make_shared<jit::Variables>();
    variables->attributes = code_in(capsule).first_attributes();
    return capsule_of(VariablesPointer(std::move(variables)), kVariables);
  });
}

// _jit_copied(attributes): with lists of its own.
PyObject* copied(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *code, *given;
    if (!PyArg_ParseTuple(args, "OO", &code, &given)) return nullptr;
    auto variables = std::make_shared<jit::Variables>();
    const auto still = at_rest(variables_in(given));
    variables->attributes = variables_in(given).attributes;
    for (size_t i = 0; i < variables->attributes.size(); ++i)
      variables->attributes[i] =
          jit::taken_as(variables->attributes[i], *code_in(code).attributes[i].type, "copy");
    return capsule_of(VariablesPointer(std::move(variables)), kVariables);
  });
}

// _jit_attribute(code, attributes, which[, value]): reads or sets one.
PyObject* attribute(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *code, *capsule, *value = nullptr;
    unsigned which;
    if (!PyArg_ParseTuple(args, "OOI|O", &code, &capsule, &which, &value)) return nullptr;
    jit::Variables& variables = variables_in(capsule);
    std::unique_lock<jit::ProgramMutex> still;
    if (code_in(code).has_containers) still = at_rest(variables);
    check(which < variables.attributes.size(), ErrorKind::Index, "attribute", "there is none");
    if (!value) return from_ivalue(variables.attributes[which]).release();
    const jit::AttributeEntry& entry = code_in(code).attributes[which];
    variables.attributes[which] = jit::taken_as(
        to_ivalue(entry.name.c_str(), value, Leaves::Values), *entry.type, entry.name);
    Py_RETURN_NONE;
  });
}

// _jit_builtins() -> [(name, signature)]
PyObject* builtins(PyObject*, PyObject*) {
  return guarded([&] {
    const auto rows = jit::all_builtins();
    return list_of(rows.size(),
                   [&](size_t i) {
                     return Handle::steal(Py_BuildValue("(ss)", rows[i].name, rows[i].signature));
                   })
        .release();
  });
}

constexpr const char* kKinds[] = {"Tensor", "Operand", "Tensors", "Scalar",       "Int",
                                  "Ints",   "Float",   "Floats",  "Bool",         "String",
                                  "DType",  "Device",  "Layout",  "MemoryFormat", "Generator"};

Handle described(const ArgSpec& spec) {
  // (name, kind, optional, keyword_only, broadcast, has a default, holes)
  return Handle::steal(Py_BuildValue(
      "(ssNNiNN)", spec.name, kKinds[size_t(spec.kind)], PyBool_FromLong(spec.optional),
      PyBool_FromLong(spec.keyword_only), int(spec.broadcast),
      PyBool_FromLong(spec.default_kind != DefaultKind::Required), PyBool_FromLong(spec.holes)));
}

// _jit_overloads(name) -> the overloads of an op that programs may call: (overload, form, is_method,
// is_function, varargs, self_index, [argument], [type of result], names of results)
PyObject* overloads(PyObject*, PyObject* name) {
  return guarded([&]() -> PyObject* {
    check(PyUnicode_Check(name), ErrorKind::Type, "_jit_overloads", "expected a name");
    const Handle found = Handle::steal(PyList_New(0));
    for (const OpEntry& e : find_ops(text_of(name))) {
      if (!jit::may_be_called(e) || e.form == Form::Out) continue;
      const Handle args = list_of(e.args.size(), [&](size_t k) { return described(e.args[k]); });
      const auto types = jit::result_types(e);
      const Handle results =
          list_of(types.size(), [&](size_t k) { return text(jit::shown(*types[k])); });
      const Handle row = Handle::steal(
          Py_BuildValue("(siNNNiOOs)", e.overload, int(e.form), PyBool_FromLong(e.is_method),
                        PyBool_FromLong(e.is_function), PyBool_FromLong(e.varargs),
                        int(e.self_index), args.get(), results.get(), e.result_names));
      check_status(PyList_Append(found.get(), row.get()));
    }
    return Py_NewRef(found.get());
  });
}

void print_by_python(const std::string& line) {
  call_python([&] {
    const Handle written = text(line);
    PyObject* out = PySys_GetObject("stdout");
    if (out && out != Py_None) Handle::steal(PyObject_CallMethod(out, "write", "O", written.get()));
    return 0;
  });
}

PyMethodDef functions[] = {
    {"_jit_script", script, METH_VARARGS, nullptr},
    {"_jit_as_functions", as_functions, METH_O, nullptr},
    {"_jit_attributes", attributes, METH_O, nullptr},
    {"_jit_copied_attributes", copied, METH_VARARGS, nullptr},
    {"_jit_attribute", attribute, METH_VARARGS, nullptr},
    {"_jit_builtins", builtins, METH_NOARGS, nullptr},
    {"_jit_overloads", overloads, METH_O, nullptr},
    {},
};

}  // namespace

PyObject* raise_script_error(const jit::ScriptError& e) {
  const Handle home = Handle::steal(PyImport_ImportModule("rushlight.jit._values"));
  const Handle error = Handle::steal(PyObject_CallMethod(
      home.get(), "script_error", "ss", e.class_name().c_str(), e.message().c_str()));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  return nullptr;
}

void add_functions(const Code& code, PyObject* methods) {
  for (const jit::Function& f : code.functions) {
    if (!f.is_method) continue;
    const Handle inputs =
        list_of(f.inputs.size(), [&](size_t k) { return text(f.inputs[k].name); });
    const Handle defaults = Handle::steal(PyDict_New());
    for (const auto& input : f.inputs) {
      if (input.standard)
        check_status(PyDict_SetItem(defaults.get(), text(input.name).get(),
                                    from_ivalue(input.standard->value).get()));
    }
    const Handle row =
        Handle::steal(Py_BuildValue("(NOO)", text(f.name).release(), inputs.get(), defaults.get()));
    check_status(PyList_Append(methods, row.get()));
  }
}

bool init_jit_script(PyObject* module) {
  jit::set_print(print_by_python);
  return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace rush::py
