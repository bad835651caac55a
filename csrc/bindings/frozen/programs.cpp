#include "bindings/frozen/programs.h"

#include <algorithm>
#include <exception>

#include "bindings/gil.h"
#include "device/deferred.h"
#include "jit/interpreter.h"
#include "trace/stream.h"

namespace rush::py {
namespace {

constexpr size_t kMostCaptured = 8;  // recordings that are graphs of a device

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
}  // namespace

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
std::vector<std::optional<jit::TensorFacts>> first_look(PyObject* args) {
  std::vector<std::optional<jit::TensorFacts>> looks;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    looks.push_back(is_tensor(o) ? std::optional(jit::facts_of(unwrap(o))) : std::nullopt);
  }
  return looks;
}

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

namespace {

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

jit::IValue run_ops(const Program& p, const jit::Graph& graph, const std::vector<Tensor>& tensors) {
  const std::vector<jit::IValue> inputs(tensors.begin(), tensors.end());
  const jit::Tensors own{p.recording.state, p.recording.constants};
  if (!p.defers || t_modes & kDefer) return jit::run(graph, "frozen", own, inputs);
  jit::IValue output;
  {
    const ModeGuard deferring(kDefer, true);
    output = jit::run(graph, "frozen", own, inputs);
  }
  deferred::flush("the frozen function returns");
  return output;
}

const std::shared_ptr<jit::Captured>& captured_of(const Cache& cache, Program& p) {
  if (!p.captured) {
    std::vector<size_t> varying;
    for (const FloatUse& use : p.uses) varying.push_back(use.place.instruction);
    p.captured =
        std::make_shared<jit::Captured>(p.recording, std::move(varying), p.defers, cache.memory);
  }
  return p.captured;
}

// The memory of graphs must not grow with the number of shapes that a function has seen.
void drop_oldest_graphs(const Cache& cache) {
  size_t graphs = 0;
  for (const ProgramPointer& p : cache.programs) {
    if (p->captured && p->captured->is_captured() && ++graphs > kMostCaptured)
      p->captured->try_drop();
  }
}

// A replay, for whoever observes this thread.
struct SeenReplay {
  uint64_t range = stream::begin_range("frozen function", stream::kStepTag);
  int before = std::uncaught_exceptions();
  ~SeenReplay() { stream::end_range(range, std::uncaught_exceptions() > before); }
};

}  // namespace

PyObject* replay(const Cache& cache, const ProgramPointer& p, const Found& found) {
  set_numbers(*p, found.floats);
  ++p->calls;
  ++p->replays;
  const std::shared_ptr<const jit::Graph> graph = p->graph;
  const std::shared_ptr<jit::Captured> captured = captured_of(cache, *p);
  const bool had_graphs = captured->is_captured();
  jit::IValue output;
  {
    const ReleaseGil working;
    const SeenReplay seen;
    if (auto given = captured->run(*graph, found.inputs))
      output = jit::IValue::tuple({given->begin(), given->end()});
    else
      output = run_ops(*p, *graph, found.inputs);
  }
  if (captured->is_captured() && !had_graphs) drop_oldest_graphs(cache);
  return packed(*p, output);
}

}  // namespace rush::py
