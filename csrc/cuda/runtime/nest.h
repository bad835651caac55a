// nest.h: shapes and strides of a launch, coalesced and packed for the kernels.
#pragma once

#include <array>
#include <cstdint>

#include "core/tensor.h"
#include "cuda/kernels/args.h"

namespace rush::cuda {

// Several operands over one shape, strides in elements. Dims are added from the outermost inwards.
template <int N>
class Walk {
 public:
  int dims = 0;
  int64_t numel = 1;
  std::array<int64_t, kMaxDims> sizes;
  std::array<std::array<int64_t, N>, kMaxDims> strides;

  void add(int64_t size, const std::array<int64_t, N>& steps) {
    numel *= size;
    if (size == 1) return;
    sizes[size_t(dims)] = size;
    strides[size_t(dims++)] = steps;
  }

  // Dim 0 becomes the innermost. `sorted`: by the operands' strides, the first operand that moves
  // along both dims decides; otherwise the order stays row-major. Then neighbours that lie end to
  // end in every operand become one.
  void coalesce(bool sorted = true) {
    std::reverse(sizes.begin(), sizes.begin() + dims);
    std::reverse(strides.begin(), strides.begin() + dims);
    if (sorted) sort();
    int last = 0;
    for (int d = 1; d < dims; ++d) {
      bool merges = true;
      for (int o = 0; o < N; ++o) merges &= at(d)[o] == at(last)[o] * sizes[size_t(last)];
      if (merges) {
        sizes[size_t(last)] *= sizes[size_t(d)];
      } else {
        ++last;
        sizes[size_t(last)] = sizes[size_t(d)];
        strides[size_t(last)] = strides[size_t(d)];
      }
    }
    dims = dims ? last + 1 : 0;
  }

  // Do all counts and offsets fit into 31 bits?
  bool is_short() const {
    if (numel >= int64_t(1) << 31) return false;
    for (int o = 0; o < N; ++o) {
      int64_t reach = 0;
      for (int d = 0; d < dims; ++d) reach += (sizes[size_t(d)] - 1) * std::abs(at(d)[o]);
      if (reach >= int64_t(1) << 31) return false;
    }
    return true;
  }

  template <class I>
  Nest<I, N> nest() const {
    Nest<I, N> out{};
    out.dims = std::min(dims, kNestDims);
    for (int d = 0; d < out.dims; ++d) {
      out.sizes[d] = Divider<I>::of(I(std::max<int64_t>(sizes[size_t(d)], 1)));
      for (int o = 0; o < N; ++o) out.strides[d][o] = I(at(d)[o]);
    }
    return out;
  }

  // Calls f(offsets, count): once for most shapes; for one of more dims than a kernel takes, once
  // for each index of the outer ones.
  template <class F>
  void peel(F f) const {
    std::array<int64_t, N> offsets{};
    if (numel == 0) return;
    if (dims <= kNestDims) return f(offsets, numel);
    int64_t outer = 1;
    for (int d = kNestDims; d < dims; ++d) outer *= sizes[size_t(d)];
    for (int64_t i = 0; i < outer; ++i) {
      int64_t rest = i;
      offsets = {};
      for (int d = kNestDims; d < dims; ++d) {
        const int64_t k = rest % sizes[size_t(d)];
        rest /= sizes[size_t(d)];
        for (int o = 0; o < N; ++o) offsets[size_t(o)] += k * at(d)[o];
      }
      f(offsets, numel / outer);
    }
  }

 private:
  const int64_t* at(int d) const { return strides[size_t(d)].data(); }

  void sort() {
    for (int d = 1; d < dims; ++d) {
      for (int k = d; k > 0; --k) {
        const int order = inner_first(at(k), at(k - 1));
        if (order < 0) break;
        if (order == 0) continue;  // look past a dim that decides nothing
        std::swap(sizes[size_t(k)], sizes[size_t(k - 1)]);
        std::swap(strides[size_t(k)], strides[size_t(k - 1)]);
      }
    }
  }
  static int inner_first(const int64_t* a, const int64_t* b) {
    for (int o = 0; o < N; ++o) {
      if (a[o] == 0 || b[o] == 0 || a[o] == b[o]) continue;
      return a[o] < b[o] ? 1 : -1;
    }
    return 0;
  }
};

// The stride of t along dim d of a shape of rank `rank` that t broadcasts to.
inline int64_t stride_along(const TensorImpl* t, size_t d, size_t rank) {
  if (!t) return 0;
  const size_t missing = rank - t->sizes.size();
  return d < missing || t->sizes[d - missing] == 1 ? 0 : t->strides[d - missing];
}

// Operands that broadcast to the first one's shape; null stands for one element.
template <int N>
Walk<N> walk_over(const std::array<const TensorImpl*, N>& operands) {
  Walk<N> walk;
  const Dims& shape = operands[0]->sizes;
  for (size_t d = 0; d < shape.size(); ++d) {
    std::array<int64_t, N> steps;
    for (size_t o = 0; o < size_t(N); ++o) steps[o] = stride_along(operands[o], d, shape.size());
    walk.add(shape[d], steps);
  }
  walk.coalesce();
  return walk;
}

// Calls f with a Nest of 32-bit or 64-bit indices, whichever the walk needs.
template <int N, class F>
void with_nest(const Walk<N>& walk, F f) {
  if (walk.is_short())
    f(walk.template nest<u32>());
  else
    f(walk.template nest<u64>());
}

}  // namespace rush::cuda
