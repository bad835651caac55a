// bridge.h: a node that passes its gradient on, to an edge that may be set later. A formula that
// is differentiated once more, on the spot, runs on bridged arguments: the walk through its graph
// ends at the bridges instead of visiting everything the arguments were computed from.
#pragma once

#include <vector>

#include "autograd/meta.h"

namespace rush {

class Bridge final : public Node {
 public:
  explicit Bridge(const Tensor& t) { add_result(t); }
  const char* name() const override { return "Bridge"; }
  Grads apply(GradSpan grads, std::span<const bool>) override { return {grads[0]}; }
};

// Cuts tensors off from their graph, and connects them to it again at the end.
class Bridges {
 public:
  // keep_graph: whether the results will be differentiated with respect to the arguments.
  explicit Bridges(bool keep_graph) : keep_graph_(keep_graph) {}

  Tensor cut(const Tensor& t) {
    if (!t.defined() || !is_tracked(t)) return t;
    Tensor out = alias_of(t);
    if (forward_active()) carry_tangents(t, out);
    if (keep_graph_ && requires_grad(t)) {
      auto bridge = Ref<Node>::adopt(new Bridge(t));
      set_history(out, bridge, 0);
      open_.push_back({bridge, t});
    }
    return out;
  }
  void reconnect() {
    for (const auto& [bridge, t] : open_) bridge->add_edge(gradient_edge(t));
    open_.clear();
  }

 private:
  struct Open {
    Ref<Node> bridge;
    Tensor tensor;
  };
  bool keep_graph_;
  std::vector<Open> open_;
};

}  // namespace rush
