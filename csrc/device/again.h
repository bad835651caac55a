// again.h: tensors saved for backward that are not kept, but computed again when backward asks.
//
// Note [What is made again]
// In a compiled function a saved tensor is often the result of a few cheap steps over memory that
// lives until backward anyway: the input of a convolution is silu(group_norm(x)), and group norm
// keeps x. Such a tensor is saved as the recipe of its steps.
// - A result that still waits when it is saved is decided on when the queue runs: where nobody but
//   saved tensors hold it, its step stays a recipe. One that was just computed (the operand of a
//   product) is decided on when it is saved; the queue remembers the recipes of its last run for that.
//   The memory goes when the program lets go of it.
// - A recipe pays where what it reads, and what nothing else keeps, is smaller than the tensor
//   (Storage::kKept marks what is kept anyway), and where it has at most kMostStepsAgain steps.
// - Backward puts the steps into the queue of its own thread, with fresh forms, so they share the
//   pass that reads them. A form is shared only within a thread, where several nodes saved the tensor.
//
// What comes out has the bits that were there:
// - A recipe owns aliases of what it reads, so nothing that a program does to a tensor (data,
//   resize_) changes them. Memory that can change unseen is never read, and before memory is given out
//   or written to, in whatever way, those who read it are computed: before_write_to() in core/layout.h.
// - Who writes to the tensor itself, through `.data` say, finds the saved one changed, as without all
//   this: the memory takes the recipe's place (Storage::kRemade says that there is one).
// - Dropout's choices, a norm's statistics of groups and channels are memory like any other.
//
// What another thread writes while a backward pass reads it is as undefined as it is for all that
// waits in a queue.
#pragma once

#include <atomic>
#include <memory>
#include <unordered_map>

#include "device/deferred_plan.h"

namespace rush::deferred {

class Queue;
inline constexpr int kMostStepsAgain = 8;

class RUSH_API Again : public std::enable_shared_from_this<Again> {
 public:
  // Holds a form, which waits, until somebody decides.
  static std::shared_ptr<Again> holding(const Tensor& form);
  // For the result of a step; remember() comes next.
  static std::shared_ptr<Again> of(const Recipe& step);
  ~Again();
  Again(const Again&) = delete;
  Again& operator=(const Again&) = delete;

  // The form that it holds: it waits, or is in memory. Undefined: there is a recipe.
  Tensor form() const;
  bool has_recipe() const { return !form().defined(); }
  int steps() const { return steps_; }
  // From now on it holds the recipe of this step, with memory or others (`from`) as operands, and no
  // form. Where the result is in memory for the time being, `made` is that memory.
  void remember(const Recipe& step, std::array<std::shared_ptr<Again>, 3> from, Storage* made);
  // The recipe, with its operands but for those that come from others, and these. False: it holds a
  // form by now.
  bool look(Recipe& step, std::array<std::shared_ptr<Again>, 3>& from) const;
  Tensor fresh_form() const;

  // Its values in memory, computed step by step.
  Tensor compute();

  // The same where this thread's stream is not the one that it belongs to, which is then waited for;
  // undefined: it is.
  Tensor compute_elsewhere();

  // Computes it now, and holds the values from now on.
  void settle();

  // Saved tensors that stand for it.
  void add_save() { saves_.fetch_add(1, std::memory_order_relaxed); }
  void drop_save();
  int saves() const { return saves_.load(std::memory_order_relaxed); }

  // What a thread's queue has made of it, for other nodes that saved it.
  Tensor made_by(const Queue* queue) const;
  void share(const Queue* queue, const Tensor& form);

 private:
  friend struct Registry;
  // By address: thousands may read one tensor, and each leaves by itself.
  using Readers = std::unordered_map<const Again*, std::weak_ptr<Again>>;
  friend void settle(const Storage* storage);
  Again() = default;
  void settle_as(Tensor form);
  void settle_readers();
  void forget_reads();

  // Guarded by the registry's mutex; steps_ and what describes the result are set once.
  Tensor form_;
  Recipe step_{};
  std::array<std::shared_ptr<Again>, 3> from_;
  Readers readers_;                  // of it
  const Storage* result_ = nullptr;  // where it was
  Tensor made_;
  const Queue* made_by_ = nullptr;
  bool watches_ = false;
  std::atomic<bool> was_settled_{false};  // it has a form that came later

  Dims sizes_, strides_;
  DType dtype_{};
  Device device_;
  int64_t stream_ = 0;
  int steps_ = 1;
  std::atomic<int> saves_{0};
};

// Whose result this memory is, if that will be made again; null: nobody's.
std::shared_ptr<Again> again_of(const Storage* storage);

// A tensor that is being saved on this thread, in a compiled function. Null: it is saved as it is.
RUSH_API std::shared_ptr<Again> save_again(const Tensor& t);
// For the formula that wants it: its form, in memory or waiting on this thread.
RUSH_API Tensor form_again(const std::shared_ptr<Again>& again);

}  // namespace rush::deferred
