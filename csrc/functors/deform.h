// deform.h: patches of images whose points are moved by offsets; one formula for CPU and CUDA.
#pragma once

#include "grid_sample.h"

namespace rush {

// Images (batch, channels, in...), offsets (batch, groups * points * 2, out...), y before x, and
// masks (batch, groups * points, out...), where points are those of a kernel. Channels are shared
// among the groups. Dims are height and width.
struct DeformShape {
  i64 batch, channels, in[2], out[2], kernel[2], stride[2], padding[2], dilation[2], groups;

  RUSH_FN i64 points() const { return kernel[0] * kernel[1]; }
  RUSH_FN i64 places() const { return out[0] * out[1]; }
  RUSH_FN i64 area() const { return in[0] * in[1]; }
  // The first of a point's two offsets at a place; its mask.
  RUSH_FN i64 offset_at(i64 sample, i64 group, i64 point, i64 place) const {
    return ((sample * groups + group) * points() + point) * 2 * places() + place;
  }
  RUSH_FN i64 mask_at(i64 sample, i64 group, i64 point, i64 place) const {
    return ((sample * groups + group) * points() + point) * places() + place;
  }
  RUSH_FN i64 column_at(i64 sample, i64 channel, i64 point, i64 place) const {
    return ((sample * channels + channel) * points() + point) * places() + place;
  }
};

// The two elements along one dim that a moved point is mixed from: -1 where they count as zero.
template <class T>
struct DeformTap {
  i64 index[2];
  T weight[2];

  RUSH_FN DeformTap(const DeformShape& s, int dim, i64 point, i64 place, T offset) {
    const i64 k = dim == 0 ? point / s.kernel[1] : point % s.kernel[1];
    const i64 o = dim == 0 ? place / s.out[1] : place % s.out[1];
    const T at = T(o * s.stride[dim] - s.padding[dim] + k * s.dilation[dim]) + offset;
    const T low = math::floor(at);
    const i64 first = whole_place(low);
    for (int n = 0; n < 2; ++n) {
      index[n] = first + n >= 0 && first + n < s.in[dim] ? first + n : i64(-1);
      weight[n] = n == 0 ? low + 1 - at : at - low;
    }
  }
};

}  // namespace rush
