#include "autograd/graph_task.h"

#include <algorithm>

#include "autograd/anomaly.h"
#include "autograd/hooks.h"
#include "autograd/node_lock.h"
#include "core/interrupt.h"
#include "core/layout.h"

namespace rush {
namespace {

// Does nobody else see this gradient, so that it may be written to?
bool is_private(const Tensor& g) { return owns_memory(g) && is_dense(g.sizes(), g.strides()); }

// Steps of a walk over the graph, and nodes run, that take about a millisecond.
constexpr int64_t kStepsPerLook = 16384, kNodesPerLook = 256;

// Ops with several results get zeros where nothing arrived, so that formulas need no special case.
void fill_missing(const Node& node, SmallVector<Tensor, 1>& grads) {
  for (size_t i = 0; i < grads.size(); ++i) {
    const ResultMeta& m = node.results()[i];
    if (!grads[i].defined() && is_differentiable(m.dtype))
      grads[i] = engine_ops().zeros(m.sizes, m.dtype, m.device);
  }
}

}  // namespace

GraphTask::GraphTask(const BackwardOptions& options, std::vector<Edge> inputs, bool accumulate)
    : RunningTask(inputs.empty(), options.retain_graph || options.create_graph),
      options_(options),
      inputs_(std::move(inputs)),
      accumulate_(accumulate),
      captured_(inputs_.size()) {}

bool GraphTask::will_run(const Node* node) const {
  const uint32_t n = table_.find(node);
  return n != table_.count() && (states_[n].runs || states_[n].first_capture >= 0);
}

std::vector<Tensor> GraphTask::run(const std::vector<Edge>& roots, std::vector<Tensor> seeds) {
  const Scope current(this);
  ModeGuard mode(kNoGrad, !options_.create_graph);
  count_dependencies(roots);
  if (!inputs_.empty()) mark_needed(roots);
  for (size_t i = 0; i < roots.size(); ++i) deliver_seed(roots[i], std::move(seeds[i]));
  seeds.clear();
  for (uint32_t n = 0; n < roots_; ++n) make_ready_if_complete(n);
  if (defers_) [[unlikely]]
    set_mode(kDefer, true);  // `mode` ends that
  InterruptCounter interrupts(kNodesPerLook);
  observer_ = t_modes & kObserve ? node_observer() : nullptr;
  while (!ready_.empty()) {
    interrupts.add();
    std::pop_heap(ready_.begin(), ready_.end());
    const uint32_t next = ready_.back().number;
    ready_.pop_back();
    if (observer_) [[unlikely]]
      run_observed_node(next);
    else
      run_node(next);
  }
  running_ = nullptr;
  if (streams_.several()) [[unlikely]]
    streams_.join();
  if (defers_) [[unlikely]]
    flush_pending("backward ends");
  run_callbacks();
  return std::move(captured_);
}

void GraphTask::deliver_seed(const Edge& root, Tensor seed) {
  NodeState& s = states_[table_.find(root.node.get())];
  const ResultMeta& meta = root.node->results()[root.slot];
  if (!streams_.several()) [[likely]]
    return deliver(s, root.slot, fit_gradient(std::move(seed), meta, "backward"));
  DeviceStream* to = streams_.at(*root.node, seed);
  streams_.hand_over(seed, streams_.callers_for(seed), to);
  const TaskStreams::Scope scope(to);
  deliver(s, root.slot, fit_gradient(std::move(seed), meta, "backward"));
}

void GraphTask::pass_on(Node& from, NodeState& target, uint32_t slot, Tensor grad) {
  const ResultMeta& meta = target.node->results()[slot];
  if (!streams_.several()) [[likely]]
    return deliver(target, slot, fit_gradient(std::move(grad), meta, from.name()));
  DeviceStream* to = streams_.at(*target.node, grad);
  streams_.hand_over(grad, streams_.of(from), to);
  const TaskStreams::Scope scope(to);
  deliver(target, slot, fit_gradient(std::move(grad), meta, from.name()));
}

uint32_t GraphTask::state_number(Node* node) {
  const uint32_t n = table_.number(node);
  if (n == states_.size()) {
    states_.emplace_back();
    states_.back().node = node;
  }
  return n;
}

void GraphTask::count_dependencies(const std::vector<Edge>& roots) {
  states_.reserve(32);  // enough for many a graph: growing costs more than the walk
  ready_.reserve(8);
  for (const Edge& e : roots) state_number(e.node.get());
  roots_ = table_.count();  // one given twice counts once
  InterruptCounter interrupts(kStepsPerLook);
  // New nodes join at the end, so walking the list visits all.
  for (uint32_t n = 0; n < states_.size(); ++n) {
    interrupts.add();
    streams_.see(*states_[n].node);
    defers_ |= states_[n].node->has(Node::kDefers);
    for (const Edge& e : states_[n].node->edges()) {
      if (e) ++states_[state_number(e.node.get())].dependencies;
    }
  }
}

// A node matters when an input is reachable from it: a depth-first walk, each node after all those
// it leads to.
void GraphTask::mark_needed(const std::vector<Edge>& roots) {
  for (NodeState& s : states_) s.needed = s.runs = false;
  captures_.reserve(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    captures_.push_back({inputs_[i].slot, -1});
    const uint32_t n = table_.find(inputs_[i].node.get());
    if (n == table_.count()) continue;  // not part of this graph
    NodeState& s = states_[n];
    captures_.back().next = std::exchange(s.first_capture, int32_t(i));
    s.needed = true;
    s.runs = accumulate_ && s.node->sequence() == kLeafSequence;
  }
  struct Frame {
    uint32_t number;
    size_t next_edge;
  };
  std::vector<Frame> path;
  InterruptCounter interrupts(kStepsPerLook);
  auto enter = [&](uint32_t n) {
    if (std::exchange(states_[n].walked, true)) return;
    path.push_back({n, 0});
  };
  for (const Edge& root : roots) {
    enter(table_.find(root.node.get()));
    while (!path.empty()) {
      interrupts.add();
      Frame& f = path.back();
      NodeState& s = states_[f.number];
      const auto& edges = s.node->edges();
      if (f.next_edge < edges.size()) {
        if (const Edge& e = edges[f.next_edge++]) enter(table_.find(e.node.get()));
        continue;
      }
      for (const Edge& e : edges) {
        if (e && states_[table_.find(e.node.get())].needed) s.needed = s.runs = true;
      }
      path.pop_back();
    }
  }
}

void GraphTask::deliver(NodeState& s, uint32_t slot, Tensor grad) {
  if (s.grads.empty()) s.grads.resize(s.node->results().size());
  Tensor& sum = s.grads[slot];
  if (!sum.defined()) {
    sum = std::move(grad);
    return;
  }
  // Inside vmap only one of the two may have samples: there is no room for the sum in the other.
  // Where results wait, a sum in memory that exists would make them run. But where the two lie
  // differently it lies as the one it is formed in, and what is added up over it later depends on that.
  const bool in_place = !options_.create_graph && !sum.is_batched() && !grad.is_batched() &&
                        (!(t_modes & kDefer) || is_pending(sum) ||
                         is_laid_out_otherwise(sum) != is_laid_out_otherwise(grad));
  if (in_place && is_private(sum)) {
    engine_ops().add_in_place(sum, grad);
  } else if (in_place && is_private(grad)) {
    engine_ops().add_in_place(grad, sum);
    sum = std::move(grad);
  } else {
    sum = engine_ops().add(sum, grad);
  }
}

void GraphTask::make_ready_if_complete(uint32_t number) {
  const NodeState& s = states_[number];
  if (s.dependencies != 0 || !s.needed) return;
  ready_.push_back({s.node->sequence(), number});
  std::push_heap(ready_.begin(), ready_.end());
}

void GraphTask::capture(const NodeState& s) {
  for (int32_t i = s.first_capture; i >= 0; i = captures_[size_t(i)].next) {
    if (!s.grads.empty()) captured_[size_t(i)] = s.grads[captures_[size_t(i)].slot];
  }
}

Grads GraphTask::apply(Node& node, SmallVector<Tensor, 1> incoming, std::span<const bool> wanted) {
  const bool any =
      std::any_of(incoming.begin(), incoming.end(), [](const Tensor& g) { return g.defined(); });
  if (!node.has(Node::kTakesUndefined)) {
    if (!any) return {};
    if (incoming.size() > 1) fill_missing(node, incoming);
  }
  if (incoming.empty()) incoming.resize(node.results().size());
  // Hooks see the gradients after the node ran: a second count keeps it from reusing their memory.
  SmallVector<Tensor, 1> for_hooks;
  if (node.extras() && node.extras()->after.get()) [[unlikely]]
    for_hooks = incoming;
  Grads out;
  {
    NodeLock lock(node);
    if (observer_) [[unlikely]]
      out = apply_observed(node, incoming, wanted);
    else
      out = node.apply(incoming, wanted);
    if (!options_.retain_graph && node.sequence() != kLeafSequence)
      node.drop_saved(options_.called_at);
  }
  if (!for_hooks.empty()) [[unlikely]]
    run_after_hooks(node, out, for_hooks);
  return out;
}

// Anomaly mode: where a node that fails was made, and whether its gradients are numbers.
Grads GraphTask::apply_watched(Node& node, SmallVector<Tensor, 1> incoming,
                               std::span<const bool> wanted) {
  Grads out;
  try {
    out = apply(node, std::move(incoming), wanted);
  } catch (...) {
    report_forward_call(node);
    throw;
  }
  if (anomaly_checks_nan()) check_gradients_for_nan(node, out);
  return out;
}

void GraphTask::run_observed_node(uint32_t number) {
  const NodeObserver::Scope scope(*observer_, *states_[number].node, NodeObserver::Part::Evaluate);
  run_node(number);
}

Grads GraphTask::apply_observed(Node& node, GradSpan incoming, std::span<const bool> wanted) {
  const NodeObserver::Scope scope(*observer_, node, NodeObserver::Part::Apply);
  return node.apply(incoming, wanted);
}

void GraphTask::run_node(uint32_t number) {
  NodeState& s = states_[number];
  Node& node = *s.node;
  const TaskStreams::Scope scope(streams_.several() ? streams_.of(node) : nullptr);
  running_ = &node;
  // As in PyTorch, a gradient that is asked for is taken before the hooks where the node runs as
  // well, and after them where it does not.
  if (!s.runs && node.extras() && !s.grads.empty()) run_gradient_hooks(node, s.grads);
  capture(s);
  SmallVector<Tensor, 1> incoming = std::move(s.grads);
  if (!s.runs) return;
  if (node.extras()) [[unlikely]] {
    if (incoming.empty()) incoming.resize(node.results().size());
    run_gradient_hooks(node, incoming);
    run_before_hooks(node, incoming);
  }

  const auto& edges = node.edges();
  SmallVector<uint32_t, 4> targets(edges.size());
  SmallVector<bool, 8> wanted(edges.size());
  for (size_t i = 0; i < edges.size(); ++i) {
    if (!edges[i]) continue;
    targets[i] = table_.find(edges[i].node.get());
    wanted[i] = states_[targets[i]].needed;
  }
  Grads out = anomaly_enabled() ? apply_watched(node, std::move(incoming), wanted)
                                : apply(node, std::move(incoming), wanted);
  for (size_t i = 0; i < edges.size(); ++i) {
    if (!wanted[i]) continue;
    NodeState& target = states_[targets[i]];
    if (i < out.size() && out[i].defined()) pass_on(node, target, edges[i].slot, std::move(out[i]));
    --target.dependencies;
    make_ready_if_complete(targets[i]);
  }
}

}  // namespace rush
