// source.cpp: the user's line, found in a few nanoseconds and described when an error needs it.
//
// Note [Finding the line]
// - A place is (number of a code object, offset of the instruction in bytes). Code objects get
//   their number when first seen and are kept alive from then on, so that a place stays readable
//   without owning a reference: nodes are made and freed by threads that hold no GIL. There are as
//   many as the program has functions that record; past kMaxCodes, places are unknown.
// - Frames of this package are skipped: a line of ours helps nobody.
// - Python's public frame API makes a frame object for each frame it shows, which costs more than a
//   small op. The structs below are the first fields of the interpreter's own frames, a shim a
//   version; other versions use the public API. A check at import compares the two and falls back
//   when they disagree.

#include <algorithm>
#include <atomic>
#include <memory>
#include <unordered_map>
#include <vector>

#include "bindings/gil.h"
#include "bindings/handle.h"
#include "bindings/source.h"

#if PY_VERSION_HEX < 0x030B0000
#include <frameobject.h>
#endif

namespace rush::py {

struct KeptCalls {
  size_t count = 0;
  SourcePoint calls[kMostCalls];
};

namespace {

constexpr size_t kMaxCodes = 1 << 16;
constexpr uint32_t kUnit = 2;  // bytes of one instruction

struct Code {
  PyCodeObject* object;  // owned, for good
  bool ours;             // a function of this package
};
// Guarded by the GIL.
std::vector<Code>& codes() {
  static auto* list = new std::vector<Code>(1);  // 0 stands for "unknown"
  return *list;
}
std::unordered_map<PyCodeObject*, uint32_t>& numbers() {
  static auto* map = new std::unordered_map<PyCodeObject*, uint32_t>;
  return *map;
}
// The folder that holds this package, with a slash at the end.
std::string& package_folder() {
  static auto* folder = new std::string;
  return *folder;
}
// The one judge of what is ours: a program's own folder may be called rushlight, too.
bool is_package_file(PyObject* path) {
  const char* text = PyUnicode_AsUTF8(path);
  if (!text) PyErr_Clear();  // a lone surrogate: no file of ours has one in its name
  const std::string& folder = package_folder();
  return text && !folder.empty() && std::string_view(text).starts_with(folder);
}

[[gnu::noinline]] uint32_t number_of_new(PyCodeObject* code) {
  if (codes().size() >= kMaxCodes) return 0;
  Py_INCREF(code);
  codes().push_back({code, is_package_file(code->co_filename)});
  return numbers()[code] = uint32_t(codes().size() - 1);
}

uint32_t number_of(PyCodeObject* code) {
  const auto found = numbers().find(code);
  return found != numbers().end() ? found->second : number_of_new(code);
}

// One level of the interpreter's stack: `code` is null where it is not a Python function.
struct Level {
  PyCodeObject* code;
  uint32_t offset;
  const void* below;
};

#if PY_VERSION_HEX < 0x030B0000  // 3.10

const void* innermost(PyThreadState* state) { return state->frame; }
Level level_of(const void* at) {
  const auto* frame = static_cast<const PyFrameObject*>(at);
  return {frame->f_code, uint32_t(frame->f_lasti) * kUnit, frame->f_back};
}
PyCodeObject* code_of(const void* at) { return static_cast<const PyFrameObject*>(at)->f_code; }
uint32_t offset_in(const void* at, PyCodeObject*) {
  return uint32_t(static_cast<const PyFrameObject*>(at)->f_lasti) * kUnit;
}
#define RUSH_FAST_FRAMES 1

#elif PY_VERSION_HEX < 0x030E0000  // 3.11 to 3.13

struct Frame {
#if PY_VERSION_HEX < 0x030C0000
  void *function, *globals, *builtins, *locals;
  PyCodeObject* code;
  void* frame_object;
  Frame* previous;
#else
  PyCodeObject* code;
  Frame* previous;
  void *function, *globals, *builtins, *locals, *frame_object;
#endif
  const char* instruction;
#if PY_VERSION_HEX >= 0x030C0000
  int stack_top;
  uint16_t return_offset;
  char owner;
  bool is_entry() const { return owner == 3; }  // where C called into Python: no function's
#else
  bool is_entry() const { return false; }
#endif
};

const void* innermost(PyThreadState* state) {
#if PY_VERSION_HEX < 0x030D0000
  return state->cframe->current_frame;
#else
  return state->current_frame;
#endif
}
Level level_of(const void* at) {
  const auto* frame = static_cast<const Frame*>(at);
  // Between Python and C the interpreter keeps frames of its own, some without a code object.
  auto* code = frame->is_entry() ? nullptr : frame->code;
  if (!code || !PyCode_Check(reinterpret_cast<PyObject*>(code))) code = nullptr;
  const int64_t offset = code ? frame->instruction - code->co_code_adaptive : 0;
  const int64_t size = code ? Py_SIZE(code) * kUnit : 0;
  if (offset < 0 || offset >= size) code = nullptr;
  return {code, uint32_t(offset), frame->previous};
}
PyCodeObject* code_of(const void* at) { return static_cast<const Frame*>(at)->code; }
uint32_t offset_in(const void* at, PyCodeObject* code) {
  return uint32_t(static_cast<const Frame*>(at)->instruction - code->co_code_adaptive);
}
#define RUSH_FAST_FRAMES 1

#endif

bool g_fast = false;
// initial-exec: one fixed offset from the thread pointer instead of a call into the loader.
constinit thread_local SourcePoint t_fixed __attribute__((tls_model("initial-exec")));
constinit thread_local bool t_is_fixed __attribute__((tls_model("initial-exec"))) = false;

// Through the public API: slower, and right for every version. Shows calls from the innermost on,
// until visit(point) is false.
template <class F>
void visit_frames(PyThreadState* state, F&& visit) noexcept {
  PyFrameObject* frame = PyThreadState_GetFrame(state);
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const uint32_t number = number_of(code);
#if PY_VERSION_HEX < 0x030B0000
    const int offset = frame->f_lasti * int(kUnit);
#else
    const int offset = PyFrame_GetLasti(frame);
#endif
    Py_DECREF(code);
    const bool more = visit(SourcePoint{number, offset < 0 ? 0 : uint32_t(offset)});
    PyFrameObject* back = more ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    frame = back;
  }
}

SourcePoint slow_here(PyThreadState* state) noexcept {
  SourcePoint innermost_point, found;
  visit_frames(state, [&](SourcePoint point) {
    if (!innermost_point) innermost_point = point;
    if (point && !codes()[point.code].ours) found = point;
    return !found;
  });
  return found ? found : innermost_point;
}

#if RUSH_FAST_FRAMES
// The user's function that asked last: loops come back to it.
PyCodeObject* g_last_code = nullptr;
uint32_t g_last_number = 0;

[[gnu::noinline]] SourcePoint walk(const void* at) noexcept {
  SourcePoint innermost_point;
  while (at) {
    const Level level = level_of(at);
    if (level.code) {
      const uint32_t number = number_of(level.code);
      const SourcePoint point{number, level.offset};
      if (number && !codes()[number].ours) {
        g_last_code = level.code;
        g_last_number = number;
        return point;
      }
      if (!innermost_point) innermost_point = point;
    }
    at = level.below;
  }
  return innermost_point;
}
#endif

SourcePoint here() noexcept {
  if (t_is_fixed) [[unlikely]]
    return t_fixed;
  PyThreadState* state = PyGILState_GetThisThreadState();
  if (!state) return {};  // a thread of the core
#if RUSH_FAST_FRAMES
  if (g_fast) [[likely]] {
    const void* at = innermost(state);
    if (at && code_of(at) == g_last_code) [[likely]]
      return {g_last_number, offset_in(at, g_last_code)};
    return walk(at);
  }
#endif
  return slow_here(state);
}

std::atomic<bool> g_calls_wanted{false};
// The calls that were under way when the GIL was given up, if somebody wanted them; else null.
constinit thread_local KeptCalls* t_kept __attribute__((tls_model("initial-exec"))) = nullptr;

size_t read_calls(PyThreadState* state, SourcePoint* to, size_t most) noexcept {
  size_t n = 0;
  const auto add = [&](SourcePoint point) {
    if (point && !codes()[point.code].ours) to[n++] = point;
    return n < most;
  };
#if RUSH_FAST_FRAMES
  if (g_fast) {
    for (const void* at = innermost(state); at;) {
      const Level level = level_of(at);
      if (level.code && !add({number_of(level.code), level.offset})) break;
      at = level.below;
    }
    return n;
  }
#endif
  visit_frames(state, add);
  return n;
}

size_t calls(SourcePoint* to, size_t most) noexcept {
  if (t_is_fixed) {
    const size_t n = t_kept ? std::min(most, t_kept->count) : 0;
    if (n > 0) std::copy_n(t_kept->calls, n, to);
    return n;
  }
  PyThreadState* state = PyGILState_GetThisThreadState();
  return state ? read_calls(state, to, most) : 0;
}

// "train.py:12 in step: y = x.exp()"
std::string describe(SourcePoint p) {
  std::string text;
  with_gil([&] {
    if (p.code >= codes().size()) return;
    PyObject *type, *value, *trace;  // an error may be on its way already
    PyErr_Fetch(&type, &value, &trace);
    PyCodeObject* code = codes()[p.code].object;
    const int line = PyCode_Addr2Line(code, int(p.offset));
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    const char* name = PyUnicode_AsUTF8(code->co_name);
    if (file && name) {
      text = std::string(file) + ":" + std::to_string(line);
      if (std::string_view(name) != "<module>") text += std::string(" in ") + name;
      const Handle lines = Handle::maybe(PyImport_ImportModule("linecache"));
      const Handle source = Handle::maybe(
          lines ? PyObject_CallMethod(lines.get(), "getline", "Oi", code->co_filename, line)
                : nullptr);
      const char* shown = source ? PyUnicode_AsUTF8(source.get()) : nullptr;
      std::string_view trimmed = shown ? shown : "";
      const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
      while (!trimmed.empty() && blank(trimmed.front())) trimmed.remove_prefix(1);
      while (!trimmed.empty() && blank(trimmed.back())) trimmed.remove_suffix(1);
      if (!trimmed.empty()) text += " `" + std::string(trimmed) + "`";
    }
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
  });
  return text;
}

// Do the structs above describe this interpreter? The module's own import is running, so there is
// at least one frame to look at.
bool fast_frames_work() {
#if RUSH_FAST_FRAMES
  PyThreadState* state = PyThreadState_Get();
  PyFrameObject* frame = PyThreadState_GetFrame(state);
  const void* at = innermost(state);
  bool same = true;
  int seen = 0;
  while (frame && same) {
    Level level{};
    while (at && !(level = level_of(at)).code) at = level.below;
    PyCodeObject* code = PyFrame_GetCode(frame);
    same = at && level.code == code;
#if PY_VERSION_HEX >= 0x030B0000
    same = same && int(level.offset) == PyFrame_GetLasti(frame);
#endif
    Py_DECREF(code);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
    if (at) at = level.below;
    ++seen;
  }
  Py_XDECREF(frame);
  return same && seen > 0;
#else
  return false;
#endif
}

// _source_here() -> str: the caller's line as errors would name it, or "" (for tests).
PyObject* source_here_(PyObject*, PyObject*) {
  return guarded([] { return PyUnicode_FromString(describe(here()).c_str()); });
}
// _set_source_lines("fast" | "public" | "off") -> bool: the way lines are found; False when it is
// not to be had. For tests and measurements.
PyObject* set_source_lines(PyObject*, PyObject* way) {
  return guarded([&] {
    const std::string_view name = text_of(way);
    g_fast = name == "fast" && fast_frames_work();
    g_source_host.here = name == "off" ? nullptr : here;
    return PyBool_FromLong(g_fast || name != "fast");
  });
}

// _is_package_file(path) -> bool: is it a source file of this package, as code objects name it?
PyObject* is_package_file_(PyObject*, PyObject* path) {
  return guarded([&] {
    check(PyUnicode_Check(path), ErrorKind::Type, "_is_package_file", "expected a str, got ",
          type_name(path));
    return PyBool_FromLong(is_package_file(path));
  });
}

PyMethodDef functions[] = {
    {"_is_package_file", is_package_file_, METH_O, nullptr},
    {"_source_here", source_here_, METH_NOARGS, nullptr},
    {"_set_source_lines", set_source_lines, METH_O, nullptr},
    {},
};

}  // namespace

void want_calls(bool on) { g_calls_wanted = on; }

std::optional<SourceLine> source_line(SourcePoint p) {
  if (!p || p.code >= codes().size()) return {};
  PyCodeObject* code = codes()[p.code].object;
  return SourceLine{code->co_filename, code->co_name, PyCode_Addr2Line(code, int(p.offset))};
}

bool runs_without_gil() { return t_is_fixed; }

FixedSource::FixedSource(bool fixed)
    : saved_(t_fixed), saved_kept_(t_kept), was_fixed_(t_is_fixed) {
  if (fixed) {
    t_fixed = here();
    if (g_calls_wanted.load(std::memory_order_relaxed)) [[unlikely]] {
      auto kept = std::make_unique<KeptCalls>();
      kept->count = calls(kept->calls, kMostCalls);
      t_kept = kept.release();
    }
  }
  t_is_fixed = fixed;
}
FixedSource::~FixedSource() {
  if (t_kept != saved_kept_) {
    delete t_kept;
    t_kept = saved_kept_;
  }
  t_fixed = saved_;
  t_is_fixed = was_fixed_;
}

bool init_source(PyObject* module) {
  const Handle package = Handle::maybe(PyImport_ImportModule("rushlight"));
  const Handle file =
      Handle::maybe(package ? PyObject_GetAttrString(package.get(), "__file__") : nullptr);
  const char* path = file ? PyUnicode_AsUTF8(file.get()) : nullptr;
  PyErr_Clear();
  if (path) {
    const std::string_view view(path);
    package_folder() = std::string(view.substr(0, view.rfind('/') + 1));
  }
  g_fast = fast_frames_work();
  g_source_host = {here, calls, describe};
  return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace rush::py
