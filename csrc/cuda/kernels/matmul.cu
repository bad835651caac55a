// matmul.cu: matrix products for the types that cuBLAS lacks, where cuBLAS is missing, and where
// calling it costs more than the product.
//
// - matmul: a block computes a tile of 64 by 64 of the output, a thread 4 by 4 of it, from tiles
//   of both factors in shared memory, 16 deep. Ragged edges read as zero.
// - matmul_small: a block computes 16 by 16, a thread one number, with all of k in shared memory.
//   It waits for memory once, and 64 by 64 keep sixteen processors busy instead of one.
// - Any strides, so that transposed factors need no copy; batch steps may be 0 (broadcast).
// - Sums are in a type of enough width: float for half and bfloat16, unsigned integers that wrap.
// - The order of the sum is fixed: same numbers every time.
// - Blocks: x over tiles of columns, y over tiles of rows, z over batches.
#include "cuda/kernels/element.h"
#include "functors/accumulator.h"
#include "functors/activation.h"

namespace rush {

inline constexpr int kTile = 64, kDepth = 16, kPatch = 4;
inline constexpr int kSide = kTile / kPatch;
static_assert(kSide * kSide == kThreads);

template <class T>
__global__ void __launch_bounds__(kThreads) matmul(MatmulArgs args) {
  after_earlier();
  using A = accumulator<T>;
  __shared__ A left[kDepth][kTile + 1];
  __shared__ A right[kDepth][kTile + 1];
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  const i64 row = i64(blockIdx.y) * kTile, col = i64(blockIdx.x) * kTile;
  for (i64 batch = blockIdx.z; batch < args.batches; batch += gridDim.z) {
    const T* a = typed<T>(args.a) + batch * args.a_batch;
    const T* b = typed<T>(args.b) + batch * args.b_batch;
    T* out = typed<T>(args.out) + batch * args.out_batch;
    A sum[kPatch][kPatch] = {};
    for (i64 k0 = 0; k0 < args.k; k0 += kDepth) {
      for (int t = threadIdx.x; t < kTile * kDepth; t += kThreads) {
        const int ka = t % kDepth, i = t / kDepth;  // along k first in a, along n in b
        const bool in_a = row + i < args.m && k0 + ka < args.k;
        left[ka][i] = in_a ? A(a[(row + i) * args.a_row + (k0 + ka) * args.a_col]) : A(0);
        const int j = t % kTile, kb = t / kTile;
        const bool in_b = col + j < args.n && k0 + kb < args.k;
        right[kb][j] = in_b ? A(b[(k0 + kb) * args.b_row + (col + j) * args.b_col]) : A(0);
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kDepth; ++k)
#pragma unroll
        for (int i = 0; i < kPatch; ++i)
#pragma unroll
          for (int j = 0; j < kPatch; ++j)
            sum[i][j] += left[k][ty + i * kSide] * right[k][tx + j * kSide];
      __syncthreads();
    }
    for (int i = 0; i < kPatch; ++i) {
      for (int j = 0; j < kPatch; ++j) {
        const i64 r = row + ty + i * kSide, c = col + tx + j * kSide;
        if (r < args.m && c < args.n) out[r * args.out_row + c * args.out_col] = T(sum[i][j]);
      }
    }
  }
}

inline constexpr int kSmallSide = 16;
static_assert(kSmallSide * kSmallSide == kThreads && kSmallDepth % kSmallSide == 0);

template <class T>
__global__ void __launch_bounds__(kThreads) matmul_small(MatmulArgs args) {
  after_earlier();
  using A = accumulator<T>;
  __shared__ A left[kSmallSide][kSmallDepth + 1];
  __shared__ A right[kSmallDepth][kSmallSide];
  const int tx = threadIdx.x % kSmallSide, ty = threadIdx.x / kSmallSide, depth = int(args.k);
  const i64 row = i64(blockIdx.y) * kSmallSide + ty, col = i64(blockIdx.x) * kSmallSide + tx;
  const T* a = typed<T>(args.a) + blockIdx.z * args.a_batch + row * args.a_row;
  const T* b = typed<T>(args.b) + blockIdx.z * args.b_batch + col * args.b_col;
#pragma unroll
  for (int s = 0; s < kSmallDepth / kSmallSide; ++s) {
    const int ka = s * kSmallSide + tx, kb = s * kSmallSide + ty;
    if (ka < depth) left[ty][ka] = row < args.m ? A(a[ka * args.a_col]) : A(0);
    if (kb < depth) right[kb][tx] = col < args.n ? A(b[kb * args.b_row]) : A(0);
  }
  __syncthreads();
  if (row >= args.m || col >= args.n) return;
  A sum = 0;
#pragma unroll 16
  for (int k = 0; k < depth; ++k) sum += left[ty][k] * right[k][tx];
  if (args.bias) sum += A(typed<T>(args.bias)[col]);
  T result = T(sum);
  if (args.relu)
    result = T(functors::Relu{}(A(result)));  // of the rounded number, as the op has it
  (typed<T>(args.out) + blockIdx.z * args.out_batch)[row * args.out_row + col * args.out_col] =
      result;
}

}  // namespace rush
