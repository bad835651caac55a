// jit.cpp: programs from Python (rushlight/jit): tracing, running, files. A program's code and a
// trace under way are capsules; the classes around them are Python's.
#include "bindings/jit_values.h"
#include "bindings/source.h"
#include "jit/generalize.h"
#include "jit/print.h"
#include "jit/program_file.h"
#include "jit/tracer.h"

namespace rush::py {
namespace {

using jit::Code;
using jit::CodePointer;
using jit::IValue;
using TracerPointer = std::shared_ptr<jit::Tracer>;

constexpr const char* kTracer = "rushlight.jit.tracer";
jit::Tracer& tracer_in(PyObject* capsule) { return *held<TracerPointer>(capsule, kTracer); }

// Tracing ------------------------------------------------------------------------------------------

// _jit_tracer(state, aliases, training, by_mode, before): state: (name, tensor, is_parameter, persistent)
// for each parameter and buffer; aliases: (name, which of the state, before which of the state it
// stands); before: a code whose methods this one joins, with the same state, or None.
PyObject* make_tracer(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *rows, *aliases, *before;
    int training, by_mode;
    if (!PyArg_ParseTuple(args, "O!O!ppO", &PyList_Type, &rows, &PyList_Type, &aliases, &training,
                          &by_mode, &before))
      return nullptr;
    Code code;
    if (before != Py_None) code = code_in(before);
    std::vector<Tensor> tensors;
    std::vector<jit::StateEntry> state;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows); ++i) {
      const char* name;
      PyObject* tensor;
      int is_parameter, persistent;
      if (!PyArg_ParseTuple(PyList_GET_ITEM(rows, i), "sOpp", &name, &tensor, &is_parameter,
                            &persistent))
        return nullptr;
      check(is_tensor(tensor), ErrorKind::Type, "trace", "'", name, "' is no tensor");
      tensors.push_back(unwrap(tensor));
      state.push_back({name, is_parameter != 0, false, persistent != 0});
    }
    if (before == Py_None) {
      code.state = std::move(state);
      code.training = training != 0;
      code.by_mode = by_mode != 0;
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(aliases); ++i) {
        const char* name;
        unsigned place, at;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(aliases, i), "sII", &name, &place, &at))
          return nullptr;
        code.aliases.push_back({name, place, at});
      }
    }
    return capsule_of(std::make_shared<jit::Tracer>(std::move(code), tensors), kTracer);
  });
}

// _jit_add_input(tracer, name, value) -> what to call the function with.
PyObject* add_input(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *tracer, *value;
    const char* name;
    if (!PyArg_ParseTuple(args, "OsO", &tracer, &name, &value)) return nullptr;
    return from_ivalue(
               tracer_in(tracer).add_input(name, to_ivalue("trace", value, Leaves::Tensors)))
        .release();
  });
}

// _jit_watch(tracer, on): starts or stops it.
PyObject* watch(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* tracer;
    int on;
    if (!PyArg_ParseTuple(args, "Op", &tracer, &on)) return nullptr;
    on ? tracer_in(tracer).start() : tracer_in(tracer).stop();
    return Py_NewRef(Py_None);
  });
}

// _jit_finish(tracer, method, output) -> code
PyObject* finish(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *tracer, *output;
    const char* method;
    if (!PyArg_ParseTuple(args, "OsO", &tracer, &method, &output)) return nullptr;
    return capsule_of(tracer_in(tracer).finish(method, to_ivalue("trace", output, Leaves::Tensors)),
                      kCode);
  });
}

// _jit_warnings(tracer) -> [(text, file or None, line)]
PyObject* trace_warnings(PyObject*, PyObject* tracer) {
  return guarded([&] {
    const auto& notes = tracer_in(tracer).warnings();
    return list_of(notes.size(),
                   [&](size_t i) {
                     const auto line = source_line(notes[i].at);
                     return Handle::steal(Py_BuildValue("(NOi)", text(notes[i].text).release(),
                                                        line ? line->file : Py_None,
                                                        line ? line->line : 0));
                   })
        .release();
  });
}

// _jit_lines(tracer) -> of each instruction: (file, line), or None where it is not known
PyObject* trace_lines(PyObject*, PyObject* tracer) {
  return guarded([&] {
    const auto& lines = tracer_in(tracer).lines();
    return list_of(lines.size(),
                   [&](size_t i) {
                     const auto line = source_line(lines[i]);
                     if (!line) return Handle::borrow(Py_None);
                     return Handle::steal(Py_BuildValue("(Oi)", line->file, line->line));
                   })
        .release();
  });
}

// _jit_value_of(tracer, tensor) -> the number of its value, or None
PyObject* value_of(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *tracer, *tensor;
    if (!PyArg_ParseTuple(args, "OO", &tracer, &tensor)) return nullptr;
    check(is_tensor(tensor), ErrorKind::Type, "trace", "expected a tensor");
    const auto value = tracer_in(tracer).value_of(unwrap(tensor));
    return value ? PyLong_FromUnsignedLong(*value) : Py_NewRef(Py_None);
  });
}

// _jit_value_sizes(tracer) -> of each value: its sizes, a list
PyObject* value_sizes(PyObject*, PyObject* tracer) {
  return guarded([&] {
    const auto& all = tracer_in(tracer).value_sizes();
    return list_of(all.size(),
                   [&](size_t i) {
                     return list_of(all[i].size(), [&](size_t d) {
                       return Handle::steal(PyLong_FromLongLong(all[i][d]));
                     });
                   })
        .release();
  });
}

// _jit_call(step, tensors): 0: a call of a program begins, with its inputs (False: it is not to be
// recorded); 1: it has ended, with its outputs; 2: it failed.
PyObject* traced_call(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int step;
    PyObject* list;
    if (!PyArg_ParseTuple(args, "iO!", &step, &PyList_Type, &list)) return nullptr;
    jit::Tracer* tracer = jit::tracer_of_this_thread();
    if (!tracer) return Py_NewRef(Py_False);
    const std::vector<Tensor> tensors = tensors_in("trace", list);
    if (step == 0) return PyBool_FromLong(tracer->begin_call(tensors));
    step == 1 ? tracer->end_call(tensors) : tracer->drop_call();
    return Py_NewRef(Py_True);
  });
}

// _jit_may_follow(code, method, size)
PyObject* may_follow(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* capsule;
    const char* method;
    long long size;
    if (!PyArg_ParseTuple(args, "OsL", &capsule, &method, &size)) return nullptr;
    return PyBool_FromLong(jit::may_follow(code_in(capsule), method, size));
  });
}

// _jit_generalize(code, method, grown codes, [(value, dim, size)]) -> code or None
PyObject* generalize(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *capsule, *given_grown, *rows;
    const char* method;
    if (!PyArg_ParseTuple(args, "OsO!O!", &capsule, &method, &PyList_Type, &given_grown,
                          &PyList_Type, &rows))
      return nullptr;
    std::vector<CodePointer> grown;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(given_grown); ++i)
      grown.push_back(held<CodePointer>(PyList_GET_ITEM(given_grown, i), kCode));
    std::vector<jit::Symbol> symbols;
    std::vector<int64_t> sizes;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows); ++i) {
      jit::Symbol& s = symbols.emplace_back();
      long long size;
      if (!PyArg_ParseTuple(PyList_GET_ITEM(rows, i), "IIL", &s.value, &s.dim, &size))
        return nullptr;
      sizes.push_back(size);
    }
    CodePointer found = jit::generalize(code_in(capsule), method, grown, symbols, sizes);
    return found ? capsule_of(std::move(found), kCode) : Py_NewRef(Py_None);
  });
}

PyObject* is_tracing(PyObject*, PyObject*) { return PyBool_FromLong(jit::is_tracing()); }

// Running ------------------------------------------------------------------------------------------

// _jit_run(code, method, state, attributes or None, inputs): state is a list, in which a buffer that
// the program replaced is the new one afterwards.
PyObject* run(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *capsule, *given_state, *attributes, *given_inputs;
    const char* method;
    if (!PyArg_ParseTuple(args, "OsO!OO!", &capsule, &method, &PyList_Type, &given_state,
                          &attributes, &PyTuple_Type, &given_inputs))
      return nullptr;
    const CodePointer code = held<CodePointer>(capsule, kCode);
    jit::Variables own;
    jit::Variables* kept = attributes == Py_None ? nullptr : &variables_in(attributes);
    if (kept) {
      own.attributes = kept->attributes;
      own.mutex = kept->mutex;
    }
    own.state = tensors_in(method, given_state);
    const std::vector<Tensor> before = own.state;
    const Leaves leaves = code->function(method) ? Leaves::Values : Leaves::Tensors;
    std::vector<IValue> inputs;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given_inputs); ++i)
      inputs.push_back(to_ivalue(method, PyTuple_GET_ITEM(given_inputs, i), leaves));
    // Until the result is Python's: it may be a list of the module, which other threads' calls change.
    std::unique_lock<jit::ProgramMutex> alone;
    IValue output;
    const auto keep = [&] {
      for (size_t i = 0; kept && i < own.attributes.size(); ++i) {
        if (!own.attributes[i].is(kept->attributes[i])) kept->attributes[i] = own.attributes[i];
      }
      for (size_t i = 0; i < before.size(); ++i) {
        if (!own.state[i].is_same(before[i]))
          check_status(PyList_SetItem(given_state, Py_ssize_t(i), wrap(own.state[i])));
      }
    };
    try {
      const ReleaseGil working;
      if (kept && code->has_containers) alone = std::unique_lock(*own.mutex);
      output = code->run(method, own, inputs);
    } catch (const jit::ScriptError& e) {
      keep();
      return raise_script_error(e);
    } catch (...) {
      keep();
      throw;
    }
    keep();
    return from_ivalue(output).release();
  });
}

// Asking -------------------------------------------------------------------------------------------

// _jit_about(code) -> {"state": [(name, is_parameter, requires_grad, persistent)], "aliases":
// [(name, which, before)], "methods": [(name, [input])], and for scripts (name, [input], {input: default}),
// "constants": [tensor], "attributes": [(name, type)], "training", "by_mode"}
PyObject* about(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const Code& code = code_in(capsule);
    const Handle state = list_of(code.state.size(), [&](size_t i) {
      const jit::StateEntry& s = code.state[i];
      return Handle::steal(
          Py_BuildValue("(NNNN)", text(s.name).release(), PyBool_FromLong(s.is_parameter),
                        PyBool_FromLong(s.requires_grad), PyBool_FromLong(s.persistent)));
    });
    const Handle aliases = list_of(code.aliases.size(), [&](size_t i) {
      const jit::StateAlias& a = code.aliases[i];
      return Handle::steal(Py_BuildValue("(NII)", text(a.name).release(), a.state, a.before));
    });
    const Handle methods = list_of(code.methods.size(), [&](size_t i) {
      const Code::Method& m = code.methods[i];
      Handle inputs =
          list_of(m.graph.inputs.size(), [&](size_t k) { return text(m.graph.inputs[k].name); });
      return Handle::steal(Py_BuildValue("(NN)", text(m.name).release(), inputs.release()));
    });
    add_functions(code, methods.get());
    const Handle attributes = list_of(code.attributes.size(), [&](size_t i) {
      const jit::AttributeEntry& a = code.attributes[i];
      return Handle::steal(
          Py_BuildValue("(NN)", text(a.name).release(), text(jit::shown(*a.type)).release()));
    });
    const Handle constants = list_of(
        code.constants.size(), [&](size_t i) { return Handle::steal(wrap(code.constants[i])); });
    return Handle::steal(Py_BuildValue("{sOsOsOsOsOsNsN}", "state", state.get(), "aliases",
                                       aliases.get(), "methods", methods.get(), "constants",
                                       constants.get(), "attributes", attributes.get(), "training",
                                       PyBool_FromLong(code.training), "by_mode",
                                       PyBool_FromLong(code.by_mode)))
        .release();
  });
}

PyObject* code_text(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* capsule;
    const char* method;
    if (!PyArg_ParseTuple(args, "Os", &capsule, &method)) return nullptr;
    return text(jit::shown(code_in(capsule), method)).release();
  });
}

// _jit_moved(code, from, to): the code with its constants and devices on another device.
PyObject* moved(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *capsule, *from, *to;
    if (!PyArg_ParseTuple(args, "OOO", &capsule, &from, &to)) return nullptr;
    Device before, after;
    if (!device_from_python(from, before) || !device_from_python(to, after))
      fail(ErrorKind::Type, "to", "expected two devices");
    return capsule_of(code_in(capsule).moved(before.type, after), kCode);
  });
}

// Files --------------------------------------------------------------------------------------------

struct StringSink final : jit::ByteSink {
  std::string bytes;
  void write(std::span<const char> more) override { bytes.append(more.data(), more.size()); }
};

// _jit_save(code, state, attributes or None, path or None, extra): bytes where there is no path.
PyObject* save(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *capsule, *given_state, *attributes, *path, *given_extra;
    if (!PyArg_ParseTuple(args, "OOOOO!", &capsule, &given_state, &attributes, &path, &PyDict_Type,
                          &given_extra))
      return nullptr;
    const CodePointer code = held<CodePointer>(capsule, kCode);
    jit::Variables state;
    std::unique_lock<jit::ProgramMutex> still;
    if (attributes != Py_None) {
      still = at_rest(variables_in(attributes));
      state.attributes = variables_in(attributes).attributes;
    }
    state.state = tensors_in("save", given_state);
    jit::ExtraFiles extra;
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(given_extra, &at, &key, &value);) {
      char* data;
      Py_ssize_t size;
      check(PyUnicode_Check(key) && PyBytes_Check(value), ErrorKind::Type, "save",
            "extra files map names to bytes");
      check_status(PyBytes_AsStringAndSize(value, &data, &size));
      extra.emplace_back(std::string(text_of(key)), std::string(data, size_t(size)));
    }
    if (path == Py_None) {
      StringSink sink;
      jit::write_program(sink, *code, state, extra);
      return PyBytes_FromStringAndSize(sink.bytes.data(), Py_ssize_t(sink.bytes.size()));
    }
    {
      const std::string name(PyBytes_AsString(path));
      const ReleaseGil working;
      jit::write_program(name, *code, state, extra);
    }
    Py_RETURN_NONE;
  });
}

// _jit_load(bytes or None, path, device or None) -> (code, state, {name: bytes})
PyObject* load(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *given_bytes, *given_device;
    const char* path;
    if (!PyArg_ParseTuple(args, "OyO", &given_bytes, &path, &given_device)) return nullptr;
    std::optional<Device> device;
    if (given_device != Py_None) device_from_python(given_device, device.emplace());
    jit::LoadedProgram loaded;
    if (given_bytes == Py_None) {
      const ReleaseGil working;
      loaded = jit::read_program(*jit::ByteSource::file(path), path, device);
    } else {
      char* data;
      Py_ssize_t size;
      check_status(PyBytes_AsStringAndSize(given_bytes, &data, &size));
      loaded = jit::read_program(*jit::ByteSource::memory({data, size_t(size)}), "load", device);
    }
    const Handle state = list_of(loaded.state.size(),
                                 [&](size_t i) { return Handle::steal(wrap(loaded.state[i])); });
    const Handle extra = Handle::steal(PyDict_New());
    for (const auto& [name, contents] : loaded.extra) {
      const Handle bytes =
          Handle::steal(PyBytes_FromStringAndSize(contents.data(), Py_ssize_t(contents.size())));
      check_status(PyDict_SetItem(extra.get(), text(name).get(), bytes.get()));
    }
    const Handle code = Handle::steal(capsule_of(std::move(loaded.code), kCode));
    return PyTuple_Pack(3, code.get(), state.get(), extra.get());
  });
}

PyMethodDef functions[] = {
    {"_jit_tracer", make_tracer, METH_VARARGS, nullptr},
    {"_jit_is_tracing", is_tracing, METH_NOARGS, nullptr},
    {"_jit_add_input", add_input, METH_VARARGS, nullptr},
    {"_jit_finish", finish, METH_VARARGS, nullptr},
    {"_jit_watch", watch, METH_VARARGS, nullptr},
    {"_jit_warnings", trace_warnings, METH_O, nullptr},
    {"_jit_call", traced_call, METH_VARARGS, nullptr},
    {"_jit_lines", trace_lines, METH_O, nullptr},
    {"_jit_value_of", value_of, METH_VARARGS, nullptr},
    {"_jit_value_sizes", value_sizes, METH_O, nullptr},
    {"_jit_generalize", generalize, METH_VARARGS, nullptr},
    {"_jit_may_follow", may_follow, METH_VARARGS, nullptr},
    {"_jit_about", about, METH_O, nullptr},
    {"_jit_run", run, METH_VARARGS, nullptr},
    {"_jit_text", code_text, METH_VARARGS, nullptr},
    {"_jit_moved", moved, METH_VARARGS, nullptr},
    {"_jit_save", save, METH_VARARGS, nullptr},
    {"_jit_load", load, METH_VARARGS, nullptr},
    {},
};

}  // namespace

bool init_jit(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0 && init_jit_script(module);
}

}  // namespace rush::py
