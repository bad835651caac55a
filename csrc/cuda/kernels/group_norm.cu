// group_norm.cu: normalisation over groups of channels (group and instance norm).
//
// - Contiguous images are (batch, channels, inner): a group of a sample is one row. A block that can
//   keep a row in its registers reads it once, and so do up to eight blocks beside each other (a
//   cluster), which exchange what they found; others read it again, which the caches serve.
// - Channels-last images are (batch, inner, channels): one kernel adds up channels, each block over a
//   segment of a sample's points, a small one joins segments and channels to groups, and one
//   goes over the elements. In compiled functions a sample's last block joins them instead.
// - A pack never holds two channels of a contiguous image: inner is a multiple of V.
// - Sums are joined in the order of their numbers, without atomics: the same bits every time.
// - T is the type of x, y and their gradients, W that of weight and bias, C what is computed in and
//   what statistics are kept in.
#include "cuda/kernels/group_map.h"
#include "cuda/kernels/group_rows.h"
#include "cuda/kernels/last_block.h"
#include "cuda/kernels/norm_rows.h"

namespace rush {

// ---- contiguous ----

// A pack of one channel, normalised, to its place.
template <class C, class T, int V>
RUSH_FN void write_normal(T* to, const KeptPack<T, V>& kept, C mean, C scale, C shift) {
  const Pack<C, V> x = widen<C>(kept);
  Pack<T, V> out;
#pragma unroll
  for (int j = 0; j < V; ++j) out.v[j] = convert<T>((x.v[j] - mean) * scale + shift);
  write_pack(to, out);
}
// The pack at i of a row.
template <class C, class W, class T, int V>
RUSH_FN void write_normal(const GroupNormArgs& args, const GroupRow& at, const KeptPack<T, V>& pack,
                          i64 i, C mean, C rstd) {
  const i64 channel = at.first + quotient(i, args.inner);
  const C scale = rstd * parameter<C, W>(args.weight, channel, C(1));
  const C shift = parameter<C, W>(args.bias, channel, C(0));
  write_normal(typed<T>(args.y) + at.row * at.width + i, pack, mean, scale, shift);
}

template <class C>
RUSH_FN void keep_statistics(const GroupNormArgs& args, i64 row, C mean, C rstd) {
  typed<C>(args.mean)[row] = mean;
  typed<C>(args.rstd)[row] = rstd;
}

// A cluster takes a row of up to Held packs per thread. by_plane divides by the packs of a plane.
template <class C, class T, class W, int V, int Held, int Blocks>
__global__ void __launch_bounds__(kThreads) RUSH_CLUSTER(Blocks)
    group_norm_held(GroupNormArgs args, Divider<u32> by_plane) {
  after_earlier();
  __shared__ ChannelTable<C> table;
  const GroupRow at(args, Blocks);
  const RowPart<Blocks> part(at.width / V);
  const i64 base = at.row * at.width + i64(part.begin) * V, n = i64(part.count_of(part.rank)) * V;
  HeldPacks<T, kThreads, V, Held> x;
  x.load(typed<T>(args.x) + base, threadIdx.x, n);
  // The thread's own channel of the table, under way with x.
  const u32 first = by_plane(part.begin), own = first + threadIdx.x;
  const bool tabled = by_plane(part.begin + part.share) - first < ChannelTable<C>::kMost;
  const bool writes = tabled && threadIdx.x < ChannelTable<C>::kMost && own < at.per_group;
  const C weight = writes ? parameter<C, W>(args.weight, at.first + own, C(1)) : C(1);
  const C bias = writes ? parameter<C, W>(args.bias, at.first + own, C(0)) : C(0);
  const HeldSums<C> s = sums_of_held<C>(x, threadIdx.x, n, C(n > 0 ? n : 1));
  const RowMoments<C> all = join_parts<V>(part, s.mean, s.squares);
  const C rstd = C(1) / math::sqrt(all.squares / C(at.width) + C(args.eps));
  if (writes) table.scale[threadIdx.x] = rstd * weight, table.shift[threadIdx.x] = bias;
  __syncthreads();
  x.each(threadIdx.x, n, [&](int k, i64 i) {
    const u32 channel = by_plane(part.begin + threadIdx.x + k * kThreads);
    C scale, shift;
    if (tabled) {
      scale = table.scale[channel - first], shift = table.shift[channel - first];
    } else {
      scale = rstd * parameter<C, W>(args.weight, at.first + channel, C(1));
      shift = parameter<C, W>(args.bias, at.first + channel, C(0));
    }
    write_normal(typed<T>(args.y) + base + i, x.p[k], all.mean, scale, shift);
  });
  if (threadIdx.x == 0 && part.rank == 0) keep_statistics(args, at.row, all.mean, rstd);
  if constexpr (Blocks > 1) wait_for_arrivals();
}

// A block takes a row of any length.
template <class C, class T, class W, int V>
__global__ void __launch_bounds__(kThreads) group_norm(GroupNormArgs args) {
  after_earlier();
  const GroupRow at(args);
  const T* x = typed<T>(args.x) + at.row * at.width;
  const RowMoments<C> moments = moments_of_row<kThreads, V, C>(x, threadIdx.x, at.width);
  const C mean = moments.mean;
  const C rstd = C(1) / math::sqrt(moments.squares / C(at.width) + C(args.eps));
  for (i64 i = i64(threadIdx.x) * V; i < at.width; i += i64(kThreads) * V)
    write_normal<C, W>(args, at, KeptPack<T, V>(x + i), i, mean, rstd);
  if (threadIdx.x == 0) keep_statistics(args, at.row, mean, rstd);
}

// Few long rows: the means are known, and `rstd` holds variances; blockIdx.y takes a part of the
// row. A second launch (group_norm_finish) turns them into what they are called.
template <class C, class T, class W, int V>
__global__ void __launch_bounds__(kThreads) group_norm_apply(GroupNormArgs args) {
  after_earlier();
  const GroupRow at(args);
  const T* x = typed<T>(args.x) + at.row * at.width;
  const C mean = typed<C>(args.mean)[at.row];
  const C rstd = C(1) / math::sqrt(typed<C>(args.rstd)[at.row] + C(args.eps));
  const i64 step = i64(gridDim.y) * kThreads * V;
  for (i64 i = (i64(blockIdx.y) * kThreads + threadIdx.x) * V; i < at.width; i += step)
    write_normal<C, W>(args, at, KeptPack<T, V>(x + i), i, mean, rstd);
}
template <class C>
__global__ void __launch_bounds__(kThreads) group_norm_finish(GroupNormArgs args) {
  after_earlier();
  C* rstd = typed<C>(args.rstd);
  for (i64 r = thread_number(); r < args.batch * args.groups; r += thread_count())
    rstd[r] = C(1) / math::sqrt(rstd[r] + C(args.eps));
}

// ---- contiguous, backward ----

// Adds the sums of a pack: of g, and of g times the normalised x.
template <class C, class T, int V>
RUSH_FN void add_pack(PairSum<C>& to, const KeptPack<T, V>& xs, const KeptPack<T, V>& gs, C mean,
                      C rstd) {
  const Pack<C, V> x = widen<C>(xs), g = widen<C>(gs);
#pragma unroll
  for (int j = 0; j < V; ++j) {
    to.plain += g.v[j];
    to.along += g.v[j] * (x.v[j] - mean) * rstd;
  }
}

// gx of a pack of one channel, to its place. means: of w g, and of w g times the normalised x.
template <class C, class T, int V>
RUSH_FN void write_input_grad(T* to, const KeptPack<T, V>& xs, const KeptPack<T, V>& gs, C weight,
                              C mean, C rstd, const PairSum<C>& means) {
  const C a = rstd * weight, b = rstd * rstd * means.along, c = rstd * means.plain;
  const Pack<C, V> x = widen<C>(xs), g = widen<C>(gs);
  Pack<T, V> out;
#pragma unroll
  for (int j = 0; j < V; ++j) out.v[j] = convert<T>(a * g.v[j] - (b * (x.v[j] - mean) + c));
  write_pack(to, out);
}

// How a block shares a row out: each plane in packs, `per_plane` per thread, Held in all.
template <int V, int Held>
struct PlanePacks {
  i64 inner;
  int per_plane, count;
  RUSH_FN PlanePacks(i64 inner, i64 planes)
      : inner(inner),
        per_plane(int((inner + kThreads * V - 1) / (kThreads * V))),
        count(int(planes) * per_plane) {}
  // Calls f(k, plane, i) for this thread's packs, of which the k-th lies at i of the row; and
  // turn(plane), in all threads, after the last one of each plane.
  template <class F, class Turn>
  RUSH_FN void each(F f, Turn turn) const {
    int plane = 0, part = 0;
#pragma unroll
    for (int k = 0; k < Held; ++k) {
      if (k >= count) continue;
      const i64 i = i64(part * kThreads + int(threadIdx.x)) * V;
      if (i < inner) f(k, plane, plane * inner + i);
      if (++part == per_plane) turn(plane), ++plane, part = 0;
    }
  }
  template <class F>
  RUSH_FN void each(F f) const {
    each(f, [](int) {});
  }
};

// A cluster takes a row and keeps it: x and g are read once. Each block has as many planes.
template <class C, class T, class W, int V, int Held, int Blocks>
__global__ void __launch_bounds__(kThreads) RUSH_CLUSTER(Blocks)
    group_norm_backward_held(GroupNormArgs args) {
  after_earlier();
  constexpr int kWarp = 32, kWarps = kThreads / kWarp;
  __shared__ PairSum<C> warps[Held][kWarps], planes[Held];
  __shared__ C weights[Held];
  const GroupRow at(args, Blocks);
  const u32 count = u32(at.per_group) / Blocks, skipped = blockIdx.x % Blocks * count;
  const i64 first = at.first + skipped, base = at.row * at.width + skipped * args.inner;
  const PlanePacks<V, Held> packs(args.inner, count);
  const T *x = typed<T>(args.x) + base, *g = typed<T>(args.g) + base;
  KeptPack<T, V> px[Held], pg[Held];
  packs.each([&](int k, int, i64 i) {
    px[k] = KeptPack<T, V>(x + i);
    pg[k] = KeptPack<T, V>(g + i);
  });
  const C mean = typed<C>(args.mean)[at.row], rstd = typed<C>(args.rstd)[at.row];
  if (threadIdx.x < count)
    weights[threadIdx.x] = parameter<C, W>(args.weight, first + threadIdx.x, C(1));
  PairSum<C> own{0, 0};
  packs.each([&](int k, int, i64) { add_pack(own, px[k], pg[k], mean, rstd); },
             [&](int plane) {
               own = join_team<kWarp>(own, JoinPairs{});
               if (threadIdx.x % kWarp == 0) warps[plane][threadIdx.x / kWarp] = own;
               own = {0, 0};
             });
  __syncthreads();
  if (threadIdx.x < count) {
    PairSum<C> sum = warps[threadIdx.x][0];
    for (int w = 1; w < kWarps; ++w) sum = JoinPairs{}(sum, warps[threadIdx.x][w]);
    planes[threadIdx.x] = sum;
    C* out = typed<C>(args.partial) + at.sample * 2 * args.channels + first + threadIdx.x;
    out[0] = sum.plain;
    out[args.channels] = sum.along;
  }
  __syncthreads();
  PairSum<C> means{0, 0};
  for (u32 c = 0; c < count; ++c) {
    means.plain += weights[c] * planes[c].plain;
    means.along += weights[c] * planes[c].along;
  }
  means = join_sums_of_blocks<Blocks>(means);
  means.plain /= C(at.width), means.along /= C(at.width);
  T* gx = typed<T>(args.y) + base;
  packs.each([&](int k, int plane, i64 i) {
    write_input_grad(gx + i, px[k], pg[k], weights[plane], mean, rstd, means);
  });
  if constexpr (Blocks > 1) wait_for_arrivals();
}

// Of each plane (a channel of a sample) the sums of g, and of g times the normalised x:
// [batch][2][channels].
template <class C, class T, int Team, int V>
__global__ void __launch_bounds__(kThreads) group_norm_planes(GroupNormArgs args) {
  after_earlier();
  const int lane = threadIdx.x % Team;
  const i64 plane = team_row<Team>();
  const bool works = plane < args.batch * args.channels;
  const i64 sample = works ? plane / args.channels : 0, channel = plane - sample * args.channels;
  const i64 row = sample * args.groups + (works ? channel / (args.channels / args.groups) : 0);
  const C mean = typed<C>(args.mean)[row], rstd = typed<C>(args.rstd)[row];
  const T *x = typed<T>(args.x) + plane * args.inner, *g = typed<T>(args.g) + plane * args.inner;
  PairSum<C> sum{0, 0};
#pragma unroll 4
  for (i64 i = i64(lane) * V; works && i < args.inner; i += i64(Team) * V)
    add_pack(sum, KeptPack<T, V>(x + i), KeptPack<T, V>(g + i), mean, rstd);
  sum = join_team<Team>(sum, JoinPairs{});
  if (!works || lane != 0) return;
  C* out = typed<C>(args.partial) + sample * 2 * args.channels + channel;
  out[0] = sum.plain;
  out[args.channels] = sum.along;
}

// gx from the planes' sums; blockIdx.x a row, blockIdx.y a part of it.
template <class C, class T, class W, int V>
__global__ void __launch_bounds__(kThreads) group_norm_backward(GroupNormArgs args) {
  after_earlier();
  const GroupRow at(args);
  const C* part = typed<C>(args.partial) + at.sample * 2 * args.channels + at.first;
  PairSum<C> means{0, 0};
  for (i64 c = threadIdx.x; c < at.per_group; c += kThreads) {
    const C weight = parameter<C, W>(args.weight, at.first + c, C(1));
    means.plain += weight * part[c];
    means.along += weight * part[args.channels + c];
  }
  means = join_team<kThreads>(means, JoinPairs{});
  means.plain /= C(at.width), means.along /= C(at.width);
  const C mean = typed<C>(args.mean)[at.row], rstd = typed<C>(args.rstd)[at.row];
  const i64 base = at.row * at.width, step = i64(gridDim.y) * kThreads * V;
  for (i64 i = (i64(blockIdx.y) * kThreads + threadIdx.x) * V; i < at.width; i += step) {
    const C weight = parameter<C, W>(args.weight, at.first + quotient(i, args.inner), C(1));
    write_input_grad(typed<T>(args.y) + base + i, KeptPack<T, V>(typed<T>(args.x) + base + i),
                     KeptPack<T, V>(typed<T>(args.g) + base + i), weight, mean, rstd, means);
  }
}

// ---- channels last ----

// A value that is typical for a channel of a sample: the middle one of three.
template <class T, class C>
struct GroupMoments : ShiftedSums<T, C> {
  RUSH_FN GroupMoments() {}
  RUSH_FN GroupMoments(const SampleArgs& a, i64 c) {
    C x[3];
#pragma unroll
    for (int k = 0; k < 3; ++k)
      x[k] = convert<C>(
          typed<T>(a.x)[(a.sample * a.inner + a.inner * (3 + 2 * k) / 11) * a.channels + c]);
    this->pivot = middle(x[0], x[1], x[2]);
  }
};
template <class T, class C>
struct GroupGradSums : CentredSums<T, C> {
  RUSH_FN GroupGradSums() {}
  RUSH_FN GroupGradSums(const SampleArgs& a, i64 c)
      : CentredSums<T, C>{typed<C>(a.mean)[a.row_of(c)]} {}
};

// The sums of a block's channels over its segment: [sample][segment][channels] pairs.
template <class Kind, class C, class T, int V>
RUSH_FN void add_up_part(const GroupNormArgs& args) {
  const SamplePart part(args);
  const SampleArgs own(args, part.sample);
  Kind kinds[V];
  PackSums<C, V> sums = sum_rows<Kind, T, C, V>(own, kinds, part.pack * V, part.rows());
  join_lanes(sums, part.lane, part.lanes);
  if (part.lane == 0 && part.pack * V < args.channels)
    typed<PackSums<C, V>>(args.segment_sums)[i64(blockIdx.x) * (args.channels / V) + part.pack] =
        sums;
}
template <class Kind, class C, class T, int V>
__global__ void __launch_bounds__(kThreads) group_sums_last(GroupNormArgs args) {
  after_earlier();
  add_up_part<Kind, C, T, V>(args);
}

// The sums of a channel, over its segments. (Past this processor's own cache: the blocks that left them
// may be of this launch.)
template <class C>
RUSH_FN Sums<C> join_segments_of(const GroupNormArgs& args, i64 sample, i64 channel) {
  const C* from =
      typed<C>(args.segment_sums) + (sample * args.segments * args.channels + channel) * 2;
  Sums<C> all;
  for (i64 s = 0; s < args.segments; ++s) {
    const C* part = from + s * args.channels * 2;
    all.first += __ldcg(part), all.second += __ldcg(part + 1);
  }
  return all;
}

// A group of a sample, for a warp; its lanes take channels.
struct WarpGroup {
  static constexpr int kWarp = 32;
  i64 row, per_group, sample, first;
  bool works;  // else it is one beyond the last
  int lane = threadIdx.x % kWarp;
  RUSH_FN WarpGroup(const GroupNormArgs& args, i64 row)
      : row(row),
        per_group(quotient(args.channels, args.groups)),
        works(row < args.batch * args.groups) {
    sample = works ? quotient(row, args.groups) : 0;
    first = (works ? row - sample * args.groups : 0) * per_group;
  }
  // Calls f(channel) for those of this lane.
  template <class F>
  RUSH_FN void each(F f) const {
    for (i64 c = lane; works && c < per_group; c += kWarp) f(first + c);
  }
};

// Channels to groups: mean and rstd.
template <class C, class T>
RUSH_FN void find_moments(const GroupNormArgs& args, const WarpGroup& group) {
  const SampleArgs own(args, group.sample);
  const C n = C(args.inner);
  RowMoments<C> all = RowMoments<C>::none();
  group.each([&](i64 c) {
    const Sums<C> sums = join_segments_of<C>(args, group.sample, c);
    const C shift = sums.first / n, squares = sums.second - sums.first * shift;
    const C mean = GroupMoments<T, C>(own, c).pivot + shift;
    all = JoinMoments{}(all, RowMoments<C>{n, mean, squares < C(0) ? C(0) : squares});
  });
  all = join_team<WarpGroup::kWarp>(all, JoinMoments{});
  if (group.works && group.lane == 0)
    keep_statistics(args, group.row, all.mean,
                    C(1) / math::sqrt(all.squares / all.n + C(args.eps)));
}
template <class C, class T>
__global__ void __launch_bounds__(kThreads) group_moments_last(GroupNormArgs args) {
  after_earlier();
  find_moments<C, T>(args, WarpGroup(args, team_row<WarpGroup::kWarp>()));
}

// The same for the backward pass: the planes' sums, and what gx needs of its group.
template <class C, class W>
RUSH_FN void find_means(const GroupNormArgs& args, const WarpGroup& group) {
  const C rstd = typed<C>(args.rstd)[group.works ? group.row : 0];
  PairSum<C> means{0, 0};
  group.each([&](i64 c) {
    const Sums<C> sums = join_segments_of<C>(args, group.sample, c);
    const C along = sums.second * rstd, weight = parameter<C, W>(args.weight, c, C(1));
    C* out = typed<C>(args.partial) + group.sample * 2 * args.channels + c;
    out[0] = sums.first;
    out[args.channels] = along;
    means.plain += weight * sums.first;
    means.along += weight * along;
  });
  means = join_team<WarpGroup::kWarp>(means, JoinPairs{});
  const C width = C(group.per_group * args.inner);
  if (group.works && group.lane == 0)
    typed<PairSum<C>>(args.means)[group.row] = {means.plain / width, means.along / width};
}
template <class C, class W>
__global__ void __launch_bounds__(kThreads) group_means_last(GroupNormArgs args) {
  after_earlier();
  find_means<C, W>(args, WarpGroup(args, team_row<WarpGroup::kWarp>()));
}

// Both by one launch: the last block of a sample joins what all of them have found.
template <class Kind, class C, class T, class W, int V>
__global__ void __launch_bounds__(kThreads) group_sums_joined(GroupNormArgs args) {
  after_earlier();
  add_up_part<Kind, C, T, V>(args);
  const i64 sample = quotient(blockIdx.x, args.segments);
  if (!comes_last(args.counters + sample, u32(args.segments) * gridDim.y)) return;
  constexpr int kWarps = kThreads / WarpGroup::kWarp;
  for (i64 g = threadIdx.x / WarpGroup::kWarp; g < args.groups; g += kWarps) {
    const WarpGroup group(args, sample * args.groups + g);
    if constexpr (Kind::reads == 1)
      find_moments<C, T>(args, group);
    else
      find_means<C, W>(args, group);
  }
}

template <class Kind, class T, int V>
__global__ void __launch_bounds__(kThreads) group_map_last(GroupNormArgs args) {
  after_earlier();
  const SamplePart part(args);
  if (part.pack * V >= args.channels) return;
  const SampleArgs own(args, part.sample);
  Kind kinds[V];
#pragma unroll
  for (int v = 0; v < V; ++v) kinds[v] = Kind(own, part.pack * V + v);
  map_rows<4 / Kind::reads, false, T>(args, kinds, part.pack * V, part.rows());
}

}  // namespace rush
