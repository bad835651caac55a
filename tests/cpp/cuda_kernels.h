// cuda_kernels.h: what the tests of the CUDA kernels share.
#pragma once

#include <vector>

#include "cuda/kernels/element.h"

struct Dim {
  rush::i64 size;
  std::vector<rush::i64> strides;
};
template <class I, int Operands>
rush::Nest<I, Operands> nest_of(const std::vector<Dim>& dims) {
  rush::Nest<I, Operands> nest{};
  nest.dims = int(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    nest.sizes[d] = rush::Divider<I>::of(I(dims[d].size));
    for (size_t o = 0; o < Operands; ++o) nest.strides[d][o] = I(dims[d].strides[o]);
  }
  return nest;
}

template <class T>
std::vector<T> counted(size_t n, int modulus = 1 << 30) {
  std::vector<T> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = T(float(int(i * 7 + 3) % modulus));
  return v;
}

inline rush::Number whole(rush::i64 x) { return {0, 0, x, true}; }
inline rush::Number real(double x) { return {x, 0, 0, false}; }

inline constexpr Dim3 kBlock{rush::kThreads};
