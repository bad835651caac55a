// node.h: the graph that backward walks. A Node is one op that ran; an Edge leads to the node that
// made an input.
//
// - An op's outputs point to its node; the node points to the nodes of its inputs. Backward follows
// these edges.
// - Leaves end in an AccumulateGrad node, which adds what arrives to the leaf's .grad.
// - Graphs are freed with a stack: a chain of a million ops must not overflow (see Node::destroy).
#pragma once

#include <cstdint>
#include <span>

#include "core/intrusive.h"
#include "core/small_vector.h"
#include "core/tensor.h"

namespace rush {

class Node;

struct Edge {
  Ref<Node> node;
  uint32_t slot = 0;  // which result of that node
  explicit operator bool() const { return bool(node); }
};

// What a gradient arriving at one result of a node must look like.
struct ResultMeta {
  Dims sizes;
  DType dtype = DType::Float32;
  Device device;
};

using Grads = SmallVector<Tensor, 3>;
using GradSpan = std::span<const Tensor>;

class RUSH_API Node : public Counted<Node> {
 public:
  Node();
  virtual ~Node() = default;

  virtual const char* name() const = 0;
  // From the gradients of the results to those of the inputs. wanted[i]: edge i leads somewhere
  // that matters.
  virtual Grads apply(GradSpan grads, std::span<const bool> wanted) = 0;
  // Drops what was saved; a second backward that needs it then raises, and names this place.
  void drop_saved() {
    released_at_ = source_here();
    release_saved();
  }
  // Where the user called the op that this node stands for, and the backward that released it.
  SourcePoint source() const { return source_; }
  SourcePoint released_at() const { return released_at_; }

  uint64_t sequence() const { return sequence_; }
  void set_sequence(uint64_t s) { sequence_ = s; }
  const SmallVector<Edge, 3>& edges() const { return edges_; }
  void add_edge(Edge e) { edges_.push_back(std::move(e)); }
  void set_edge(size_t i, Edge e) { edges_[i] = std::move(e); }
  const SmallVector<ResultMeta, 1>& results() const { return results_; }
  uint32_t add_result(const Tensor& t);

  static void destroy(Node* n) noexcept;

 protected:
  virtual void release_saved() {}

 private:
  friend struct NodeReaper;
  uint64_t sequence_;
  SourcePoint source_ = source_here();
  SourcePoint released_at_;
  SmallVector<Edge, 3> edges_;
  SmallVector<ResultMeta, 1> results_;
};

}  // namespace rush
