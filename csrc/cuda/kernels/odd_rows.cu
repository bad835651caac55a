// odd_rows.cu: rows that begin anywhere, copied to rows that begin at multiples of 16 bytes, and back.
//
// Element by element, neighbours by neighbouring threads; a thread's reads do not wait for each
// other. Blocks: pieces of the rows that are written.
#include "cuda/kernels/element.h"
#include "cuda/kernels/odd_rows_args.h"

namespace rush {

template <class W>
__global__ void __launch_bounds__(kThreads) copy_odd_rows(OddRowsArgs args) {
  after_earlier();
  constexpr int piece = kThreads * kOddRowsEach;
  const int pieces = (args.written + piece - 1) / piece;
  const i64 row = blockIdx.x / pieces;
  const int first = int(blockIdx.x % pieces) * piece + int(threadIdx.x);
  const W* from = typed<W>(args.from) + row * args.from_step;
  W* to = typed<W>(args.to) + row * args.to_step;
  W values[kOddRowsEach];
#pragma unroll
  for (int i = 0; i < kOddRowsEach; ++i) {
    const int col = first + i * kThreads;
    values[i] = row < args.rows && col < args.width ? from[col] : W(0);
  }
#pragma unroll
  for (int i = 0; i < kOddRowsEach; ++i) {
    const int col = first + i * kThreads;
    if (col < args.written) to[col] = values[i];
  }
}

}  // namespace rush
