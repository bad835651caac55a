// tiles.h (NVRTC): tiles of rows in shared memory, and a warp's products with them.
//
// A tile has rows of D elements in chunks of 16 bytes; chunk c of row r lies at place c ^ (r % 8),
// so that the eight rows of a matrix are read from different banks.
//
// float32 is multiplied by tensor cores that round to 10 bits of mantissa. For `exact` products
// each number is split into two such parts, and three of the four partial products are added up:
// what is lost is as small as float32's own rounding.
#pragma once

#include "cuda/kernels/element.h"
#include "cuda/kernels/tensor_core.h"

namespace rush {

inline constexpr int kTileThreads = 128, kTileWarps = kTileThreads / 32, kTileRows = 16;

template <class T, int D>
struct Tile {
  static constexpr int kChunk = 16 / int(sizeof(T)), kChunks = D / kChunk;
  static constexpr int kStep = 2 * kChunk, kSteps = D / kStep;  // of one product's contraction

  static RUSH_FN int at(int row, int chunk) {
    return row * D + (chunk ^ (row & (kChunks < 8 ? kChunks - 1 : 7))) * kChunk;
  }
  static RUSH_FN int element(int row, int col) { return at(row, col / kChunk) + col % kChunk; }
};

// Rows first .. first + Rows of a matrix with `rows` rows of `width` elements; zeros elsewhere.
template <class T, int D, int Rows>
RUSH_FN void load_tile(T* tile, const T* from, i64 row_step, int first, int rows, int width,
                       bool aligned) {
  using Shape = Tile<T, D>;
  constexpr int chunk = Shape::kChunk;
  for (int i = threadIdx.x; i < Rows * Shape::kChunks; i += kTileThreads) {
    const int row = i / Shape::kChunks, col = i % Shape::kChunks * chunk;
    T* to = tile + Shape::at(row, col / chunk);
    const T* at = from + (first + row) * row_step + col;
    if (aligned && first + row < rows && col < width) {
      copy_async(to, at);
      continue;
    }
#pragma unroll
    for (int k = 0; k < chunk; ++k) to[k] = first + row < rows && col + k < width ? at[k] : T(0.0f);
  }
}

// ---- factors ----

// A warp's sixteen rows of a tile, all columns.
template <class T, int D>
struct RowFragments {
  u32 v[Tile<T, D>::kSteps][4];

  RUSH_FN void load(const T* tile, int first_row) {
    const int lane = threadIdx.x % 32, m = lane / 8, row = first_row + (m & 1) * 8 + lane % 8;
#pragma unroll
    for (int k = 0; k < Tile<T, D>::kSteps; ++k)
      load_matrices(v[k], tile + Tile<T, D>::at(row, 2 * k + m / 2));
  }
};

// The left factor of one product, in one part or two.
template <class T, bool exact>
struct Left {
  u32 v[4];
  RUSH_FN explicit Left(const u32 (&a)[4]) {
    for (int i = 0; i < 4; ++i) v[i] = a[i];
  }
  RUSH_FN void times(float (&c)[4], u32 b0, u32 b1) const { multiply_add(T(0.0f), c, v, b0, b1); }
};
template <bool exact>
struct Left<float, exact> {
  u32 high[4], low[4];
  RUSH_FN explicit Left(const u32 (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) split(a[i], high[i], low[i]);
  }
  RUSH_FN void times(float (&c)[4], u32 b0, u32 b1) const {
    u32 h0, h1, l0, l1;
    split(b0, h0, l0);
    split(b1, h1, l1);
    if constexpr (exact) {
      multiply_add(0.0f, c, low, h0, h1);
      multiply_add(0.0f, c, high, l0, l1);
    }
    multiply_add(0.0f, c, high, h0, h1);
  }
  static RUSH_FN void split(u32 x, u32& high, u32& low) {
    const float whole = bit_cast<float>(x);
    high = round_to_tf32(whole);
    low = exact ? round_to_tf32(whole - bit_cast<float>(high)) : 0;
  }
};

// ---- products ----

// c (16 x N) += a @ tile^T, for N rows of the tile.
template <bool exact, int N, class T, int D>
RUSH_FN void multiply_by_rows(float (&c)[N / 8][4], const RowFragments<T, D>& a, const T* tile) {
  const int lane = threadIdx.x % 32, m = lane / 8, row = m / 2 * 8 + lane % 8;
#pragma unroll
  for (int k = 0; k < Tile<T, D>::kSteps; ++k) {
    const Left<T, exact> left(a.v[k]);
#pragma unroll
    for (int n = 0; n < N / 16; ++n) {
      u32 b[4];
      load_matrices(b, tile + Tile<T, D>::at(n * 16 + row, 2 * k + (m & 1)));
      left.times(c[2 * n], b[0], b[1]);
      left.times(c[2 * n + 1], b[2], b[3]);
    }
  }
}

// c (16 x D) += p (16 x N) @ tile, for N rows of the tile; p as products leave it.
template <bool exact, int N, int D, class T>
RUSH_FN void multiply_by_columns(float (&c)[D / 8][4], const float (&p)[N / 8][4], const T* tile) {
  const int lane = threadIdx.x % 32;
  if constexpr (sizeof(T) == 2) {
    const int m = lane / 8, row = (m & 1) * 8 + lane % 8;
#pragma unroll
    for (int k = 0; k < N / 16; ++k) {
      const float (&first)[4] = p[2 * k], (&second)[4] = p[2 * k + 1];
      const T type(0.0f);
      const u32 a[4] = {pair_of(type, first[0], first[1]), pair_of(type, first[2], first[3]),
                        pair_of(type, second[0], second[1]), pair_of(type, second[2], second[3])};
      const Left<T, exact> left(a);
#pragma unroll
      for (int d = 0; d < D / 16; ++d) {
        u32 b[4];
        load_turned(b, tile + Tile<T, D>::at(k * 16 + row, 2 * d + m / 2));
        left.times(c[2 * d], b[0], b[1]);
        left.times(c[2 * d + 1], b[2], b[3]);
      }
    }
  } else {
    // Of floats no transposed matrices can be loaded. Which row a place of the contraction stands
    // for is free, as long as both factors agree: here place t is row 2t and place t + 4 row
    // 2t + 1, as the threads hold p.
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int k = 0; k < N / 8; ++k) {
      const u32 a[4] = {bit_cast<u32>(p[k][0]), bit_cast<u32>(p[k][2]), bit_cast<u32>(p[k][1]),
                        bit_cast<u32>(p[k][3])};
      const Left<T, exact> left(a);
      const int row = 8 * k + 2 * t;
#pragma unroll
      for (int d = 0; d < D / 8; ++d)
        left.times(c[d], bit_cast<u32>(tile[Tile<T, D>::element(row, 8 * d + g)]),
                   bit_cast<u32>(tile[Tile<T, D>::element(row + 1, 8 * d + g)]));
    }
  }
}

}  // namespace rush
