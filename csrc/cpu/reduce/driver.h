// driver.h: the driver of reductions: geometry, types and threads around the kernels of
// reduce_tables.h.
//
// Note [Segments do not depend on threads]
// The elements of one output are cut into segments by the shape alone; each segment is folded by
// one thread, and the partial results are merged in order. So the result has the same bits for any
// number of threads.
#pragma once

#include <memory>

#include "core/tensor.h"
#include "cpu/kernels/reduce_tables.h"
#include "device/reduce.h"

namespace rush {

// Where their order matters.
inline DType ordered_type(DType t) { return t == DType::UInt64 ? t : wide_type(t); }
const FoldTable& folds_for(DType element);

struct FoldCall {
  const FoldKernel* kernel;
  DType element;                   // the type the kernel works in
  double count = 0, param = 0;     // for finish
  const Tensor* second = nullptr;  // another output from the same accs ...
  double second_param = 0;         // ... finished with this
};

void run_fold(const FoldCall& call, const Tensor& x, const Tensor& out);
// What ReduceLoops::reduce calls for these types; not for ArgMax and ArgMin.
FoldCall fold_call(ReduceFn fn, DType x, DType out, double count);

// A reduction whose elements come piece by piece, each in memory for a moment only: rows end to end,
// each into one result, with the bits that they have all in memory.
class FoldPieces {
 public:
  static bool takes(DType x, int64_t rows, int64_t width);
  // `out` is contiguous and has one element per row.
  FoldPieces(ReduceFn fn, DType x, int64_t rows, int64_t width, const Tensor& out);
  // Elements of a piece; the last one may have fewer.
  int64_t unit() const { return unit_; }
  // The n elements from number `first` on, a whole piece. Pieces may come in any order, from any thread.
  void run(const char* piece, int64_t first, int64_t n);
  // After all pieces.
  void finish();

 private:
  FoldCall call_;
  DType x_;
  int64_t rows_, width_, unit_;
  const Tensor& out_;
  std::unique_ptr<char[]> accs_;  // one per piece of a single row
};

// arg.cpp: winners with their positions, along one dim, or among all folded elements.
void cpu_reduce_arg(ReduceFn fn, const Tensor& x, const Tensor& values, const Tensor& indices,
                    int64_t dim);
void reduce_arg_all(ReduceFn fn, const Tensor& x, const Tensor& out);

}  // namespace rush
