// image.h: images on a device: resampled, read at points that a grid names, cut into patches,
// padded. Floating tensors of one dtype, contiguous where nothing else is said; results are
// overwritten.
#pragma once

#include "device/table.h"
#include "functors/grid_sample.h"
#include "functors/padding.h"
#include "functors/resample.h"

namespace rush {

// Patches of images (batch, channels, h, w): columns are (batch, channels * kernel points, output
// points).
struct PatchShape {
  int64_t planes, in[2], out[2], kernel[2], dilation[2], padding[2], stride[2];
};

struct ImageLoops {
  // y is dense, and equal to x but for the size of dim; x lies in any way.
  void (*resample)(const Tensor& x, int64_t dim, const Resampling& how, const Tensor& y) = nullptr;
  bool resamples_bytes = false;  // as whole numbers, as PyTorch does; else floating only
  void (*resample_backward)(const Tensor& g, int64_t dim, const Resampling& how,
                            const Tensor& gx) = nullptr;
  // All spatial dims of (batch, channels, ...) at once; y contiguous or channels-last; how: of
  // three dims, missing ones in front. Null: dim by dim.
  void (*resample_image)(const Tensor& x, const Resampling* how, const Tensor& y) = nullptr;

  // Any dtype.
  void (*unfold)(const PatchShape& s, const Tensor& x, const Tensor& columns) = nullptr;
  // Adds up. Floating, complex or bool.
  void (*fold)(const PatchShape& s, const Tensor& columns, const Tensor& x) = nullptr;

  // x (batch, channels, 2 or 3 spatial dims), grid (batch, points..., 2 or 3), y (batch, channels,
  // points...).
  void (*grid_sample)(const Tensor& x, const Tensor& grid, const Sampling& how,
                      const Tensor& y) = nullptr;
  // gx and ggrid: either may be undefined.
  void (*grid_sample_backward)(const Tensor& g, const Tensor& x, const Tensor& grid,
                               const Sampling& how, const Tensor& gx,
                               const Tensor& ggrid) = nullptr;
  // Where the grid's points lie along each dim, in elements, and how fast that changes with the
  // grid. Both have the grid's shape.
  void (*grid_places)(const Tensor& grid, IntList sizes, const Sampling& how, const Tensor& places,
                      const Tensor& slopes) = nullptr;
  // The index of the neighbour `offset` away from each place, -1 where it counts as zero.
  void (*grid_neighbours)(const Tensor& places, int64_t size, int64_t offset, const Sampling& how,
                          const Tensor& out) = nullptr;

  // Borders made of what is inside, of any dtype: pairs of widths for at most three dims, from the
  // last one on.
  void (*pad_from_inside)(const Tensor& x, IntList pad, PadMode mode, const Tensor& out) = nullptr;
};
inline constinit DeviceTable<ImageLoops> image_loops;

}  // namespace rush
