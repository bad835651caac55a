#include "cpu/loop_nest.h"

#include <algorithm>

namespace rush {

namespace {

// Should dim a lie inside dim b? The first operand that moves along both decides; 0: nobody does.
int inner_first(const int64_t* a, const int64_t* b, int operands) {
  for (int i = 0; i < operands; ++i) {
    if (a[i] == 0 || b[i] == 0 || a[i] == b[i]) continue;
    return a[i] < b[i] ? 1 : -1;
  }
  return 0;
}

}  // namespace

LoopNest::LoopNest(std::span<const LoopOperand> ops) { build(ops[0].geometry->sizes, ops); }

LoopNest::LoopNest(IntList shape, std::span<const LoopOperand> ops) { build(shape, ops); }

void LoopNest::build(IntList shape, std::span<const LoopOperand> ops) {
  operands = int(ops.size());
  dims = 0;
  numel = 1;
  for (int i = 0; i < operands; ++i) base[i] = ops[i].data;
  const int rank = int(shape.size());
  for (int d = rank - 1; d >= 0; --d) {
    numel *= shape[d];
    if (shape[d] == 1) continue;
    sizes[dims] = shape[d];
    for (int i = 0; i < operands; ++i) {
      const TensorImpl* t = ops[i].geometry;
      const int own = t ? d - (rank - int(t->sizes.size())) : -1;
      const bool moves = own >= 0 && t->sizes[own] != 1;
      strides[dims][i] = moves ? t->strides[own] * ops[i].item() : 0;
    }
    ++dims;
  }
  // Insertion sort: few dims, mostly in order, and undecided pairs must keep their places.
  for (int d = 1; d < dims; ++d) {
    for (int k = d; k > 0; --k) {
      const int order = inner_first(strides[k], strides[k - 1], operands);
      if (order < 0) break;
      if (order == 0) continue;  // look past a dim that decides nothing
      std::rotate(sizes + k - 1, sizes + k, sizes + k + 1);
      std::swap_ranges(strides[k], strides[k] + operands, strides[k - 1]);
    }
  }
  int last = 0;
  for (int d = 1; d < dims; ++d) {
    bool merges = true;
    for (int i = 0; i < operands; ++i) merges &= strides[d][i] == strides[last][i] * sizes[last];
    if (merges) {
      sizes[last] *= sizes[d];
      continue;
    }
    ++last;
    sizes[last] = sizes[d];
    std::copy_n(strides[d], operands, strides[last]);
  }
  if (dims == 0) {
    sizes[0] = 1;
    std::fill_n(strides[0], operands, 0);
  }
  dims = last + 1;
}

void LoopNest::run(int64_t begin, int64_t end, RowFn fn, const void* context) const {
  if (begin >= end) return;
  char* ptrs[kMaxOperands];
  std::copy_n(base, operands, ptrs);
  int64_t index[kMaxDims];
  int64_t rest = begin;
  for (int d = 0; d < dims; ++d) {
    index[d] = rest % sizes[d];
    rest /= sizes[d];
    for (int i = 0; i < operands; ++i) ptrs[i] += index[d] * strides[d][i];
  }
  for (int64_t left = end - begin;;) {
    const int64_t n = std::min(left, sizes[0] - index[0]);
    fn(ptrs, strides[0], n, context);
    left -= n;
    if (left == 0) return;
    for (int i = 0; i < operands; ++i) ptrs[i] -= index[0] * strides[0][i];
    index[0] = 0;
    for (int d = 1;; ++d) {
      for (int i = 0; i < operands; ++i) ptrs[i] += strides[d][i];
      if (++index[d] < sizes[d]) break;
      for (int i = 0; i < operands; ++i) ptrs[i] -= sizes[d] * strides[d][i];
      index[d] = 0;
    }
  }
}

void loop(std::span<const LoopOperand> ops, RowFn fn, const void* context) {
  const int64_t n = ops[0].geometry->numel;
  if (n == 0) return;
  if (!is_flat(ops)) {
    LoopNest(ops).run_parallel(fn, context);
    return;
  }
  int64_t strides[kMaxOperands];
  char* ptrs[kMaxOperands];
  for (size_t i = 0; i < ops.size(); ++i) {
    ptrs[i] = ops[i].data;
    strides[i] = i == 0 || (ops[i].geometry && ops[i].geometry->numel != 1) ? ops[i].item() : 0;
  }
  if (n <= kGrain) {
    fn(ptrs, strides, n, context);
    return;
  }
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    char* at[kMaxOperands];
    for (size_t i = 0; i < ops.size(); ++i) at[i] = ptrs[i] + begin * strides[i];
    fn(at, strides, end - begin, context);
  });
}

}  // namespace rush
