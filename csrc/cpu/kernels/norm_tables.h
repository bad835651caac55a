// norm_tables.h: the loops of normalisations, over stretches that lie end to end.
//
// "Plane" loops share one channel's numbers over the stretch; "row" loops have numbers of their own
// for each element. Sums of float32 are taken in float32 over short pieces and in double across
// them.
#pragma once

#include <cstdint>

#include "cpu/kernels/tables.h"

namespace rush {

template <class T>
struct NormTable {
  // Mean and sum of squared differences from it.
  void (*moments)(const T* x, int64_t n, double* mean, double* m2);
  // Sum of squares.
  void (*squares)(const T* x, int64_t n, double* sum);
  // y = (x - mean) * scale + shift
  void (*plane)(const T* x, T* y, int64_t n, T mean, T scale, T shift);
  // Sums of g and of g * (x - mean).
  void (*plane_sums)(const T* g, const T* x, int64_t n, T mean, double* sum_g, double* sum_gx);
  // gx = a * g + b * (x - mean) + c
  void (*plane_backward)(const T* g, const T* x, T* gx, int64_t n, T mean, T a, T b, T c);

  // y = (x - mean) * rstd * w + b, with w and b by element, mean and rstd those of each row of n.
  // Without `centred` the mean is taken for 0.
  void (*rows)(const T* x, T* y, int64_t count, int64_t n, const T* w, const T* b, bool centred,
               double eps, T* mean, T* rstd);
  // gx, and gw += g * (x - mean) * rstd, gb += g by element; either may be null, gw and gb both.
  void (*rows_backward)(const T* g, const T* x, const T* w, T* gx, int64_t count, int64_t n,
                        const T* mean, const T* rstd, bool centred, T* gw, T* gb);

  // Channels last: `rows` rows of n channels, all numbers by channel.
  // sum += x - shift, square += (x - shift)^2
  void (*last_sums)(const T* x, int64_t rows, int64_t n, const T* shift, T* sum, T* square);
  // y = (x - mean) * scale + shift
  void (*last)(const T* x, T* y, int64_t rows, int64_t n, const T* mean, const T* scale,
               const T* shift);
  // sum_g += g, sum_gx += g * (x - mean)
  void (*last_backward_sums)(const T* g, const T* x, int64_t rows, int64_t n, const T* mean,
                             T* sum_g, T* sum_gx);
  // gx = a * g + b * (x - mean) + c
  void (*last_backward)(const T* g, const T* x, T* gx, int64_t rows, int64_t n, const T* mean,
                        const T* a, const T* b, const T* c);
};

template <Isa isa, class T>
const NormTable<T>* norm_table();

}  // namespace rush
