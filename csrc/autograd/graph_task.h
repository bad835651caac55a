// graph_task.h: one pass of backward over a graph.
//
// Dependencies are counted first, then nodes run as soon as all gradients that lead to them are in,
// the youngest first. Everything is a loop over explicit lists: a user's graph may be a million
// nodes deep. What a pass knows about a node is kept here, not in the node: several threads, or a
// pass inside a pass, may walk one graph at the same time.
#pragma once

#include <vector>

#include "autograd/engine.h"
#include "autograd/node_observer.h"
#include "autograd/node_table.h"
#include "autograd/running_task.h"
#include "autograd/task_streams.h"

namespace rush {

class GraphTask final : private RunningTask {
 public:
  // Without `inputs`, every leaf gets its gradient. With them, only what leads to them runs; their
  // gradients are returned by run(), and leaves among them get them added to .grad as well when
  // `accumulate` is set.
  GraphTask(const BackwardOptions& options, std::vector<Edge> inputs, bool accumulate);

  // The gradients of the inputs; undefined where none arrived.
  std::vector<Tensor> run(const std::vector<Edge>& roots, std::vector<Tensor> seeds);

 private:
  bool will_run(const Node* node) const override;

  struct NodeState {
    Node* node = nullptr;
    uint32_t dependencies = 0;  // edges whose gradient is still to come
    int32_t first_capture = -1;
    bool needed = true;  // leads to an input that was asked for, or is one
    bool runs = true;    // not only captured
    bool walked = false;
    SmallVector<Tensor, 1> grads;  // what has arrived so far, a slot a result
  };
  // An input that is a result of some node. Inputs of one node form a list.
  struct Capture {
    uint32_t slot;
    int32_t next;
  };
  struct Ready {
    uint64_t sequence;
    uint32_t number;
    bool operator<(const Ready& o) const {  // ties by order of discovery: the same in every run
      return sequence != o.sequence ? sequence < o.sequence : number > o.number;
    }
  };

  uint32_t state_number(Node* node);
  void count_dependencies(const std::vector<Edge>& roots);
  void mark_needed(const std::vector<Edge>& roots);
  void deliver(NodeState& state, uint32_t slot, Tensor grad);
  void pass_on(Node& from, NodeState& target, uint32_t slot, Tensor grad);
  void deliver_seed(const Edge& root, Tensor seed);
  void make_ready_if_complete(uint32_t number);
  void run_node(uint32_t number);
  void run_observed_node(uint32_t number);
  Grads apply_observed(Node& node, GradSpan incoming, std::span<const bool> wanted);
  void capture(const NodeState& state);
  Grads apply(Node& node, SmallVector<Tensor, 1> incoming, std::span<const bool> wanted);
  Grads apply_watched(Node& node, SmallVector<Tensor, 1> incoming, std::span<const bool> wanted);

  const BackwardOptions options_;
  const std::vector<Edge> inputs_;
  const bool accumulate_;
  NodeTable table_;
  std::vector<NodeState> states_;  // by a node's number
  uint32_t roots_ = 0;             // the first so many states are those of the roots
  std::vector<Capture> captures_;  // by input
  std::vector<Tensor> captured_;   // by input
  std::vector<Ready> ready_;       // a heap
  TaskStreams streams_;
  bool defers_ = false;               // see Node::kDefers
  NodeObserver* observer_ = nullptr;  // of the thread that runs the pass
};

}  // namespace rush
