// sort.cu: stable sorting of rows by their order keys (functors/order_keys.h), eight bits per pass.
//
// - Inside a tile the elements are dealt out so that warp, item, lane counts them in order. To find
//   where an element belongs, each warp counts the elements with each digit as it meets them:
//   those before it in the warp, plus those of the warps before, plus those with smaller digits.
// - Short rows: sort_blocks, all passes in one block. A block takes several rows when they are
//   short, and sorts by the row's number at last.
// - Long rows: sort_count counts the digits of all passes, sort_starts turns counts into places,
//   and each sort_pass moves all elements once. A tile learns how many elements of each digit lie
//   in the tiles before it by looking back: each tile leaves its own counts, then the sums up to
//   it, so that one does not wait for all (Adinets and Merrill, "Onesweep", 2022).
// - Zeros and NaNs have one key for many values: those are read again from the input.
#include "cuda/kernels/block.h"
#include "cuda/kernels/sort_args.h"
#include "functors/order_keys.h"

namespace rush {

inline constexpr int kDigits = 256;

// Where the thread's items go in the tile when it is sorted by digit(item). counts[w][d]:
// afterwards, where warp w's elements with digit d begin. Returns, for the digit with this thread's
// number, how many there are and where they begin.
struct DigitShare {
  u32 count, start;
};
template <int items, class Digit>
RUSH_FN DigitShare rank_tile(Digit digit, u32 (&place)[items], u32 (&counts)[kWarps][kDigits]) {
  const int lane = lane_number(), warp = warp_number(), t = int(threadIdx.x);
  const u32 below = (1u << lane) - 1;
  __syncthreads();  // the last pass may still read the counts
  for (int d = lane; d < kDigits; d += kLanes) counts[warp][d] = 0;
  __syncwarp();
#pragma unroll
  for (int j = 0; j < items; ++j) {
    const u32 d = digit(j);
    const u32 same = lanes_with(d);
    const u32 earlier = counts[warp][d];
    __syncwarp();
    if ((same & below) == 0) counts[warp][d] = earlier + __popc(same);
    __syncwarp();
    place[j] = earlier + __popc(same & below);
  }
  __syncthreads();
  u32 sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const u32 own = counts[w][t];
    counts[w][t] = sum;
    sum += own;
  }
  const Share<u32> share = share_of_block(sum);
#pragma unroll
  for (int w = 0; w < kWarps; ++w) counts[w][t] += share.before;
  __syncthreads();
#pragma unroll
  for (int j = 0; j < items; ++j) place[j] += counts[warp][digit(j)];
  return {sum, share.before};
}

// Item j of this thread, counted through the tile.
template <int items>
RUSH_FN int item_number(int j) {
  return warp_number() * (kLanes * items) + j * kLanes + lane_number();
}

template <class K>
RUSH_FN u32 digit_of(K key, int pass) {
  return u32(key >> (8 * pass)) & (kDigits - 1);
}

// ---- short rows ----

template <class T, int items>
__global__ void __launch_bounds__(kThreads) sort_blocks(SortArgs args) {
  after_earlier();
  using K = KeyOf<T>;
  constexpr int tile = kThreads * items;
  constexpr int room = tile * (sizeof(K) > 2 ? int(sizeof(K)) : 2);
  __shared__ u32 counts[kWarps][kDigits];
  alignas(16) __shared__ char exchange[room];
  K* keys = reinterpret_cast<K*>(exchange);
  u16* places = reinterpret_cast<u16*>(exchange);

  const i64 first_row = i64(blockIdx.x) * args.at_once;
  const i64 rows_left = args.rows - first_row;
  const u32 rows = u32(rows_left < args.at_once ? rows_left : args.at_once);
  const u32 length = u32(args.length), used = rows * length;
  const T* x = typed<T>(args.x) + first_row * args.length;
  const K flip = args.descending ? K(~K(0)) : K(0);

  K key[items];
  u32 at[items], place[items];
#pragma unroll
  for (int j = 0; j < items; ++j) {
    at[j] = u32(item_number<items>(j));
    key[j] = at[j] < used ? K(order_key(x[at[j]]) ^ flip) : K(~K(0));
  }
  constexpr int bytes = is_same<T, truth> ? 1 : int(sizeof(K));
  const int passes = bytes + (rows > 1);
  for (int pass = 0; pass < passes; ++pass) {
    if (pass < bytes)
      rank_tile([&](int j) { return digit_of(key[j], pass); }, place, counts);
    else
      rank_tile([&](int j) { return at[j] < used ? args.by_length(at[j]) : u32(kDigits - 1); },
                place, counts);
#pragma unroll
    for (int j = 0; j < items; ++j) keys[place[j]] = key[j];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < items; ++j) key[j] = keys[item_number<items>(j)];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < items; ++j) places[place[j]] = u16(at[j]);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < items; ++j) at[j] = places[item_number<items>(j)];
  }
#pragma unroll
  for (int j = 0; j < items; ++j) {
    const u32 q = u32(item_number<items>(j));
    if (q >= used) continue;
    const u32 row = rows > 1 ? args.by_length(q) : 0, p = q - row * length;
    if (p >= args.kept) continue;
    const i64 to = (first_row + row) * args.kept + p;
    if (args.values) {
      const K plain = K(key[j] ^ flip);
      typed<T>(args.values)[to] = is_plain_key<T>(plain) ? value_of_key<T>(plain) : x[at[j]];
    }
    if (args.indices) args.indices[to] = at[j] - row * length;
  }
}

// ---- long rows ----

// Blocks: x over the row, y over rows.
template <class T, class P>
__global__ void __launch_bounds__(kThreads) sort_count(SortArgs args) {
  after_earlier();
  using K = KeyOf<T>;
  constexpr int passes = is_same<T, truth> ? 1 : int(sizeof(K));
  __shared__ u32 counts[passes][kDigits];
  const K flip = args.descending ? K(~K(0)) : K(0);
  for (i64 row = blockIdx.y; row < args.rows; row += gridDim.y) {
    const T* x = typed<T>(args.x) + row * args.length;
#pragma unroll
    for (int p = 0; p < passes; ++p) counts[p][threadIdx.x] = 0;
    __syncthreads();
    // All lanes go round together. A thread sees less than 2^32 elements.
    for (i64 base = i64(blockIdx.x) * kThreads; base < args.length; base += thread_count()) {
      const i64 i = base + threadIdx.x;
      const bool is_there = i < args.length;
      const K key = is_there ? K(order_key(x[i]) ^ flip) : K(0);
#pragma unroll
      for (int p = 0; p < passes; ++p) {
        const u32 digit = digit_of(key, p);
        // Upper digits are often all the same: one lane adds for all that share it.
        const u32 same = lanes_with(digit) & __ballot_sync(kEveryLane, is_there);
        if (is_there && (same & ((1u << lane_number()) - 1)) == 0)
          atomicAdd(&counts[p][digit], u32(__popc(same)));
      }
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < passes; ++p) {
      const u32 own = counts[p][threadIdx.x];
      using Word = conditional<sizeof(P) == 8, unsigned long long, unsigned>;
      Word* total =
          reinterpret_cast<Word*>(args.counts) + (row * passes + p) * kDigits + threadIdx.x;
      if (own > 0) atomicAdd(total, Word(own));
    }
    __syncthreads();
  }
}

// A block for the counts of one pass of one row.
template <class P>
__global__ void __launch_bounds__(kThreads) sort_starts(SortArgs args) {
  after_earlier();
  P* counts = typed<P>(args.counts) + i64(blockIdx.x) * kDigits;
  const P own = counts[threadIdx.x];
  const Share<P> share = share_of_block(own);
  counts[threadIdx.x] = share.before;
}

// A word of `status` says how many elements with one digit a tile has (kOwn), or it and all before
// it (kUpto): flag and number travel together.
template <class P>
struct Status {
  static constexpr int kShift = 8 * sizeof(P) - 2;
  static constexpr P kOwn = P(1) << kShift, kUpto = P(2) << kShift, kNumber = kOwn - 1;
};

template <class P>
RUSH_FN P look_back(P* status, i64 tile, u32 own) {
  using S = Status<P>;
  volatile P* mine = status + tile * kDigits + threadIdx.x;
  if (tile == 0) {
    *mine = S::kUpto | own;
    return 0;
  }
  *mine = S::kOwn | own;
  P before = 0;
  for (i64 t = tile - 1;;) {
    const P seen = *static_cast<volatile P*>(status + t * kDigits + threadIdx.x);
    if (seen >> S::kShift == 0) continue;
    before += seen & S::kNumber;
    if (seen & S::kUpto) break;
    --t;
  }
  *mine = S::kUpto | P(before + own);
  return before;
}

// first: keys come from the input; last: values and indices go out. T is the element's type in
// these, and the key's in between. P: u32 for rows of less than 2^30 elements, else u64.
template <class T, class P, int items, bool first, bool last>
__global__ void __launch_bounds__(kThreads, 4) sort_pass(SortArgs args) {
  after_earlier();
  using K = KeyOf<T>;
  constexpr int tile_size = kThreads * items;
  constexpr int widest = sizeof(K) > sizeof(P) ? int(sizeof(K)) : int(sizeof(P));
  __shared__ u32 counts[kWarps][kDigits];
  __shared__ P starts[kDigits];  // of each digit in the row, less where it starts in the tile
  alignas(16) __shared__ char exchange[tile_size * widest];
  K* keys = reinterpret_cast<K*>(exchange);
  P* places = reinterpret_cast<P*>(exchange);

  // Blocks start in the order of their numbers, so the tiles before this one are under way.
  const i64 row = i64(blockIdx.x) / args.tiles, tile = i64(blockIdx.x) - row * args.tiles;
  const i64 from = row * args.length, base = tile * tile_size;
  const i64 left = args.length - base;
  const int used = left < tile_size ? int(left) : tile_size;
  const K flip = args.descending ? K(~K(0)) : K(0);
  const T* x = typed<T>(args.x) + from;

  K key[items];
  u32 place[items];
#pragma unroll
  for (int j = 0; j < items; ++j) {
    const int q = item_number<items>(j);
    if (q >= used)
      key[j] = K(~K(0));
    else if constexpr (first)
      key[j] = K(order_key(x[base + q]) ^ flip);
    else
      key[j] = typed<K>(args.keys_in)[from + base + q];
  }
  const auto digit = [&](int j) { return digit_of(key[j], args.pass); };
  const DigitShare share = rank_tile(digit, place, counts);
  {
    // What fills up the last tile has the largest digit and comes last: nobody looks past it.
    const P before =
        look_back(typed<P>(args.status) + row * args.tiles * kDigits, tile, share.count);
    const P* row_starts = typed<P>(args.counts) + (row * args.passes + args.pass) * kDigits;
    starts[threadIdx.x] = P(row_starts[threadIdx.x] + before - share.start);
  }
#pragma unroll
  for (int j = 0; j < items; ++j) keys[place[j]] = key[j];
  P at[items];  // read while the keys are exchanged
#pragma unroll
  for (int j = 0; j < items; ++j) {
    const int q = item_number<items>(j);
    if constexpr (first)
      at[j] = P(base + q);
    else
      at[j] = q < used ? typed<P>(args.at_in)[from + base + q] : P(0);
  }
  __syncthreads();
  // From here on a thread has the items in the order of the sorted tile.
  const auto sorted_place = [&](int j) {
    return P(starts[digit(j)] + P(j * kThreads + int(threadIdx.x)));
  };
#pragma unroll
  for (int j = 0; j < items; ++j) {
    const int q = j * kThreads + int(threadIdx.x);
    key[j] = keys[q];
    if constexpr (!last)
      if (q < used) typed<K>(args.keys_out)[from + i64(sorted_place(j))] = key[j];
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < items; ++j) places[place[j]] = at[j];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < items; ++j) {
    const int q = j * kThreads + int(threadIdx.x);
    if (q >= used) continue;
    const P stood = places[q];
    const i64 to = i64(sorted_place(j));
    if constexpr (last) {
      if (to >= args.kept) continue;
      const i64 out = row * args.kept + to;
      if (args.values) {
        const K plain = K(key[j] ^ flip);
        typed<T>(args.values)[out] = is_plain_key<T>(plain) ? value_of_key<T>(plain) : x[stood];
      }
      if (args.indices) args.indices[out] = i64(stood);
    } else {
      typed<P>(args.at_out)[from + to] = stood;
    }
  }
}

}  // namespace rush
