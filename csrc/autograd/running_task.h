// running_task.h: the pass of backward that this thread is in, as hooks may ask about it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/export.h"

namespace rush {

class Node;

class RUSH_API RunningTask {
 public:
  static const RunningTask* current();                   // null outside of backward
  int64_t id() const { return id_; }                     // no other pass of the process has it
  bool fills_all_leaves() const { return all_leaves_; }  // no inputs were named
  bool keeps_graph() const { return keeps_graph_; }      // saved tensors may be asked for again
  // Will this node run, or its gradient be taken, in this pass?
  virtual bool will_run(const Node* node) const = 0;
  Node* running_node() const { return running_; }  // null between two nodes
  // Called once when all nodes have run, in the order they came; by the thread that runs the pass.
  void at_end(std::function<void()> callback) const { at_end_.push_back(std::move(callback)); }

 protected:
  RunningTask(bool all_leaves, bool keeps_graph);
  ~RunningTask() = default;
  void run_callbacks() const;
  Node* running_ = nullptr;

  // Makes a task the current one for a scope.
  class Scope {
   public:
    explicit Scope(const RunningTask* task);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const RunningTask* outer_;
  };

 private:
  const int64_t id_;
  const bool all_leaves_, keeps_graph_;
  mutable std::vector<std::function<void()>> at_end_;
};

}  // namespace rush
