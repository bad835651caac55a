// attention.h (NVRTC): what the kernels of attention share: heads, scores, dropout.
#pragma once

#include "cuda/kernels/tiles.h"
#include "functors/weight_dropout.h"

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
RUSH_FN float masked_score(float score, truth seen) { return seen ? score : minus_infinity(); }
template <class M>
RUSH_FN float masked_score(float score, M added) {
  return math::fma(float(added), kLog2E, score);
}

// Two rows of a mask, 8 apart, that lie inside: those of four eights of columns are on their way together.
template <class M, bool pairs, int N>
RUSH_FN void apply_mask_inside(float (&c)[N / 8][4], const M* at, i64 row_step, i64 col_step) {
  constexpr int kAtOnce = N / 8 < 4 ? N / 8 : 4;
#pragma unroll
  for (int first = 0; first < N / 8; first += kAtOnce) {
    Pack<M, 2> found[kAtOnce][2];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const M* from = at + 8 * r * row_step + 8 * (first + i) * (pairs ? 1 : col_step);
        if constexpr (pairs)
          found[i][r] = load_pack<2>(from);
        else
          found[i][r] = {{from[0], from[col_step]}};
      }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& score = c[first + i][e];
        score = masked_score(score, found[i][e / 2].v[e % 2]);
      }
  }
}

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
  const bool pairs = !transposed && col_step == 1 && row_step % 2 == 0 &&
                     reinterpret_cast<u64>(at) % (2 * sizeof(M)) == 0;
  // All of it inside: many are asked for before the first is used.
  if (col_step != 0 && row + 8 < rows && col + N - 8 + 1 < cols) {
    if (pairs) return apply_mask_inside<M, true, N>(c, at, row_step, col_step);
    return apply_mask_inside<M, false, N>(c, at, row_step, col_step);
  }
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
#pragma unroll
      for (int e = 0; e < 2; ++e)
        if (col + 8 * n + e < cols)
          c[n][2 * r + e] = masked_score(c[n][2 * r + e], at[(8 * n + e) * col_step]);
    }
  }
}

// What is left to multiply scores with behind finish_scores: it does so itself where a mask is added to them, and where
// the largest one would not stay the largest.
template <int extras>
RUSH_FN float scale_left(const AttentionArgs& a) {
  return (extras & kMasked) || !(a.scale > 0.0f) ? 1.0f : a.scale * kLog2E;
}

// Scores as they enter the exponential with base 2, but for scale_left: masked, -inf where a query may not
// look. `transposed`: c holds keys by queries. `first_row` and `first_col` are those of c.
template <class T, int extras, bool transposed, int N>
RUSH_FN void finish_scores(float (&c)[N / 8][4], const AttentionArgs& a, const HeadPlace& place,
                           int first_row, int first_col) {
  const int lane = threadIdx.x % 32, row = first_row + lane / 4, col = first_col + lane % 4 * 2;
  if ((extras & kMasked) || !(a.scale > 0.0f)) {
    const float scale = a.scale * kLog2E;
#pragma unroll
    for (int n = 0; n < N / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) c[n][e] *= scale;
  }
  if constexpr ((extras & kMasked) != 0) {
    if (a.mask_is_bool)
      apply_mask<truth, transposed, N>(c, a, place, row, col);
    else if (sizeof(T) == 2 && a.mask_is_half)
      apply_mask<T, transposed, N>(c, a, place, row, col);
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

// Which of a thread's weights in c are dropped. Blocks of random words are shared by the threads that hold a row of c, or
// transposed a column: each finds an equal number of them, as bits of one word, and hands it to the others.
template <bool transposed, int N>
struct DroppedWeights {
  static constexpr int kThreads = transposed ? 8 : 4;  // that share blocks
  static constexpr int kColumns = N / 8;               // eights of c's columns
  static constexpr int kOwn = N / 16;                  // blocks per thread
  u32 of[kThreads];                                    // bit 4 * i (+ 16): block i of that thread

  // Of all blocks that the threads share, the number of the one for element e of c[n].
  RUSH_FN static constexpr int block(int n, int e) {
    return n + kColumns * (transposed ? e : e / 2);
  }

  RUSH_FN void find(const WeightDropout& dropout, const HeadPlace& place, int first_row,
                    int first_col) {
    const u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    u32 bits = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int number = int(transposed ? g : t) + kThreads * i;
      const int n = number % kColumns, rest = number / kColumns;
      const int query =
          transposed ? first_col + 8 * n + int(2 * t) + rest % 2 : first_row + int(g) + 8 * rest;
      const int key = transposed ? first_row + rest / 2 * 8 : first_col + 8 * n;
      const Philox4 words =
          dropout.words(u32(key / WeightDropout::kKeys), u32(query), u32(place.number));
#pragma unroll
      for (int w = 0; w < 4; ++w) bits = bits >> 1 | dropout.dropped(words.v[w]);
    }
    bits >>= 4 * (4 - kOwn);
    // Word w of block i: bits 4 * i + w, and that + 16 for the odd key.
#pragma unroll
    for (u32 from = 0; from < kThreads; ++from) {
      const u32 theirs = word_of_lane(bits, transposed ? from * 4 + t : (lane & ~3u) + from);
      of[from] = transposed ? theirs >> (g / 2 + g % 2 * 16) : theirs >> t;
    }
  }
  RUSH_FN bool operator()(int n, int e) const {
    const int number = block(n, e), odd = transposed ? 0 : e % 2;
    return of[number % kThreads] >> (number / kThreads * 4 + odd * 16) & 1;
  }
};

template <int extras, bool transposed, int N>
RUSH_FN float if_kept(const DroppedWeights<transposed, N>& dropped, int n, int e, float x) {
  return (extras & kDropout) && dropped(n, e) ? 0.0f : x;
}
// The gradient of a weight less delta, of which the softmax makes that of the score.
template <int extras, bool transposed, int N>
RUSH_FN float score_grad(const DroppedWeights<transposed, N>& dropped, int n, int e, float g,
                         float keep_scale, float delta) {
  return (extras & kDropout) && dropped(n, e) ? -delta : math::fma(g, keep_scale, -delta);
}
RUSH_FN WeightDropout weight_dropout_of(const AttentionArgs& a) {
  const RandomKey key = random_key(a.seed, a.call, a.state);
  return {key.seed, key.call, a.keep};
}

// lse with base 2; rows that do not exist, or see nothing, get +inf, and so weights of 0.
RUSH_FN float lse_of(const AttentionArgs& a, int head, int query) {
  const float x = query < a.queries ? a.lse[i64(head) * a.queries + query] : minus_infinity();
  return x == minus_infinity() ? -minus_infinity() : x * kLog2E;
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
