// lines_tables.h: weighted sums of lines of elements that lie end to end, and of elements that lie
// anywhere; for embeddings, interpolation and sampling.
#pragma once

#include <cstdint>

#include "cpu/kernels/tables.h"

namespace rush {

template <class T>
struct LinesTable {
  // y = a x, y += a x
  void (*scale)(T* y, const T* x, T a, int64_t n);
  void (*add)(T* y, const T* x, T a, int64_t n);
  // y = the sum of n rows of a table, times their weights where there are any.
  void (*sum_rows)(T* y, const T* table, const int64_t* index, const T* weight, int64_t n,
                   int64_t width);
  // y = x times scale where keep is 1, times 0 where it is 0.
  void (*masked_scale)(T* y, const T* x, const uint8_t* keep, T scale, int64_t n);
  T (*dot)(const T* x, const T* y, int64_t n);
  // y = max(y, x), place = index where x is larger (or NaN).
  void (*largest)(T* y, int64_t* place, const T* x, int64_t index, int64_t n);
  // y[i] = sum over k < taps of weight[k * step + i] * x[place[k * step + i]]; a negative place
  // counts as zero.
  void (*gather)(T* y, const T* x, const int32_t* place, const T* weight, int64_t taps,
                 int64_t step, int64_t n);
  // The same where no place is negative.
  void (*gather_inside)(T* y, const T* x, const int32_t* place, const T* weight, int64_t taps,
                        int64_t step, int64_t n);
  // y[i] += g[i] * x[place[i]]
  void (*gather_products)(T* y, const T* g, const T* x, const int32_t* place, int64_t n);
};

template <Isa isa, class T>
const LinesTable<T>* lines_table();

}  // namespace rush
