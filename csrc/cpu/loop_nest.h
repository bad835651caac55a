// loop_nest.h: walks several operands (output first) over one common shape, row by row.
//
// Dims of size 1 are dropped, the rest sorted by the output's strides (then the inputs'), and
// neighbours that lie end to end in every operand are merged, so that most loops become one long
// row. Rows are shared among threads above a grain; what an element gets never depends on how they
// were shared.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "core/tensor.h"
#include "core/threads.h"

namespace rush {

// A loop of more elements than this is shared among threads. Measured with two, the second one
// still spinning from the loop before: 33,000 additions take 4.0 us instead of 3.8, 66,000 take 5.7
// instead of 7.9; 33,000 exponentials 8.3 instead of 12.4. A thread that went to sleep takes 18 us
// to wake.
inline constexpr int64_t kGrain = 32768;

inline constexpr int kMaxOperands = 8;

// One row: n elements, operand i at ptrs[i] + k * strides[i] (bytes).
using RowFn = void (*)(char* const* ptrs, const int64_t* strides, int64_t n, const void* context);

// A tensor to walk, or (no geometry) one element that is read for every index.
struct LoopOperand {
  char* data = nullptr;
  const TensorImpl* geometry = nullptr;

  LoopOperand() = default;
  LoopOperand(const Tensor& t) : data(static_cast<char*>(t.data())), geometry(t.impl()) {}
  explicit LoopOperand(const void* element)
      : data(static_cast<char*>(const_cast<void*>(element))) {}
  int64_t item() const { return geometry ? element_size(geometry->dtype) : 0; }
};

// The coalesced nest; dim 0 is the innermost.
struct LoopNest {
  int operands, dims;
  int64_t numel;
  char* base[kMaxOperands];
  int64_t sizes[kMaxDims];
  int64_t strides[kMaxDims][kMaxOperands];

  // The shape is the first operand's; the others broadcast to it (callers have checked that they
  // do).
  explicit LoopNest(std::span<const LoopOperand> ops);
  // Shape given; used where the first operand broadcasts too (reductions).
  LoopNest(IntList shape, std::span<const LoopOperand> ops);

  // Elements [begin, end) in the nest's order, cut into rows.
  void run(int64_t begin, int64_t end, RowFn fn, const void* context) const;
  void run_parallel(RowFn fn, const void* context, int64_t grain = kGrain) const {
    parallel_for(numel, grain, [&](int64_t b, int64_t e) { run(b, e, fn, context); });
  }
  // For rows of elements that stand for whole lines: fn works across many of them at once, so a
  // thread's are not cut into steps, and fn asks for interrupts itself (core/interrupt.h).
  void run_lines(RowFn fn, const void* context, int64_t grain) const {
    parallel_for_whole(numel, grain, [&](int64_t b, int64_t e) { run(b, e, fn, context); });
  }

 private:
  void build(IntList shape, std::span<const LoopOperand> ops);
};

// Every operand contiguous with the output's shape, or a single element: one flat row.
inline bool is_flat(std::span<const LoopOperand> ops) {
  const TensorImpl* out = ops[0].geometry;
  if (!out->has(TensorImpl::kContiguous)) return false;
  for (const LoopOperand& op : ops.subspan(1)) {
    const TensorImpl* t = op.geometry;
    if (!t || t->numel == 1) continue;
    if (t->numel != out->numel || !t->has(TensorImpl::kContiguous)) return false;
  }
  return true;
}

// Runs fn over all operands, flat where possible, in parallel above the grain.
void loop(std::span<const LoopOperand> ops, RowFn fn, const void* context);
inline void loop(std::initializer_list<LoopOperand> ops, RowFn fn, const void* context) {
  loop(std::span(ops.begin(), ops.size()), fn, context);
}
// The same over elements that stand for lines, see LoopNest::run_lines.
inline void loop_lines(std::initializer_list<LoopOperand> ops, RowFn fn, const void* context,
                       int64_t grain) {
  LoopNest(std::span(ops.begin(), ops.size())).run_lines(fn, context, grain);
}

}  // namespace rush
