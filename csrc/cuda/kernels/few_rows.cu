// few_rows.cu: products of few rows with a large matrix in half precision, as a model that writes its
// text has them: out (R x n) = a (R x k) @ b, where a column of b lies end to end.
//
// Nothing but reading b counts. A warp has a column: its threads read 16 bytes each, several times
// before the first is used, and add up in float; a tree joins them, always the same.
#include "cuda/kernels/team.h"

namespace rush {

template <class T, int R>
__global__ void __launch_bounds__(kThreads) few_rows(MatmulArgs args) {
  after_earlier();
  constexpr int kPack = 8, kStep = 32 * kPack;
  const int lane = threadIdx.x % 32;
  const i64 col = i64(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (col >= args.n) return;  // the whole warp
  const T *a = typed<T>(args.a), *b = typed<T>(args.b) + col * args.b_col;
  float sum[R] = {};
#pragma unroll 4
  for (i64 k = lane * kPack; k < args.k; k += kStep) {
    const Pack<T, kPack> y = load_pack<kPack>(b + k);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const Pack<T, kPack> x = load_pack<kPack>(a + r * args.a_row + k);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum[r] += float(x.v[i]) * float(y.v[i]);
    }
  }
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const float all = join_team<32>(sum[r], JoinSum{});
    if (lane == 0) {
      const float bias = args.bias ? float(typed<T>(args.bias)[col]) : 0.0f;
      typed<T>(args.out)[r * args.out_row + col * args.out_col] = T(all + bias);
    }
  }
}

}  // namespace rush
