// vmap.h: one call that serves many samples.
//
// Note [Batched tensors]
// Inside vmap a function sees tensors without their batch dimension. Such a tensor is a wrapper: it
// has the sizes of one sample, no memory, and a pointer to the physical tensor, whose dimension 0
// counts the samples of one vmap level. Levels nest: the physical tensor may be a wrapper of an
// outer level. While a level is active an interceptor sees every call (ops/framework/registry.h);
// it takes the wrappers of the innermost level among the arguments apart, runs the op once on the
// physical tensors, by the rule of the op, and wraps the results.
//
// - Rules stand in vmap_rules.cpp and its kin, by class of op; the op's row names its own
//   (`batch:`, batch_rules.h). Composites need none: their bodies run on wrappers. What has no rule
//   runs sample by sample: slow, and right.
// - Autograd records the physical calls. A wrapper has no graph of its own.
// - A wrapper that outlives its level becomes a tensor without values (on the meta device).
//
// Note [Inputs that samples share]
// func.grad inside vmap gives every sample a gradient of its own, though all of them may share the
// input: the parameters, where gradients are asked for each sample. Such an input stays one tensor,
// and what is computed from it alone is computed once. Where it meets a tensor that has samples, it
// is repeated (`_spread_samples`, a view), and backward does not sum there as it does for expand:
// the gradient is wrapped. So a gradient has samples of those levels only that it depends on. For
// a derivative that is taken after the level was left, it is the sum.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "autograd/engine.h"
#include "core/generator.h"
#include "ops/framework/registry.h"

namespace rush {

enum class Randomness : uint8_t { Error, Different, Same };

// The new level, from 1. Linear: samples of tangents and gradients only, never of the values that a
// function computes with; a derivative inside need not have a value for each sample then.
RUSH_API int enter_vmap(int64_t size, Randomness randomness, bool linear = false);
RUSH_API void exit_vmap();
RUSH_API int vmap_level();  // the innermost level, 0 outside vmap
RUSH_API int64_t vmap_size(int level);
uint64_t vmap_id(int level);     // no two levels, now or later, have the same; 0 for level 0
int vmap_level_of(uint64_t id);  // 0 when it was left

// A wrapper of `physical`, whose dimension 0 counts the samples of `level`.
RUSH_API Tensor add_batch(const Tensor& physical, int level);
// The same for a tensor that may be a wrapper of a level above: the new one goes below it.
RUSH_API Tensor add_batch_below(const Tensor& t, int level);
// The physical tensor of a wrapper of that level; any other tensor as it is.
RUSH_API Tensor without_batch(const Tensor& t, int level);
// As above, but what is no wrapper of that level is repeated for every sample.
RUSH_API Tensor with_all_samples(const Tensor& t, int level);
// The tensor under all wrappers.
RUSH_API Tensor innermost(const Tensor& t);
// From now on the samples of the active levels have derivatives of their own, see Note [Inputs that
// samples share].
RUSH_API void differentiate_samples();
// grad() of autograd/engine.h, for roots and inputs that may be wrappers. for_each_sample: since
// the inputs were made, the samples of all levels of the roots have had derivatives of their own.
RUSH_API std::vector<Tensor> batched_grad(std::span<const Tensor> roots,
                                          std::span<const Tensor> grads,
                                          std::span<const Tensor> inputs,
                                          const BackwardOptions& options, bool for_each_sample);

// How often this thread ran each op sample by sample, for want of a rule, since it last asked.
RUSH_API std::map<std::string, int64_t> take_sample_loops();

// A call with wrappers of `level` among its arguments, for the rules.
class BatchedCall {
 public:
  BatchedCall(const OpEntry& entry, Value* args, Value* results, int level);

  const OpEntry& entry;
  const int level;
  const int64_t size;  // the number of samples

  size_t count() const { return entry.args.size(); }
  bool is_tensor(size_t i) const { return args_[i].tag() == Value::Tag::Tensor; }
  bool is_batched(size_t i) const;
  const Tensor& logical(size_t i) const {
    internal_assert(is_tensor(i) || args_[i].is_none(),
                    "a batching rule takes a number for a tensor");
    return args_[i].tensor();
  }
  Tensor physical(size_t i) const { return without_batch(logical(i), level); }
  Tensor all_samples(size_t i) const { return with_all_samples(logical(i), level); }
  const Value& given(size_t i) const { return args_[i]; }
  int find(std::string_view name) const;  // the position of an argument, or -1
  bool in_place() const { return entry.form == Form::InPlace; }

  // The arguments of the physical call, at first the physical tensors and the rest as given.
  void set(size_t i, Tensor t);
  void set(size_t i, std::vector<Tensor> list) { next_[i].own(std::move(list)); }
  void set(size_t i, int64_t value) { next_[i].set(value); }
  void set(size_t i, Dims values);
  void clear(size_t i) { next_[i].clear(); }
  // Runs the op on them and wraps the results.
  void run();
  // The same where a result is first seen otherwise.
  void run(const std::function<Tensor(const Tensor&, size_t)>& seen);
  // The result, when the rule has computed it with other ops. In place: written into self.
  void finish(Tensor physical_result);
  void finish_unbatched(Tensor result) { results_[0].own(std::move(result)); }
  // By a user's rule: it is told which arguments have samples (0: first in each tensor; -1: none),
  // and says the same of the results.
  using Rule = std::function<std::vector<int64_t>(const std::vector<int64_t>& in_dims, Value* args,
                                                  Value* results)>;
  void run_rule(const Rule& rule);
  // A result that is an argument which was written to.
  void give_back(size_t result, size_t argument) {
    results_[result].borrow(args_[argument].tensor().impl());
  }
  // Sample by sample; `repeat` starts each from where it stands now.
  void loop(Generator* repeat = nullptr);

 private:
  Value* args_;
  Value* results_;
  std::vector<Value> next_;
  std::vector<std::unique_ptr<Dims>> ints_;
};

}  // namespace rush
