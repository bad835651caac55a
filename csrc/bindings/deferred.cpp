// deferred.cpp: pending results from Python (rushlight/compiler).
#include "device/deferred.h"

#include "bindings/handle.h"
#include "bindings/source.h"
#include "core/layout.h"
#include "core/modes.h"
#include "device/origin.h"

namespace rush::py {
namespace {

using deferred::Report;

Handle made(const char* format, auto... items) {
  return Handle::steal(Py_BuildValue(format, items...));
}

Handle place(SourcePoint p) {
  const auto line = source_line(p);
  return line ? made("(OiO)", line->file, line->line, line->function) : Handle::borrow(Py_None);
}

template <class Items, class Show>
Handle list_of(const Items& items, Show show) {
  Handle list = Handle::steal(PyList_New(0));
  for (const auto& item : items) check_status(PyList_Append(list.get(), show(item).get()));
  return list;
}

// (name, line, kept in memory)
Handle shown_step(const Report::Step& s) {
  return made("(sOO)", s.name.c_str(), place(s.source).get(), s.kept ? Py_True : Py_False);
}

// (fused, sizes, inputs, steps)
Handle shown_group(const Report::Group& g) {
  const Handle sizes =
      list_of(g.sizes, [](int64_t n) { return Handle::steal(PyLong_FromLongLong(n)); });
  return made("(OOnO)", g.fused ? Py_True : Py_False, sizes.get(), Py_ssize_t(g.inputs),
              list_of(g.steps, shown_step).get());
}

// (why, line, groups, steps that were dropped)
Handle shown_flush(const Report::Flush& f) {
  return made("(sOOO)", f.why.c_str(), place(f.source).get(), list_of(f.groups, shown_group).get(),
              list_of(f.dropped, shown_step).get());
}

long long integer(PyObject* o) {
  const long long n = PyLong_AsLongLong(o);
  if (n == -1 && PyErr_Occurred()) throw PythonError{};
  return n;
}

// _defer(on, least_elements, wait_for_code, recompute) -> what was before, to be given to the next call.
// Before it is off, what waits is run.
PyObject* defer(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    check(n == 4, ErrorKind::Type, "_defer", "expected four arguments");
    const bool on = args[0] == Py_True, wait = args[2] == Py_True;
    const long long least = integer(args[1]), recompute = integer(args[3]);
    deferred::Settings& settings = deferred::settings();
    const Handle before = made("(OLOL)", t_modes & kDefer ? Py_True : Py_False,
                               static_cast<long long>(settings.least_elements),
                               settings.wait_for_code ? Py_True : Py_False,
                               static_cast<long long>(settings.recompute));
    set_mode(kDefer, on);
    struct Restored {  // also where what waits cannot be run
      deferred::Settings &settings, then;
      ~Restored() { settings = then; }
    } const restored{settings, {least, recompute, wait}};
    if (!on) deferred::flush("the compiled function returns");
    return Py_NewRef(before.get());
  });
}

PyObject* is_deferring(PyObject*, PyObject*) { return PyBool_FromLong(t_modes & kDefer); }

PyObject* flush(PyObject*, PyObject* why) {
  return guarded([&] {
    deferred::flush(text_of(why).data());
    return Py_NewRef(Py_None);
  });
}

// _deferred_counters() -> (steps, dropped, passes, fused, unfused, flushes, not kept) of this
// thread, and how many are to be told before memory is written to, in all threads.
PyObject* counters(PyObject*, PyObject*) {
  return guarded([] {
    const deferred::Counters c = deferred::counters();
    const auto number = [](int64_t n) { return static_cast<long long>(n); };
    return made("(LLLLLLLi)", number(c.steps), number(c.dropped), number(c.passes), number(c.fused),
                number(c.unfused), number(c.flushes), number(c.not_kept), g_write_watchers.load())
        .release();
  });
}

// _deferred_report(function) -> (its result, what was flushed meanwhile on this thread).
PyObject* report(PyObject*, PyObject* function) {
  return guarded([&] {
    Report report;
    struct Reporting {
      explicit Reporting(Report* to) { deferred::report_to(to); }
      ~Reporting() { deferred::report_to(nullptr); }
    };
    Handle result;
    {
      const Reporting reporting(&report);
      result = Handle::steal(PyObject_CallNoArgs(function));
    }
    return made("(OO)", result.get(), list_of(report.flushes, shown_flush).get()).release();
  });
}

// _leave_origins(on) -> what was before: whether backward may compute what it need not read. For
// measurements; results do not depend on it.
PyObject* leave_origins(PyObject*, PyObject* on) {
  return guarded([&] {
    const bool before = deferred::leaves_origins();
    deferred::set_leaves_origins(on == Py_True);
    return PyBool_FromLong(before);
  });
}

PyMethodDef functions[] = {
    {"_defer", as_method(defer), METH_FASTCALL, nullptr},
    {"_is_deferring", is_deferring, METH_NOARGS, nullptr},
    {"_flush_deferred", flush, METH_O, nullptr},
    {"_deferred_counters", counters, METH_NOARGS, nullptr},
    {"_deferred_report", report, METH_O, nullptr},
    {"_leave_origins", leave_origins, METH_O, nullptr},
    {},
};

}  // namespace

bool init_deferred(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace rush::py
