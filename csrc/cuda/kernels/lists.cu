// lists.cu: one launch for many tensors.
//
// - The tensors are cut into pieces of kListPiece elements, a block each; a block finds its tensor
//   by a search among the numbers of first pieces. So many small tensors cost what a large one does.
// - Templates over the functors and types of pointwise.cu, whose flat loops they run.
// - Norms: a block leaves one number per piece, in double, and list_join folds those in the order of
//   the pieces: the same tensors give the same bits, every time.
// - Last stages of sums down columns: a block takes some columns of one of them.
#include "cuda/kernels/flat.h"
#include "cuda/kernels/folds.h"
#include "cuda/kernels/lists_args.h"
#include "cuda/kernels/team.h"

namespace rush {

// Where a block works: elements [begin, end) of a tensor.
struct ListPlace {
  int tensor;
  i64 begin, end;
};
// `first` has the number of each tensor's first piece.
RUSH_FN int tensor_of(const u32* first, int tensors, u32 piece) {
  int low = 0, high = tensors;  // the tensor is in [low, high)
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (first[middle] <= piece)
      low = middle;
    else
      high = middle;
  }
  return low;
}
RUSH_FN ListPlace place_of(const ListPieces& pieces, u32 piece) {
  const int low = tensor_of(pieces.first, pieces.tensors, piece);
  const i64 begin = i64(piece - pieces.first[low]) * kListPiece;
  const i64 end = begin + kListPiece, numel = pieces.numel[low];
  return {low, begin, end < numel ? end : numel};
}

// The operands of a block's stretch, as those of a flat launch.
template <class Out, class... In, int... i>
RUSH_FN PointwiseArgs<sizeof...(In)> stretch_of(const ListArgs<sizeof...(In)>& args,
                                                const ListPlace& at, Ints<i...>) {
  PointwiseArgs<sizeof...(In)> mine{};
  mine.n = at.end - at.begin;
  mine.out = typed<Out>(args.out[at.tensor]) + at.begin;
  mine.single = args.single;
  mine.given = args.given | args.own;
  const Number own{args.numbers[at.tensor], 0, 0, false};
  ((mine.in[i] =
        args.single >> i & 1 ? args.shared[i] : typed<In>(args.in[i][at.tensor]) + at.begin,
    mine.numbers[i] = args.own >> i & 1 ? own : args.given_numbers[i]),
   ...);
  mine.params[0] = args.own >> sizeof...(In) & 1 ? own : args.value;
  return mine;
}

template <class C, class First, class Second>
RUSH_FN C shared_factor(const ListArgs<2>& args) {
  return convert<C>(*typed<Second>(args.shared[1]));
}

template <class F, int P, class C, int V, class Out, class... In>
__global__ void __launch_bounds__(kThreads) list_pointwise(ListArgs<sizeof...(In)> args) {
  after_earlier();
  const u32 piece = args.backwards ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const ListPlace at = place_of(args.pieces, piece);
  // A product with one changes nothing, so nothing is moved: gradients that need no clipping.
  if constexpr (is_same<F, functors::Mul>) {
    if ((args.single & 2) && args.in[0][at.tensor] == args.out[at.tensor]) {
      if (shared_factor<C, In...>(args) == C(1)) return;
    }
  }
  const auto mine = stretch_of<Out, In...>(args, at, typename UpTo<sizeof...(In)>::type{});
  using R = Running<F, C, Out>;
  flat_stretch<R, C, V, Out, In...>(with_params<R, P>(mine.params), mine, 0, 1);
}

template <class Fold, class T, int V>
__global__ void __launch_bounds__(kThreads) list_norm(ListNormArgs args) {
  after_earlier();
  const ListPlace at = place_of(args.pieces, blockIdx.x);
  const auto join = [](typename Fold::Acc a, const typename Fold::Acc& b) {
    Fold::merge(a, b);
    return a;
  };
  const T* x = typed<T>(args.in[at.tensor]);
  typename Fold::Acc acc;
  if constexpr (V > 1) {
    acc = fold_stretch<Fold, V>(x, at.begin, at.end, threadIdx.x, kThreads);
  } else {
    acc = fold_lane<Fold>(at.begin, at.end, threadIdx.x, kThreads,
                          [&](i64 i) { return convert<typename Fold::T>(x[i]); });
  }
  acc = join_team<kThreads>(acc, join);
  if (threadIdx.x == 0) args.partial[blockIdx.x] = double(acc);
}

// Fold is one of double.
template <class Fold, class T>
__global__ void __launch_bounds__(kThreads) list_join(ListJoinArgs args) {
  after_earlier();
  const auto join = [](double a, double b) {
    Fold::merge(a, b);
    return a;
  };
  double acc = Fold::blank();
  const u32 end = args.end[blockIdx.x];
#pragma unroll 8
  for (u32 i = args.begin[blockIdx.x] + threadIdx.x; i < end; i += kThreads)
    Fold::merge(acc, args.partial[i]);
  acc = join_team<kThreads>(acc, join);
  if (threadIdx.x == 0) typed<T>(args.out[blockIdx.x])[0] = convert<T>(Fold::finish(acc, 0));
}

template <class C>
RUSH_FN C number_at(SumType type, const void* from, i64 i) {
  return type == kSumHalf       ? convert<C>(typed<half>(from)[i])
         : type == kSumBFloat16 ? convert<C>(typed<bfloat16>(from)[i])
                                : convert<C>(typed<float>(from)[i]);
}
template <class C>
RUSH_FN C rounded_to(SumType type, C x) {
  return type == kSumHalf       ? convert<C>(convert<half>(x))
         : type == kSumBFloat16 ? convert<C>(convert<bfloat16>(x))
                                : x;
}

// The last stages of many sums, each as its own kernel would do it: reduce_merge (`by_tree`) of reduce.cu
// or join_segments of row_norm.cu, by eight lanes per column.
//
// reduce_merge has fewer lanes where there are fewer segments than that: those that are too many here
// hold zeros, and a sum that began with zero is never -0, which is all that zeros could change.
// Where rows are few there is one stage, `reduce`; its lanes are as many as args.lanes says.
template <class C>
__global__ void __launch_bounds__(kThreads) list_column_sums(ListSumsArgs args) {
  after_earlier();
  constexpr int lanes = kThreads / kSumColumns;
  __shared__ C all[lanes][kSumColumns];
  const int t = tensor_of(args.first, args.tensors, blockIdx.x);
  const int lane = threadIdx.x / kSumColumns, column = threadIdx.x % kSumColumns;
  const u32 c = (blockIdx.x - args.first[t]) * kSumColumns + column;
  const bool works = c < args.columns[t];
  const i64 step = args.step[t], segments = args.segments[t];
  C sum = 0;
  if (const int own = args.lanes[t]; own > 0) {
    if (works && lane < own)
      sum = fold_lane<folds::Sum<C>>(0, segments, lane, own, [&](i64 i) {
        return number_at<C>(args.read[t], args.from[t], i * step + c);
      });
  } else {
    const C* from = typed<C>(args.from[t]) + c;
#pragma unroll 4
    for (i64 s = lane; works && s < segments; s += lanes) sum += from[s * step];
  }
  all[lane][column] = sum;
  __syncthreads();
  if (lane != 0 || !works) return;
  if (args.by_tree[t]) {
    C left[lanes];
#pragma unroll
    for (int k = 0; k < lanes; ++k) left[k] = all[k][column];
#pragma unroll
    for (int apart = lanes / 2; apart > 0; apart /= 2)
#pragma unroll
      for (int k = 0; k < apart; ++k) left[k] += left[k + apart];
    sum = left[0];
  } else {
#pragma unroll
    for (int k = 1; k < lanes; ++k) sum += all[k][column];
  }
  sum = rounded_to(args.rounded[t], sum);
  if (args.type[t] == kSumHalf)
    typed<half>(args.out[t])[c] = convert<half>(sum);
  else if (args.type[t] == kSumBFloat16)
    typed<bfloat16>(args.out[t])[c] = convert<bfloat16>(sum);
  else
    typed<C>(args.out[t])[c] = sum;
}

// From (batch, channels, points) to (batch, points, channels), or (`!last`) back. A block reads its
// part in the order in which it lies, and writes it in that in which it is to lie.
template <class To, class From, bool last>
__global__ void __launch_bounds__(kThreads) list_move_channels(ListMoveArgs args) {
  after_earlier();
  __shared__ From held[kMovedElements];
  const int t = tensor_of(args.first, args.tensors, blockIdx.x);
  const u32 channels = args.channels[t], points = args.points[t], part = args.part[t];
  const u32 parts = (channels + part - 1) / part, own = blockIdx.x - args.first[t];
  const u32 sample = own / parts, begin = (own - sample * parts) * part;
  const u32 count = begin + part < channels ? part : channels - begin;
  const i64 base = i64(sample) * channels * points;
  const From* from = typed<From>(args.from[t]) + base;
  To* to = typed<To>(args.to[t]) + base;
  // Both number the elements of the part as they lie: along points, or along channels.
  const auto by_points = [&](u32 i) { return begin * points + i; };
  const auto by_channels = [&](u32 i) {
    const u32 point = i / count;
    return point * channels + begin + (i - point * count);
  };
  for (u32 i = threadIdx.x; i < count * points; i += kThreads)
    held[i] = from[last ? by_points(i) : by_channels(i)];
  __syncthreads();
  for (u32 i = threadIdx.x; i < count * points; i += kThreads) {
    const u32 across = last ? count : points;  // elements of a run of what is written
    const u32 run = i / across, at = i - run * across;
    const From x = held[at * (last ? points : count) + run];
    to[last ? by_channels(i) : by_points(i)] = convert<To>(x);
  }
}

// U packs, a block's threads apart: all are read before one is written. What is left in `bad` is nan
// if an element is nan or infinite, else 0.
template <class C, class T, int V, int U>
RUSH_FN void unscale_packs(T* x, C factor, C& bad) {
  Packs<T, V, U> packs;
#pragma unroll
  for (int u = 0; u < U; ++u) packs.p[u] = load_pack<V>(x + u * kThreads * V);
#pragma unroll
  for (int u = 0; u < U; ++u) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const C value = convert<C>(packs.p[u].v[k]);
      bad += value - value;
      packs.p[u].v[k] = convert<T>(value * factor);
    }
    if (factor != C(1)) store_pack<V>(x + u * kThreads * V, packs.p[u]);
  }
}

template <class C, class T, int V>
__global__ void __launch_bounds__(kThreads) list_unscale(ListUnscaleArgs args) {
  after_earlier();
  const ListPlace at = place_of(args.pieces, blockIdx.x);
  T* const x = typed<T>(args.data[at.tensor]) + at.begin;
  const C factor = C(*args.factor);
  constexpr int U = packs_at_once(V);
  const int n = int(at.end - at.begin), packs = n / V;
  C bad = C(0);
  int i = threadIdx.x;
  for (; i + (U - 1) * kThreads < packs; i += U * kThreads)
    unscale_packs<C, T, V, U>(x + i * V, factor, bad);
  for (; i < packs; i += kThreads) unscale_packs<C, T, V, 1>(x + i * V, factor, bad);
  if (V > 1 && packs * V + int(threadIdx.x) < n)
    unscale_packs<C, T, 1, 1>(x + packs * V + threadIdx.x, factor, bad);
  if (bad != C(0)) *args.found = 1;
}

}  // namespace rush
