// matrices.cu: what the libraries have no function for: exchanges of rows as a permutation, and the
// orthogonal factors of many small matrices at once.
#include "cuda/kernels/block.h"
#include "cuda/kernels/matrices_args.h"
#include "cuda/kernels/team.h"

namespace rush {

// A thread for each matrix: exchanges follow each other. Those out of range are left out here; they
// are reported by a check of their own.
template <class T>
__global__ void __launch_bounds__(kThreads) permutation(PermutationArgs args) {
  after_earlier();
  for (i64 m = thread_number(); m < args.count; m += thread_count()) {
    T* row = args.out + m * args.rows;
    const i32* pivots = args.pivots + m * args.exchanges;
    for (i64 i = 0; i < args.rows; ++i) row[i] = T(i);
    for (i64 i = 0; i < args.exchanges; ++i) {
      const i64 other = i64(pivots[i]) - 1;
      if (other < 0 || other >= args.rows) continue;
      const T kept = row[i];
      row[i] = row[other];
      row[other] = kept;
    }
  }
}

template <class T>
RUSH_FN T conjugate(T x) {
  if constexpr (is_complex_v<T>)
    return math::conj(x);
  else
    return x;
}

// Q = H_1 H_2 ... with H_i = 1 - tau_i v_i v_i^H, from the last one on: each changes the columns
// behind it, a warp for a column, and then becomes a column of Q itself. A block for each matrix.
template <class T>
__global__ void __launch_bounds__(kThreads) form_q(FormQArgs args) {
  after_earlier();
  const int lane = lane_number(), warp = warp_number();
  const i64 rows = args.rows, k = args.reflections;
  for (i64 m = blockIdx.x; m < args.count; m += gridDim.x) {
    T* a = typed<T>(args.a) + m * rows * args.cols;
    const T* tau = typed<T>(args.tau) + m * k;
    for (i64 j = k + warp; j < args.cols; j += kWarps)
      for (i64 l = lane; l < rows; l += kLanes) a[j * rows + l] = T(l == j ? 1 : 0);
    __syncthreads();
    for (i64 i = k - 1; i >= 0; --i) {
      const T t = tau[i];
      T* v = a + i * rows;
      for (i64 j = i + 1 + warp; j < args.cols; j += kWarps) {
        T* column = a + j * rows;
        T sum = lane == 0 ? column[i] : T(0);  // v is 1 there
        for (i64 l = i + 1 + lane; l < rows; l += kLanes) sum = sum + conjugate(v[l]) * column[l];
        sum = t * join_team<kLanes>(sum, JoinSum{});
        if (lane == 0) column[i] = column[i] - sum;
        for (i64 l = i + 1 + lane; l < rows; l += kLanes) column[l] = column[l] - v[l] * sum;
      }
      __syncthreads();
      for (i64 l = threadIdx.x; l < rows; l += kThreads)
        v[l] = l < i ? T(0) : l == i ? T(1) - t : T(0) - t * v[l];
      __syncthreads();
    }
  }
}

}  // namespace rush
