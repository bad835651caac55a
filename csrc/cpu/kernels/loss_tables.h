// loss_tables.h: losses of two numbers, input and target, over elements that lie end to end.
#pragma once

#include <cstdint>

#include "cpu/kernels/tables.h"
#include "functors/loss.h"

namespace rush {

template <class T>
struct LossEntry {
  void (*each)(const T* x, const T* t, T* out, int64_t n, T parameter);
  double (*sum)(const T* x, const T* t, int64_t n, T parameter);
  // gx = slope * g * scale; g is one number where step is 0.
  void (*slope)(const T* x, const T* t, const T* g, int64_t step, T scale, T* gx, int64_t n,
                T parameter);
};

template <class T>
struct LossTable {
  LossEntry<T> entries[int(LossFn::kCount)];
};

template <Isa isa, class T>
const LossTable<T>* loss_table();

}  // namespace rush
