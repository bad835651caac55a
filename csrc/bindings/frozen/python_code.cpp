#include "bindings/frozen/python_code.h"

#include <algorithm>

#if PY_VERSION_HEX < 0x030B0000
#include <frameobject.h>
#endif

namespace rush::py {
namespace {

// Folders whose code nobody changes while a program runs, with a slash at the end.
struct LibraryFolders {
  std::vector<std::string> folders;
  std::string site;  // of other people's packages, which may lie inside Python's own

  LibraryFolders() {
    const auto folder_of = [](const char* module) -> std::string {
      const Handle m = Handle::maybe(PyImport_ImportModule(module));
      const Handle file = m ? Handle::maybe(PyObject_GetAttrString(m.get(), "__file__")) : Handle();
      PyErr_Clear();
      if (!file || !PyUnicode_Check(file.get())) return {};
      const std::string path(text_of(file.get()));
      return path.substr(0, path.rfind('/') + 1);
    };
    for (const char* module : {"rushlight", "os"}) folders.push_back(folder_of(module));
  }
  bool holds(std::string_view path) const {
    if (path.starts_with("<frozen ")) return true;
    if (path.find("/site-packages/numpy/") != std::string_view::npos) return true;
    if (!folders[0].empty() && path.starts_with(folders[0])) return true;
    return !folders[1].empty() && path.starts_with(folders[1]) &&
           path.find("-packages/") == std::string_view::npos;
  }
};
bool is_library_path(PyObject* path) {
  static const auto* folders = new LibraryFolders;
  const char* text = PyUnicode_Check(path) ? PyUnicode_AsUTF8(path) : nullptr;
  if (!text) PyErr_Clear();
  return text && folders->holds(text);
}

template <size_t N>
bool among(std::string_view name, const char* const (&names)[N]) {
  return std::ranges::any_of(names, [&](const char* n) { return name == n; });
}
std::string_view first_part(std::string_view dotted) { return dotted.substr(0, dotted.find('.')); }

std::string_view module_name(PyObject* module) {
  const char* name = PyModule_GetName(module);
  if (!name) PyErr_Clear();
  return name ? name : "";
}

// What a replay would leave out, and nobody would see: output, input, clocks, Python's random numbers.
// Empty for all else.
std::string impurity(PyObject* callable) {
  if (!PyCFunction_Check(callable)) return {};
  const std::string_view name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  PyObject* self = PyCFunction_GET_SELF(callable);
  if (!self) return {};
  if (PyModule_Check(self)) {
    const std::string_view module = module_name(self);
    static constexpr const char* builtins[] = {"print", "input", "open", "breakpoint"};
    static constexpr const char* clocks[] = {
        "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "sleep"};
    if (module == "builtins" && among(name, builtins)) return concat(name, "()");
    static constexpr const char* system[] = {"system", "fork", "write", "kill", "urandom"};
    if (module == "time" && among(name, clocks)) return concat("time.", name, "()");
    if (module == "posix" && among(name, system)) return concat("os.", name, "()");
    if (module == "_thread" && name.starts_with("start_")) return "a thread";
    return {};
  }
  static constexpr const char* days[] = {"now", "today", "utcnow"};
  if (PyType_Check(self) && among(name, days)) return concat("a clock's ", name, "()");
  const std::string_view type = Py_TYPE(self)->tp_name;
  if (type.starts_with("numpy.random")) return "a random number of NumPy's";
  if (name == "put" && type.ends_with("Queue")) return "work for another thread";
  if (name == "write" && type.ends_with("IOWrapper")) return "writing to a file";
  static constexpr const char* draws[] = {"random", "getrandbits"};
  if (type.ends_with("Random") && among(name, draws)) return "a random number of Python's";
  return {};
}

int on_event(PyObject* capsule, PyFrameObject* frame, int what, PyObject* callable) {
  auto* to = static_cast<ExecutedCode*>(PyCapsule_GetPointer(capsule, nullptr));
  if (!to) return -1;
  if (what == PyTrace_CALL) {
    const Handle code = Handle::maybe(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    if (to->set.contains(code.get()) || !is_users_code(code.get())) return 0;
#if PY_VERSION_HEX >= 0x030B0000
    const Handle globals = Handle::maybe(PyFrame_GetGlobals(frame));
#else
    const Handle globals = Handle::borrow(frame->f_globals);
#endif
    to->add(code.get(), globals.get());
  } else if (what == PyTrace_C_CALL && to->impure.empty()) {
    to->impure = impurity(callable);
    if (!to->impure.empty()) to->impure += at_source(source_here());
  }
  return 0;
}

}  // namespace

void ExecutedCode::add(PyObject* code, PyObject* globals) {
  if (set.insert(code).second) all.push_back({Handle::borrow(code), Handle::borrow(globals)});
}

bool CodeWatch::possible() { return PyThreadState_Get()->c_profilefunc == nullptr; }
CodeWatch::CodeWatch(ExecutedCode& to)
    : capsule_(Handle::steal(PyCapsule_New(&to, nullptr, nullptr))) {
  PyEval_SetProfile(on_event, capsule_.get());
}
CodeWatch::~CodeWatch() {
  // Somebody who began to profile meanwhile goes on.
  if (PyThreadState_Get()->c_profilefunc == on_event) PyEval_SetProfile(nullptr, nullptr);
}

bool is_users_code(PyObject* code) {
  return !is_library_path(reinterpret_cast<PyCodeObject*>(code)->co_filename);
}
bool is_library_module(PyObject* module) {
  const Handle file = Handle::maybe(PyModule_GetFilenameObject(module));
  if (!file) {
    PyErr_Clear();
    return module_name(module) != "__main__";  // written in C, or a namespace
  }
  return is_library_path(file.get());
}
bool is_of_the_library(PyTypeObject* type) {
  static constexpr const char* machinery[] = {
      "logging", "threading",  "_thread", "io",         "_io",       "multiprocessing", "asyncio",
      "queue",   "concurrent", "socket",  "subprocess", "tempfile",  "unittest",        "_pytest",
      "pytest",  "tqdm",       "weakref", "inspect",    "importlib", "random",          "re"};
  const Handle module =
      Handle::maybe(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__module__"));
  if (!module || !PyUnicode_Check(module.get())) {
    PyErr_Clear();
    return false;
  }
  const std::string_view name = text_of(module.get());
  return among(first_part(name), machinery) || name.starts_with("rushlight.compiler.");
}

PyObject* function_behind(PyObject* o) {
  if (PyFunction_Check(o)) return o;
  const char* attribute = nullptr;
  if (Py_TYPE(o) == &PyStaticMethod_Type || Py_TYPE(o) == &PyClassMethod_Type)
    attribute = "__func__";
  else if (Py_TYPE(o) == &PyProperty_Type)
    attribute = "fget";
  if (!attribute) return nullptr;
  const Handle found = Handle::steal(PyObject_GetAttrString(o, attribute));
  return PyFunction_Check(found.get()) ? found.get() : nullptr;  // `o` keeps it
}

bool is_partial(PyObject* o) {
  static PyObject* type = [] {
    const Handle functools = Handle::steal(PyImport_ImportModule("functools"));
    return PyObject_GetAttrString(functools.get(), "partial");
  }();
  return reinterpret_cast<PyObject*>(Py_TYPE(o)) == type;
}

namespace {

struct Opcodes {
  int load_global = -1, load_name = -1, extended = -1;
  Opcodes() {
    const Handle module = Handle::steal(PyImport_ImportModule("opcode"));
    const Handle map = Handle::steal(PyObject_GetAttrString(module.get(), "opmap"));
    const auto number = [&](const char* name) {
      PyObject* found = PyDict_GetItemString(map.get(), name);
      return found ? int(PyLong_AsLong(found)) : -1;
    };
    load_global = number("LOAD_GLOBAL");
    load_name = number("LOAD_NAME");
    extended = number("EXTENDED_ARG");
  }
};

}  // namespace

Handle global_names(PyObject* code) {
  static const auto* opcodes = new Opcodes;
  PyObject* names = reinterpret_cast<PyCodeObject*>(code)->co_names;
  const Handle bytes = Handle::steal(PyObject_GetAttrString(code, "co_code"));
  char* text;
  Py_ssize_t size;
  check_status(PyBytes_AsStringAndSize(bytes.get(), &text, &size));
  Handle found = Handle::steal(PySet_New(nullptr));
  size_t argument = 0;
  for (Py_ssize_t i = 0; i + 1 < size; i += 2) {
    const int op = uint8_t(text[i]);
    argument = argument << 8 | uint8_t(text[i + 1]);
    if (op == opcodes->extended) continue;
#if PY_VERSION_HEX >= 0x030B0000
    const size_t index = op == opcodes->load_global ? argument >> 1 : argument;
#else
    const size_t index = argument;
#endif
    if ((op == opcodes->load_global || op == opcodes->load_name) &&
        index < size_t(PyTuple_GET_SIZE(names)))
      check_status(PySet_Add(found.get(), PyTuple_GET_ITEM(names, Py_ssize_t(index))));
    argument = 0;
  }
  return found;
}

bool holds_constant(PyObject* code, PyObject* constant) {
  PyObject* constants = reinterpret_cast<PyCodeObject*>(code)->co_consts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
    if (PyTuple_GET_ITEM(constants, i) == constant) return true;
  }
  return false;
}

std::string shown_code(PyObject* code) {
  const auto* c = reinterpret_cast<PyCodeObject*>(code);
  const std::string path(text_of(c->co_filename));
  return concat(text_of(c->co_name), " (", path.substr(path.rfind('/') + 1), ":", c->co_firstlineno,
                ")");
}

std::string shown_value(PyObject* o) {
  const Handle text = Handle::maybe(PyObject_Repr(o));
  PyErr_Clear();
  std::string shown(text ? text_of(text.get()) : "?");
  if (shown.size() > 80) shown = shown.substr(0, 77) + "...";
  return shown;
}

}  // namespace rush::py
