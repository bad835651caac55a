// reduce.cu: reductions over any set of dims.
//
// - The shape is split in two nests: the kept dims, which number the outputs, and the folded dims,
//   which number the elements of one output.
// - A block is lanes times outputs, 256 threads. When the folded dims lie along memory, lanes are
//   neighbours (x) and outputs are y; when the kept dims do (`across`), it is the other way round.
//   Either way neighbouring threads read neighbouring elements. Lanes are a power of two.
// - Few outputs, many elements: the folded range is cut into segments, a block each (blockIdx.y);
//   their results go to `partial`, and reduce_merge, a second launch, folds those. Segments follow
//   from the shape and the GPU alone, lanes are joined by a fixed tree, nothing is atomic: the same
//   numbers give the same bits, every time.
// - A lane keeps kWays running results side by side, so that loads overlap and a long sum rounds
//   like a tree: the host keeps a lane's share of a segment in the hundreds.
// - V > 1: the folded elements of an output are one stretch, aligned to the pack; reduce_columns:
//   neighbouring outputs are, and a thread works for V of them.
// - Sums and products compute in the output's type (half and bfloat16: float, integers: int64),
//   max and min in the input's. Positions count in the order of the folded nest, so the host keeps
//   its dims in row-major order for arg reductions.
#include "cuda/kernels/folds.h"
#include "cuda/kernels/last_block.h"
#include "cuda/kernels/team.h"

namespace rush {

namespace folds {

// A part of a count. (Two bits less than a division gives are enough for a share, and it is a third
// of the work.)
template <class E>
RUSH_FN E share_of(E part, E all) {
#ifdef RUSH_DEVICE
  if constexpr (sizeof(E) == 4) return __fdividef(part, all);
#endif
  return part / all;
}

// Mean and squared deviations, merged by Chan's formula. The count divides the deviations: n minus
// the correction. The mean is the second result.
template <class E>
struct Moments {
  E n, mean, deviations;
};
template <class E, bool root>
struct Spread {
  using T = E;
  using Acc = Moments<E>;
  static RUSH_FN Acc blank() { return {E(0), E(0), E(0)}; }
  static RUSH_FN void step(Acc& acc, T x, i64) {
    acc.n += E(1);
    const E gap = x - acc.mean;
    acc.mean += gap / acc.n;
    acc.deviations += gap * (x - acc.mean);
  }
  template <int n>
  static RUSH_FN void chunk(Acc& acc, const T (&x)[n], i64, i64) {
    Acc few{E(n), x[0], E(0)};
#pragma unroll
    for (int k = 1; k < n; ++k) few.mean += x[k];
    few.mean *= E(1) / E(n);
#pragma unroll
    for (int k = 0; k < n; ++k) few.deviations += (x[k] - few.mean) * (x[k] - few.mean);
    merge(acc, few);
  }
  static RUSH_FN void merge(Acc& acc, const Acc& x) {
    if (x.n == E(0)) return;
    const E n = acc.n + x.n, gap = x.mean - acc.mean, share = share_of(x.n, n);
    acc.mean += gap * share;
    acc.deviations += x.deviations + gap * gap * acc.n * share;
    acc.n = n;
  }
  static RUSH_FN T finish(const Acc& acc, double count) {
    const E variance = acc.deviations / E(count);
    return root ? math::sqrt(variance) : variance;
  }
  static RUSH_FN T second(const Acc& acc) { return acc.n == E(0) ? limits<E>::nan : acc.mean; }
};
template <class E>
using Var = Spread<E, false>;
template <class E>
using Std = Spread<E, true>;

// The winner and its position. Of equals the first wins, whatever the order of merging; NaN wins
// over all numbers.
template <class E>
struct Winner {
  E value;
  i64 index;
};
template <class E, bool largest>
struct ArgExtreme {
  using T = E;
  using Acc = Winner<E>;
  static constexpr bool kPositions = true;
  static RUSH_FN Acc blank() { return {weakest<T, largest>(), limits<i64>::max}; }
  static RUSH_FN void merge(Acc& acc, const Acc& x) {
    const bool nan = math::isnan(x.value), old_nan = math::isnan(acc.value);
    const bool better = largest ? x.value > acc.value : x.value < acc.value;
    const bool same = x.value == acc.value || (nan && old_nan);
    if ((!old_nan && (nan || better)) || (same && x.index < acc.index)) acc = x;
  }
  // Positions come in their order: of equals the one at hand stays. (Only NaN is not worse either.)
  static RUSH_FN void step(Acc& acc, T x, i64 i) {
    const bool worse = largest ? x <= acc.value : x >= acc.value;
    if ((!worse || acc.index == limits<i64>::max) && !math::isnan(acc.value)) acc = {x, i};
  }
  template <int n>
  static RUSH_FN void chunk(Acc& acc, const T (&x)[n], i64 first, i64 apart) {
    T value = x[0];
    int at = 0;
#pragma unroll
    for (int k = 1; k < n; ++k) {
      const bool worse = largest ? x[k] <= value : x[k] >= value;
      if (!worse && !math::isnan(value)) value = x[k], at = k;
    }
    step(acc, value, first + at * apart);
  }
};
template <class E>
using ArgMax = ArgExtreme<E, true>;
template <class E>
using ArgMin = ArgExtreme<E, false>;

}  // namespace folds

// Which output this thread works for, and as which of its lanes.
template <bool across>
struct ThreadRole {
  int lane = across ? threadIdx.y : threadIdx.x;
  int lanes = across ? blockDim.y : blockDim.x;
  i64 output =
      i64(blockIdx.x) * (across ? blockDim.x : blockDim.y) + (across ? threadIdx.x : threadIdx.y);
};

// The results of an output's lanes, joined; lane 0 has the answer. Lanes that are neighbours pass
// them from register to register.
template <class Fold>
RUSH_FN typename Fold::Acc join_neighbours(const ThreadRole<false>& role, typename Fold::Acc acc) {
  using Acc = typename Fold::Acc;
  constexpr int kWarp = 32;
  const int slot = threadIdx.y * blockDim.x + threadIdx.x;
  const auto join = [&](int lanes) {
    for (int half = lanes / 2; half > 0; half /= 2) Fold::merge(acc, from_neighbour(acc, half));
  };
  join(role.lanes < kWarp ? role.lanes : kWarp);
  if (role.lanes <= kWarp) return acc;
  __shared__ Acc warps[kThreads / kWarp];
  if (slot % kWarp == 0) warps[slot / kWarp] = acc;
  __syncthreads();
  const int count = role.lanes / kWarp;
  if (role.lane < count) acc = warps[slot / kWarp + role.lane];
  join(count);
  return acc;
}

// Others, through shared memory: those of n outputs per thread.
template <class Fold, bool across, int n>
RUSH_FN void join_in_memory(const ThreadRole<across>& role, typename Fold::Acc* acc) {
  using Acc = typename Fold::Acc;
  constexpr int kRoom = 16384 / (kThreads * int(sizeof(Acc)));
  constexpr int kAtOnce = n <= kRoom ? n : n / 2 <= kRoom ? n / 2 : n / 4;
  __shared__ Acc all[kAtOnce][kThreads];
  const int slot = threadIdx.y * blockDim.x + threadIdx.x;
  const int next = across ? blockDim.x : 1;  // from a lane to the next
#pragma unroll
  for (int first = 0; first < n; first += kAtOnce) {
    if (first > 0) __syncthreads();  // the room may still be read
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) all[k][slot] = acc[first + k];
    for (int half = role.lanes / 2; half > 0; half /= 2) {
      __syncthreads();
      if (role.lane < half) {
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) Fold::merge(all[k][slot], all[k][slot + half * next]);
      }
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) acc[first + k] = all[k][slot];
  }
}

template <class Fold, bool across>
RUSH_FN typename Fold::Acc join_lanes(const ThreadRole<across>& role, typename Fold::Acc acc) {
  if constexpr (!across && sizeof(acc) % 4 == 0)
    return join_neighbours<Fold>(role, acc);
  else
    join_in_memory<Fold, across, 1>(role, &acc);
  return acc;
}

template <class Fold, class X, class Out, class Place>
RUSH_FN void write_result(const ReduceArgs& args, const Place& place,
                          const typename Fold::Acc& acc) {
  if constexpr (has_positions<Fold>) {
    typed<Out>(args.out)[place.at[1]] = convert<Out>(acc.index);
    if (args.second) typed<X>(args.second)[place.at[2]] = convert<X>(acc.value);
  } else {
    typed<Out>(args.out)[place.at[1]] = convert<Out>(Fold::finish(acc, args.count));
    if constexpr (requires { Fold::second(acc); })
      if (args.second) typed<Out>(args.second)[place.at[2]] = convert<Out>(Fold::second(acc));
  }
}

// Operands of the kept nest: in, out, second; of the folded nest: in.
template <class Fold, class X, class Out, class I, int V, bool across>
__global__ void __launch_bounds__(kThreads, kReduceBlocks)
    reduce(ReduceArgs args, Nest<I, 3> kept, Nest<I, 1> folded) {
  after_earlier();
  const ThreadRole<across> role;
  const bool works = role.output < args.outputs;
  const Offsets<I, 3> place = offsets_of(kept, I(works ? role.output : 0));
  const X* x = typed<X>(args.in) + place.at[0];
  const i64 begin = i64(blockIdx.y) * args.segment;
  const i64 end = begin + args.segment < args.n ? begin + args.segment : args.n;
  static_assert(sizeof(typename Fold::Acc) <= folds::kMostAcc);
  typename Fold::Acc acc = Fold::blank();
  if (works) {
    if constexpr (V > 1) {
      acc = fold_stretch<Fold, V>(x, begin, end, role.lane, role.lanes);
    } else {
      acc = fold_lane<Fold>(begin, end, role.lane, role.lanes, [&](i64 i) {
        return convert<typename Fold::T>(x[offsets_of(folded, I(i)).at[0]]);
      });
    }
  }
  acc = join_lanes<Fold>(role, acc);
  if (!works || role.lane != 0) return;
  if (args.segments > 1) {
    typed<typename Fold::Acc>(args.partial)[i64(blockIdx.y) * args.outputs + role.output] = acc;
  } else {
    write_result<Fold, X, Out>(args, place, acc);
  }
}

// Kept dims along memory, V outputs per thread, which share its loads. Threads as in `across`.
// straight: the folded dims are one.
template <class Fold, class X, class Out, class I, int V, bool straight>
RUSH_FN void fold_columns(const ReduceArgs& args, const Nest<I, 3>& kept,
                          const Nest<I, 1>& folded) {
  using T = typename Fold::T;
  const ThreadRole<true> role;
  const i64 first = role.output * V;
  const bool works = first < args.outputs;
  const i64 begin = i64(blockIdx.y) * args.segment;
  const i64 end = begin + args.segment < args.n ? begin + args.segment : args.n;
  typename Fold::Acc acc[V];
#pragma unroll
  for (int v = 0; v < V; ++v) acc[v] = Fold::blank();
  if (works) {
    const X* x = typed<X>(args.in) + offsets_of(kept, I(first)).at[0];
    const auto pack_at = [&](i64 i) {
      if constexpr (!straight) return load_pack<V>(x + offsets_of(folded, I(i)).at[0]);
      using Signed = conditional<sizeof(I) == 4, i32, i64>;
      return load_pack<V>(x + Signed(I(i) * folded.strides[0][0]));
    };
    i64 i = begin + role.lane;
    for (; i + i64(kWays - 1) * role.lanes < end; i += i64(kWays) * role.lanes) {
      Pack<X, V> packs[kWays];
#pragma unroll
      for (int w = 0; w < kWays; ++w) packs[w] = pack_at(i + i64(w) * role.lanes);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        T few[kWays];
#pragma unroll
        for (int w = 0; w < kWays; ++w) few[w] = convert<T>(packs[w].v[v]);
        fold_few<Fold>(acc + v, false, few, i, role.lanes);
      }
    }
    for (; i < end; i += role.lanes) {
      const Pack<X, V> pack = pack_at(i);
#pragma unroll
      for (int v = 0; v < V; ++v) Fold::step(acc[v], convert<T>(pack.v[v]), i);
    }
  }
  join_in_memory<Fold, true, V>(role, acc);
  if (!works || role.lane != 0) return;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (args.segments > 1)
      typed<typename Fold::Acc>(args.partial)[i64(blockIdx.y) * args.outputs + first + v] = acc[v];
    else
      write_result<Fold, X, Out>(args, offsets_of(kept, I(first + v)), acc[v]);
  }
}

template <class Fold, class X, class Out, class I, int V, bool straight>
__global__ void __launch_bounds__(kThreads, kReduceBlocks)
    reduce_columns(ReduceArgs args, Nest<I, 3> kept, Nest<I, 1> folded) {
  after_earlier();
  fold_columns<Fold, X, Out, I, V, straight>(args, kept, folded);
}

// The same with the segments merged by the block that comes last, instead of by a second launch: the
// eight lanes of that are running results of one thread here, joined by the same tree. (Lanes beyond
// the last segment hold blanks, where it has fewer lanes: for sums they change nothing.)
template <class X, class Out, class I, int V, bool straight>
__global__ void __launch_bounds__(kThreads, kReduceBlocks)
    sum_columns_joined(ReduceArgs args, Nest<I, 3> kept, Nest<I, 1> folded, u32* counters) {
  after_earlier();
  using Fold = folds::Sum<float>;
  fold_columns<Fold, X, Out, I, V, straight>(args, kept, folded);
  if (!comes_last(counters + blockIdx.x, gridDim.y)) return;
  constexpr int lanes = 8;
  const i64 begin = i64(blockIdx.x) * blockDim.x * V;
  for (int o = threadIdx.y * blockDim.x + threadIdx.x; o < int(blockDim.x) * V; o += kThreads) {
    const i64 output = begin + o;
    if (output >= args.outputs) return;
    float acc[lanes] = {};
    for (int first = 0; first < args.segments; first += lanes)
#pragma unroll
      for (int k = 0; k < lanes; ++k)
        if (first + k < args.segments)
          Fold::merge(acc[k],
                      __ldcg(typed<float>(args.partial) + (first + k) * args.outputs + output));
#pragma unroll
    for (int apart = lanes / 2; apart > 0; apart /= 2)
#pragma unroll
      for (int k = 0; k < apart; ++k) Fold::merge(acc[k], acc[k + apart]);
    write_result<Fold, X, Out>(args, offsets_of(kept, I(output)), acc[0]);
  }
}

// The second launch: the segments of each output. `across`: there are many outputs, and threads
// that are neighbours work for different ones.
template <class Fold, class X, class Out, class I, bool across>
__global__ void __launch_bounds__(kThreads) reduce_merge(ReduceArgs args, Nest<I, 3> kept) {
  after_earlier();
  const ThreadRole<across> role;
  const bool works = role.output < args.outputs;
  typename Fold::Acc acc = Fold::blank();
  for (int s = role.lane; works && s < args.segments; s += role.lanes)
    Fold::merge(acc, typed<typename Fold::Acc>(args.partial)[s * args.outputs + role.output]);
  acc = join_lanes<Fold>(role, acc);
  if (works && role.lane == 0)
    write_result<Fold, X, Out>(args, offsets_of(kept, I(role.output)), acc);
}

}  // namespace rush
