// cross_entropy.cu: cross entropy by class index, and nll_loss (`scores` is false: the input holds
// log-probabilities already).
//
// - Classes that lie along memory (rows): a team of threads takes a position. Otherwise (columns)
//   neighbouring threads take neighbouring positions, and `Lanes` threads share one where they are
//   few.
// - The forward pass reads the scores once. Its blocks' sums are joined in order by a second
//   launch (in compiled functions by the last block), unless there is one block only: the same
//   numbers come out every time.
// - A target out of range is noted (fault.h) and counts as ignored.
// - T is the type of memory, C what is computed in; weights and totals are C.
#include "cuda/kernels/exponentials.h"
#include "cuda/kernels/fault.h"
#include "cuda/kernels/last_block.h"
#include "cuda/kernels/team.h"

namespace rush {

// ---- positions ----

template <class C>
struct Target {
  i64 place;
  bool counts;
  C weight;
};

template <class C>
RUSH_FN Target<C> target_at(const CrossEntropyArgs& args, i64 position) {
  const i64 place = args.target[position];
  if (place == args.ignore_index) return {0, false, C(0)};
  if (place < 0 || place >= args.classes) {
    if (args.fault) report(args.fault, args.launch, position, place);
    return {0, false, C(0)};
  }
  return {place, true, args.weight ? typed<C>(args.weight)[place] : C(1)};
}

RUSH_FN i64 start_of(const CrossEntropyArgs& args, i64 position) {
  const i64 b = args.points == 1 ? position : position / args.points;
  return b * args.batch_step + (position - b * args.points) * args.point_step;
}

// Over the classes: exponentials, and for the smoothing the sums of weights, and of weights times
// scores.
template <class C>
struct ClassSums {
  Exponentials<C> exponentials;
  C weights, weighted;
  static RUSH_FN ClassSums none() { return {Exponentials<C>::none(), C(0), C(0)}; }
  RUSH_FN void weigh(const CrossEntropyArgs& args, i64 k, C x) {
    const C w = args.weight ? typed<C>(args.weight)[k] : C(1);
    weights += w;
    weighted += w * x;
  }
};
struct JoinClassSums {
  template <class C>
  RUSH_FN ClassSums<C> operator()(const ClassSums<C>& a, const ClassSums<C>& b) const {
    return {JoinExponentials{}(a.exponentials, b.exponentials), a.weights + b.weights,
            a.weighted + b.weighted};
  }
};

// The sums of losses and weights that a block has met; kept by one thread a position.
struct LossSums {
  double losses, weights;
};
struct JoinLossSums {
  RUSH_FN LossSums operator()(LossSums a, LossSums b) const {
    return {a.losses + b.losses, a.weights + b.weights};
  }
};

template <class T>
RUSH_FN void store_loss(const CrossEntropyArgs& args, i64 at, double value) {
  if (args.float_loss)
    typed<float>(args.loss)[at] = float(value);
  else
    typed<T>(args.loss)[at] = convert<T>(value);
}

template <class C, class T, bool scores>
RUSH_FN void finish_position(const CrossEntropyArgs& args, i64 position, const ClassSums<C>& sums,
                             LossSums& all) {
  const Target<C> target = target_at<C>(args, position);
  C total = 0, value = 0;
  if constexpr (scores) {
    total = sums.exponentials.log();
    typed<C>(args.total)[position] = total;
  }
  if (target.counts) {
    const C score =
        convert<C>(typed<T>(args.x)[start_of(args, position) + target.place * args.class_step]);
    value = C(1 - args.smoothing) * target.weight * (total - score);
    if (args.smoothing > 0)
      value += C(args.smoothing / double(args.classes)) * (sums.weights * total - sums.weighted);
  }
  if (args.reduces) {
    all.losses += double(value);
    all.weights += double(target.weight);
  } else {
    store_loss<T>(args, position, double(value));
  }
}

template <class T>
RUSH_FN void write_loss(const CrossEntropyArgs& args, const LossSums& all) {
  store_loss<T>(args, 0, args.mean ? all.losses / all.weights : all.losses);
  *args.weights = all.weights;
}

// The sums of all blocks, by one. (Past its processor's own cache: they may be of this launch.)
template <class T>
RUSH_FN void join_blocks(const CrossEntropyArgs& args) {
  LossSums all{0, 0};
  for (int b = threadIdx.x; b < args.blocks; b += kThreads)
    all = JoinLossSums{}(all, {__ldcg(args.partial + 2 * b), __ldcg(args.partial + 2 * b + 1)});
  all = join_team<kThreads>(all, JoinLossSums{});
  if (threadIdx.x == 0) write_loss<T>(args, all);
}

template <class T>
RUSH_FN void finish_block(const CrossEntropyArgs& args, LossSums all) {
  if (!args.reduces) return;
  all = join_team<kThreads>(all, JoinLossSums{});
  if (threadIdx.x == 0) {
    if (gridDim.x == 1) {
      write_loss<T>(args, all);
    } else {
      args.partial[2 * i64(blockIdx.x)] = all.losses;
      args.partial[2 * i64(blockIdx.x) + 1] = all.weights;
    }
  }
  if (args.counter && gridDim.x > 1 && comes_last(args.counter, gridDim.x)) join_blocks<T>(args);
}

// ---- forward ----

template <class C, class T, int Team, int V>
__global__ void __launch_bounds__(kThreads) cross_entropy_rows(CrossEntropyArgs args) {
  after_earlier();
  constexpr int teams = kThreads / Team;
  const int lane = threadIdx.x % Team;
  const i64 positions = args.batch * args.points;
  LossSums all{0, 0};
  for (i64 first = i64(blockIdx.x) * teams; first < positions; first += i64(gridDim.x) * teams) {
    const i64 position = first + threadIdx.x / Team;
    const bool works = position < positions;
    const T* x = typed<T>(args.x) + start_of(args, works ? position : 0);
    ClassSums<C> sums = ClassSums<C>::none();
    constexpr i64 kStep = i64(Team) * V;
    constexpr int kAtOnce = 16 / V;  // packs whose loads are under way together
    i64 i = i64(lane) * V;
    for (; works && args.smoothing <= 0 && i + (kAtOnce - 1) * kStep < args.classes;
         i += kAtOnce * kStep) {
      Pack<T, V> packs[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) packs[k] = load_pack<V>(x + i + k * kStep);
      sums.exponentials.add(packs);
    }
    for (; works && i < args.classes; i += kStep) {
      const Pack<T, V> pack = load_pack<V>(x + i);
      sums.exponentials.add(pack);
      if (args.smoothing > 0)
        for (int j = 0; j < V; ++j) sums.weigh(args, i + j, convert<C>(pack.v[j]));
    }
    sums = join_team<Team>(sums, JoinClassSums{});
    if (works && lane == 0) finish_position<C, T, true>(args, position, sums, all);
  }
  finish_block<T>(args, all);
}

template <class C, class T, int Lanes, bool scores>
__global__ void __launch_bounds__(kThreads) cross_entropy_columns(CrossEntropyArgs args) {
  after_earlier();
  constexpr int columns = kThreads / Lanes;
  const int lane = threadIdx.x / columns;
  const i64 positions = args.batch * args.points;
  const bool reads = scores || args.smoothing > 0;  // all classes
  LossSums all{0, 0};
  for (i64 first = i64(blockIdx.x) * columns; first < positions;
       first += i64(gridDim.x) * columns) {
    const i64 position = first + threadIdx.x % columns;
    const bool works = position < positions;
    const T* x = typed<T>(args.x) + start_of(args, works ? position : 0);
    ClassSums<C> sums = ClassSums<C>::none();
    constexpr int ahead = 4;  // classes that are on their way at a time
    i64 k = works && reads ? lane : args.classes;
    for (; k + i64(ahead - 1) * Lanes < args.classes; k += i64(ahead) * Lanes) {
      Pack<T, ahead> pack;
#pragma unroll
      for (int j = 0; j < ahead; ++j) pack.v[j] = x[(k + j * Lanes) * args.class_step];
      if constexpr (scores) sums.exponentials.add(pack);
      if (args.smoothing > 0)
        for (int j = 0; j < ahead; ++j) sums.weigh(args, k + j * Lanes, convert<C>(pack.v[j]));
    }
    for (; k < args.classes; k += Lanes) {
      const T score = x[k * args.class_step];
      if constexpr (scores) sums.exponentials.add(Pack<T, 1>{{score}});
      if (args.smoothing > 0) sums.weigh(args, k, convert<C>(score));
    }
    sums = join_column<Lanes>(sums, JoinClassSums{});
    if (works && lane == 0) finish_position<C, T, scores>(args, position, sums, all);
  }
  finish_block<T>(args, all);
}

// The second launch, one block: the sums of the first one's.
template <class T>
__global__ void __launch_bounds__(kThreads) cross_entropy_join(CrossEntropyArgs args) {
  after_earlier();
  join_blocks<T>(args);
}

// ---- backward ----

// A position's gradient: a * softmax - even * weight of the class, and - sharp at the target.
template <class C, class T, bool scores>
struct Slope {
  C a, even, sharp, total;
  i64 place;
  RUSH_FN Slope(const CrossEntropyArgs& args, i64 position, C all_weights) {
    const Target<C> target = target_at<C>(args, position);
    const double scale = args.mean ? 1 / *args.weights : 1;
    const i64 at = position * args.g_step;
    const double g = args.float_loss ? double(typed<float>(args.g)[at])
                                     : double(convert<C>(typed<T>(args.g)[at]));
    const C own = target.counts ? C(g * scale) : C(0);
    place = target.counts ? target.place : -1;
    sharp = own * C(1 - args.smoothing) * target.weight;
    even = own * C(args.smoothing / double(args.classes));
    a = sharp + even * all_weights;
    total = scores ? typed<C>(args.total)[position] : C(0);
  }
  // The classes from k on, without smoothing.
  template <int V>
  RUSH_FN void pack(i64 k, Pack<T, V>& x) const {
    const i64 ahead = place - k;
    const int hit = place >= 0 && ahead >= 0 && ahead < V ? int(ahead) : -1;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      C v = place >= 0 ? a * exp_over<T>(convert<C>(x.v[j]) - total) : C(0);
      if (j == hit) v -= sharp;
      x.v[j] = convert<T>(v);
    }
  }
  RUSH_FN T at(const CrossEntropyArgs& args, i64 k, T x) const {
    C v = 0;
    if constexpr (scores)
      if (place >= 0) v = a * exp_over<T>(convert<C>(x) - total);
    if (args.smoothing > 0) v -= even * (args.weight ? typed<C>(args.weight)[k] : C(1));
    if (k == place) v -= sharp;
    return convert<T>(v);
  }
};

// The sum of the classes' weights, where the smoothing needs it.
template <class C>
RUSH_FN C sum_of_weights(const CrossEntropyArgs& args) {
  if (args.smoothing == 0 || !args.weight) return C(args.classes);
  C sum = 0;
  for (i64 k = threadIdx.x; k < args.classes; k += kThreads) sum += typed<C>(args.weight)[k];
  return join_team<kThreads>(sum, JoinSum{});
}

template <class C, class T, int Team, int V>
__global__ void __launch_bounds__(kThreads) cross_entropy_backward_rows(CrossEntropyArgs args) {
  after_earlier();
  const C weights = sum_of_weights<C>(args);
  const int lane = threadIdx.x % Team;
  const i64 position = i64(blockIdx.x) * (kThreads / Team) + threadIdx.x / Team;
  if (position >= args.batch * args.points) return;
  const i64 start = start_of(args, position);
  const Slope<C, T, true> slope(args, position, weights);
  const T* x = typed<T>(args.x) + start;
  T* gx = typed<T>(args.gx) + start;
  constexpr i64 kStep = i64(Team) * V;
  constexpr int kAtOnce = V == 1 ? 1 : 4;  // packs whose loads are under way together
  i64 i = i64(lane) * V;
  for (; args.smoothing <= 0 && i + (kAtOnce - 1) * kStep < args.classes; i += kAtOnce * kStep) {
    Pack<T, V> packs[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) packs[k] = load_pack<V>(x + i + k * kStep);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      slope.pack(i + k * kStep, packs[k]);
      store_pack(gx + i + k * kStep, packs[k]);
    }
  }
  for (; i < args.classes; i += kStep) {
    Pack<T, V> pack = load_pack<V>(x + i);
#pragma unroll
    for (int j = 0; j < V; ++j) pack.v[j] = slope.at(args, i + j, pack.v[j]);
    store_pack(gx + i, pack);
  }
}

// blockIdx.y: a share of the classes.
template <class C, class T, bool scores>
__global__ void __launch_bounds__(kThreads) cross_entropy_backward_columns(CrossEntropyArgs args) {
  after_earlier();
  const C weights = sum_of_weights<C>(args);
  const i64 position = thread_number();
  if (position >= args.batch * args.points) return;
  const i64 start = start_of(args, position);
  const Slope<C, T, scores> slope(args, position, weights);
#pragma unroll 4
  for (i64 k = blockIdx.y; k < args.classes; k += gridDim.y) {
    const i64 at = start + k * args.class_step;
    typed<T>(args.gx)[at] = slope.at(args, k, scores ? typed<T>(args.x)[at] : T(0.0f));
  }
}

}  // namespace rush
