// attention.cpp: see attention_tables.h for the method, attention_tiles.h for the products.
#include "cpu/kernels/attention_tables.h"
#include "cpu/kernels/attention_tiles.h"
#include "functors/math.h"
#include "functors/weight_dropout.h"

namespace rush {

namespace RUSH_ISA {
namespace {

// A block of scores: 36 KiB of floats. Multiples of every tile's rows and columns.
constexpr int64_t kKeys = 192, kQueries = 48;
// Up to so many queries, packing keys and values would cost more than it gains.
constexpr int64_t kFewQueries = 4;
constexpr int64_t kAhead = 16;

template <class T>
struct Attention {
  using A = Accumulator<T>;
  using M = Tiles<A>;
  using Shape = AttentionShape;
  using Head = AttentionHead<T>;
  static_assert(kKeys % M::NR == 0 && kKeys % M::MR == 0 && kQueries % M::MR == 0);

  static constexpr A kNone = -__builtin_huge_val();

  // ---- scratch memory ----

  struct Cursor {  // hands out pieces that start on cache lines
    A* at;
    A* take(int64_t n) {
      A* piece = at;
      at += M::round_up(n, 64 / int(sizeof(A)));
      return piece;
    }
  };
  static int64_t room(std::initializer_list<int64_t> pieces) {
    int64_t sum = 0;
    for (const int64_t n : pieces) sum += M::round_up(n, 64 / int(sizeof(A)));
    return sum;
  }

  struct ForwardPacked {  // keys as columns, values as rows
    A *k, *v;
    ForwardPacked(const Shape& s, A* memory) {
      Cursor c{memory};
      k = c.take(M::round_up(s.keys, M::NR) * s.width);
      v = c.take(s.keys * M::padded(s.value_width));
    }
  };
  static int64_t forward_packed(const Shape& s) {
    return packs(s)
               ? room({M::round_up(s.keys, M::NR) * s.width, s.keys * M::padded(s.value_width)})
               : 0;
  }

  struct ForwardScratch {
    A *q, *p, *o, *top, *sum, *kept;
    ForwardScratch(const Shape& s, A* memory) {
      Cursor c{memory};
      q = c.take(kQueries * s.width);
      p = c.take(kQueries * kKeys);
      o = c.take(kQueries * M::padded(s.value_width));
      top = c.take(kQueries);
      sum = c.take(kQueries);
      kept = c.take(kKeys);
    }
  };
  static int64_t forward_scratch(const Shape& s) {
    return room({kQueries * s.width, kQueries * kKeys, kQueries * M::padded(s.value_width),
                 kQueries, kQueries, kKeys});
  }

  struct BackwardPacked {  // keys both ways, values as columns; sums of both gradients
    A *k, *k_rows, *v, *gk, *gv;
    BackwardPacked(const Shape& s, int64_t keys, A* memory) {
      Cursor c{memory};
      k = c.take(M::round_up(keys, M::NR) * s.width);
      k_rows = c.take(keys * M::padded(s.width));
      v = c.take(M::round_up(keys, M::NR) * s.value_width);
      gk = c.take(M::round_up(keys, M::MR) * M::padded(s.width));
      gv = c.take(M::round_up(keys, M::MR) * M::padded(s.value_width));
    }
  };
  static int64_t backward_packed(const Shape& s, int64_t keys) {
    return room({M::round_up(keys, M::NR) * s.width, keys * M::padded(s.width),
                 M::round_up(keys, M::NR) * s.value_width,
                 M::round_up(keys, M::MR) * M::padded(s.width),
                 M::round_up(keys, M::MR) * M::padded(s.value_width)});
  }

  struct BackwardScratch {
    A *q, *q_rows, *g, *g_rows, *p, *ds, *gq, *delta, *kept;
    BackwardScratch(const Shape& s, A* memory) {
      Cursor c{memory};
      q = c.take(kQueries * s.width);
      q_rows = c.take(kQueries * M::padded(s.width));
      g = c.take(kQueries * s.value_width);
      g_rows = c.take(kQueries * M::padded(s.value_width));
      p = c.take(kQueries * kKeys);
      ds = c.take(kQueries * kKeys);
      gq = c.take(kQueries * M::padded(s.width));
      delta = c.take(kQueries);
      kept = c.take(kKeys);
    }
  };
  static int64_t backward_scratch(const Shape& s) {
    return room({kQueries * s.width, kQueries * M::padded(s.width), kQueries * s.value_width,
                 kQueries * M::padded(s.value_width), kQueries * kKeys, kQueries * kKeys,
                 kQueries * M::padded(s.width), kQueries, kKeys});
  }

  // ---- one row of scores ----

  // The first n scores of a query, from key c0 on.
  static void mask_row(const Shape& s, const Head& h, int64_t query, int64_t c0, int64_t n, A* p) {
    if (s.mask_kind == MaskKind::Bool) {
      const uint8_t* m = static_cast<const uint8_t*>(h.mask) + query * h.mask_row + c0 * h.mask_col;
      if (h.mask_col == 1) {
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) p[j] = m[j] ? p[j] : kNone;
      } else {
        for (int64_t j = 0; j < n; ++j) p[j] = m[j * h.mask_col] ? p[j] : kNone;
      }
    } else if (s.mask_kind == MaskKind::Additive) {
      const A* m = static_cast<const A*>(h.mask) + query * h.mask_row + c0 * h.mask_col;
      if (h.mask_col == 1) {
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) p[j] += m[j];
      } else {
        for (int64_t j = 0; j < n; ++j) p[j] += m[j * h.mask_col];
      }
    }
    for (int64_t j = std::max<int64_t>(0, query + s.after + 1 - c0); j < n; ++j) p[j] = kNone;
    for (int64_t j = std::min(n, query - s.before - c0) - 1; j >= 0; --j) p[j] = kNone;
  }

  static void kept(const Shape& s, int64_t head, int64_t query, int64_t n, A* to) {
    kept_from(s, head, query, 0, n, to);
  }
  // See Note [Dropout of weights]; c0 is a multiple of the keys that share a block.
  static void kept_from(const Shape& s, int64_t head, int64_t query, int64_t c0, int64_t n, A* to) {
    const WeightDropout dropout(s.call.seed, s.call.call, float(1 - s.dropout));
    const A scale = s.dropout < 1 ? A(1 / (1 - s.dropout)) : A(0);
    for (int64_t j = 0; j < n; j += WeightDropout::kKeys) {
      const Philox4 words =
          dropout.words(u32((c0 + j) / WeightDropout::kKeys), u32(query), u32(head));
      const int64_t end = std::min<int64_t>(n - j, WeightDropout::kKeys);
      for (int64_t i = 0; i < end; ++i)
        to[j + i] = dropout.dropped(words.v[i / 2]) >> (i % 2 ? 31 : 15) & 1 ? A(0) : scale;
    }
  }

  static A largest(const A* p, int64_t n) {
    A top = kNone;
#pragma omp simd reduction(max : top)
    for (int64_t j = 0; j < n; ++j) top = p[j] > top ? p[j] : top;
    return top;
  }
  static bool any_nan(const A* p, int64_t n) {
    bool any = false;
    for (int64_t j = 0; j < n; ++j) any |= p[j] != p[j];
    return any;
  }

  // Scores become weights relative to the row's maximum so far; what was added up before is brought
  // to the new maximum.
  static void soften_row(A* p, int64_t n, A& top, A& sum, A* o, int64_t width) {
    const A here = largest(p, n), next = here > top ? here : top;
    if (next == kNone) {  // nothing to see yet
      if (any_nan(p, n)) sum = A(__builtin_nan(""));
      for (int64_t j = 0; j < n; ++j) p[j] = A(0);
      return;
    }
    A added = 0;
#pragma omp simd reduction(+ : added)
    for (int64_t j = 0; j < n; ++j) {
      const A e = math::exp_negative(p[j] - next);
      p[j] = e;
      added += e;
    }
    if (top != next) {
      const A factor = top == kNone ? A(0) : math::exp_negative(top - next);
      sum *= factor;
#pragma omp simd
      for (int64_t e = 0; e < width; ++e) o[e] *= factor;
      top = next;
    }
    sum += added;
  }

  // ---- forward ----

  static bool packs(const Shape& s) { return s.queries > kFewQueries; }

  static void forward_pack(const Shape& s, Rows<const T> k, Rows<const T> v, A* memory) {
    const ForwardPacked to(s, memory);
    M::template pack_columns<M::NR>(s.keys, s.width, k.data, k.step, A(1), to.k);
    M::pack_rows(s.keys, s.value_width, v.data, v.step, A(1), to.v);
  }

  // The keys that the queries before `end` may see end here.
  static int64_t visible(const Shape& s, int64_t end) {
    return std::clamp<int64_t>(end + s.after, 0, s.keys);
  }
  // The first block of keys, counted from `start`, of which the queries from `begin` on see any.
  static int64_t first_block(const Shape& s, int64_t begin, int64_t start) {
    return start + std::max<int64_t>(0, begin - s.before - start) / kKeys * kKeys;
  }

  static void take_queries(const Shape& s, const Head& h, int64_t begin, int64_t rows, A* to) {
    const A scale = A(s.scale);
    if (packs(s))
      return M::template pack_columns<M::MR>(rows, s.width, h.q.at(begin), h.q.step, scale, to);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t e = 0; e < s.width; ++e) to[r * s.width + e] = A(h.q.at(begin + r)[e]) * scale;
  }

  // Four rows of keys or values that few queries will want soon: a core that reads four short rows
  // in turn does not see by itself that they are one piece of memory. Inlined, because GCC drops
  // calls of functions that do nothing else.
  RUSH_FN static void fetch_ahead(Rows<const T> from, int64_t key, int64_t keys, int64_t width) {
    for (int64_t j = key + kAhead; j < std::min(key + kAhead + 4, keys); ++j) {
      const char* row = reinterpret_cast<const char*>(from.at(j));
      for (int64_t b = 0; b < width * int64_t(sizeof(T)); b += 64) __builtin_prefetch(row + b);
    }
  }

  // Keys and values where they lie, four rows at once: each element of q and o is used four times
  // for one load.
  static void few_scores(const Shape& s, const Head& h, int64_t rows, int64_t c0, int64_t n,
                         const A* q, A* p) {
    for (int64_t j = 0; j < n; j += 4) {
      fetch_ahead(h.k, c0 + j, s.keys, s.width);
      const T* k[4];  // beyond the last key: that one again
      for (int64_t i = 0; i < 4; ++i) k[i] = h.k.at(c0 + std::min(j + i, n - 1));
      const T *k0 = k[0], *k1 = k[1], *k2 = k[2], *k3 = k[3];
      for (int64_t r = 0; r < rows; ++r) {
        const A* x = q + r * s.width;
        A s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
        for (int64_t e = 0; e < s.width; ++e) {
          s0 += x[e] * A(k0[e]);
          s1 += x[e] * A(k1[e]);
          s2 += x[e] * A(k2[e]);
          s3 += x[e] * A(k3[e]);
        }
        A* to = p + r * kKeys + j;
        to[0] = s0, to[1] = s1, to[2] = s2, to[3] = s3;
      }
    }
  }
  static void few_values(const Shape& s, const Head& h, int64_t rows, int64_t c0, int64_t n,
                         const A* p, A* o, int64_t o_step) {
    for (int64_t j = 0; j < n; j += 4) {
      const int64_t count = std::min<int64_t>(4, n - j);
      fetch_ahead(h.v, c0 + j, s.keys, s.value_width);
      const T* v[4];
      for (int64_t i = 0; i < 4; ++i) v[i] = h.v.at(c0 + std::min(j + i, n - 1));
      const T *v0 = v[0], *v1 = v[1], *v2 = v[2], *v3 = v[3];
      for (int64_t r = 0; r < rows; ++r) {
        const A* w = p + r * kKeys + j;
        A* to = o + r * o_step;
        if (count == 4) {
          const A w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
#pragma omp simd
          for (int64_t e = 0; e < s.value_width; ++e)
            to[e] += (w0 * A(v0[e]) + w1 * A(v1[e])) + (w2 * A(v2[e]) + w3 * A(v3[e]));
        } else {
          for (int64_t i = 0; i < count; ++i)
            for (int64_t e = 0; e < s.value_width; ++e) to[e] += w[i] * A(v[i][e]);
        }
      }
    }
  }

  // Of the queries at hand with n keys from c0 on.
  static void scores(const Shape& s, const Head& h, const ForwardPacked& in,
                     const ForwardScratch& at, int64_t rows, int64_t c0, int64_t n) {
    if (packs(s))
      M::times_columns(rows, n, s.width, at.q, in.k + c0 * s.width, at.p, kKeys);
    else
      few_scores(s, h, rows, c0, n, at.q, at.p);
  }

  static void forward(const Shape& s, const Head& h, int64_t begin, int64_t end, const A* packed,
                      A* memory, Rows<T> out, A* lse) {
    const int64_t rows = end - begin, o_step = M::padded(s.value_width);
    const ForwardPacked in(s, const_cast<A*>(packed));
    const ForwardScratch at(s, memory);
    const bool tiles = packs(s);
    take_queries(s, h, begin, rows, at.q);
    for (int64_t r = 0; r < rows; ++r) at.top[r] = kNone, at.sum[r] = A(0);
    for (int64_t i = 0; i < (tiles ? kQueries : rows) * o_step; ++i) at.o[i] = A(0);
    const int64_t last = visible(s, end);
    for (int64_t c0 = first_block(s, begin, 0); c0 < last; c0 += kKeys) {
      const int64_t n = std::min(kKeys, last - c0);
      scores(s, h, in, at, rows, c0, n);
      for (int64_t r = 0; r < rows; ++r) {
        A* p = at.p + r * kKeys;
        mask_row(s, h, begin + r, c0, n, p);
        soften_row(p, n, at.top[r], at.sum[r], at.o + r * o_step, o_step);
        if (s.dropout > 0) {
          kept_from(s, h.index, begin + r, c0, n, at.kept);
          for (int64_t j = 0; j < n; ++j) p[j] *= at.kept[j];
        }
      }
      if (tiles)
        M::template times_rows<kKeys>(rows, s.value_width, n, {at.p, M::MR * kKeys, 1}, in.v,
                                      s.keys, c0, at.o, o_step);
      else
        few_values(s, h, rows, c0, n, at.p, at.o, o_step);
    }
    for (int64_t r = 0; r < rows; ++r) {
      // A query that may see nothing gets zeros.
      const A sum = at.sum[r], share = sum == A(0) ? A(0) : A(1) / sum;
      T* to = out.at(begin + r);
      const A* o = at.o + r * o_step;
      for (int64_t e = 0; e < s.value_width; ++e) to[e] = T(o[e] * share);
      lse[begin + r] = sum == A(0) ? kNone : at.top[r] + math::log(sum);
    }
  }

  // ---- backward ----

  static void backward_pack(const Shape& s, Rows<const T> k, Rows<const T> v, int64_t begin,
                            int64_t end, A* memory) {
    const int64_t keys = end - begin;
    const BackwardPacked to(s, keys, memory);
    M::template pack_columns<M::NR>(keys, s.width, k.at(begin), k.step, A(1), to.k);
    M::pack_rows(keys, s.width, k.at(begin), k.step, A(1), to.k_rows);
    M::template pack_columns<M::NR>(keys, s.value_width, v.at(begin), v.step, A(1), to.v);
    const int64_t rows = M::round_up(keys, M::MR);
    for (int64_t i = 0; i < rows * M::padded(s.width); ++i) to.gk[i] = A(0);
    for (int64_t i = 0; i < rows * M::padded(s.value_width); ++i) to.gv[i] = A(0);
  }

  // Scores and products g @ v become weights and the gradients of scores.
  static void soften_row_backward(A* p, A* ds, int64_t n, A lse, A delta) {
    if (lse == kNone) {
      for (int64_t j = 0; j < n; ++j) p[j] = ds[j] = A(0);
      return;
    }
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const A e = math::exp_negative(p[j] - lse);
      p[j] = e;
      ds[j] = e * (ds[j] - delta);
    }
  }
  static void soften_row_backward(A* p, A* ds, int64_t n, A lse, A delta, const A* kept) {
    for (int64_t j = 0; j < n; ++j) {
      const A e = lse == kNone ? A(0) : math::exp_negative(p[j] - lse);
      p[j] = e * kept[j];
      ds[j] = e * (ds[j] * kept[j] - delta);
    }
  }

  static void backward(const Shape& s, const Head& h, const AttentionGrads<T>& g, int64_t begin,
                       int64_t end, A* packed, A* memory) {
    const BackwardPacked in(s, end - begin, packed);
    const BackwardScratch at(s, memory);
    const int64_t width = M::padded(s.width), value_width = M::padded(s.value_width);
    for (int64_t r0 = 0; r0 < s.queries; r0 += kQueries) {
      const int64_t rows = std::min(kQueries, s.queries - r0);
      const int64_t last = std::min(end, visible(s, r0 + rows));
      const int64_t block = first_block(s, r0, begin);
      for (int64_t i = 0; i < kQueries * width; ++i) at.gq[i] = A(0);
      if (last > block) {
        M::template pack_columns<M::MR>(rows, s.width, h.q.at(r0), h.q.step, A(s.scale), at.q);
        M::pack_rows(rows, s.width, h.q.at(r0), h.q.step, A(s.scale), at.q_rows);
        M::template pack_columns<M::MR>(rows, s.value_width, g.g.at(r0), g.g.step, A(1), at.g);
        M::pack_rows(rows, s.value_width, g.g.at(r0), g.g.step, A(1), at.g_rows);
        for (int64_t r = 0; r < rows; ++r) {
          const T *x = g.g.at(r0 + r), *y = g.out.at(r0 + r);
          A sum = 0;
#pragma omp simd reduction(+ : sum)
          for (int64_t e = 0; e < s.value_width; ++e) sum += A(x[e]) * A(y[e]);
          at.delta[r] = sum;
        }
      }
      for (int64_t c0 = block; c0 < last; c0 += kKeys) {
        const int64_t n = std::min(kKeys, last - c0), local = c0 - begin;
        M::times_columns(rows, n, s.width, at.q, in.k + local * s.width, at.p, kKeys);
        M::times_columns(rows, n, s.value_width, at.g, in.v + local * s.value_width, at.ds, kKeys);
        for (int64_t r = 0; r < rows; ++r) {
          A *p = at.p + r * kKeys, *ds = at.ds + r * kKeys;
          mask_row(s, h, r0 + r, c0, n, p);
          if (s.dropout > 0) {
            kept_from(s, h.index, r0 + r, c0, n, at.kept);
            soften_row_backward(p, ds, n, g.lse[r0 + r], at.delta[r], at.kept);
          } else {
            soften_row_backward(p, ds, n, g.lse[r0 + r], at.delta[r]);
          }
          // Tiles reach over the last key, to those that these queries do not see.
          for (int64_t j = n; j < M::round_up(n, M::MR); ++j) p[j] = ds[j] = A(0);
        }
        M::template times_rows<kKeys>(rows, s.width, n, {at.ds, M::MR * kKeys, 1}, in.k_rows,
                                      end - begin, local, at.gq, width);
        M::template times_rows<1>(n, s.value_width, rows, {at.p, M::MR, kKeys}, at.g_rows, rows, 0,
                                  in.gv + local * value_width, value_width);
        M::template times_rows<1>(n, s.width, rows, {at.ds, M::MR, kKeys}, at.q_rows, rows, 0,
                                  in.gk + local * width, width);
      }
      for (int64_t r = 0; r < rows; ++r) {
        const A* from = at.gq + r * width;
        if (g.q_sums) {
          for (int64_t e = 0; e < s.width; ++e)
            g.q_sums[(r0 + r) * s.width + e] = from[e] * A(s.scale);
        } else {
          for (int64_t e = 0; e < s.width; ++e) g.gq.at(r0 + r)[e] = T(from[e] * A(s.scale));
        }
      }
    }
  }

  static void finish(const Shape& s, int64_t begin, int64_t end, const A* packed, Rows<T> gk,
                     Rows<T> gv) {
    const BackwardPacked in(s, end - begin, const_cast<A*>(packed));
    const int64_t width = M::padded(s.width), value_width = M::padded(s.value_width);
    for (int64_t j = begin; j < end; ++j) {
      narrow(s.width, in.gk + (j - begin) * width, gk.at(j));
      narrow(s.value_width, in.gv + (j - begin) * value_width, gv.at(j));
    }
  }
  static void narrow(int64_t n, const A* from, T* to) {
    for (int64_t i = 0; i < n; ++i) to[i] = T(from[i]);
  }

  // ---- weights ----

  static void weights(const Shape& s, const Head& h, int64_t begin, int64_t end, const A* packed,
                      A* memory, const A* lse, A factor, bool add, Rows<A> to) {
    const int64_t rows = end - begin;
    const ForwardPacked in(s, const_cast<A*>(packed));
    const ForwardScratch at(s, memory);
    take_queries(s, h, begin, rows, at.q);
    for (int64_t c0 = 0; c0 < s.keys; c0 += kKeys) {
      const int64_t n = std::min(kKeys, s.keys - c0);
      scores(s, h, in, at, rows, c0, n);
      for (int64_t r = 0; r < rows; ++r) {
        A* p = at.p + r * kKeys;
        mask_row(s, h, begin + r, c0, n, p);
        for (int64_t j = 0; j < n; ++j) at.kept[j] = factor;
        if (s.dropout > 0) {
          kept_from(s, h.index, begin + r, c0, n, at.kept);
          for (int64_t j = 0; j < n; ++j) at.kept[j] *= factor;
        }
        A* out = to.at(begin + r) + c0;
        const A sum = lse[begin + r];
        if (sum == kNone) {
          if (!add)
            for (int64_t j = 0; j < n; ++j) out[j] = A(0);
        } else if (add) {
#pragma omp simd
          for (int64_t j = 0; j < n; ++j) out[j] += math::exp_negative(p[j] - sum) * at.kept[j];
        } else {
#pragma omp simd
          for (int64_t j = 0; j < n; ++j) out[j] = math::exp_negative(p[j] - sum) * at.kept[j];
        }
      }
    }
  }

  static constexpr AttentionTable<T> table = {
      kQueries,         kKeys,  forward_packed, forward_scratch, backward_packed,
      backward_scratch, packs,  forward_pack,   forward,         backward_pack,
      backward,         finish, narrow,         weights,         kept};
};

}  // namespace
}  // namespace RUSH_ISA

template <>
const AttentionTable<float>* attention_table<Isa::RUSH_ISA, float>() {
  return &RUSH_ISA::Attention<float>::table;
}
template <>
const AttentionTable<double>* attention_table<Isa::RUSH_ISA, double>() {
  return &RUSH_ISA::Attention<double>::table;
}
template <>
const AttentionTable<half>* attention_table<Isa::RUSH_ISA, half>() {
  return &RUSH_ISA::Attention<half>::table;
}
template <>
const AttentionTable<bfloat16>* attention_table<Isa::RUSH_ISA, bfloat16>() {
  return &RUSH_ISA::Attention<bfloat16>::table;
}

}  // namespace rush
