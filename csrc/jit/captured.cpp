#include "jit/captured.h"

#include <algorithm>
#include <unordered_set>

#include "autograd/anomaly.h"
#include "autograd/meta.h"
#include "device/deferred.h"
#include "jit/captured_places.h"
#include "jit/interpreter.h"
#include "ops/autocast/autocast.h"
#include "ops/framework/data.h"

namespace rush::jit {
namespace {

constexpr const char* kMethod = "frozen";
// A recording whose addresses change again and again is left to the interpreter.
constexpr int kMostCaptures = 6, kSettled = 64;
constexpr int64_t kSmall = int64_t(16) << 20;  // bytes
// How a float's address may lie decides which loops read it, and so the order of sums.
constexpr uintptr_t kAlignment = 16;

std::atomic<bool> g_on{true};
// One thread at a time captures: there is one stream for it per device.
std::atomic<bool> g_capturing{false};

class Flag {
 public:
  explicit Flag(std::atomic<bool>& flag) : flag_(flag), mine_(!flag.exchange(true)) {}
  ~Flag() {
    if (mine_) flag_.store(false);
  }
  Flag(const Flag&) = delete;
  bool is_mine() const { return mine_; }

 private:
  std::atomic<bool>& flag_;
  bool mine_;
};

void* address_of(const Tensor& t) {
  const Storage* s = t.impl()->storage.load();
  if (!s) return nullptr;
  return static_cast<char*>(s->data()) + t.offset() * t.element_size();
}
bool aligned_alike(const Tensor& t, const void* other) {
  if (!t.is_floating() && !t.is_complex()) return true;
  return (reinterpret_cast<uintptr_t>(address_of(t)) ^ reinterpret_cast<uintptr_t>(other)) %
             kAlignment ==
         0;
}

// Memory of t's geometry, which lies as t does as far as loops care.
Tensor place_like(const Tensor& t) {
  const auto skip = int64_t(reinterpret_cast<uintptr_t>(address_of(t)) % kAlignment);
  const Tensor plain = make_tensor(t.sizes(), t.strides(), t.dtype(), t.device());
  if (skip % t.element_size() != 0 || skip == 0) return plain;
  const Ref<Storage> wider =
      Storage::allocate(t.device(), plain.storage()->nbytes() + size_t(skip));
  return make_tensor(wider, t.sizes(), t.strides(), skip / t.element_size(), t.dtype());
}

// What an op of autocast's has cast must not get into a graph, nor out of it.
struct OwnCasts {
  OwnCasts() { clear_autocast_cache(); }
  ~OwnCasts() { clear_autocast_cache(); }
};

}  // namespace

bool frozen_graphs() { return g_on.load(std::memory_order_relaxed); }
void set_frozen_graphs(bool on) { g_on.store(on); }

Captured::Captured(const Recording& recording, std::vector<size_t> varying, bool defers,
                   std::shared_ptr<CaptureMemory> memory)
    : recording_(recording),
      varying_([&] {
        std::ranges::sort(varying);
        return std::move(varying);
      }()),
      defers_(defers),
      memory_(std::move(memory)) {
  plan();
  const size_t n = recording_.graph.inputs.size();
  copied_.assign(n, false);
  written_.assign(n, false);
  statics_.resize(n);
}
Captured::~Captured() { drop(); }

bool Captured::try_drop() {
  const Flag mine(memory_->busy);
  if (mine.is_mine()) drop();
  return mine.is_mine();
}

void Captured::drop() {
  for (Part& p : parts_) {
    p.graph.reset();  // waits for what is queued
    p.entering.clear();
    p.bumps.clear();
    p.grads.clear();
  }
  captured_ = false;
  kept_.clear();
  owned_.clear();
  outputs_.clear();
  statics_.assign(statics_.size(), {});
}

void Captured::give_up(std::string why) {
  refused_ = std::move(why);
  drop();
}

std::string Captured::about() const {
  if (!applies()) return "";
  const Flag mine(memory_->busy);
  if (!mine.is_mine()) return "used by another thread just now";
  if (!refused_.empty()) return concat("launched op by op: ", refused_);
  if (!captured_) return "launched op by op so far";
  size_t graphs = 0, nodes = 0, beside = 0;
  std::string names;
  for (const Part& p : parts_) {
    if (!p.beside) {
      graphs += p.graph->nodes() > 0;
      nodes += p.graph->nodes();
      continue;
    }
    beside += p.last - p.first;
    if (names.size() < 80)
      names += concat(names.empty() ? "" : ", ", recording_.graph.body[p.first].op->name);
  }
  std::string text = concat(graphs, graphs == 1 ? " graph" : " graphs", " of ", nodes, " launches");
  if (beside > 0)
    text += concat(", and ", beside, beside == 1 ? " op" : " ops", " beside (", names, ")");
  return text;
}

// ---- does it fit? ----

Captured::Fit Captured::fits(const std::vector<Tensor>& inputs) {
  if (device_graphs(*device_).switches() != switches_) return Fit::Anew;
  bool moved = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = inputs[i];
    if (t.device() != *device_) continue;
    t.storage();
    if (copied_[i] && !aligned_alike(t, input_at_[i])) return Fit::NotNow;
    if (copied_[i] || address_of(t) == input_at_[i]) continue;
    copied_[i] = moved = true;
  }
  // Arguments that have not moved yet may do so one after the other: once is enough.
  for (size_t i = 0; i < inputs.size() && moved && captures_ > 1; ++i)
    if (inputs[i].device() == *device_ && inputs[i].nbytes() <= kSmall) copied_[i] = true;
  for (size_t i = 0; i < recording_.state.size(); ++i) {
    const Tensor& t = recording_.state[i];
    if (t.device() != *device_) continue;
    if (address_of(t) != state_at_[i]) return Fit::Anew;
    if (!grad_meta_or_null(t)) continue;
    if (has_backward_hooks(t)) return Fit::NotNow;
    if (grad_at_[i] && address_of(grad_of(t)) != grad_at_[i]) return Fit::Anew;
  }
  for (const Owned& o : owned_) {
    const bool in_place = grad_of(recording_.state[o.state]).is_same(o.grad);
    if (o.grad.impl()->use_count() > o.tensor_count + uint32_t(in_place) ||
        o.grad.impl()->storage->use_count() > o.storage_count)
      return Fit::Anew;
  }
  return moved ? Fit::Anew : Fit::Yes;
}

std::optional<std::vector<Tensor>> Captured::run(const Graph& graph,
                                                 const std::vector<Tensor>& inputs) {
  if (!applies() || !frozen_graphs() || anomaly_enabled()) return std::nullopt;
  const Flag mine(memory_->busy);
  if (!mine.is_mine() || !refused_.empty()) return std::nullopt;
  if (device_runtime(*device_).is_capturing(*device_)) return std::nullopt;
  const DeviceGraphs& graphs = device_graphs(*device_);
  Fit fit = captured_ ? fits(inputs) : Fit::Anew;
  if (fit == Fit::NotNow) return std::nullopt;
  const bool better = fit == Fit::Yes && provisional_ && !graphs.awaits_code();
  if (better) fit = Fit::Anew;
  struct Finally {
    Captured& c;
    ~Finally() {
      c.values_.clear();
      c.inputs_.clear();
    }
  } const finally{*this};
  if (fit == Fit::Yes) return replay(graph, inputs);
  drop();  // first of all: what follows may have to wait for another call
  const Flag capturing(g_capturing);
  if (!capturing.is_mine() || (defers_ && graphs.awaits_code())) return std::nullopt;
  if (!better) captures_ = since_ >= kSettled ? 1 : captures_ + 1;
  since_ = 0;
  if (captures_ > kMostCaptures)
    refused_ =
        "the addresses of what it reads, or holders of its gradients, change again and again";
  else
    refused_ = obstacle(inputs);
  if (!refused_.empty()) return std::nullopt;
  const uint64_t missed = graphs.missed_code();
  std::vector<Tensor> given = capture(graph, inputs);
  // (Some times: what is fused now may ask for other code, but not without end.)
  improved_ = better ? improved_ + 1 : 0;
  provisional_ = graphs.missed_code() != missed && improved_ < kMostCaptures;
  return given;
}

void Captured::order_streams() {
  const DeviceRuntime& runtime = device_runtime(*device_);
  DeviceStream* now = runtime.current_stream(*device_);
  if (memory_->last && memory_->last != now) runtime.wait_for(now, memory_->last);
  memory_->last = now;
}

// ---- capturing ----

void Captured::place_inputs(const std::vector<Tensor>& inputs) {
  inputs_ = inputs;
  values_.assign(recording_.graph.num_values, {});
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = inputs[i];
    if (copied_[i] && t.device() == *device_) {
      if (!statics_[i].defined()) statics_[i] = place_like(t);
      copy_data(statics_[i], t);
      inputs_[i] = statics_[i];
    }
    values_[recording_.graph.inputs[i].structure.place.index] = inputs_[i];
  }
}

void Captured::run_ops(const Graph& graph, size_t first, size_t last) {
  struct Deferring {
    const bool on;
    explicit Deferring(bool defers) : on(defers && !(t_modes & kDefer)) {
      if (on) set_mode(kDefer, true);
    }
    ~Deferring() {
      if (on) set_mode(kDefer, false);
    }
  } const deferring(defers_);
  run_part(graph, kMethod, {recording_.state, recording_.constants}, values_, first, last);
}

void Captured::run_beside(const Part& part, const Graph& graph) {
  run_ops(graph, part.first, part.last);
  if (defers_) deferred::flush("a graph of the device comes next");
}

// Values of graphs that this part, which runs beside them, is going to read in every call.
void Captured::keep_for(const Part& part) {
  for (size_t i = part.first; i < part.last; ++i) {
    for_each_place(recording_.graph.body[i], [&](const Place& p) {
      if (p.kind != Place::Kind::Value || p.index < inputs_.size() || from_beside_[p.index]) return;
      const auto same = [&](const auto& k) { return k.first == p.index; };
      if (std::ranges::any_of(kept_, same) || !values_[p.index].defined()) return;
      values_[p.index].storage();
      kept_.emplace_back(p.index, values_[p.index]);
    });
  }
}

// Gives what was made beside, and is read by this part, places that stay.
void Captured::enter(Part& part) {
  const auto known = [&](const Tensor& t) {
    const auto over = [&](const Tensor& other) {
      return other.defined() && other.impl()->storage.load() == t.impl()->storage.load();
    };
    return std::ranges::any_of(inputs_, over) || std::ranges::any_of(recording_.state, over) ||
           std::ranges::any_of(kept_, [&](const auto& k) { return over(k.second); });
  };
  for (size_t i = part.first; i < part.last; ++i) {
    for_each_place(recording_.graph.body[i], [&](const Place& p) {
      if (p.kind != Place::Kind::Value || !from_beside_[p.index]) return;
      Tensor& t = values_[p.index];
      if (!t.defined() || t.device() != *device_) return;
      t.storage();
      const auto is_it = [&](const auto& e) { return e.first == p.index; };
      for (const Part& q : parts_)
        if (std::ranges::any_of(q.entering, is_it)) return;
      if (known(t)) return;
      const Tensor place = place_like(t);
      copy_data(place, t);
      part.entering.emplace_back(p.index, place);
      t = place;
    });
  }
}

// Raises where backward would go on through what an earlier part has computed: if the capture failed
// then, nothing could be done again.
void Captured::check_backward(const Part& part, size_t instruction) const {
  if (&part == &parts_.front()) return;
  std::unordered_set<const Node*> older, seen;
  std::vector<const Node*> waiting;
  for (size_t v = 0; v < values_.size(); ++v) {
    const Tensor& t = values_[v];
    if (!t.defined() || !grad_meta_or_null(t)) continue;
    // Results of this part have numbers that no earlier instruction gives.
    bool here = false;
    for (size_t i = part.first; i < instruction && !here; ++i)
      for_each_result(recording_.graph.body[i], [&](uint32_t r) { here |= r == v; });
    if (const Ref<Node> node = here ? nullptr : grad_fn(t)) older.insert(node.get());
  }
  for_each_place(recording_.graph.body[instruction], [&](const Place& p) {
    if (p.kind != Place::Kind::Value || !values_[p.index].defined()) return;
    if (const Ref<Node> node = grad_fn(values_[p.index])) waiting.push_back(node.get());
  });
  while (!waiting.empty()) {
    const Node* node = waiting.back();
    waiting.pop_back();
    if (!seen.insert(node).second) continue;
    check(
        !older.contains(node), ErrorKind::Runtime, "compile",
        "a backward pass goes through what was computed before an op that runs beside the graphs");
    for (const Edge& e : node->edges())
      if (e) waiting.push_back(e.node.get());
  }
}

// False: it could not be captured, and was run by the interpreter.
bool Captured::capture_part(Part& part, const Graph& graph) {
  enter(part);
  const HostState before = look();
  const std::vector<Tensor> values = values_;
  part.graph = device_graphs(*device_).make(*device_, memory_->name);
  std::string why;
  try {
    const OwnCasts casts;
    part.graph->begin();
    size_t next = part.first;
    for (size_t i = part.first; i < part.last; ++i) {
      const std::string_view op = graph.body[i].op->name;
      if (op != "_run_backward" && op != "_run_grad") continue;
      run_ops(graph, next, i);
      check_backward(part, i);
      next = i;
    }
    run_ops(graph, next, part.last);
    if (defers_) deferred::flush("the end of a graph of the device");
    for (const Tensor& t : values_)
      if (t.defined() && t.device() == *device_) t.storage();
    for (const Tensor& t : recording_.state)
      if (const Tensor g = grad_meta_or_null(t) ? grad_of(t) : Tensor(); g.defined()) g.storage();
    part.graph->end();
  } catch (const Error& e) {
    why = e.message();
  } catch (...) {  // Ctrl-C
    part.graph->abort();
    undo(before);
    throw;
  }
  if (why.empty()) {
    note_effects(part, before);
    part.graph->replay();
    return true;
  }
  part.graph->abort();
  undo(before);
  values_ = values;
  run_ops(graph, part.first, part.last);
  refused_ = why;
  return false;
}

std::vector<Tensor> Captured::capture(const Graph& graph, const std::vector<Tensor>& inputs) {
  if (memory_->name == 0) memory_->name = device_graphs(*device_).new_memory();
  order_streams();
  switches_ = device_graphs(*device_).switches();
  state_at_.clear();
  grad_at_.clear();
  input_at_.clear();
  const std::vector<bool> reads = grads_read();
  for (size_t i = 0; i < recording_.state.size(); ++i) {
    const Tensor& t = recording_.state[i];
    t.storage();
    state_at_.push_back(address_of(t));
    const Tensor grad = reads[i] && grad_meta_or_null(t) ? grad_of(t) : Tensor();
    if (grad.defined()) grad.storage();
    grad_at_.push_back(grad.defined() ? address_of(grad) : nullptr);
  }
  for (const Tensor& t : inputs) {
    t.storage();
    input_at_.push_back(address_of(t));
  }
  place_inputs(inputs);
  bool fine = true;
  for (Part& part : parts_) {
    if (!fine) {
      run_beside(part, graph);
    } else if (part.beside) {
      keep_for(part);
      run_beside(part, graph);
      for (size_t i = part.first; i < part.last && fine; ++i) {
        for_each_result(recording_.graph.body[i], [&](uint32_t v) {
          if (values_[v].defined() && requires_grad(values_[v])) fine = false;
        });
        if (!fine)
          refused_ = concat("gradients flow through ", recording_.graph.body[i].op->name,
                            ", which runs beside the graphs");
      }
    } else {
      fine = capture_part(part, graph);
    }
  }
  if (defers_) deferred::flush("the frozen function returns");
  for (size_t i = 0; i < inputs.size(); ++i) written_[i] = copied_[i] && statics_[i].version() > 0;
  write_back(inputs);
  if (!fine || !plan_outputs()) {
    const std::vector<Tensor> given = plain_outputs(inputs);
    drop();
    return given;
  }
  captured_ = true;
  ++replays_;
  std::vector<Tensor> given = outputs(inputs);
  values_.clear();
  inputs_.clear();
  let_outputs_go();
  note_owned();
  return given;
}

// ---- replaying ----

std::vector<Tensor> Captured::replay(const Graph& graph, const std::vector<Tensor>& inputs) {
  order_streams();
  place_inputs(inputs);
  for (const auto& [value, t] : kept_) values_[value] = t;
  for (const Part& part : parts_) {
    if (part.beside) {
      run_beside(part, graph);
      continue;
    }
    for (const auto& [value, place] : part.entering) {
      copy_data(place, values_[value]);
      values_[value] = place;
    }
    part.graph->replay();
    repeat_effects(part, inputs);
  }
  write_back(inputs);
  ++replays_;
  ++since_;
  return outputs(inputs);
}

}  // namespace rush::jit
