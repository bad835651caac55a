// cost.h: what a call costs, for profilers: floating-point operations and bytes read and written.
//
// The formulas are those of the rows (`profile:`), compiled into functions of the arguments and
// results that OpEntry points to. Nothing is computed until somebody asks. A composite without
// a formula costs nothing itself: the ops that it calls are counted. A multiplication and the
// addition after it are two operations, as in PyTorch's FLOP counter.
#pragma once

#include <string>
#include <vector>

#include "ops/framework/registry.h"

namespace rush {

struct OpCost {
  int64_t flops, bytes;
};
// Of a call that has returned.
RUSH_API OpCost op_cost(const OpEntry& entry, const Value* args, const Value* results);

struct RecordedCost {
  const OpEntry* entry;
  OpCost cost;
};
// While it lives, it records what the ops of this thread cost.
class RUSH_API CostRecorder final : public Interceptor {
 public:
  CostRecorder() { push_interceptor(this); }
  ~CostRecorder() override { pop_interceptor(this); }
  void call(const OpEntry& entry, Value* args, Value* results) override;
  const std::vector<RecordedCost>& recorded() const { return recorded_; }

 private:
  std::vector<RecordedCost> recorded_;
};

// The functions that formulas may call; codegen/formula.py has the same list. An argument that is
// None has no elements and no sizes; of a list of tensors the elements of all count.
namespace cost {

RUSH_API int64_t numel(const Value& v);
RUSH_API int64_t bytes(const Value& v);
RUSH_API int64_t size(const Value& v, int64_t dim);          // 1 where there is no such dim
RUSH_API int64_t extent(const Value& v, const Value& dims);  // the product of the sizes there
RUSH_API int64_t prod(const Value& ints);
RUSH_API int64_t log2(int64_t n);              // rounded up
RUSH_API int64_t ratio(int64_t a, int64_t b);  // rounded down; 0 where b is

// What rows without a formula have, by their class.
int64_t pointwise_flops(const Value* args, const Value* results);
int64_t reduction_flops(const Value* args, const Value* results);

}  // namespace cost
}  // namespace rush
