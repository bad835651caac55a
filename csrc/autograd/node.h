// node.h: the graph that backward walks. A Node is one op that ran; an Edge leads to the node that
// made an input.
//
// - An op's outputs point to its node; the node points to the nodes of its inputs. Backward follows
//   these edges.
// - Leaves end in an AccumulateGrad node, which adds what arrives to the leaf's .grad.
// - Graphs are freed with a list: a chain of a million ops must not overflow (deferred_delete.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "core/intrusive.h"
#include "core/small_vector.h"
#include "core/tensor.h"

namespace rush {

class Node;
class AccumulateGrad;
struct KeptCall;
struct NodeExtras;

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
  bool arranged = false;  // it was when it was made, see core/layout.h
};

using Grads = SmallVector<Tensor, 3>;
using GradSpan = std::span<const Tensor>;

// Note [Sequence numbers]
// The engine runs the youngest ready node first. A node is younger than the nodes of its inputs and
// than what its thread recorded before; numbers of different threads are comparable only along
// edges, which is all that the order needs, and cost no shared counter. Leaves come before all: a
// gradient that is complete is put away at once.
inline constexpr uint64_t kLeafSequence = UINT64_MAX;

class RUSH_API Node : public Counted<Node> {
 public:
  static constexpr bool seen_by_pointers() { return true; }  // a leaf remembers its accumulator

  enum Trait : uint8_t {
    // apply() may run a user's code: the engine then takes no lock around it, see
    // Note [One thread a node].
    kRunsUserCode = 1,
    // apply() is called even when no gradient arrived, and is given what did arrive as it is. The
    // others are skipped then, and get zeros for those of several results that are missing.
    kTakesUndefined = 2,
    // Recorded in a compiled function: backward defers its ops, too (device/deferred.h).
    kDefers = 4,
  };

  Node();
  virtual ~Node();

  virtual const char* name() const = 0;
  // From the gradients of the results to those of the inputs. wanted[i]: edge i leads somewhere
  // that matters. A gradient whose use count is one dies with the call: its memory may be reused.
  virtual Grads apply(GradSpan grads, std::span<const bool> wanted) = 0;
  // Drops what was saved; a second backward that needs it then raises, and names the place.
  void drop_saved(SourcePoint here) {
    released_at_.store(here, std::memory_order_relaxed);
    release_saved();
  }
  // Where the user called the op that this node stands for, and the backward that released it.
  SourcePoint source() const { return source_; }
  SourcePoint released_at() const { return released_at_.load(std::memory_order_relaxed); }
  virtual AccumulateGrad* as_accumulator() { return nullptr; }
  // What the node of an op keeps of its call (ops/framework/kept.h); false for other nodes.
  virtual bool show_kept(KeptCall&) { return false; }

  // Hooks and whatever else hangs on this node (hooks.h); null for most.
  NodeExtras* extras() const { return extras_.load(std::memory_order_acquire); }
  NodeExtras& make_extras();

  uint64_t sequence() const { return sequence_; }
  bool has(Trait t) const { return traits_ & t; }
  const SmallVector<Edge, 3>& edges() const { return edges_; }
  void add_edge(Edge e) {
    edges_.push_back(std::move(e));
    order_after(edges_[edges_.size() - 1]);
  }
  void set_edge(size_t i, Edge e) {
    edges_[i] = std::move(e);
    order_after(edges_[i]);
  }
  const SmallVector<ResultMeta, 1>& results() const { return results_; }
  uint32_t add_result(const Tensor& t);

  static void* operator new(size_t bytes);
  static void operator delete(void* p, size_t bytes) noexcept;
  static void destroy(Node* n) noexcept;

 protected:
  void set_trait(Trait t) { traits_ |= t; }
  void set_sequence(uint64_t s) { sequence_ = s; }
  virtual void release_saved() {}

 private:
  friend class NodeLock;
  friend class DeferredDelete;
  void order_after(const Edge& e) {
    if (e && e.node->sequence_ >= sequence_ && e.node->sequence_ != kLeafSequence) [[unlikely]]
      overtake(e.node->sequence_);
  }
  void overtake(uint64_t sequence);

  std::atomic<uint32_t> busy_{0};  // who runs it, see NodeLock
  uint8_t traits_ = 0;
  union {
    uint64_t sequence_;
    Node* next_doomed_;  // once it is dead
  };
  SourcePoint source_ = source_here();
  std::atomic<SourcePoint> released_at_{};  // nodes that are not locked may be released twice
  SmallVector<Edge, 3> edges_;
  SmallVector<ResultMeta, 1> results_;
  std::atomic<NodeExtras*> extras_{nullptr};
};

}  // namespace rush
