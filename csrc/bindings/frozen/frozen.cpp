// frozen.cpp: frozen functions from Python (rushlight/compiler/_frozen.py): which recordings there
// are of one, whether one fits a call, and running it.
//
// Note [Calls of a frozen function]
// - A call looks for a program whose modes and guards fit. None: the call is recorded while Python
//   runs, and becomes one.
// - Calls 2 and 3 of a program, and from then on those whose number is a power of two, run Python
//   and are recorded as well, and must have done the same (an audit). The others are replayed.
// - A program that could not be recorded is kept with the reason: such calls run Python.
// - Where two recordings differ only in numbers that the guards have seen to change in the same way
//   (a learning rate), these become inputs of the program.
#include <bit>
#include <exception>

#include "bindings/call/torch_function.h"
#include "bindings/frozen/guards.h"
#include "core/modes.h"
#include "device/deferred.h"
#include "jit/interpreter.h"
#include "jit/print.h"
#include "jit/tracer.h"
#include "ops/autocast/autocast.h"
#include "trace/stream.h"

namespace rush::py {
namespace {

constexpr const char *kCache = "rushlight.frozen.cache", *kSession = "rushlight.frozen.session";
constexpr size_t kMostPrograms = 32;
constexpr int64_t kFirstCalls = 3;  // that run Python

// The modes that decide what a function does.
struct ModeKey {
  uint32_t modes = 0;
  DType dtype{};
  Device device;
  std::array<std::pair<bool, DType>, kDeviceTypeCount> autocast;
  bool operator==(const ModeKey&) const = default;

  static ModeKey now() {
    constexpr uint32_t mask = kNoGrad | kInferenceMode | kForward | kSavedTensorHooks;
    ModeKey key{t_modes & mask, default_dtype(), default_device(), {}};
    for (int i = 0; i < kDeviceTypeCount; ++i) {
      const bool on = autocast_enabled(DeviceType(i));
      key.autocast[size_t(i)] = {on, on ? autocast_dtype(DeviceType(i)) : DType{}};
    }
    return key;
  }
};

// A number of the recording that follows one that the guards see.
struct FloatUse {
  jit::FloatPlace place;
  std::vector<uint32_t> from;  // which of the guards' floats; several: all of them had its value
};

struct Program {
  ModeKey modes;
  Guards guards;
  jit::Recording recording;
  std::shared_ptr<jit::Graph> graph;  // the recording's, with the numbers of the last call
  std::vector<FloatUse> uses;
  std::vector<double> numbers;  // in `graph`, one per use
  std::unordered_set<const TensorImpl*> state;
  std::vector<std::optional<jit::TensorFacts>> first_look;  // of the positional arguments
  Handle leaves, rebuild;  // the outputs: None stands for the next tensor; how to pack them
  std::string refused;     // why it cannot be replayed
  int64_t calls = 0, replays = 0, audits = 0;
  bool defers = false;

  bool audit_is_next() const {
    return calls < kFirstCalls || std::has_single_bit(uint64_t(calls + 1));
  }
};
using ProgramPointer = std::shared_ptr<Program>;

struct Cache {
  std::vector<ProgramPointer> programs;  // the last used one first
  ExecutedCode known;                    // what ran in any recorded call
  std::string miss;                      // why the last one that was looked at did not fit
};

// What a call looks like to the guards.
struct Call {
  PyObject *function, *also, *args, *kwargs;
  bool fits(Guards& g, std::vector<Tensor>& inputs, std::vector<double>& floats,
            Guards::Leniency leniency = Guards::Leniency::None) const {
    return g.check(function, also, args, kwargs, inputs, floats, leniency);
  }
};

struct Session {
  Call call;
  Handle function, args, kwargs;  // what `call` points to
  ModeKey modes;
  Guards before;
  ExecutedCode executed;
  std::shared_ptr<jit::Recorder> recorder;
  std::unique_ptr<CodeWatch> watch;
  ProgramPointer audited;      // the program that fits already
  ProgramPointer but_numbers;  // one that would fit with other numbers
  int64_t fused_before = 0;
  bool busy = false;                   // it was not recorded, and might be another time
  std::vector<Py_ssize_t> references;  // to the inputs: before, then how many more after
};

template <class T>
T& held(PyObject* capsule, const char* name) {
  auto* p = static_cast<T*>(PyCapsule_GetPointer(capsule, name));
  if (!p) throw PythonError{};
  return *p;
}
template <class T>
PyObject* capsule_of(std::unique_ptr<T> thing, const char* name) {
  PyObject* capsule = PyCapsule_New(thing.get(), name, [](PyObject* c) {
    delete static_cast<T*>(PyCapsule_GetPointer(c, PyCapsule_GetName(c)));
  });
  if (capsule) thing.release();
  return capsule;
}

// ---- finding ----

bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// Of the tensors that the program uses from outside: are they as they were, and none an input?
bool state_fits(const Program& p, const std::vector<Tensor>& inputs, std::string& miss) {
  const jit::Recording& r = p.recording;
  for (size_t i = 0; i < r.state.size(); ++i) {
    if (jit::has_facts(r.state[i], r.state_facts[i])) [[likely]]
      continue;
    miss = concat("a tensor of the function's own: ", jit::shown(jit::facts_of(r.state[i])),
                  ", was ", jit::shown(r.state_facts[i]));
    return false;
  }
  for (const Tensor& t : inputs) {
    if (!p.state.contains(t.impl())) continue;
    miss = "an argument is a tensor that the function uses besides";
    return false;
  }
  return true;
}
bool numbers_fit(const Program& p, const std::vector<double>& floats) {
  for (const FloatUse& use : p.uses) {
    for (const uint32_t k : use.from) {
      if (!same_bits(floats[k], floats[use.from[0]])) return false;
    }
  }
  return true;
}

// Other shapes are the usual reason why a program does not fit: seen without the whole walk.
bool looks_like(const Program& p, PyObject* args) {
  if (size_t(PyTuple_GET_SIZE(args)) != p.first_look.size()) return false;
  for (size_t i = 0; i < p.first_look.size(); ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, Py_ssize_t(i));
    const auto& facts = p.first_look[i];
    if (facts &&
        (!is_tensor(o) || unwrap(o).sizes() != facts->sizes || unwrap(o).dtype() != facts->dtype))
      return false;
  }
  return true;
}
std::vector<std::optional<jit::TensorFacts>> first_look(PyObject* args) {
  std::vector<std::optional<jit::TensorFacts>> looks;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    looks.push_back(is_tensor(o) ? std::optional(jit::facts_of(unwrap(o))) : std::nullopt);
  }
  return looks;
}

struct Found {
  ProgramPointer program;
  std::vector<Tensor> inputs;
  std::vector<double> floats;
};
Found find(Cache& cache, const Call& call, const ModeKey& modes) {
  Found found;
  for (size_t i = 0; i < cache.programs.size(); ++i) {
    ProgramPointer p = cache.programs[i];
    std::string miss;
    if (p->modes != modes)
      miss = "grad mode, inference mode, autocast, the default dtype or device";
    else if (i > 0 && !looks_like(*p, call.args))
      miss = "another one";
    else if (!call.fits(p->guards, found.inputs, found.floats))
      miss = i == 0 ? p->guards.difference() : "another one";
    else if (state_fits(*p, found.inputs, miss) && !numbers_fit(*p, found.floats))
      miss = "numbers that were equal, and changed apart from each other";
    if (!miss.empty()) {
      if (i == 0) cache.miss = std::move(miss);  // what is told is about the last used one
      continue;
    }
    if (i > 0)
      std::rotate(cache.programs.begin(), cache.programs.begin() + long(i),
                  cache.programs.begin() + long(i) + 1);
    found.program = std::move(p);
    return found;
  }
  return found;
}

// ---- replaying ----

void set_numbers(Program& p, const std::vector<double>& floats) {
  for (size_t i = 0; i < p.uses.size(); ++i) {
    const double now = floats[p.uses[i].from[0]];
    if (same_bits(now, p.numbers[i])) continue;
    // Another thread may be running the graph with the old ones.
    if (p.graph.use_count() > 1) p.graph = std::make_shared<jit::Graph>(*p.graph);
    jit::set_float(*p.graph, p.uses[i].place, now);
    p.numbers[i] = now;
  }
}

PyObject* packed(const Program& p, const jit::IValue& output) {
  const auto& tensors = output.elements();
  const Py_ssize_t n = PyTuple_GET_SIZE(p.leaves.get());
  if (p.rebuild.get() == Py_None && n == 1 && tensors.size() == 1)
    return wrap(tensors[0].toTensor());
  const Handle leaves = Handle::steal(PyList_New(n));
  size_t next = 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* leaf = PyTuple_GET_ITEM(p.leaves.get(), i);
    // A constant comes in a tuple of its own.
    PyList_SET_ITEM(leaves.get(), i,
                    leaf == Py_None ? Handle::steal(wrap(tensors[next++].toTensor())).release()
                                    : Py_NewRef(PyTuple_GET_ITEM(leaf, 0)));
  }
  return PyObject_CallOneArg(p.rebuild.get(), leaves.get());
}

// A replay, for whoever observes this thread.
struct SeenReplay {
  uint64_t range = stream::begin_range("frozen function", stream::kStepTag);
  int before = std::uncaught_exceptions();
  ~SeenReplay() { stream::end_range(range, std::uncaught_exceptions() > before); }
};

PyObject* replay(const ProgramPointer& p, const Found& found) {
  set_numbers(*p, found.floats);
  ++p->calls;
  ++p->replays;
  const std::shared_ptr<const jit::Graph> graph = p->graph;
  const std::vector<jit::IValue> inputs(found.inputs.begin(), found.inputs.end());
  jit::IValue output;
  {
    const ReleaseGil working;
    const SeenReplay seen;
    const bool defers = p->defers && !(t_modes & kDefer);
    if (defers) {
      struct Deferring {
        Deferring() { set_mode(kDefer, true); }
        ~Deferring() { set_mode(kDefer, false); }
      };
      {
        const Deferring on;
        output = jit::run(*graph, "frozen", {p->recording.state, p->recording.constants}, inputs);
      }
      deferred::flush("the frozen function returns");
    } else {
      output = jit::run(*graph, "frozen", {p->recording.state, p->recording.constants}, inputs);
    }
  }
  return packed(*p, output);
}

Call call_of(PyObject* const* args) {
  return {args[1], args[2], args[3], PyDict_GET_SIZE(args[4]) ? args[4] : nullptr};
}

// Something that changes calls, and that a recording would not see as Python does.
const char* obstacle() {
  if (jit::is_tracing()) return "a program is being traced";
  if (jit::recorder_here()) return "it is called inside another frozen function, as part of it";
  if (t_modes & kIntercept && !autocast_enabled()) return "vmap or another transform is under way";
  if (in_torch_function_mode()) return "a TorchFunctionMode is entered";
  if (t_modes & (kForward | kSavedTensorHooks))
    return "forward mode or hooks of saved tensors are under way";
  return nullptr;
}

// _frozen_replay(cache, function, also, args, kwargs): what the function would return; the cache
// itself where Python has to run.
PyObject* frozen_replay(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    check(n == 5, ErrorKind::Type, "_frozen_replay", "expected five arguments");
    auto& cache = held<Cache>(args[0], kCache);
    if (cache.programs.empty() || obstacle()) return Py_NewRef(args[0]);
    const Found found = find(cache, call_of(args), ModeKey::now());
    const Program* p = found.program.get();
    if (!p || !p->refused.empty() || p->audit_is_next()) return Py_NewRef(args[0]);
    return replay(found.program, found);
  });
}

// ---- recording ----

void remember(Cache& cache, ProgramPointer p) {
  cache.programs.insert(cache.programs.begin(), std::move(p));
  if (cache.programs.size() > kMostPrograms) cache.programs.pop_back();
}

// _frozen_begin(cache, function, also, args, kwargs) -> a session, or a str: why there is none; in a
// tuple where there never will be one.
PyObject* frozen_begin(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    check(n == 5, ErrorKind::Type, "_frozen_begin", "expected five arguments");
    auto& cache = held<Cache>(args[0], kCache);
    const auto refused = [](std::string_view why) {
      return PyUnicode_FromStringAndSize(why.data(), Py_ssize_t(why.size()));
    };
    if (const char* why = obstacle()) return refused(why);
    if (!CodeWatch::possible()) return refused("a profile function of Python's is installed");
    auto s = std::make_unique<Session>();
    s->call = call_of(args);
    s->function = Handle::borrow(args[1]);
    s->args = Handle::borrow(args[3]);
    s->kwargs = Handle::borrow(args[4]);
    s->modes = ModeKey::now();
    Found found = find(cache, s->call, s->modes);
    if (found.program) {
      if (!found.program->refused.empty()) return refused(found.program->refused);
      s->audited = std::move(found.program);
      set_numbers(*s->audited, found.floats);
    }
    for (size_t i = 0; i < cache.programs.size() && !s->audited && !s->but_numbers; ++i) {
      Program& p = *cache.programs[i];
      std::string ignored;
      if (p.refused.empty() && p.modes == s->modes &&
          s->call.fits(p.guards, found.inputs, found.floats, Guards::Leniency::AnyFloat) &&
          state_fits(p, found.inputs, ignored))
        s->but_numbers = cache.programs[i];
    }
    PyObject* root = PyMethod_Check(args[1]) ? PyMethod_GET_FUNCTION(args[1]) : args[1];
    if (PyFunction_Check(root) && is_users_code(PyFunction_GET_CODE(root)))
      cache.known.add(PyFunction_GET_CODE(root), PyFunction_GET_GLOBALS(root));
    s->before.record(s->call.function, s->call.also, s->call.args, s->call.kwargs, cache.known);
    // As a tuple: there is no use in trying again.
    if (!s->before.problem.empty())
      return Py_BuildValue("(s#)", s->before.problem.data(), Py_ssize_t(s->before.problem.size()));
    for (const Tensor& t : s->before.inputs) {
      if (t.is_batched()) return refused("vmap is under way");
    }
    s->recorder = std::make_shared<jit::Recorder>(s->before.inputs, s->before.reachable);
    s->fused_before = deferred::counters().fused;
    return capsule_of(std::move(s), kSession);
  });
}

std::vector<Py_ssize_t> references_to(const std::vector<Tensor>& tensors) {
  std::vector<Py_ssize_t> counts;
  for (const Tensor& t : tensors) {
    const bool owned = t.impl()->has(TensorImpl::kOwnsPyObject) || !t.impl()->py_object;
    counts.push_back(owned ? 0 : Py_REFCNT(static_cast<PyObject*>(t.impl()->py_object)));
  }
  return counts;
}

// _frozen_start(session): the function is called now.
PyObject* frozen_start(PyObject*, PyObject* capsule) {
  return guarded([&] {
    auto& s = held<Session>(capsule, kSession);
    s.references = references_to(s.before.inputs);
    try {
      s.recorder->start();
    } catch (const Error&) {  // the stream has as many listeners as it can
      s.recorder->refuse("too many threads record at the same time", SourcePoint{});
      s.busy = true;
      return Py_NewRef(Py_None);
    }
    s.watch = std::make_unique<CodeWatch>(s.executed);
    return Py_NewRef(Py_None);
  });
}

// _frozen_stop(session): it has returned, or failed.
PyObject* frozen_stop(PyObject*, PyObject* capsule) {
  return guarded([&] {
    auto& s = held<Session>(capsule, kSession);
    s.watch.reset();
    s.recorder->stop();
    const auto now = references_to(s.before.inputs);
    for (size_t i = 0; i < s.references.size(); ++i) s.references[i] = now[i] - s.references[i];
    return Py_NewRef(Py_None);
  });
}

// A result that Python still holds, though it was not returned; null: there is none.
const Tensor* escaped(const Session& s, const std::vector<Tensor>& outputs) {
  for (const Tensor& t : s.recorder->results()) {
    const auto same = [&](const Tensor& other) { return other.is_same(t); };
    if (t.impl()->py_object && !t.impl()->has(TensorImpl::kOwnsPyObject) &&
        std::ranges::none_of(outputs, same))
      return &t;
  }
  return nullptr;
}

// Does Python hold an input more often than before, besides in the results?
bool keeps_an_input(const Session& s, const std::vector<Tensor>& outputs) {
  for (size_t i = 0; i < s.references.size(); ++i) {
    const auto among = std::ranges::count_if(
        outputs, [&](const Tensor& t) { return t.is_same(s.before.inputs[i]); });
    if (s.references[i] > among) return true;
  }
  return false;
}

enum class Verdict { Recorded, Audited, Merged, Refused, Unstable, Parted };
constexpr const char* kVerdicts[] = {"recorded", "audited",  "merged",
                                     "refused",  "unstable", "parted"};

struct Outcome {
  Verdict verdict;
  std::string text;
};

// Which of the guards' floats explain that a number differs; empty: none.
std::vector<uint32_t> sources_of(const jit::FloatPlace& place, const Guards& one,
                                 const Guards& other) {
  std::vector<uint32_t> from;
  for (size_t k = 0; k < one.floats.size(); ++k) {
    const bool may_vary = one.entries[one.float_entries[k]].may_vary &&
                          other.entries[other.float_entries[k]].may_vary;
    if (may_vary && same_bits(one.floats[k], place.one) && same_bits(other.floats[k], place.other))
      from.push_back(uint32_t(k));
  }
  return from;
}

// Both recordings as one program, if all numbers in which they differ are seen by the guards, and
// all floats that changed turn up in them.
bool merge(Program& p, const Guards& guards, const jit::Recording& recording, PyObject* leaves) {
  if (guards.floats.size() != p.guards.floats.size() ||
      guards.entries.size() != p.guards.entries.size())
    return false;
  const int same = PyObject_RichCompareBool(leaves, p.leaves.get(), Py_EQ);
  check_status(same);
  std::vector<jit::FloatPlace> places;
  if (!same || jit::compare(p.recording, recording, &places)) return false;
  std::vector<FloatUse> uses;
  std::vector<bool> explained(guards.floats.size(), false);
  for (const jit::FloatPlace& place : places) {
    FloatUse use{place, sources_of(place, p.guards, guards)};
    if (use.from.empty()) return false;
    for (const uint32_t k : use.from) explained[k] = true;
    uses.push_back(std::move(use));
  }
  for (size_t k = 0; k < guards.floats.size(); ++k) {
    const bool free = p.guards.entries[p.guards.float_entries[k]].slot >= 0;
    if (!free && !explained[k] && !same_bits(guards.floats[k], p.guards.floats[k])) return false;
  }
  // Numbers that followed before, and do so still.
  for (const FloatUse& old : p.uses) {
    const auto again = [&](const FloatUse& u) {
      return u.place.instruction == old.place.instruction &&
             u.place.argument == old.place.argument && u.place.item == old.place.item;
    };
    if (std::ranges::none_of(uses, again)) uses.push_back(old);
  }
  p.uses = std::move(uses);
  p.numbers.clear();
  p.graph = std::make_shared<jit::Graph>(p.recording.graph);
  for (const FloatUse& use : p.uses) {
    p.numbers.push_back(p.guards.floats[use.from[0]]);
    for (const uint32_t k : use.from) p.guards.entries[p.guards.float_entries[k]].slot = int(k);
  }
  return true;
}

// Is a number, which is an input of the program, one by which the function has now decided?
bool now_fixed(const Program& p, const Guards& guards) {
  for (size_t k = 0; k < guards.floats.size() && k < p.guards.floats.size(); ++k) {
    if (p.guards.entries[p.guards.float_entries[k]].slot >= 0 &&
        !guards.entries[guards.float_entries[k]].may_vary)
      return true;
  }
  return false;
}

Outcome audit(Program& p, jit::Recording& recording, PyObject* leaves) {
  ++p.calls;
  ++p.audits;
  jit::Recording expected = p.recording;
  expected.graph = *p.graph;
  if (const auto parting = jit::compare(expected, recording, nullptr))
    return {Verdict::Parted, parting->how};
  const int same = PyObject_RichCompareBool(leaves, p.leaves.get(), Py_EQ);
  check_status(same);
  if (!same)
    return {Verdict::Parted,
            concat("the function returned ", shown_value(p.leaves.get()), " before, now ",
                   shown_value(leaves), " (None stands for a tensor)")};
  return {Verdict::Audited, ""};
}

// Why the call cannot be replayed; empty: it can. Fills `guards`.
Outcome examine(Cache& cache, Session& s, const std::vector<Tensor>& outputs, Guards& guards) {
  std::vector<Tensor> inputs;
  std::vector<double> floats;
  for (const ExecutedCode::Code& c : s.executed.all) cache.known.add(c.code.get(), c.globals.get());
  if (!s.executed.impure.empty())
    return {Verdict::Refused, concat("a replay would leave out ", s.executed.impure)};
  if (s.recorder->ended()) return {Verdict::Refused, s.recorder->reason()};
  if (!s.call.fits(s.before, inputs, floats, Guards::Leniency::AnyGrad))
    return {Verdict::Unstable, concat("the function itself changed ", s.before.difference())};
  if (const Tensor* t = escaped(s, outputs))
    return {Verdict::Refused, concat("a tensor was kept in Python besides the results, made",
                                     at_source(s.recorder->line_of(*t)))};
  if (keeps_an_input(s, outputs))
    return {Verdict::Refused, "an argument was kept in Python besides the results"};
  if (!(ModeKey::now() == s.modes))
    return {Verdict::Refused, "the function leaves grad mode, autocast or a default changed"};
  for (const Tensor& t : s.recorder->results()) {
    auto* wrapper = static_cast<PyObject*>(t.impl()->py_object);
    if (wrapper && reinterpret_cast<TensorObject*>(wrapper)->dict)
      return {Verdict::Refused, "it gives a tensor attributes"};
    if (wrapper && Py_TYPE(wrapper) != TensorType)
      return {Verdict::Refused,
              concat("it makes a ", type_name(wrapper), ", a subclass of Tensor")};
  }
  guards.record(s.call.function, s.call.also, s.call.args, s.call.kwargs, cache.known);
  if (!guards.problem.empty()) return {Verdict::Refused, guards.problem};
  // Functions that ran for the first time may have led to more tensors.
  if (!std::ranges::equal(guards.inputs, s.before.inputs,
                          [](const Tensor& a, const Tensor& b) { return a.is_same(b); }))
    return {Verdict::Unstable, "an argument is a tensor that the function uses besides"};
  for (GuardEntry& e : guards.entries) {  // as they were before the call
    if (e.kind == GuardEntry::Kind::Input && e.slot < 0) {
      for (const GuardEntry& b : s.before.entries) {
        if (b.kind == e.kind && b.slot < 0 && b.number == e.number)
          guards.facts[e.version] = s.before.facts[b.version];
      }
    }
  }
  return {Verdict::Recorded, ""};
}

// _frozen_end(cache, session, tensors, leaves, rebuild, decided) -> (verdict, text). After
// _frozen_stop. `decided`: the floats among the arguments by which the function decided.
// `rebuild` is a function, None (the one leaf is the result), or a str: why it cannot be packed.
PyObject* frozen_end(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    check(n == 6 && PyList_Check(args[2]) && PyTuple_Check(args[3]), ErrorKind::Type, "_frozen_end",
          "expected a cache, a session, a list, a tuple and a function or a reason");
    auto& cache = held<Cache>(args[0], kCache);
    auto& s = held<Session>(args[1], kSession);
    std::vector<Tensor> outputs;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[2]); ++i)
      outputs.push_back(unwrap(PyList_GET_ITEM(args[2], i)));
    auto p = std::make_shared<Program>();
    p->modes = s.modes;
    p->first_look = first_look(s.call.args);
    if (PyUnicode_Check(args[4])) s.recorder->refuse(std::string(text_of(args[4])), SourcePoint{});
    Outcome outcome = examine(cache, s, outputs, p->guards);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[5]); ++i)
      p->guards.keep_fixed(text_of(PyList_GET_ITEM(args[5], i)));
    if (outcome.verdict == Verdict::Recorded) {
      p->recording = s.recorder->finish(outputs);
      for (size_t i = 0; i < p->recording.state.size(); ++i) {
        const Tensor& t = p->recording.state[i];
        if (p->guards.reachable.contains(t.impl())) continue;
        outcome = {Verdict::Refused, concat("it is not known where a tensor came from, met",
                                            at_source(p->recording.state_met[i]),
                                            "; make it an argument, an attribute or a global")};
        break;
      }
    }
    if (outcome.verdict == Verdict::Recorded && s.audited && now_fixed(*s.audited, p->guards)) {
      std::erase(cache.programs, s.audited);  // and recorded anew
      s.audited.reset();
    }
    if (outcome.verdict == Verdict::Recorded && s.audited) {
      outcome = audit(*s.audited, p->recording, args[3]);
    } else if (outcome.verdict == Verdict::Recorded && s.but_numbers &&
               merge(*s.but_numbers, p->guards, p->recording, args[3])) {
      ++s.but_numbers->calls;
      outcome = {Verdict::Merged, s.but_numbers->guards.difference()};
    } else if (outcome.verdict == Verdict::Recorded) {
      for (const Tensor& t : p->recording.state) p->state.insert(t.impl());
      for (GuardEntry& e : p->guards.entries) {
        if (e.kind == GuardEntry::Kind::State)
          e.uses = p->state.contains(static_cast<const TensorImpl*>(e.address));
      }
      p->graph = std::make_shared<jit::Graph>(p->recording.graph);
      p->leaves = Handle::borrow(args[3]);
      p->rebuild = Handle::borrow(args[4]);
      p->calls = 1;
      p->defers = deferred::counters().fused > s.fused_before;
      outcome.text = cache.programs.empty() ? "" : cache.miss;
      remember(cache, std::move(p));
    } else if (outcome.verdict == Verdict::Refused && !s.audited && !s.busy) {
      p->guards = std::move(s.before);
      p->refused = outcome.text;
      remember(cache, std::move(p));
    } else if (outcome.verdict == Verdict::Refused || outcome.verdict == Verdict::Unstable) {
      // What was replayed before did not do this. Nothing yet: it is left to Python.
      const bool other = s.audited && !s.busy;
      if (other && s.audited->replays > 0) outcome.verdict = Verdict::Parted;
      if (other && s.audited->replays == 0) s.audited->refused = outcome.text;
    }
    return Py_BuildValue("(ss#)", kVerdicts[size_t(outcome.verdict)], outcome.text.data(),
                         Py_ssize_t(outcome.text.size()));
  });
}

// ---- asking ----

PyObject* frozen_cache(PyObject*, PyObject*) {
  return guarded([] { return capsule_of(std::make_unique<Cache>(), kCache); });
}
PyObject* frozen_clear(PyObject*, PyObject* capsule) {
  return guarded([&] {
    auto& cache = held<Cache>(capsule, kCache);
    const auto gone = std::exchange(cache.programs, {});  // freed last: Python may run then
    cache.miss.clear();
    return Py_NewRef(Py_None);
  });
}

// _frozen_about(cache) -> [(reason it is not replayed or "", ops, calls, replays, audits, numbers
// that are inputs, values watched, text of the ops)]
PyObject* frozen_about(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const auto& cache = held<Cache>(capsule, kCache);
    const Handle list = Handle::steal(PyList_New(0));
    for (const ProgramPointer& p : cache.programs) {
      std::string ops;
      const size_t n = p->graph ? p->graph->body.size() : 0;
      for (size_t i = 0; i < n; ++i)
        ops += concat(jit::shown(p->graph->body[i]), at_source(p->graph->lines[i]), "\n");
      const Handle row = Handle::steal(Py_BuildValue(
          "(s#nLLLnns#)", p->refused.data(), Py_ssize_t(p->refused.size()), Py_ssize_t(n),
          static_cast<long long>(p->calls), static_cast<long long>(p->replays),
          static_cast<long long>(p->audits), Py_ssize_t(p->uses.size()),
          Py_ssize_t(p->guards.entries.size()), ops.data(), Py_ssize_t(ops.size())));
      check_status(PyList_Append(list.get(), row.get()));
    }
    return Py_NewRef(list.get());
  });
}

PyObject* is_recording(PyObject*, PyObject*) {
  return PyBool_FromLong(jit::recorder_here() != nullptr);
}
PyObject* end_recording(PyObject*, PyObject* what) {
  return guarded([&] {
    jit::end_recording(std::string(text_of(what)).c_str());
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"_frozen_cache", frozen_cache, METH_NOARGS, nullptr},
    {"_frozen_clear", frozen_clear, METH_O, nullptr},
    {"_frozen_replay", as_method(frozen_replay), METH_FASTCALL, nullptr},
    {"_frozen_begin", as_method(frozen_begin), METH_FASTCALL, nullptr},
    {"_frozen_start", frozen_start, METH_O, nullptr},
    {"_frozen_stop", frozen_stop, METH_O, nullptr},
    {"_frozen_end", as_method(frozen_end), METH_FASTCALL, nullptr},
    {"_frozen_about", frozen_about, METH_O, nullptr},
    {"_frozen_is_recording", is_recording, METH_NOARGS, nullptr},
    {"_frozen_end_recording", end_recording, METH_O, nullptr},
    {},
};

}  // namespace

bool init_frozen(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace rush::py
