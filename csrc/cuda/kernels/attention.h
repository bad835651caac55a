// attention.h (NVRTC): what the kernels of attention share: heads, scores, dropout.
#pragma once

#include "cuda/kernels/tiles.h"
#include "functors/philox.h"

namespace rush {

inline constexpr float kLog2E = 0x1.715476p+0f, kLn2 = 0x1.62e43p-1f;
RUSH_FN float minus_infinity() { return bit_cast<float>(0xff800000u); }

template <class T>
RUSH_FN T* head_of(void* p, const HeadSteps& s, int batch, int head) {
  return static_cast<T*>(p) + batch * s.batch + head * s.head;
}
template <class T>
RUSH_FN GlobalRows<T> rows_of(const AttentionArgs& a, const void* p, const HeadSteps& s, int batch,
                              int head, int rows, int width) {
  return {static_cast<const T*>(p) + batch * s.batch + head * s.head, s.row, rows, width,
          a.aligned};
}

template <class T>
RUSH_FN GlobalRows<T> keys_of(const AttentionArgs& a, int batch, int head) {
  return rows_of<T>(a, a.k, a.k_steps, batch, head, a.keys, a.width);
}
template <class T>
RUSH_FN GlobalRows<T> values_of(const AttentionArgs& a, int batch, int head) {
  return rows_of<T>(a, a.v, a.v_steps, batch, head, a.keys, a.value_width);
}

// One head of the queries, and what belongs to it.
struct HeadPlace {
  int number, batch, head;
  RUSH_FN HeadPlace(const AttentionArgs& a, int n)
      : number(n), batch(n / a.heads), head(n % a.heads) {}
};

// What a call has beside queries, keys and values: bits of `extras`.
enum AttentionExtras : int { kMasked = 1, kDropout = 2 };

// What a mask makes of a score with base 2.
RUSH_FN float masked_score(float score, bool seen) { return seen ? score : minus_infinity(); }
RUSH_FN float masked_score(float score, float added) { return score + added * kLog2E; }

// `row` and `col` are the thread's own first ones. What lies outside is left as it is.
template <class M, bool transposed, int N>
RUSH_FN void apply_mask(float (&c)[N / 8][4], const AttentionArgs& a, const HeadPlace& place,
                        int row, int col) {
  const i64 row_step = transposed ? a.mask_col : a.mask_steps.row;
  const i64 col_step = transposed ? a.mask_steps.row : a.mask_col;
  const int rows = transposed ? a.keys : a.queries, cols = transposed ? a.queries : a.keys;
  const M* at = static_cast<const M*>(a.mask) + place.batch * a.mask_steps.batch +
                place.head * a.mask_steps.head + row * row_step + col * col_step;
  // Can two neighbouring keys be read at once? The thread's first column is even.
  const bool pairs = !transposed && col_step == 1 && cols % 2 == 0 && row_step % 2 == 0 &&
                     reinterpret_cast<u64>(at) % (2 * sizeof(M)) == 0;
#pragma unroll
  for (int r = 0; r < 2; ++r, at += 8 * row_step) {
    if (row + 8 * r >= rows) continue;
    if (col_step == 0) {  // one row of a mask for all queries, as padding has it
      const M all = *at;
#pragma unroll
      for (int n = 0; n < N / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) c[n][2 * r + e] = masked_score(c[n][2 * r + e], all);
      continue;
    }
#pragma unroll
    for (int n = 0; n < N / 8; ++n) {
      if (pairs) {
        if (col + 8 * n >= cols) continue;
        const Pack<M, 2> both = load_pack<2>(at + 8 * n);
        c[n][2 * r] = masked_score(c[n][2 * r], both.v[0]);
        c[n][2 * r + 1] = masked_score(c[n][2 * r + 1], both.v[1]);
        continue;
      }
#pragma unroll
      for (int e = 0; e < 2; ++e)
        if (col + 8 * n + e < cols)
          c[n][2 * r + e] = masked_score(c[n][2 * r + e], at[(8 * n + e) * col_step]);
    }
  }
}

// Scores as they enter the exponential with base 2: scaled, masked, -inf where a query may not
// look. `transposed`: c holds keys by queries. `first_row` and `first_col` are those of c.
template <int extras, bool transposed, int N>
RUSH_FN void finish_scores(float (&c)[N / 8][4], const AttentionArgs& a, const HeadPlace& place,
                           int first_row, int first_col) {
  const int lane = threadIdx.x % 32, row = first_row + lane / 4, col = first_col + lane % 4 * 2;
  const float scale = a.scale * kLog2E;
#pragma unroll
  for (int n = 0; n < N / 8; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) c[n][e] *= scale;
  if constexpr ((extras & kMasked) != 0) {
    if (a.mask_is_bool)
      apply_mask<truth, transposed, N>(c, a, place, row, col);
    else
      apply_mask<float, transposed, N>(c, a, place, row, col);
  }
  const int first_key = transposed ? first_row : first_col,
            first_query = transposed ? first_col : first_row;
  const int keys = transposed ? kTileRows : N;
  if (first_key + keys <= a.keys && !(a.causal && first_key + keys - 1 > first_query)) return;
#pragma unroll
  for (int n = 0; n < N / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int r = row + e / 2 * 8, k = col + n * 8 + e % 2;
      const int query = transposed ? k : r, key = transposed ? r : k;
      if (key >= a.keys || (a.causal && key > query)) c[n][e] = minus_infinity();
    }
  }
}

// Note [Dropout of weights]
// The weight of a key is kept if word key % 4 of block row * ceil(keys / 4) + key / 4 of the call's
// random numbers, as a number from 0 to 1, is less than `keep`; rows count through all heads. Four
// keys share a block, and the threads that hold their weights share the work: each finds the four
// bits of some blocks, and hands on those that it does not need itself.
struct Dropout {
  RandomKey key;
  u64 blocks;  // per row
  u32 limit;   // words below are kept: the upper 24 bits count

  RUSH_FN explicit Dropout(const AttentionArgs& a)
      : key(random_key(a.seed, a.call, a.state)), blocks(u64((a.keys + 3) / 4)) {
    const float least = a.keep * 16777216.0f;
    limit = u32(least);
    limit = (limit + (float(limit) < least ? 1 : 0)) << 8;
  }
  RUSH_FN u32 four_bits(u64 block) const {
    const Philox4 words = philox(key.seed, key.call, block);
    return u32(words.v[0] < limit) | u32(words.v[1] < limit) << 1 | u32(words.v[2] < limit) << 2 |
           u32(words.v[3] < limit) << 3;
  }
};

// Which weights of c are kept: bit 4 * n of kept[e] is that of c[n][e].
template <bool transposed, int N>
RUSH_FN void find_kept(u32 (&kept)[4], const AttentionArgs& a, const Dropout& dropout,
                       const HeadPlace& place, int first_row, int first_col) {
  const u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  // Of c's four words that a thread has in 8 columns, transposed: the fourth part of four threads'
  // blocks; else the half of two threads' blocks.
  const u32 own = transposed ? g % 4 : t % 2;
  const int query = transposed ? first_col + int(2 * t + own % 2) : first_row + int(g + own * 8);
  const int key =
      transposed ? first_row + int(g / 4 * 4 + own / 2 * 8) : first_col + int(t / 2 * 4);
  u64 block = (u64(place.number) * u64(a.queries) + u64(query)) * dropout.blocks + u64(key / 4);
  const u64 step = transposed ? 8 * dropout.blocks : 2;
  u32 bits = 0;
#pragma unroll
  for (int n = 0; n < N / 8; ++n, block += step) bits |= dropout.four_bits(block) << 4 * n;
  if constexpr (transposed) {
#pragma unroll
    for (u32 e = 0; e < 4; ++e) kept[e] = word_of_lane(bits, (lane & ~12u) | e * 4) >> own;
  } else {
    const u32 others = word_of_lane(bits, lane ^ 1);
    kept[0] = own ? others >> 2 : bits;
    kept[2] = own ? bits >> 2 : others;
    kept[1] = kept[0] >> 1, kept[3] = kept[2] >> 1;
  }
}

template <int extras>
RUSH_FN float if_kept(const u32 (&kept)[4], int n, int e, float x) {
  return (extras & kDropout) && !(kept[e] >> 4 * n & 1) ? 0.0f : x;
}

// The sums of x * y over two rows of the warp's sixteen: lane / 4, and that plus 8.
template <class T, int D>
RUSH_FN void row_products(const GlobalRows<T>& x, const GlobalRows<T>& y, int first,
                          float (&sum)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float own = 0;
    for (int col = lane % 4 * 2; col < D; col += 8) {
      const Pack<T, 2> a = x.pair(first + lane / 4 + r * 8, col);
      const Pack<T, 2> b = y.pair(first + lane / 4 + r * 8, col);
      own += float(a.v[0]) * float(b.v[0]) + float(a.v[1]) * float(b.v[1]);
    }
    sum[r] = row_sum(own);
  }
}

// Rows of c, times a factor each, into rows of T.
template <class T, int D>
RUSH_FN void store_rows(const float (&c)[D / 8][4], T* to, i64 row_step, int first_row, int rows,
                        int width, bool aligned, float factor0, float factor1) {
  const int lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll
  for (int half_of = 0; half_of < 2; ++half_of) {
    const int row = first_row + lane / 4 + half_of * 8;
    if (row >= rows) continue;
    const float factor = half_of ? factor1 : factor0;
    T* at = to + row * row_step;
#pragma unroll
    for (int d = 0; d < D / 8; ++d) {
      const int col = 8 * d + 2 * t;
      const Pack<T, 2> both{{T(c[d][2 * half_of] * factor), T(c[d][2 * half_of + 1] * factor)}};
      if (aligned && col < width) {
        store_pack<2>(at + col, both);
        continue;
      }
      if (col < width) at[col] = both.v[0];
      if (col + 1 < width) at[col + 1] = both.v[1];
    }
  }
}

}  // namespace rush
