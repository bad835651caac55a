// roi.h: regions of interest: where the bins of a box lie in an image; one formula for CPU and CUDA.
#pragma once

#include "grid_sample.h"

namespace rush {

// Images (batch, channels, height, width) and boxes (rois, 5), each the number of an image and two
// corners x1, y1, x2, y2, in units of which `scale` gives elements. A box is cut into bins.
struct RoiShape {
  i64 batch, channels, size[2], rois, bins[2];
  double scale;
  i64 sampling_ratio;  // places per bin and dim that are read; 0 or less: about one per element
  bool aligned;        // elements are centred at half a unit, and boxes may be thinner than one
};

// The image that a box lies in, or -1 where there is none of that number.
template <class T>
RUSH_FN i64 roi_image(T number, i64 batch) {
  const i64 image = whole_place(number);
  return image >= 0 && image < batch ? image : i64(-1);
}

// The bins of a box along one dim that are read at places between elements.
template <class T>
struct RoiAxis {
  T start, bin;
  i64 samples;  // per bin

  RUSH_FN RoiAxis(T low, T high, i64 bins, const RoiShape& s) {
    const T offset = s.aligned ? T(0.5) : T(0);
    start = low * T(s.scale) - offset;
    T length = high * T(s.scale) - offset - start;
    if (!s.aligned && length < 1) length = 1;
    bin = length / T(bins);
    const i64 wanted = whole_place(math::ceil(bin));
    samples = s.sampling_ratio > 0 ? s.sampling_ratio : wanted > 0 ? wanted : i64(0);
  }
  RUSH_FN T place(i64 b, i64 i) const {
    return start + T(b) * bin + (T(i) + T(0.5)) * bin / T(samples);
  }
};

// The two elements that a place is mixed from. Up to one element outside it counts as the border's,
// further away there is nothing.
template <class T>
struct RoiTap {
  i64 index[2];
  T weight[2];

  RUSH_FN bool find(T at, i64 size) {
    if (!(at >= -1 && at <= T(size)) || size == 0) return false;
    if (at < 0) at = 0;
    index[0] = i64(at);
    index[1] = index[0] + 1;
    if (index[1] >= size) {
      index[0] = index[1] = size - 1;
      at = T(size - 1);
    }
    weight[1] = at - T(index[0]);
    weight[0] = 1 - weight[1];
    return true;
  }
};

template <class T>
RUSH_FN T round_half_away(T x) {
  const T whole = math::trunc(x);
  return math::fabs(x - whole) >= T(0.5) ? whole + math::copysign(T(1), x) : whole;
}

// The bins of a box along one dim whose ends are whole elements.
template <class T>
struct RoiWindows {
  i64 start;
  T bin;

  // with_end: the element at the higher corner belongs to the box.
  RUSH_FN RoiWindows(T low, T high, i64 bins, double scale, bool with_end) {
    start = whole_place(round_half_away(low * T(scale)));
    const i64 end = whole_place(round_half_away(high * T(scale)));
    const i64 length = end - start + (with_end ? 1 : 0);
    bin = T(length > 1 ? length : i64(1)) / T(bins);
  }
  // Between 0 and last.
  RUSH_FN i64 begin(i64 b, i64 last) const {
    return kept(whole_place(math::floor(T(b) * bin)) + start, last);
  }
  RUSH_FN i64 end(i64 b, i64 last) const {
    return kept(whole_place(math::ceil(T(b + 1) * bin)) + start, last);
  }

 private:
  static RUSH_FN i64 kept(i64 x, i64 last) {
    if (x < 0) x = 0;
    return x < last ? x : last;
  }
};

// How much of what two boxes x1, y1, x2, y2 cover together is covered by both.
template <class T>
struct BoxArea {
  T x1, y1, x2, y2, area;

  RUSH_FN BoxArea(T left, T top, T right, T bottom)
      : x1(left), y1(top), x2(right), y2(bottom), area((right - left) * (bottom - top)) {}
  RUSH_FN T overlap(const BoxArea& o) const {
    const T w = (x2 < o.x2 ? x2 : o.x2) - (x1 > o.x1 ? x1 : o.x1);
    const T h = (y2 < o.y2 ? y2 : o.y2) - (y1 > o.y1 ? y1 : o.y1);
    const T both = (w > 0 ? w : T(0)) * (h > 0 ? h : T(0));
    return both / (area + o.area - both);
  }
};

}  // namespace rush
