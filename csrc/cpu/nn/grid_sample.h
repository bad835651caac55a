// grid_sample.h: images read at points that a grid names, from -1 to 1 over each dim.
#pragma once

#include "core/tensor.h"
#include "functors/grid_sample.h"

namespace rush {

// x (batch, channels, 2 or 3 spatial dims), grid (batch, points..., 2 or 3), y (batch, channels,
// points...); contiguous, float32 or float64.
void grid_sample_cpu(const Tensor& x, const Tensor& grid, const Sampling& how, const Tensor& y);
// gx and ggrid are overwritten; either may be undefined.
void grid_sample_backward_cpu(const Tensor& g, const Tensor& x, const Tensor& grid,
                              const Sampling& how, const Tensor& gx, const Tensor& ggrid);
// Where the grid's points lie along each dim, in elements, and how fast that changes with the grid.
// The padding moves the point itself, but not in cubic mode, which moves its neighbours. Both have
// the grid's shape.
void grid_places_cpu(const Tensor& grid, IntList sizes, const Sampling& how, const Tensor& places,
                     const Tensor& slopes);
// Whole places along one dim brought into [0, size) by the padding, or -1 where they count as zero.
int64_t padded_place(int64_t place, int64_t size, const Sampling& how);

}  // namespace rush
