#include "ops/framework/cost.h"

#include <bit>

namespace rush {
namespace cost {
namespace {

template <class F>
int64_t summed(const Value& v, F&& f) {
  if (v.tag() == Value::Tag::Tensor) return v.tensor().defined() ? f(v.tensor()) : 0;
  int64_t sum = 0;
  if (v.tag() == Value::Tag::Tensors) {
    for (const Tensor& t : v.tensors()) sum += t.defined() ? f(t) : 0;
  }
  return sum;
}

}  // namespace

int64_t numel(const Value& v) {
  return summed(v, [](const Tensor& t) { return t.numel(); });
}
int64_t bytes(const Value& v) {
  return summed(v, [](const Tensor& t) { return t.numel() * element_size(t.dtype()); });
}
int64_t size(const Value& v, int64_t dim) {
  if (v.tag() != Value::Tag::Tensor || !v.tensor().defined()) return 1;
  const int64_t rank = v.tensor().dim(), at = dim < 0 ? dim + rank : dim;
  return at >= 0 && at < rank ? v.tensor().sizes()[size_t(at)] : 1;
}
int64_t extent(const Value& v, const Value& dims) {
  int64_t product = 1;
  if (dims.tag() == Value::Tag::Ints) {
    for (const int64_t d : dims.ints()) product *= size(v, d);
  }
  return product;
}
int64_t prod(const Value& ints) {
  int64_t product = 1;
  if (ints.tag() == Value::Tag::Ints) {
    for (const int64_t n : ints.ints()) product *= n;
  }
  return product;
}
int64_t ratio(int64_t a, int64_t b) { return b == 0 ? 0 : a / b; }
int64_t log2(int64_t n) { return n <= 1 ? 0 : std::bit_width(uint64_t(n - 1)); }

int64_t pointwise_flops(const Value*, const Value* results) { return numel(results[0]); }
int64_t reduction_flops(const Value* args, const Value*) { return numel(args[0]); }

}  // namespace cost

namespace {
// Whether its cost is that of the ops it calls.
bool has_parts(const OpEntry& entry) {
  return entry.kind == OpKind::Composite && !entry.flops && !entry.bytes;
}
}  // namespace

OpCost op_cost(const OpEntry& entry, const Value* args, const Value* results) {
  if (entry.kind == OpKind::View || has_parts(entry)) return {0, 0};
  OpCost cost{entry.flops ? entry.flops(args, results) : 0, 0};
  if (entry.bytes) {
    cost.bytes = entry.bytes(args, results);
    return cost;
  }
  // `out` is among the results, and what was in it is not read; nor is what `uniform_` writes to.
  const size_t end = entry.args.size() - (entry.form == Form::Out ? 1 : 0);
  for (size_t i = entry.kind == OpKind::Mutate ? 1 : 0; i < end; ++i)
    cost.bytes += cost::bytes(args[i]);
  for (size_t i = 0; i < entry.num_results; ++i) cost.bytes += cost::bytes(results[i]);
  return cost;
}

void CostRecorder::call(const OpEntry& entry, Value* args, Value* results) {
  if (has_parts(entry)) return run_under(this, entry, args, results);
  entry.boxed(args, results);
  recorded_.push_back({&entry, op_cost(entry, args, results)});
}

}  // namespace rush
