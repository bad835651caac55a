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

  // Tells the observer, if there is one, of the part that its scope is.
  class Scope {
   public:
    Scope(NodeObserver* o, const Node& node, Part part) : observer_(o), node_(node), part_(part) {
      if (observer_) [[unlikely]]
        begin();
    }
    ~Scope() {
      if (observer_) [[unlikely]]
        end();
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    void begin() {
      exceptions_ = std::uncaught_exceptions();
      observer_->begin_node(node_, part_);
    }
    void end() { observer_->end_node(node_, part_, std::uncaught_exceptions() > exceptions_); }
    NodeObserver* const observer_;
    const Node& node_;
    const Part part_;
    int exceptions_ = 0;
  };
};

// The engine goes on with a thread of its own, for a pass that an observed thread began: called
// there. Null: threads are not observed.
extern RUSH_API void (*g_observe_thread)();

// Of this thread; null: none. It outlives the passes that began with it.
NodeObserver* node_observer();
RUSH_API void set_node_observer(NodeObserver* o);

}  // namespace rush
