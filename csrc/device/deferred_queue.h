// deferred_queue.h: the queue of a thread, for deferred.cpp (what is taken, other threads) and
// deferred_run.cpp (what runs).
#pragma once

#include "core/layout.h"
#include "core/mutex.h"
#include "device/deferred.h"
#include "device/deferred_plan.h"

namespace rush::deferred {

class Queue;

// All queues, for threads that meet a pending result of another one.
struct Queues {
  Mutex mutex{LockRank::PendingResults};
  std::vector<Queue*> all;
};
Queues& queues();

// A form's recipe in the queue of its thread, counted from 1; 0: it has none. Forms are never cut off
// a graph, so that field of theirs is free. (`offset` is not: other threads install storage.)
inline uint32_t recipe_of(const TensorImpl* form) { return form->cut_at.code; }
inline void set_recipe(TensorImpl* form, size_t number) { form->cut_at.code = uint32_t(number); }

// Note [What waits longer]
// Some steps share no pass with others, but one launch serves many of them (device/lists.h). They
// have a list of their own.
// - Conversions of the elements of a dense tensor: the gradients of weights that were cast, and the
//   weights; those of convolutions change their layout with it. They leave the queue at the next
//   flush. Those that make elements wider wait until somebody asks for one of them, or all that waits
//   has to run: until then the narrow ones are kept, which take less memory than the wide ones would.
//   The others run with that flush. One that a step reads goes back to the queue, and shares a pass
//   with that.
// - Sums down columns, gradients of biases and norms, of which the large part is done: they hold what
//   the blocks of that have found, and wait like conversions to wider elements. One that is
//   converted becomes another such sum. The latest one, where it is asked for, runs alone: somebody goes
//   on with it, while those of before are gradients that nobody wants yet.
// Where one of these is asked for, the queue waits on: they read memory.

class Queue {
 public:
  Queue() {
    std::lock_guard lock(queues().mutex);
    queues().all.push_back(this);
  }
  ~Queue() {
    std::lock_guard lock(queues().mutex);
    std::erase(queues().all, this);
  }

  bool queue_step(FusedStep::Kind kind, unsigned fn, std::span<const Tensor* const> operands,
                  const Tensor& out, ParamSpan params, DType compute);
  bool queue_join(const Tensor& first, const Tensor& second, int64_t dim, const Tensor& out);
  bool take_rows(RowStep row, std::span<const Tensor* const> operands, const Tensor& out);
  bool take_fold(ReduceFn fn, const char* name, const Tensor& x, int64_t rows, const Tensor& out);
  void take_sums(ColumnSums sums, const Tensor& out);
  bool take_product(Product product, std::span<const Tensor* const> operands, const Tensor& out);
  Tensor contiguous_cast(const Tensor& t);
  // Of a product that waits: null where t is none.
  const Recipe* product_of(const Tensor& t) const {
    const int number = running_ ? -1 : number_of(arranged_form(t));
    return number >= 0 && waiting_[size_t(number)].product ? &waiting_[size_t(number)] : nullptr;
  }
  // See Note [What is made again] in device/again.h: who stands for a tensor that is saved, and the
  // form that will have its values.
  std::shared_ptr<Again> save(const Tensor& t);
  Tensor adopt(const std::shared_ptr<Again>& again);
  void forget_made() {
    made_.clear();
    fresh_.clear();
  }
  // All that waits; or, where a result is asked for, all but what can wait longer.
  void flush(const char* why, const char* by, const TensorImpl* asked = nullptr);
  // The same before something is written to, in whatever way: no recipe for backward is left, and those
  // of the op that writes are computed.
  void flush_before_write(const char* why);
  // Does anything that waits read memory of these?
  bool reads_any(std::span<const Tensor* const> written) const;
  // A signal handler may run ops while the queue is: they see pending results as other threads do.
  bool is_running() const { return running_; }
  uint32_t references_to(const TensorImpl* form) const {
    uint32_t n = 0;
    for (const std::vector<Recipe>* recipes : {&waiting_, &late_}) {
      for (const Recipe& r : *recipes) {
        n += r.gives(form);
        for (const Tensor& operand : r.operands) n += operand.impl() == form;
      }
    }
    return n;
  }
  bool owns(const TensorImpl* form) const { return waits(form) || is_late(form); }
  // For another thread, under the mutex of all queues: the recipes of `form` and of all that it is
  // computed from, the inputs first. False: it is not in this queue.
  bool copy_recipes(const TensorImpl* form, std::vector<Recipe>& to) const;

  Settings settings;
  Counters counters;
  Report* report = nullptr;

 private:
  void add(Recipe r, std::span<const Tensor* const> operands);
  void number(size_t recipe) const;
  void run(const Group& group, const Plan& plan, Report::Flush* told);
  bool run_fused(const Group& group, const Plan& plan);
  void run_one_by_one(const Group& group, const Plan& plan);
  void run_waiting(Report::Flush* told, const TensorImpl* asked);
  void run_products(Report::Flush* told);
  int run_product(size_t number, Report::Flush* told);
  int only_reader(size_t product) const;
  void leave_again(const Plan& plan);
  void leave_origins(const Plan& plan) const;
  bool remembers_made() const;
  void let_go_recipes();
  void set_casts_apart(const TensorImpl* asked);
  void run_late(std::vector<const Recipe*> wanted, Report::Flush* told);
  void run_list(std::span<const Recipe* const> alike, Report::Flush* told);
  std::vector<const Recipe*> late_for(const TensorImpl* asked) const;
  bool holds_too_much() const;
  void let_go_unwanted();
  void take_back(const TensorImpl* form);
  bool take_cast_of_sums(const Tensor& x, const Tensor& out);
  const Tensor& known_number(const Tensor& number) const;
  bool waits(const TensorImpl* form) const {
    const size_t number = recipe_of(form);
    return number > 0 && number <= waiting_.size() && waiting_[number - 1].gives(form);
  }
  // Is it among those that wait longer? They are counted behind the others.
  bool is_late(const TensorImpl* form) const {
    const size_t number = recipe_of(form);
    return number > kMostWaiting && number <= kMostWaiting + late_.size() &&
           late_[number - kMostWaiting - 1].gives(form);
  }
  // Of the step whose result t is. Those beside a result do not count: nobody reads them late.
  int number_of(const Tensor& t) const {
    if (t.impl()->storage.load() || !waits(t.impl())) return -1;
    const int number = int(recipe_of(t.impl())) - 1;
    return waiting_[size_t(number)].out.is_same(t) ? number : -1;
  }

  // Both are changed under the mutex of all queues.
  std::vector<Recipe> waiting_;
  std::vector<Recipe> late_;  // see Note [What waits longer]
  std::vector<Recipe> made_;  // those of the last run, for what is saved next
  std::vector<std::shared_ptr<Again>>
      fresh_;  // what was saved as a recipe since the last step came
  bool leaves_recipes_ = true;
  bool running_ = false;
};

// Of this thread.
Queue& queue();

}  // namespace rush::deferred
