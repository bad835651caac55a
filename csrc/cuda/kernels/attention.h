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

// Scores as they enter the exponential with base 2: scaled, masked, -inf where a query may not
// look. `transposed`: c holds keys by queries. `first_row` and `first_col` are those of c.
template <bool extras, bool transposed, int N>
RUSH_FN void finish_scores(float (&c)[N / 8][4], const AttentionArgs& a, const HeadPlace& place,
                           int first_row, int first_col) {
  const int lane = threadIdx.x % 32, row = first_row + lane / 4, col = first_col + lane % 4 * 2;
  const float scale = a.scale * kLog2E;
  const int first_key = transposed ? first_row : first_col,
            first_query = transposed ? first_col : first_row;
  const int keys = transposed ? kTileRows : N;
  const bool edge = first_key + keys > a.keys || (a.causal && first_key + keys - 1 > first_query);
  const i64 mask_at = place.batch * a.mask_steps.batch + place.head * a.mask_steps.head;
#pragma unroll
  for (int n = 0; n < N / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int r = row + e / 2 * 8, k = col + n * 8 + e % 2;
      const int query = transposed ? k : r, key = transposed ? r : k;
      float x = c[n][e] * scale;
      bool hidden = edge && (key >= a.keys || (a.causal && key > query));
      if (extras && a.mask && key < a.keys && query < a.queries) {
        const i64 at = mask_at + query * a.mask_steps.row + key * a.mask_col;
        if (a.mask_is_bool)
          hidden |= !static_cast<const bool*>(a.mask)[at];
        else
          x += static_cast<const float*>(a.mask)[at] * kLog2E;
      }
      c[n][e] = hidden ? minus_infinity() : x;
    }
  }
}

// What dropout multiplies the weight of a key by. Four neighbouring keys share a block of words.
RUSH_FN float kept(const AttentionArgs& a, int head, int query, int key) {
  const u64 row = u64(head) * u64(a.queries) + u64(query);
  const RandomKey from = random_key(a.seed, a.call, a.state);
  const Philox4 words = philox(from.seed, from.call, row * u64((a.keys + 3) / 4) + u64(key / 4));
  return uniform_float(words.v[key % 4]) < a.keep ? a.keep_scale : 0.0f;
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
