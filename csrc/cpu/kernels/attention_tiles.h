// attention_tiles.h: products of small packed matrices, the inner loops of attention.
//
// - The left operand is read one element at a time: MR neighbours at a fixed distance AI for each
//   step of the depth. So one loop reads panels (AI 1), rows of scores (AI their length), and
//   columns of scores (AI 1, steps of a row).
// - The right operand is packed into panels of two vectors; the last one may have one.
// - Rows and columns are rounded up to whole tiles: buffers have room for that.
#pragma once

#include <algorithm>

#include "cpu/kernels/gemm_vector.h"
#include "cpu/linalg/product.h"

namespace rush::RUSH_ISA {
namespace {

template <class A>
struct Tiles {
  static constexpr int W = kVectorBytes / int(sizeof(A)), NR = 2 * W,
                       MR = kVectorBytes == 64 ? 12 : 6;
  using V = typename VectorOf<A, W>::type;

  static constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
  // Columns of packed rows: whole panels, and a narrow one if the rest fits into it.
  static constexpr int64_t padded(int64_t columns) { return round_up(columns, W); }

  // c (MR rows of NV vectors) = a @ b, or += it.
  template <int AI, int NV>
  static void tile(int64_t depth, const A* a, int64_t a_step, const A* b, int64_t b_step, A* c,
                   int64_t c_step, bool add) {
    V x[MR], y[MR];
    if (add) {
#pragma GCC unroll 12
      for (int i = 0; i < MR; ++i) {
        load(x[i], c + i * c_step);
        if constexpr (NV == 2) load(y[i], c + i * c_step + W);
      }
    } else {
#pragma GCC unroll 12
      for (int i = 0; i < MR; ++i) x[i] = y[i] = V{};
    }
    for (int64_t k = 0; k < depth; ++k) {
      V b0, b1;
      load(b0, b);
      if constexpr (NV == 2) load(b1, b + W);
#pragma GCC unroll 12
      for (int i = 0; i < MR; ++i) {
        x[i] += a[i * AI] * b0;
        if constexpr (NV == 2) y[i] += a[i * AI] * b1;
      }
      a += a_step;
      b += b_step;
    }
#pragma GCC unroll 12
    for (int i = 0; i < MR; ++i) {
      store(c + i * c_step, x[i]);
      if constexpr (NV == 2) store(c + i * c_step + W, y[i]);
    }
  }

  // A left operand: `group` elements from one group of MR rows to the next, `step` along the depth.
  struct Left {
    const A* data;
    int64_t group, step;
  };

  // c += a @ rows [r0, r0 + depth) of b, which pack_rows left in panels of `height` rows.
  template <int AI>
  static void times_rows(int64_t rows, int64_t columns, int64_t depth, Left a, const A* b,
                         int64_t height, int64_t r0, A* c, int64_t c_step) {
    for (int64_t j = 0; j < columns; j += NR) {
      const bool narrow = columns - j <= W;
      const A* panel = b + j * height + r0 * (narrow ? W : NR);
      for (int64_t i = 0; i < rows; i += MR) {
        const A* left = a.data + i / MR * a.group;
        A* to = c + i * c_step + j;
        if (narrow)
          tile<AI, 1>(depth, left, a.step, panel, W, to, c_step, true);
        else
          tile<AI, 2>(depth, left, a.step, panel, NR, to, c_step, true);
      }
    }
  }

  // c = a @ transpose(b), with b as pack_columns left it; panels of NR columns.
  static void times_columns(int64_t rows, int64_t columns, int64_t depth, const A* a, const A* b,
                            A* c, int64_t c_step) {
    for (int64_t j = 0; j < columns; j += NR)
      for (int64_t i = 0; i < rows; i += MR)
        tile<1, 2>(depth, a + i * depth, MR, b + j * depth, NR, c + i * c_step + j, c_step, false);
  }

  // Rows [0, n) of `width` as panels of NR columns, each with the rows one below the other.
  template <class T>
  static void pack_rows(int64_t n, int64_t width, const T* from, int64_t step, A factor, A* to) {
    for (int64_t j = 0; j < width; j += NR) {
      const int64_t w = width - j < NR ? width - j : NR, padded_w = w <= W ? W : NR;
      for (int64_t r = 0; r < n; ++r) {
        const T* row = from + r * step + j;
        if (w == NR) {
          for (int64_t i = 0; i < NR; ++i) to[i] = A(row[i]) * factor;
        } else {
          for (int64_t i = 0; i < w; ++i) to[i] = A(row[i]) * factor;
          for (int64_t i = w; i < padded_w; ++i) to[i] = A(0);
        }
        to += padded_w;
      }
    }
  }

  // Panels of `Width` rows, transposed: for each column, Width neighbours; missing rows are 0.
  template <int Width, class T>
  static void pack_columns(int64_t n, int64_t width, const T* from, int64_t step, A factor, A* to) {
    for (int64_t start = 0; start < n; start += Width, to += Width * width) {
      const int64_t count = n - start < Width ? n - start : Width;
      // Row by row: rows may lie far apart, and few of those fit into the cache at once.
      for (int64_t r = 0; r < count; ++r) {
        const T* row = from + (start + r) * step;
        for (int64_t e = 0; e < width; ++e) to[e * Width + r] = A(row[e]) * factor;
      }
      for (int64_t r = count; r < Width; ++r)
        for (int64_t e = 0; e < width; ++e) to[e * Width + r] = A(0);
    }
  }
};

}  // namespace
}  // namespace rush::RUSH_ISA
