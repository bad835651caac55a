// winograd_tables.h: the loops of convolutions over tiles; Note [Convolutions over tiles] in
// cpu/nn/winograd.cpp says what they are for.
#pragma once

#include <cstdint>

#include "cpu/kernels/tables.h"

namespace rush {

// Of a tile: 4 by 4 numbers, one per matrix.
inline constexpr int kTileNumbers = 16;

// Images whose channels lie end to end; distances are in elements.
template <class T>
struct TiledImages {
  T* data;
  int64_t rows, columns;  // of an image
  int64_t image_step, row_step, column_step;
  int64_t channels;  // how many are meant, from `data` on
};

// The tiles [first, last) of all images, which have tile_rows by tile_columns of them each.
struct TileRange {
  int64_t tile_rows, tile_columns, first, last;
};

// kTileNumbers matrices, `apart` from each other, with rows `row` apart.
struct TileMatrices {
  float* data;
  int64_t row, apart;
};

// Kernels of 3 by 3.
template <class T>
struct SmallKernels {
  T* data;
  int64_t in_step, out_step, row_step, column_step;
};

// c (+)= a @ b; a's elements are found by two distances, one of which is 1.
struct TileProduct {
  int64_t rows, depth, columns;  // columns: a multiple of the lanes
  const float* a;
  int64_t a_row, a_depth;
  const float* b;
  int64_t b_depth, b_panel;  // a panel holds two vectors of columns
  float* c;
  int64_t c_row;
  bool accumulate;
};

struct WinogradTable {
  int64_t lanes;  // of a vector; channels come in multiples of it
  // A tile per row of `to`, from images around which `padding` zeros are thought.
  void (*read)(const TiledImages<const float>& from, const int64_t (&padding)[2],
               const TileRange& tiles, const TileMatrices& to);
  // The same of gradients, which come two by two per tile.
  void (*read_grads)(const TiledImages<const float>& from, const TileRange& tiles,
                     const TileMatrices& to);
  // Two by two numbers per tile. False: one of them is not finite.
  bool (*write)(const TileMatrices& from, const float* bias, const TileRange& tiles,
                const TiledImages<float>& to);
  // One panel of each matrix: `in` rows of up to two vectors.
  void (*read_kernels)(const SmallKernels<const float>& from, int64_t in, int64_t out, float* to,
                       int64_t apart);
  // The gradients of one row (input channel) of kernels, added up over `parts` that lie `part`
  // apart. False: one of them is not finite.
  bool (*write_kernels)(const float* from, int64_t apart, int64_t parts, int64_t part, int64_t out,
                        const SmallKernels<float>& to);
  void (*product)(const TileProduct& p);
};

template <Isa isa>
const WinogradTable* winograd_table();

}  // namespace rush
