// few_rows.cu: products of few rows with a large matrix in half precision, as a model that writes its
// text has them: out (R x n) = a (R x k) @ b, where a column of b lies end to end.
//
// Nothing but reading b counts, and what a GPU has too little of is reads on their way: a column
// that one warp reads in four turns takes four times as long as memory needs to answer. So where
// there are too few columns for all warps of the GPU, several share one (FewRowsArgs::shift). A
// thread reads 16 bytes several times before the first is used, and adds up in float; a tree joins
// a warp's threads, and its warps are added in their order: the same bits every time, and the same
// whether a matrix has a launch of its own or shares one.
#include "cuda/kernels/few_rows_args.h"
#include "cuda/kernels/team.h"

namespace rush {

// What nobody reads again does not take the place of what others do.
template <int V, class T>
RUSH_FN Pack<T, V> read_once(const T* p) {
#ifdef __CUDA_ARCH__
  static_assert(sizeof(Pack<T, V>) == 16);
  Pack<u32, 4> words;
  u32(&w)[4] = words.v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
               : "l"(p));
  return bit_cast<Pack<T, V>>(words);
#else
  return load_pack<V>(p);
#endif
}

template <class T, int R>
__global__ void __launch_bounds__(kThreads) few_rows(FewRowsArgs args) {
  after_earlier();
  constexpr int kPack = 8, kStep = 32 * kPack, kAhead = 2, kWarps = kThreads / 32;
  __shared__ float joined[kWarps][R];
  // Picked by comparing, without an index that is found at run time: reading an argument by one is slow.
  FewRowsArgs::Factor f = args.factors[0];
#pragma unroll
  for (int i = 1; i < kMostFactors; ++i)
    if (i < args.count && blockIdx.x >= args.factors[i].first) f = args.factors[i];
  const int parts = 1 << f.shift;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp & (parts - 1);
  const i64 col = i64(blockIdx.x - f.first) * (kWarps >> f.shift) + (warp >> f.shift);
  float sum[R] = {};
  if (col < f.n) {
    const int first = part * f.each, size = int(args.k) - first;
    const int end = size < f.each ? size : f.each;
    const T* a = typed<T>(args.a) + first;
    const T* b = typed<T>(f.b) + col * f.b_col + first;
#pragma unroll 1
    for (int k = lane * kPack; k < end; k += kAhead * kStep) {
      Pack<T, kPack> x[R][kAhead], y[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (k + j * kStep >= end) continue;
        y[j] = read_once<kPack>(b + k + j * kStep);
#pragma unroll
        for (int r = 0; r < R; ++r) x[r][j] = load_pack<kPack>(a + r * args.a_row + k + j * kStep);
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (k + j * kStep >= end) continue;
#pragma unroll
        for (int r = 0; r < R; ++r)
#pragma unroll
          for (int i = 0; i < kPack; ++i) sum[r] += float(x[r][j].v[i]) * float(y[j].v[i]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < R; ++r) {
    sum[r] = join_team<32>(sum[r], JoinSum{});
    if (lane == 0) joined[warp][r] = sum[r];
  }
  __syncthreads();
  if (part != 0 || lane >= R || col >= f.n) return;
  float total = joined[warp][lane];
  for (int p = 1; p < parts; ++p) total += joined[warp + p][lane];
  const float bias = f.bias ? float(typed<T>(f.bias)[col]) : 0.0f;
  typed<T>(f.out)[lane * f.out_row + col * f.out_col] = T(total + bias);
}

}  // namespace rush
