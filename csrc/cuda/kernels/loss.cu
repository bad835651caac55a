// loss.cu: losses of input and target, element by element; the blocks' sums are joined in order by
// a second launch, unless there is one block only.
//
// T is the type of memory, C what is computed in; V elements at a time.
#include "cuda/kernels/team.h"
#include "functors/loss.h"

namespace rush {

// Calls f(i, count) for the packs and, one by one, for what is left.
template <int V, class F>
RUSH_FN void for_packs(i64 n, F f) {
  const i64 packs = n / V;
  for (i64 p = thread_number(); p < packs; p += thread_count()) f(p * V, Pack<bool, V>{});
  if constexpr (V > 1)
    for (i64 i = packs * V + thread_number(); i < n; i += thread_count()) f(i, Pack<bool, 1>{});
}

template <class F, class C, class T, int V>
__global__ void __launch_bounds__(kThreads) loss_each(LossArgs args) {
  for_packs<V>(args.n, [&]<int W>(i64 i, Pack<bool, W>) {
    const auto x = load_pack<W>(typed<T>(args.x) + i), t = load_pack<W>(typed<T>(args.target) + i);
    Pack<T, W> y;
#pragma unroll
    for (int j = 0; j < W; ++j)
      y.v[j] = convert<T>(F::value(convert<C>(x.v[j]), convert<C>(t.v[j]), C(args.parameter)));
    store_pack(typed<T>(args.y) + i, y);
  });
}

template <class F, class C, class T, int V>
__global__ void __launch_bounds__(kThreads) loss_sum(LossArgs args) {
  double all = 0;
  for_packs<V>(args.n, [&]<int W>(i64 i, Pack<bool, W>) {
    const auto x = load_pack<W>(typed<T>(args.x) + i), t = load_pack<W>(typed<T>(args.target) + i);
    C sum = 0;
#pragma unroll
    for (int j = 0; j < W; ++j)
      sum += F::value(convert<C>(x.v[j]), convert<C>(t.v[j]), C(args.parameter));
    all += double(sum);
  });
  all = join_team<kThreads>(all, JoinSum{});
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1)
    *typed<T>(args.y) = convert<T>(all * args.scale);
  else
    args.partial[blockIdx.x] = all;
}

template <class T>
__global__ void __launch_bounds__(kThreads) loss_join(LossArgs args) {
  double all = 0;
  for (int b = threadIdx.x; b < args.blocks; b += kThreads) all += args.partial[b];
  all = join_team<kThreads>(all, JoinSum{});
  if (threadIdx.x == 0) *typed<T>(args.y) = convert<T>(all * args.scale);
}

// y: the gradient of x.
template <class F, class C, class T, int V>
__global__ void __launch_bounds__(kThreads) loss_slope(LossArgs args) {
  const T* g = typed<T>(args.g);
  const C parameter = C(args.parameter), scale = C(args.scale);
  const C shared = args.g_step ? C(0) : convert<C>(*g) * scale;
  for_packs<V>(args.n, [&]<int W>(i64 i, Pack<bool, W>) {
    const auto x = load_pack<W>(typed<T>(args.x) + i), t = load_pack<W>(typed<T>(args.target) + i);
    Pack<T, W> each{}, y;
    if (args.g_step) each = load_pack<W>(g + i);
#pragma unroll
    for (int j = 0; j < W; ++j) {
      const C factor = args.g_step ? convert<C>(each.v[j]) * scale : shared;
      y.v[j] = convert<T>(F::slope(convert<C>(x.v[j]), convert<C>(t.v[j]), parameter) * factor);
    }
    store_pack(typed<T>(args.y) + i, y);
  });
}

}  // namespace rush
