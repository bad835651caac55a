// grid_sample.h: the neighbours of a point that a grid names, from -1 to 1 over a dim, along that
// dim; one formula for CPU and CUDA.
#pragma once

#include "math.h"

namespace rush {

enum class SampleMode : i64 { Linear, Nearest, Cubic };
enum class SamplePadding : i64 { Zeros, Border, Reflection };

struct Sampling {
  SampleMode mode;
  SamplePadding padding;
  bool align_corners;
};

// Where a point lies, in elements, and how fast that changes with the grid.
template <class T>
struct SamplePlace {
  T at, slope;
};

// x folded back at both ends of [low, low + span], as light between mirrors.
template <class T>
RUSH_FN SamplePlace<T> reflect_place(T x, T low, T span) {
  if (span <= 0) return {T(0), T(0)};
  T sign = 1, rest = x - low;
  if (rest < 0) rest = -rest, sign = -1;
  const T times = math::floor(rest / span), extra = math::fmod(rest, span);
  if (math::fmod(times, T(2)) == 0) return {extra + low, sign};
  return {span - extra + low, -sign};
}

template <class T>
RUSH_FN SamplePlace<T> clip_place(SamplePlace<T> p, i64 size) {
  const T last = T(size - 1);
  if (!(p.at > 0)) return {T(0), T(0)};  // and where the grid is NaN
  if (p.at >= last) return {last, T(0)};
  return p;
}

template <class T>
RUSH_FN SamplePlace<T> pad_place(SamplePlace<T> p, i64 size, const Sampling& how) {
  if (how.padding == SamplePadding::Reflection) {
    const SamplePlace<T> r = how.align_corners ? reflect_place(p.at, T(0), T(size - 1))
                                               : reflect_place(p.at, T(-0.5), T(size));
    p = {r.at, p.slope * r.slope};
  }
  return clip_place(p, size);
}

// The padding moves the point itself, but not in cubic mode, which moves its neighbours.
template <class T>
RUSH_FN SamplePlace<T> sample_place(T x, i64 size, const Sampling& how) {
  SamplePlace<T> p;
  if (how.align_corners)
    p = {(x + 1) / 2 * T(size - 1), T(size - 1) / 2};
  else
    p = {((x + 1) * T(size) - 1) / 2, T(size) / 2};
  if (how.padding == SamplePadding::Zeros || how.mode == SampleMode::Cubic) return p;
  return pad_place(p, size, how);
}

// Far outside, and NaN: no neighbour there.
template <class T>
RUSH_FN i64 whole_place(T x) {
  constexpr T far = T(i64(1) << 40);
  return x > -far && x < far ? i64(x) : i64(-1) - (i64(1) << 40);
}

// Whole places along one dim brought into [0, size) by the padding, or -1 where they count as zero.
RUSH_FN i64 padded_whole_place(i64 place, i64 size, const Sampling& how) {
  if (how.padding == SamplePadding::Zeros) return place >= 0 && place < size ? place : -1;
  const SamplePlace<double> p = pad_place(SamplePlace<double>{double(place), 1}, size, how);
  const i64 at = i64(p.at);
  return at < 0 ? 0 : at >= size ? size - 1 : at;
}

// Keys' kernel with a = -0.75 and its derivative, at the four neighbours of a point t behind the
// second.
template <class T>
struct SampleCubic {
  static constexpr T a = T(-0.75);
  static RUSH_FN T near(T x) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
  static RUSH_FN T far(T x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }
  static RUSH_FN T near_slope(T x) { return (3 * (a + 2) * x - 2 * (a + 3)) * x; }
  static RUSH_FN T far_slope(T x) { return (3 * a * x - 10 * a) * x + 8 * a; }
  static RUSH_FN void fill(T t, T* weight, T* slope) {
    weight[0] = far(t + 1), weight[1] = near(t), weight[2] = near(1 - t), weight[3] = far(2 - t);
    slope[0] = far_slope(t + 1), slope[1] = near_slope(t);
    slope[2] = -near_slope(1 - t), slope[3] = -far_slope(2 - t);
  }
};

// The neighbours of one point along one dim.
template <class T>
struct SampleNeighbours {
  i64 place[4];
  T weight[4], slope[4];
  int count;

  RUSH_FN SampleNeighbours(T x, i64 size, const Sampling& how) {
    const SamplePlace<T> p = sample_place(x, size, how);
    if (how.mode == SampleMode::Nearest) {
      count = 1;
      place[0] = inside(whole_place(math::round(p.at)), size);
      weight[0] = 1, slope[0] = 0;
      return;
    }
    const T low = math::floor(p.at);
    const i64 first = whole_place(low);
    if (how.mode == SampleMode::Linear) {
      count = 2;
      place[0] = inside(first, size), place[1] = inside(first + 1, size);
      weight[0] = low + 1 - p.at, weight[1] = p.at - low;
      slope[0] = -p.slope, slope[1] = p.slope;
      return;
    }
    count = 4;
    SampleCubic<T>::fill(p.at - low, weight, slope);
    for (int k = 0; k < 4; ++k) {
      place[k] = padded_whole_place(first - 1 + k, size, how);
      slope[k] *= p.slope;
    }
  }

 private:
  static RUSH_FN i64 inside(i64 i, i64 size) { return i >= 0 && i < size ? i : i64(-1); }
};

}  // namespace rush
