// grid_sample_args.h: the arguments of grid_sample.cu.
#pragma once

#include "cuda/kernels/args.h"
#include "functors/grid_sample.h"

namespace rush {

// x (batch, channels, size...), grid (batch, points, 2 or 3), y (batch, channels, points).
struct GridArgs {
  const void *x, *grid, *g;
  void *y, *gx, *ggrid;  // gx: in the type of computation, zero before; either may be null
  i64 batch, channels, points;
  i64 size[3];  // depth (1 in two dims), height, width
  Sampling how;
};

// Elementwise: places and slopes of a grid's numbers; or the index of a place's neighbour.
struct GridPlaceArgs {
  i64 n, dims;
  const void* in;
  void *places, *slopes;
  i64* neighbours;
  i64 size[3];  // of the dims, as the grid names them: width first
  i64 offset;
  Sampling how;
};

}  // namespace rush
