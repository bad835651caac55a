// profiler.cpp: recordings from Python (rushlight/profiler), as plain lists of tuples.
#include "profiler/session.h"

#include <bit>
#include <map>
#include <string>
#include <unordered_set>

#include "bindings/execution_trace.h"
#include "bindings/handle.h"
#include "bindings/nvtx.h"
#include "bindings/source.h"
#include "bindings/tensor/tensor_object.h"
#include "core/layout.h"

namespace rush::py {
namespace {

using profiler::Event;
using profiler::Session;
using profiler::ThreadBuffer;
using SessionPointer = std::shared_ptr<Session>;

constexpr const char* kCapsule = "rushlight.profiler.session";
int g_sessions_with_calls = 0;  // with the GIL

SessionPointer& session_of(PyObject* capsule) {
  auto* p = static_cast<SessionPointer*>(PyCapsule_GetPointer(capsule, kCapsule));
  if (!p) throw PythonError{};
  return *p;
}

void end_session(Session& session) {
  if (session.stopped()) return;
  stream::remove_listener(&session);
  session.stop();
  if (session.wanted() & profiler::kStacks) want_calls(--g_sessions_with_calls > 0);
}

// _profiler_start(wanted) -> session: records what this thread does from now on, and the threads
// that call _profiler_watch_thread.
PyObject* start(PyObject*, PyObject* wanted) {
  return guarded([&] {
    const long bits = PyLong_AsLong(wanted);
    if (bits == -1 && PyErr_Occurred()) throw PythonError{};
    auto session = std::make_unique<SessionPointer>(std::make_shared<Session>(uint32_t(bits)));
    const Handle capsule = Handle::steal(PyCapsule_New(session.get(), kCapsule, [](PyObject* c) {
      auto* p = static_cast<SessionPointer*>(PyCapsule_GetPointer(c, kCapsule));
      end_session(**p);
      delete p;
    }));
    const SessionPointer& kept = *session.release();
    if (kept->wanted() & profiler::kStacks) want_calls(++g_sessions_with_calls > 0);
    if (!(kept->wanted() & profiler::kNoOps)) {
      stream::add_listener(kept);
      stream::watch_this_thread();
    }
    return Py_NewRef(capsule.get());
  });
}

PyObject* stop(PyObject*, PyObject* capsule) {
  return guarded([&] {
    Session& session = *session_of(capsule);
    stream::remove_listener(&session);
    {
      const ReleaseGil released;  // what is queued on GPUs is waited for
      session.stop_devices();
    }
    end_session(session);
    return Py_NewRef(Py_None);
  });
}

Handle tuple_of(std::span<const int64_t> words, bool floating = false) {
  Handle tuple = Handle::steal(PyTuple_New(Py_ssize_t(words.size())));
  for (size_t i = 0; i < words.size(); ++i) {
    PyObject* item = floating ? PyFloat_FromDouble(std::bit_cast<double>(words[i]))
                              : PyLong_FromLongLong(words[i]);
    if (!item) throw PythonError{};
    PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(i), item);
  }
  return tuple;
}

Handle made(const char* format, auto... items) {
  return Handle::steal(Py_BuildValue(format, items...));
}

// (dtype or None, sizes, strides)
Handle shown_tensor(const profiler::PackedTensor& t) {
  const Handle sizes = tuple_of(t.sizes), strides = tuple_of(t.strides);
  if (t.dtype < 0) return made("(OOO)", Py_None, sizes.get(), strides.get());
  const std::string dtype(name(DType(t.dtype)));
  return made("(sOO)", dtype.c_str(), sizes.get(), strides.get());
}

Handle list_of(size_t n, auto&& item) {
  Handle list = Handle::steal(PyList_New(Py_ssize_t(n)));
  for (size_t i = 0; i < n; ++i) PyList_SET_ITEM(list.get(), Py_ssize_t(i), item(i).release());
  return list;
}

// None, or (kind, what): a "tensor", a list of "tensors", a "number", a "bool", a list of "numbers".
Handle shown_input(const profiler::PackedInput& in) {
  using Tag = Value::Tag;
  switch (in.tag) {
    case Tag::Tensor:
      return made("(sO)", "tensor", shown_tensor(in.tensors[0]).get());
    case Tag::Tensors: {
      const Handle all =
          list_of(in.tensors.size(), [&](size_t i) { return shown_tensor(in.tensors[i]); });
      return made("(sO)", "tensors", all.get());
    }
    case Tag::Ints:
    case Tag::Floats:
      return made("(sO)", "numbers", tuple_of(in.words, in.floating).get());
    case Tag::Bool:
      return made("(sO)", "bool", in.words[0] ? Py_True : Py_False);
    case Tag::Scalar:
    case Tag::Float:
    case Tag::Int:
      return made("(sO)", "number", PyTuple_GET_ITEM(tuple_of(in.words, in.floating).get(), 0));
    default:
      return Handle::borrow(Py_None);
  }
}

// Tuples of events. Lines are shown as (file, line, function), each made once.
class Shown {
 public:
  Handle event(const ThreadBuffer& thread, const Event& e) {
    const int64_t end = e.end.load(std::memory_order_acquire);
    const bool is_op = e.kind == StreamKind::Op;
    Handle inputs = Handle::borrow(Py_None), calls = Handle::borrow(Py_None);
    if (e.inputs) {
      const auto unpacked = profiler::unpack_inputs(e.inputs);
      inputs = list_of(unpacked.size(), [&](size_t i) { return shown_input(unpacked[i]); });
    }
    if (e.calls) calls = list_of(e.num_calls, [&](size_t i) { return place(e.calls[i]); });
    // What only the end tells is not there yet where there is none, except a node of its own.
    const bool has_node = (end != 0 || e.kind == StreamKind::Node) && e.node != 0;
    const long long zero = 0;
    return made("(issILLLOLLKLOOOKK)", int(e.kind) + (e.part == NodeObserver::Part::Apply ? 4 : 0),
                is_op ? e.entry->name : e.name->c_str(), is_op ? e.entry->overload : "",
                static_cast<unsigned int>(thread.number), static_cast<long long>(thread.system_id),
                static_cast<long long>(e.begin), static_cast<long long>(end),
                end != 0 && e.failed ? Py_True : Py_False,
                end ? static_cast<long long>(e.flops) : zero,
                end ? static_cast<long long>(e.bytes) : zero,
                static_cast<unsigned long long>(has_node ? e.node : 0),
                has_node ? static_cast<long long>(e.sequence) : -1LL, place(e.source).get(),
                calls.get(), inputs.get(), static_cast<unsigned long long>(e.tag),
                static_cast<unsigned long long>(e.number));
  }

 private:
  Handle place(SourcePoint p) {
    Handle& known = places_[{p.code, p.offset}];
    if (!known) {
      const auto line = source_line(p);
      known =
          line ? made("(OiO)", line->file, line->line, line->function) : Handle::borrow(Py_None);
    }
    return known;
  }
  std::map<std::pair<uint32_t, uint32_t>, Handle> places_;
};

// _profiler_events(session) -> (begin, end, wall clock at begin, [(kind, name, overload, thread,
// system's thread, begin, end, failed, flops, bytes, node, sequence, line, calls, inputs,
// tag, number), ...]). Times are in ns; the end is now, while it records.
PyObject* events(PyObject*, PyObject* capsule) {
  return guarded([&] {
    Shown shown;
    const Session& session = *session_of(capsule);
    const Handle list = Handle::steal(PyList_New(0));
    session.for_each([&](const ThreadBuffer& thread, const Event& e) {
      check_status(PyList_Append(list.get(), shown.event(thread, e).get()));
    });
    return made("(LLLO)", static_cast<long long>(session.begin()),
                static_cast<long long>(session.end()), static_cast<long long>(session.wall_begin()),
                list.get())
        .release();
  });
}

// _profiler_activities(session) -> (why nothing is known of devices or None, how many were lost,
// [(kind, name, device, stream, correlation, begin, end, number of the event, bytes, grid, block,
// registers, shared bytes, graph), ...]). Kinds are those of Activity.
PyObject* activities(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const Session& session = *session_of(capsule);
    const Activities& found = session.activities();
    std::vector<Handle> names;
    for (const std::string& name : found.names)
      names.push_back(Handle::steal(
          PyUnicode_DecodeUTF8(name.data(), Py_ssize_t(name.size()), "backslashreplace")));
    const Handle list = list_of(found.all.size(), [&](size_t i) {
      const Activity& a = found.all[i];
      return made("(iOiiILLKK(iii)(iii)III)", int(a.kind), names[a.name].get(), a.device, a.stream,
                  a.correlation, static_cast<long long>(a.begin), static_cast<long long>(a.end),
                  static_cast<unsigned long long>(a.event),
                  static_cast<unsigned long long>(a.bytes), a.grid[0], a.grid[1], a.grid[2],
                  a.block[0], a.block[1], a.block[2], a.registers, a.shared_bytes, a.graph);
    });
    const std::string& why = session.devices_missing();
    return made("(zKO)", why.empty() ? nullptr : why.c_str(),
                static_cast<unsigned long long>(found.lost), list.get())
        .release();
  });
}

// _profiler_prepare_devices() -> why GPUs cannot be recorded, or None.
PyObject* prepare_devices(PyObject*, PyObject*) {
  return guarded([] {
    const std::string why = profiler::prepare_devices();
    return made("z", why.empty() ? nullptr : why.c_str()).release();
  });
}

// Records as bytes, six signed 64-bit words each (see MemoryRecord), and what their lines are:
// {source: (file, line, function)}.
std::pair<Handle, Handle> shown_records(const std::vector<profiler::MemoryRecord>& records) {
  Handle lines = Handle::steal(PyDict_New());
  std::unordered_set<int64_t> seen{0};
  for (const auto& record : records) {
    if (!seen.insert(record.source).second) continue;
    const auto bits = uint64_t(record.source);
    const auto line = source_line({uint32_t(bits >> 32), uint32_t(bits)});
    if (!line) continue;
    const Handle key = made("L", static_cast<long long>(record.source));
    const Handle place = made("(OiO)", line->file, line->line, line->function);
    check_status(PyDict_SetItem(lines.get(), key.get(), place.get()));
  }
  const auto size = Py_ssize_t(records.size() * sizeof(profiler::MemoryRecord));
  return {
      Handle::steal(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(records.data()), size)),
      std::move(lines)};
}

// The history of memory that cuda.memory._record_memory_history keeps; with the GIL.
std::unique_ptr<profiler::MemoryLog> g_history;

// _memory_history_start(limit): keeps about as many records, from now on.
PyObject* start_history(PyObject*, PyObject* limit) {
  return guarded([&] {
    const size_t most = PyLong_AsSize_t(limit);
    if (most == size_t(-1) && PyErr_Occurred()) throw PythonError{};
    g_history.reset();
    g_history = std::make_unique<profiler::MemoryLog>(most);
    return Py_NewRef(Py_None);
  });
}

PyObject* stop_history(PyObject*, PyObject*) {
  return guarded([&] {
    g_history.reset();
    return Py_NewRef(Py_None);
  });
}

// _memory_history() -> (records, lines), or None where none is kept.
PyObject* history(PyObject*, PyObject*) {
  return guarded([&] {
    if (!g_history) return Py_NewRef(Py_None);
    const auto [records, lines] = shown_records(g_history->records());
    return made("(OO)", records.get(), lines.get()).release();
  });
}

// _profiler_memory(session) -> (records, lines, {thread of a record: number of the thread}); None
// without profile_memory.
PyObject* memory(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const Session& session = *session_of(capsule);
    if (!session.memory()) return Py_NewRef(Py_None);
    const auto records = session.memory()->records();
    const Handle threads = Handle::steal(PyDict_New());
    for (const auto& [handle, number] : session.threads()) {
      const Handle key = made("L", static_cast<long long>(handle));
      check_status(PyDict_SetItem(threads.get(), key.get(), made("I", number).get()));
    }
    const auto [bytes, lines] = shown_records(records);
    return made("(OOO)", bytes.get(), lines.get(), threads.get()).release();
  });
}

// _profiler_mark(session, tensor, kind): says what the tensor's memory is. Memory that nobody has
// asked for yet stays so.
PyObject* mark(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    check(n == 3, ErrorKind::Type, "_profiler_mark", "expected a session, a tensor and a kind");
    const Session& session = *session_of(args[0]);
    const long kind = PyLong_AsLong(args[2]);
    if (kind == -1 && PyErr_Occurred()) throw PythonError{};
    check(is_tensor(args[1]), ErrorKind::Type, "_profiler_mark", "expected a tensor");
    const Tensor held = arranged_form(unwrap(args[1]));
    const Storage* storage = held.impl()->storage.load();
    if (storage && session.memory()) session.memory()->mark(*storage, kind);
    return Py_NewRef(Py_None);
  });
}

PyObject* watch_thread(PyObject*, PyObject*) {
  return guarded([] {
    stream::watch_this_thread();
    return Py_NewRef(Py_None);
  });
}

PyObject* watches_thread(PyObject*, PyObject*) {
  return PyBool_FromLong(stream::watches_this_thread());
}

// _profiler_begin_range(name, tag) -> int: 0 when nobody records this thread.
PyObject* begin_range(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    check(n == 2, ErrorKind::Type, "record_function", "expected a name and a tag");
    if (!stream::watches_this_thread()) return PyLong_FromLong(0);
    const long tag = PyLong_AsLong(args[1]);
    if (tag == -1 && PyErr_Occurred()) throw PythonError{};
    return PyLong_FromUnsignedLongLong(stream::begin_range(text_of(args[0]), uint64_t(tag)));
  });
}

PyObject* end_range(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    check(n == 2, ErrorKind::Type, "record_function", "expected a range and whether it failed");
    const unsigned long long range = PyLong_AsUnsignedLongLong(args[0]);
    if (range == static_cast<unsigned long long>(-1) && PyErr_Occurred()) throw PythonError{};
    stream::end_range(range, args[1] == Py_True);
    return Py_NewRef(Py_None);
  });
}

PyObject* live_bytes(PyObject*, PyObject*) { return PyLong_FromLongLong(profiler::live_bytes()); }

PyMethodDef functions[] = {
    {"_profiler_start", start, METH_O, nullptr},
    {"_memory_history_stop", stop_history, METH_NOARGS, nullptr},
    {"_profiler_mark", as_method(mark), METH_FASTCALL, nullptr},
    {"_profiler_stop", stop, METH_O, nullptr},
    {"_memory_history", history, METH_NOARGS, nullptr},
    {"_profiler_begin_range", as_method(begin_range), METH_FASTCALL, nullptr},
    {"_profiler_events", events, METH_O, nullptr},
    {"_profiler_watch_thread", watch_thread, METH_NOARGS, nullptr},
    {"_profiler_end_range", as_method(end_range), METH_FASTCALL, nullptr},
    {"_profiler_memory", memory, METH_O, nullptr},
    {"_profiler_watches_thread", watches_thread, METH_NOARGS, nullptr},
    {"_memory_history_start", start_history, METH_O, nullptr},
    {"_profiler_live_bytes", live_bytes, METH_NOARGS, nullptr},
    {},
};

PyMethodDef functions_of_devices[] = {
    {"_profiler_activities", activities, METH_O, nullptr},
    {"_profiler_prepare_devices", prepare_devices, METH_NOARGS, nullptr},
    {},
};

}  // namespace

bool init_profiler(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0 &&
         PyModule_AddFunctions(module, functions_of_devices) == 0 && init_nvtx(module) &&
         init_execution_trace(module);
}

}  // namespace rush::py
