// embedding.cu: rows of a table by index, one by one or in bags, and the table's gradient.
//
// The gradient adds up the rows that belong to one index. They are sorted by index first (sort.cu),
// so that nothing is atomic: the same numbers come out every time, and every row of the table is
// written once. T is the type of memory, C what is computed in, Ix of indices, K of sorted keys.
#include "cuda/kernels/embedding_args.h"
#include "cuda/kernels/fault.h"
#include "cuda/kernels/team.h"

namespace rush {

// Which column this thread starts at, how far apart its columns are, and which row it works for.
struct RowRole {
  int across, column;
  i64 row, rows;
  RUSH_FN explicit RowRole(int across_log)
      : across(1 << across_log),
        column(int(threadIdx.x) & (across - 1)),
        row((i64(blockIdx.x) * kThreads + threadIdx.x) >> across_log),
        rows(thread_count() >> across_log) {}
};

template <class Ix, class Args>
RUSH_FN bool row_at(const Args& args, i64 i, bool reports, i64& row) {
  row = i64(typed<Ix>(args.index)[i]);
  if (row >= 0 && row < args.rows) return true;
  if (reports && args.fault) report(args.fault, args.launch, i, row);
  return false;
}

// ---- look-up ----

// W: bytes that travel together.
template <class W, class Ix>
__global__ void __launch_bounds__(kThreads) embedding_rows(EmbeddingArgs args) {
  after_earlier();
  const RowRole role(args.across_log);
  for (i64 i = role.row; i < args.n; i += role.rows) {
    i64 row;
    const bool good = row_at<Ix>(args, i, role.column == 0, row);
    for (i64 c = role.column; c < args.width; c += role.across)
      typed<W>(args.out)[i * args.step + c] =
          good ? typed<W>(args.table)[row * args.width + c] : W{};
  }
}

// ---- bags ----

// The bag's indices, brought into range; bounds that do not rise are noted.
RUSH_FN void bounds_of(const BagArgs& args, i64 bag, bool reports, i64& begin, i64& end) {
  begin = args.bounds[bag], end = args.bounds[bag + 1];
  const bool good = begin >= 0 && begin <= end && end <= args.n;
  if (!good && reports) report(args.fault, args.launch, bag, begin < 0 ? begin : end);
  if (!good) begin = end = 0;
}

template <class C, class T, class Ix>
__global__ void __launch_bounds__(kThreads) embedding_bag(BagArgs args) {
  after_earlier();
  const RowRole role(args.across_log);
  const T* table = typed<T>(args.table);
  for (i64 bag = role.row; bag < args.bags; bag += role.rows) {
    i64 begin, end, count = 0;
    bounds_of(args, bag, role.column == 0, begin, end);
    for (i64 c = role.column; c < args.width || c == 0; c += role.across) {
      C sum = 0;
      i64 place = -1;
      count = 0;
      for (i64 i = begin; i < end; ++i) {
        i64 row;
        if (!row_at<Ix>(args, i, c == 0, row) || row == args.skip) continue;
        ++count;
        if (c >= args.width) continue;
        const C x = convert<C>(table[row * args.width + c]);
        if (args.mode == 2) {
          if (place < 0 || x > sum || x != x) sum = x, place = row;
        } else {
          sum += args.weight ? x * convert<C>(typed<T>(args.weight)[i]) : x;
        }
      }
      if (c >= args.width) break;
      if (args.mode == 1 && count > 1) sum = sum * (C(1) / C(count));
      typed<T>(args.out)[bag * args.width + c] = convert<T>(sum);
      if (args.mode == 2) args.places[bag * args.width + c] = place;
    }
    if (role.column == 0) args.counts[bag] = count;
  }
}

// The bag of index i, or -1.
RUSH_FN i64 bag_of_index(const BagArgs& args, i64 i) {
  i64 low = 0, high = args.bags + 1;  // bounds[low - 1] <= i < bounds[high]
  while (low < high) {
    const i64 middle = (low + high) / 2;
    if (args.bounds[middle] <= i)
      low = middle + 1;
    else
      high = middle;
  }
  return low > args.bags ? -1 : low - 1;
}

template <class C, class T, class Ix, class K>
__global__ void __launch_bounds__(kThreads) bag_entries(BagArgs args) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const i64 bag = bag_of_index(args, i), row = i64(typed<Ix>(args.index)[i]);
    const bool counts = bag >= 0 && row >= 0 && row < args.rows && row != args.skip;
    typed<K>(args.keys)[i] = K(counts ? row : args.rows);
    args.bag_of[i] = bag < 0 ? 0 : bag;
    C scale = 1;
    if (args.weight)
      scale = convert<C>(typed<T>(args.weight)[i]);
    else if (args.mode == 1 && bag >= 0 && args.counts[bag] > 1)
      scale = C(1) / C(args.counts[bag]);
    typed<C>(args.scale)[i] = scale;
  }
}

// gweight[i] = g[bag of i] . table[index[i]]; a warp for each.
template <class C, class T, class Ix>
__global__ void __launch_bounds__(kThreads) bag_weights(BagArgs args) {
  after_earlier();
  const int lane = threadIdx.x % 32;
  const i64 i = (i64(blockIdx.x) * kThreads + threadIdx.x) / 32;
  C sum = 0;
  if (i < args.n) {
    const i64 bag = bag_of_index(args, i), row = i64(typed<Ix>(args.index)[i]);
    if (bag >= 0 && row >= 0 && row < args.rows && row != args.skip)
      for (i64 c = lane; c < args.width; c += 32)
        sum += convert<C>(typed<T>(args.g)[bag * args.width + c]) *
               convert<C>(typed<T>(args.table)[row * args.width + c]);
  }
  sum = join_team<32>(sum, JoinSum{});
  if (i < args.n && lane == 0) typed<T>(args.gweight)[i] = convert<T>(sum);
}

// ---- the table's gradient ----

// Keys to sort by: the indices, or `rows` for those that do not count.
template <class Ix, class K>
__global__ void __launch_bounds__(kThreads) embedding_keys(BagArgs args) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const i64 row = i64(typed<Ix>(args.index)[i]);
    const bool counts = row >= 0 && row < args.rows && row != args.skip;
    typed<K>(args.keys)[i] = K(counts ? row : args.rows);
  }
}

// S: the source's type: T in the first launch, C in the next ones.
template <class C, class T, class S, class K, int V>
__global__ void __launch_bounds__(kThreads) segment_sums(SegmentArgs args) {
  after_earlier();
  constexpr int kAhead = 4;  // rows that are on their way at a time
  const RowRole role(args.across_log);
  const i64 chunks = (args.n + args.chunk - 1) / args.chunk;
  const K* keys = typed<K>(args.keys);
  for (i64 chunk = role.row; chunk < chunks; chunk += role.rows) {
    const i64 begin = chunk * args.chunk;
    const i64 end = begin + args.chunk < args.n ? begin + args.chunk : args.n;
    const bool from_before = begin > 0 && keys[begin - 1] == keys[begin];
    const bool to_after = end < args.n && keys[end] == keys[end - 1];
    for (i64 c = i64(role.column) * V; c < args.width; c += i64(role.across) * V) {
      C sum[V] = {};
      i64 count = 0;
      K key = keys[begin];
      bool first = true;  // run of the chunk

      const auto finish = [&](bool last) {
        if (u64(key) >= u64(args.limit)) return;
        const int side = first && from_before ? 0 : last && to_after ? 1 : -1;
        if (side < 0) {
          const C by = args.by_count ? C(1) / C(count) : C(1);
          Pack<T, V> out;
#pragma unroll
          for (int j = 0; j < V; ++j) out.v[j] = convert<T>(sum[j] * by);
          store_pack(typed<T>(args.out) + i64(key) * args.width + c, out);
          return;
        }
        Pack<C, V> out;
#pragma unroll
        for (int j = 0; j < V; ++j) out.v[j] = sum[j];
        store_pack(typed<C>(args.partial) + (2 * chunk + side) * args.width + c, out);
        if (c == 0) args.partial_counts[2 * chunk + side] = count;
      };

      if (c == 0 && args.partial) {
        // A chunk that is one run from end to end leaves everything at its first place.
        const K none = K(~K(0));
        for (int side = 0; side < 2; ++side) args.partial_counts[2 * chunk + side] = 0;
        typed<K>(args.partial_keys)[2 * chunk] = from_before ? keys[begin] : none;
        typed<K>(args.partial_keys)[2 * chunk + 1] = to_after ? keys[end - 1] : none;
      }
      for (i64 at = begin; at < end; at += kAhead) {
        K next[kAhead];
        i64 many[kAhead];
        C factor[kAhead];
        Pack<S, V> row[kAhead];
#pragma unroll
        for (int u = 0; u < kAhead; ++u) {
          const i64 e = at + u;
          const bool there = e < end;
          next[u] = there ? keys[e] : key;
          many[u] =
              there && u64(next[u]) < u64(args.limit) ? (args.counts ? args.counts[e] : 1) : 0;
          factor[u] = 1;
          if (many[u] == 0) continue;
          const i64 stood = args.order ? args.order[e] : e;
          const i64 source = args.row_of ? args.row_of[stood] : stood;
          row[u] = load_pack<V>(typed<S>(args.rows) + source * args.step + c);
          if (args.scale) factor[u] = typed<C>(args.scale)[stood];
        }
#pragma unroll
        for (int u = 0; u < kAhead; ++u) {
          if (at + u >= end) break;
          if (next[u] != key) {
            finish(false);
            first = false;
            key = next[u];
            count = 0;
#pragma unroll
            for (int j = 0; j < V; ++j) sum[j] = 0;
          }
          if (many[u] == 0) continue;
          count += many[u];
#pragma unroll
          for (int j = 0; j < V; ++j) sum[j] += convert<C>(row[u].v[j]) * factor[u];
        }
      }
      finish(true);
    }
  }
}

}  // namespace rush
