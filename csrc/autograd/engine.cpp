// The engine: dependencies are counted first, then nodes run as soon as all gradients that lead to
// them are in, the youngest first. Everything is a loop over explicit lists: a user's graph may be
// a million nodes deep.
#include "autograd/engine.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "autograd/accumulate_grad.h"

namespace rush {
namespace {

struct ReadyOrder {
  bool operator()(const Ref<Node>& a, const Ref<Node>& b) const {
    return a->sequence() < b->sequence();
  }
};

struct NodeState {
  int dependencies = 0;
  bool needed = true;  // leads to an input that was asked for
  bool visited = false;
  SmallVector<Tensor, 1> grads;
};

// One call of backward() or grad().
class Task {
 public:
  Task(const BackwardOptions& options, std::span<const Tensor> inputs, bool capture)
      : options_(options), capture_(capture), selective_(!inputs.empty()) {
    for (const Tensor& t : inputs) {
      check(requires_grad(t), ErrorKind::Runtime, "grad",
            "one of the inputs does not require grad");
      inputs_.push_back(gradient_edge(t));
    }
    captured_.resize(inputs_.size());
  }

  std::vector<Tensor> run(std::span<const Tensor> roots, std::span<const Tensor> grads) {
    ModeGuard mode(kNoGrad, !options_.create_graph);
    std::vector<Edge> edges;
    for (const Tensor& root : roots) {
      check(requires_grad(root), ErrorKind::Runtime, "backward", "element ",
            int64_t(&root - roots.data()),
            " of the tensors does not require grad and has no grad_fn: ", why_no_gradient(root));
      edges.push_back(gradient_edge(root));
    }
    count_dependencies(edges);
    if (selective_) mark_needed();
    for (size_t i = 0; i < edges.size(); ++i) {
      deliver(edges[i],
              fit_gradient(grads[i], edges[i].node->results()[edges[i].slot], "backward"));
    }
    for (const Edge& e : edges) make_ready_if_complete(e.node);
    while (!ready_.empty()) {
      Ref<Node> node = ready_.top();
      ready_.pop();
      run_node(node);
    }
    return std::move(captured_);
  }

 private:
  void count_dependencies(const std::vector<Edge>& roots) {
    std::vector<Node*> stack;
    auto visit = [&](Node* n) {
      NodeState& s = states_[n];
      if (s.visited) return;
      s.visited = true;
      order_.push_back(n);
      stack.push_back(n);
    };
    for (const Edge& e : roots) visit(e.node.get());
    while (!stack.empty()) {
      Node* n = stack.back();
      stack.pop_back();
      for (const Edge& e : n->edges()) {
        if (!e) continue;
        ++states_[e.node.get()].dependencies;
        visit(e.node.get());
      }
    }
  }

  // A node matters when an asked-for edge is reachable from it. Nodes are finished in order of a
  // depth-first walk.
  void mark_needed() {
    for (auto& [node, state] : states_) state.needed = false;
    for (const Edge& e : inputs_) {
      if (auto it = states_.find(e.node.get()); it != states_.end()) it->second.needed = true;
    }
    // Edges lead from younger to older nodes, and to leaves: by age, oldest first, every successor
    // is done before.
    std::vector<Node*> by_age = order_;
    std::sort(by_age.begin(), by_age.end(), [](Node* a, Node* b) { return age(a) < age(b); });
    bool changed = true;
    while (changed) {  // one pass suffices within a thread; sequence numbers of different threads
                       // may interleave
      changed = false;
      for (Node* n : by_age) {
        NodeState& s = states_[n];
        if (s.needed) continue;
        for (const Edge& e : n->edges()) {
          if (e && states_[e.node.get()].needed) {
            s.needed = changed = true;
            break;
          }
        }
      }
    }
  }
  static uint64_t age(Node* n) { return n->sequence() == UINT64_MAX ? 0 : n->sequence() + 1; }

  void deliver(const Edge& e, Tensor g) {
    NodeState& s = states_[e.node.get()];
    if (s.grads.empty()) s.grads.resize(e.node->results().size());
    Tensor& slot = s.grads[e.slot];
    if (!slot.defined()) {
      slot = std::move(g);
    } else if (!options_.create_graph && !g.is_batched() && slot.ref()->use_count() == 1 &&
               slot.storage()->use_count() == 1 && slot.is_contiguous()) {
      engine_ops().add_in_place(slot, g);
    } else {
      slot = engine_ops().add(slot, g);
    }
  }

  void make_ready_if_complete(const Ref<Node>& node) {
    NodeState& s = states_[node.get()];
    if (s.dependencies == 0 && s.visited && s.needed) {
      s.visited = false;  // queued once
      ready_.push(node);
    }
  }

  void run_node(const Ref<Node>& node) {
    NodeState& s = states_[node.get()];
    bool is_input = false;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].node == node && capture_) {
        captured_[i] = s.grads.empty() ? Tensor() : s.grads[inputs_[i].slot];
        is_input = true;
      }
    }
    const bool is_leaf = node->sequence() == UINT64_MAX;
    if (is_input && (is_leaf || !leads_on(node))) return;

    SmallVector<bool, 8> wanted(node->edges().size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Edge& e = node->edges()[i];
      wanted[i] = e && states_[e.node.get()].needed;
    }
    if (s.grads.empty()) s.grads.resize(node->results().size());
    SmallVector<Tensor, 1> incoming = std::move(s.grads);
    if (incoming.size() > 1) materialize(*node, incoming);
    Grads out = node->apply(incoming, std::span<const bool>(wanted.data(), wanted.size()));
    if (!options_.retain_graph) node->drop_saved();
    for (size_t i = 0; i < node->edges().size(); ++i) {
      const Edge& e = node->edges()[i];
      if (!e) continue;
      if (wanted[i] && i < out.size() && out[i].defined())
        deliver(e, fit_gradient(out[i], e.node->results()[e.slot], node->name()));
      --states_[e.node.get()].dependencies;
      make_ready_if_complete(e.node);
    }
  }

  bool leads_on(const Ref<Node>& node) {
    for (const Edge& e : node->edges()) {
      if (e && states_[e.node.get()].needed) return true;
    }
    return !selective_;
  }

  // Ops with several results get zeros where nothing arrived, so that formulas need no special
  // case.
  static void materialize(const Node& node, SmallVector<Tensor, 1>& grads) {
    bool any = false;
    for (const Tensor& g : grads) any |= g.defined();
    if (!any) return;
    for (size_t i = 0; i < grads.size(); ++i) {
      const ResultMeta& m = node.results()[i];
      if (!grads[i].defined() && is_differentiable(m.dtype))
        grads[i] = engine_ops().zeros(m.sizes, m.dtype, m.device);
    }
  }

  const BackwardOptions options_;
  const bool capture_, selective_;
  std::vector<Edge> inputs_;
  std::vector<Tensor> captured_;
  std::unordered_map<Node*, NodeState> states_;
  std::vector<Node*> order_;
  std::priority_queue<Ref<Node>, std::vector<Ref<Node>>, ReadyOrder> ready_;
};

std::vector<Tensor> root_gradients(std::span<const Tensor> roots, std::span<const Tensor> grads) {
  std::vector<Tensor> result;
  for (size_t i = 0; i < roots.size(); ++i) {
    if (i < grads.size() && grads[i].defined()) {
      check_shape(grads[i].sizes() == roots[i].sizes(), "backward", "the gradient has shape ",
                  grads[i].sizes(), ", its tensor has shape ", roots[i].sizes());
      result.push_back(grads[i]);
      continue;
    }
    check(roots[i].numel() == 1, ErrorKind::Runtime, "backward",
          "grad can be created implicitly only for scalar outputs; this tensor has shape ",
          roots[i].sizes(), ": pass gradient=");
    check(!roots[i].is_complex(), ErrorKind::Runtime, "backward",
          "grad can be created implicitly only for real scalar outputs, this one is ",
          roots[i].dtype());
    result.push_back(engine_ops().ones_like(roots[i]));
  }
  return result;
}

}  // namespace

EngineOps& engine_ops() {
  static EngineOps ops{};
  return ops;
}

Tensor fit_gradient(const Tensor& g, const ResultMeta& meta, const char* producer) {
  Tensor out = g;
  if (!(out.sizes() == meta.sizes)) out = engine_ops().sum_to(out, meta.sizes);
  if (out.dtype() != meta.dtype) out = engine_ops().cast(out, meta.dtype);
  check(out.device() == meta.device, ErrorKind::Device, producer, "returned a gradient on ",
        out.device(), ", expected one on ", meta.device);
  return out;
}

void backward(std::span<const Tensor> roots, std::span<const Tensor> grads,
              const BackwardOptions& options, std::span<const Tensor> inputs) {
  const std::vector<Tensor> seeds = root_gradients(roots, grads);
  if (inputs.empty()) {
    Task(options, {}, false).run(roots, seeds);
    return;
  }
  for (const Tensor& t : inputs)
    check(is_leaf(t), ErrorKind::Runtime, "backward",
          "inputs must be leaves here; use autograd.grad for computed tensors");
  Task(options, inputs, false).run(roots, seeds);
}

std::vector<Tensor> grad(std::span<const Tensor> roots, std::span<const Tensor> grads,
                         std::span<const Tensor> inputs, const BackwardOptions& options) {
  const std::vector<Tensor> seeds = root_gradients(roots, grads);
  std::vector<Tensor> result = Task(options, inputs, true).run(roots, seeds);
  for (size_t i = 0; i < result.size(); ++i) {
    check(result[i].defined() || options.allow_unused, ErrorKind::Runtime, "grad", "input ",
          int64_t(i),
          " was not used in the graph of the outputs. Pass allow_unused=True if that is meant");
  }
  return result;
}

}  // namespace rush
