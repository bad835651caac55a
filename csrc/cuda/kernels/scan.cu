// scan.cu: running sums, products, extremes and log-sum-exps along one dim.
//
// - A line is what is scanned; the other dims number the lines (a nest of x, out, indices).
// - Short lines along memory: scan_rows, a group of lanes per line, which walks along it.
// - Long lines: scan_tiles, a block a tile, in one pass over memory. A tile's start is what all
//   tiles before it add up to, in a fixed tree: 32 tiles are a group, 32 groups per stretch. A tile
//   joins the start of its stretch, the groups before its own, and the tiles of its group before
//   itself, each level by one warp; the last of a group or stretch publishes the next level. So
//   the chain from stretch to stretch is short, and the result has the same bits every time,
//   which it would not if a tile took whatever happens to be there.
// - Lines across memory: scan_columns, a thread per line; few lines are cut into segments, whose
//   totals scan_totals finds first.
// - Sums and products are formed in double for float32 and smaller, as on the CPU.
#include "cuda/kernels/block.h"
#include "cuda/kernels/scan_args.h"
#include "functors/accumulator.h"

namespace rush {

namespace scans {

// A scan: E is what an element is converted to.
template <class E>
struct Sum {
  using Element = E;
  using Acc = running<E>;
  static RUSH_FN Acc blank() { return Acc(0); }
  static RUSH_FN Acc lift(E x, i64) { return Acc(x); }
  static RUSH_FN Acc join(Acc a, Acc b) { return a + b; }
  static RUSH_FN E value(const Acc& acc) { return E(acc); }
};
template <class E>
struct Prod : Sum<E> {
  using Acc = running<E>;
  static RUSH_FN Acc blank() { return Acc(1); }
  static RUSH_FN Acc join(Acc a, Acc b) { return a * b; }
};

// NaN wins and stays; of equals the last wins. A blank has no position.
template <class E>
struct Leader {
  E value;
  i64 index;
};
template <class E, bool largest>
struct Extreme {
  using Element = E;
  using Acc = Leader<E>;
  static constexpr bool has_position = true;
  static RUSH_FN Acc blank() { return {E(0), -1}; }
  static RUSH_FN Acc lift(E x, i64 position) { return {x, position}; }
  static RUSH_FN Acc join(const Acc& a, const Acc& b) {
    const bool better = largest ? b.value >= a.value : b.value <= a.value;
    return b.index >= 0 && (a.index < 0 || better || b.value != b.value) ? b : a;
  }
  static RUSH_FN E value(const Acc& acc) { return acc.value; }
};
template <class E>
using Max = Extreme<E, true>;
template <class E>
using Min = Extreme<E, false>;

template <class E>
struct LogCumSumExp {
  using Element = E;
  using Acc = double;
  static RUSH_FN Acc blank() { return -limits<double>::inf; }
  static RUSH_FN Acc lift(E x, i64) { return x; }
  static RUSH_FN Acc join(Acc a, Acc b) {
    const double low = a < b ? a : b, high = a < b ? b : a;
    if (a != a || b != b) return a + b;
    if (low == high && high - high != 0) return high;  // two equal infinities
    return high + math::log1p(math::exp(low - high));
  }
  static RUSH_FN E value(Acc acc) { return E(acc); }
};

}  // namespace scans

// ---- one line's elements ----

template <class S, class X, class Out>
struct Line {
  const X* x;
  Out* out;
  i64* indices;
  const ScanArgs& args;

  RUSH_FN typename S::Acc read(i64 i) const {
    if (i >= args.length) return S::blank();
    return S::lift(convert<typename S::Element>(x[i * args.x_step]), i);
  }
  RUSH_FN void write(i64 i, const typename S::Acc& acc) const {
    if (i >= args.length) return;
    out[i * args.out_step] = convert<Out>(S::value(acc));
    if constexpr (requires { S::has_position; })
      if (indices) indices[i * args.index_step] = acc.index;
  }
};

// V elements of a line from `first` on; V > 1: they lie end to end and are aligned. They stay as
// they are until they are needed: registers decide how many tiles a GPU has under way.
// `whole`: none of them lies beyond the line's end.
template <class S, class X, class Out, int V>
struct Piece {
  using Acc = typename S::Acc;
  Pack<X, V> x;

  template <bool whole>
  RUSH_FN void read(const Line<S, X, Out>& line, i64 first) {
    if constexpr (whole && V > 1) {
      x = load_pack<V>(line.x + first);
    } else {
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (whole || first + k < line.args.length) x.v[k] = line.x[(first + k) * line.args.x_step];
    }
  }
  template <bool whole>
  RUSH_FN Acc at(const Line<S, X, Out>& line, i64 first, int k) const {
    if (!whole && first + k >= line.args.length) return S::blank();
    return S::lift(convert<typename S::Element>(x.v[k]), first + k);
  }
  template <bool whole>
  RUSH_FN Acc total(const Line<S, X, Out>& line, i64 first) const {
    Acc acc = at<whole>(line, first, 0);
#pragma unroll
    for (int k = 1; k < V; ++k) acc = S::join(acc, at<whole>(line, first, k));
    return acc;
  }
  // The running results from `acc` on.
  template <bool whole>
  RUSH_FN void write(const Line<S, X, Out>& line, i64 first, Acc acc) const {
    constexpr int part = !whole ? 1 : V * sizeof(Out) > 16 ? int(16 / sizeof(Out)) : V;
    constexpr int index_part = whole && V > 1 ? 2 : 1;
    Pack<Out, part> out;
    Pack<i64, index_part> places;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      acc = S::join(acc, at<whole>(line, first, k));
      if constexpr (V == 1 || !whole) {
        line.write(first + k, acc);
      } else {
        out.v[k % part] = convert<Out>(S::value(acc));
        if (k % part == part - 1) store_pack<part>(line.out + first + k + 1 - part, out);
        if constexpr (requires { S::has_position; }) {
          places.v[k % index_part] = acc.index;
          if (line.indices && k % index_part == index_part - 1)
            store_pack<index_part>(line.indices + first + k + 1 - index_part, places);
        }
      }
    }
  }
};

template <class S, class X, class Out, class I>
RUSH_FN Line<S, X, Out> line_at(const ScanArgs& args, const Nest<I, 3>& nest, i64 number) {
  const Offsets<I, 3> o = offsets_of(nest, I(number));
  return {typed<X>(args.x) + o.at[0], typed<Out>(args.out) + o.at[1],
          args.indices ? args.indices + o.at[2] : nullptr, args};
}

// ---- lines along memory ----

// One pack a lane, after `carry`; returns the carry for the next.
template <bool whole, int V, int lanes, class S, class X, class Out>
RUSH_FN typename S::Acc scan_stretch(const Line<S, X, Out>& line, i64 first, bool works,
                                     const typename S::Acc& carry) {
  using Acc = typename S::Acc;
  Piece<S, X, Out, V> piece;
  piece.template read<whole>(line, first);
  const Acc upto = scan_lanes_of<S>(piece.template total<whole>(line, first), lanes);
  const Acc below = from_below(upto, 1, lanes);
  const Acc start = (lane_number() & (lanes - 1)) == 0 ? carry : S::join(carry, below);
  if (works) piece.template write<whole>(line, first, start);
  return S::join(carry, from_lane(upto, lanes - 1, lanes));
}

// `lanes` of them, a power of two up to 32, take a line.
template <class S, class X, class Out, class I, int V, int lanes>
__global__ void __launch_bounds__(kThreads) scan_rows(ScanArgs args, Nest<I, 3> nest) {
  after_earlier();
  using Acc = typename S::Acc;
  constexpr int at_once = kThreads / lanes;
  const int lane = int(threadIdx.x) % lanes;
  for (i64 first = i64(blockIdx.x) * at_once; first < args.lines;
       first += i64(gridDim.x) * at_once) {
    const i64 number = first + int(threadIdx.x) / lanes;
    const bool works = number < args.lines;
    const Line<S, X, Out> line = line_at<S, X, Out>(args, nest, works ? number : 0);
    Acc carry = S::blank();
    i64 base = 0;
    for (; base + lanes * V <= args.length; base += lanes * V)
      carry = scan_stretch<true, V, lanes>(line, base + lane * V, works, carry);
    if (base < args.length) scan_stretch<false, V, lanes>(line, base + lane * V, works, carry);
  }
}

// What comes before tile `tile` of line `number`, for all lanes of one warp. `total` is the tile's
// own sum.
template <class S>
RUSH_FN typename S::Acc tile_start(const ScanArgs& args, i64 number, i64 tile,
                                   const typename S::Acc& total) {
  using Acc = typename S::Acc;
  const int lane = lane_number();
  const i64 group = tile / kScanGroup, stretch = group / kScanGroup;
  const int in_group = int(tile % kScanGroup), in_stretch = int(group % kScanGroup);
  const bool ends_group = in_group == kScanGroup - 1, ends_stretch = in_stretch == kScanGroup - 1;
  Acc* tiles = typed<Acc>(args.tile_sums) + number * args.tiles;
  Acc* groups = typed<Acc>(args.group_sums) + number * args.groups;
  Acc* starts = typed<Acc>(args.stretch_starts) + number * args.stretches;
  u32* tile_flags = args.tile_flags + number * args.tiles;
  u32* group_flags = args.group_flags + number * args.groups;
  u32* stretch_flags = args.stretch_flags + number * args.stretches;

  if (lane == 0 && !ends_group) publish(tiles + tile, tile_flags + tile, total);
  const i64 first_tile = group * kScanGroup, first_group = stretch * kScanGroup;
  Acc a = S::blank();
  if (lane < in_group) a = await(tiles + first_tile + lane, tile_flags + first_tile + lane);
  const Acc tiles_before = from_lane(scan_lanes_of<S>(a), kLanes - 1);
  const Acc whole_group = S::join(tiles_before, total);
  if (lane == 0 && ends_group && !ends_stretch)
    publish(groups + group, group_flags + group, whole_group);

  a = S::blank();
  if (lane < in_stretch) a = await(groups + first_group + lane, group_flags + first_group + lane);
  const Acc groups_before = from_lane(scan_lanes_of<S>(a), kLanes - 1);
  Acc start = S::blank();
  if (stretch > 0) start = await(starts + stretch, stretch_flags + stretch);
  start = S::join(start, groups_before);
  if (lane == 0 && ends_group && ends_stretch && stretch + 1 < args.stretches)
    publish(starts + stretch + 1, stretch_flags + stretch + 1, S::join(start, whole_group));
  return S::join(start, tiles_before);
}

template <bool whole, int V, int parts, class S, class X, class Out>
RUSH_FN void scan_tile(const Line<S, X, Out>& line, i64 number, i64 tile) {
  using Acc = typename S::Acc;
  __shared__ Acc sums[parts * kWarps];  // of each warp's stretches, then what lies before them
  __shared__ Acc tile_before;
  const int lane = lane_number(), warp = warp_number();
  const i64 base = tile * (kThreads * V * parts) + i64(threadIdx.x) * V;
  const auto first = [&](int p) { return base + p * (kThreads * V); };

  Piece<S, X, Out, V> pieces[parts];
  Acc below[parts];
#pragma unroll
  for (int p = 0; p < parts; ++p) pieces[p].template read<whole>(line, first(p));
#pragma unroll
  for (int p = 0; p < parts; ++p) {
    const Acc upto = scan_lanes_of<S>(pieces[p].template total<whole>(line, first(p)));
    below[p] = from_below(upto, 1);
    if (lane == 0) below[p] = S::blank();
    if (lane == kLanes - 1) sums[p * kWarps + warp] = upto;
  }
#pragma unroll
  for (int p = 0; p < parts; ++p) forget_results_of(pieces[p].x);
  __syncthreads();
  if (warp == 0) {
    static_assert(parts * kWarps <= kLanes);
    const Acc own = lane < parts * kWarps ? sums[lane] : S::blank();
    const Acc upto = scan_lanes_of<S>(own);
    const Acc total = from_lane(upto, kLanes - 1);
    Acc before = from_below(upto, 1);
    if (lane == 0) before = S::blank();
    if (lane < parts * kWarps) sums[lane] = before;
    Acc start = S::blank();
    if (line.args.tiles > 1) start = tile_start<S>(line.args, number, tile, total);
    if (lane == 0) tile_before = start;
  }
  __syncthreads();
#pragma unroll
  for (int p = 0; p < parts; ++p)
    pieces[p].template write<whole>(
        line, first(p), S::join(S::join(tile_before, sums[p * kWarps + warp]), below[p]));
}

// A tile is `parts` times a pack of V for each thread. Blocks: one a tile, lines one after another;
// they start in the order of their numbers, so the tiles before a tile are under way.
template <class S, class X, class Out, class I, int V, int parts>
__global__ void __launch_bounds__(kThreads, 4) scan_tiles(ScanArgs args, Nest<I, 3> nest) {
  after_earlier();
  const i64 number = i64(blockIdx.x) / args.tiles, tile = i64(blockIdx.x) - number * args.tiles;
  const Line<S, X, Out> line = line_at<S, X, Out>(args, nest, number);
  if ((tile + 1) * (kThreads * V * parts) <= args.length)
    scan_tile<true, V, parts>(line, number, tile);
  else
    scan_tile<false, V, parts>(line, number, tile);
}

// ---- lines across memory ----

inline constexpr int kAhead = 8;  // elements read before they are needed

// One segment of this thread's line. Without `writes` only its total is found, for the segments
// after it. Blocks: x over lines, y over segments.
template <bool writes, class S, class X, class Out, class I>
RUSH_FN void scan_segment(const ScanArgs& args, const Nest<I, 3>& nest) {
  const i64 number = thread_number();
  if (number >= args.lines) return;
  const Line<S, X, Out> line = line_at<S, X, Out>(args, nest, number);
  const i64 begin = i64(blockIdx.y) * args.segment, end = begin + args.segment;
  auto* totals = typed<typename S::Acc>(args.totals) + number;
  typename S::Acc acc = S::blank();
  if constexpr (writes)
    for (i64 s = 0; s < i64(blockIdx.y); ++s) acc = S::join(acc, totals[s * args.lines]);
  for (i64 i = begin; i < end; i += kAhead) {
    typename S::Acc next[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) next[k] = i + k < end ? line.read(i + k) : S::blank();
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      acc = S::join(acc, next[k]);
      if (writes && i + k < end) line.write(i + k, acc);
    }
  }
  if constexpr (!writes) totals[i64(blockIdx.y) * args.lines] = acc;
}

template <class S, class X, class Out, class I>
__global__ void __launch_bounds__(kThreads) scan_totals(ScanArgs args, Nest<I, 3> nest) {
  after_earlier();
  scan_segment<false, S, X, Out>(args, nest);
}
template <class S, class X, class Out, class I>
__global__ void __launch_bounds__(kThreads) scan_columns(ScanArgs args, Nest<I, 3> nest) {
  after_earlier();
  scan_segment<true, S, X, Out>(args, nest);
}

}  // namespace rush
