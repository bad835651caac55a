// node_observer.h: what is told of every node that backward runs on a thread.
#pragma once

#include <exception>

#include "autograd/node.h"

namespace rush {

class NodeObserver {
 public:
  // Evaluate: all that the engine does for a node, hooks and sums of gradients included. Apply,
  // inside it: the node's own formula.
  enum class Part : uint8_t { Evaluate, Apply };

  virtual ~NodeObserver() = default;
  virtual void begin_node(const Node& node, Part part) noexcept = 0;
  virtual void end_node(const Node& node, Part part, bool failed) noexcept = 0;

  // Tells the observer of the part that its scope is.
  class Scope {
   public:
    Scope(NodeObserver& o, const Node& node, Part part)
        : observer_(o), node_(node), part_(part), exceptions_(std::uncaught_exceptions()) {
      observer_.begin_node(node_, part_);
    }
    ~Scope() { observer_.end_node(node_, part_, std::uncaught_exceptions() > exceptions_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    NodeObserver& observer_;
    const Node& node_;
    const Part part_;
    const int exceptions_;
  };
};

// The engine goes on with a thread of its own, for a pass that an observed thread began: called
// there. Null: threads are not observed.
extern RUSH_API void (*g_observe_thread)();

// Of this thread; null: none. It outlives the passes that began with it.
NodeObserver* node_observer();
RUSH_API void set_node_observer(NodeObserver* o);

}  // namespace rush
