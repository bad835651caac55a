// softmax_tables.h: the loops of softmax and of the losses made of it.
//
// A "row" is n scores that lie end to end. "Columns" are n neighbouring positions whose scores lie
// `stride` apart, one row of positions per class; n is at most kColumns.
#pragma once

#include <cstdint>

#include "cpu/kernels/tables.h"

namespace rush {

inline constexpr int64_t kColumns = 256;

template <class T>
struct SoftmaxTable {
  // y = softmax(x); y may be x.
  void (*softmax)(const T* x, T* y, int64_t n);
  // y = x - log(sum e^x); y may be x.
  void (*log_softmax)(const T* x, T* y, int64_t n);
  // gx = y (g - sum g y); gx may be g.
  void (*softmax_backward)(const T* g, const T* y, T* gx, int64_t n);
  // gx = g - e^y sum g; gx may be g.
  void (*log_softmax_backward)(const T* g, const T* y, T* gx, int64_t n);
  // log(sum e^x) of rows that lie end to end
  void (*log_sum_exp)(const T* x, int64_t rows, int64_t n, T* out);
  // sum w x; w may be null: all ones.
  T (*weighted_sum)(const T* x, const T* w, int64_t n);
  // y = a e^(x - shift) - b w; w may be null: all ones. y may be x.
  void (*scaled_softmax)(const T* x, T* y, int64_t n, T shift, T a, T b, const T* w);

  void (*column_log_sum_exp)(const T* x, int64_t classes, int64_t stride, int64_t n, T* out);
  // y = a e^(x - shift) - b, with numbers of their own for each position.
  void (*column_scaled_softmax)(const T* x, T* y, int64_t n, const T* shift, const T* a, T w,
                                const T* b);
};

template <Isa isa, class T>
const SoftmaxTable<T>* softmax_table();

}  // namespace rush
