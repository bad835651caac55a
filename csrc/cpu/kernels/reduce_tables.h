// reduce_tables.h: what the kernel files for reductions export.
#pragma once

#include <cstdint>

#include "cpu/kernels/tables.h"
#include "device/reduce_fn.h"

namespace rush {

inline constexpr int64_t kFewRows = 32;

// A running result ("acc") is an opaque block of acc_size bytes, and `blank` is an empty one.
struct FoldKernel {
  int acc_size = 0;
  bool whole_result = false;  // finish writes int64, whatever the input's type
  const void* blank = nullptr;
  // Folds n elements, end to end, into one acc. `param`: p of NormP.
  void (*row)(const char* x, int64_t n, char* acc, double param) = nullptr;
  // Folds `rows` rows of n elements, each row into an acc of its own; null: call `row` for each.
  void (*rows)(const char* x, int64_t row_stride, int64_t rows, int64_t n, char* accs,
               double param) = nullptr;
  // Folds `rows` rows of n elements into n accs, column by column.
  void (*columns)(const char* x, int64_t row_stride, int64_t rows, int64_t n, char* accs,
                  double param) = nullptr;
  // The same for at most kFewRows rows, and straight into results; may be null.
  void (*few_rows)(const char* x, int64_t row_stride, int64_t rows, int64_t n, char* out,
                   double count, double param) = nullptr;
  // into[i] += from[i], for n accs.
  void (*merge)(char* into, const char* from, int64_t n) = nullptr;
  // n results in the element type from n accs of `count` elements each.
  void (*finish)(const char* accs, char* out, int64_t n, double count, double param) = nullptr;
};

// Winner and first position along columns; rows need only the plain maximum and a search.
struct ArgKernel {
  // values[j], indices[j] hold the best so far; row r of x has position first + r.
  void (*columns)(const char* x, int64_t row_stride, int64_t rows, int64_t n, char* values,
                  int64_t* indices, int64_t first) = nullptr;
  // The extreme of n elements; NaN wins.
  void (*extreme)(const char* x, int64_t n, char* value) = nullptr;
  // The first position of `value` (or of a NaN where it is one).
  int64_t (*find)(const char* x, int64_t n, const char* value) = nullptr;
  // Does a beat b? Equal does not.
  bool (*beats)(const char* a, const char* b) = nullptr;
};

struct FoldTable {
  FoldKernel folds[static_cast<int>(ReduceFn::kCount)];
  ArgKernel arg_max, arg_min;
};

template <Isa isa, class T>
const FoldTable* fold_table();

// The loops of the folds of functors/fold.h over elements of type T, by FoldFn.
template <Isa isa, class T>
const FoldKernel* shared_folds();

}  // namespace rush
