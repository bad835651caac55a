// resample.h: which inputs an output of a resampled dim is made of, and their weights; one formula
// for CPU and CUDA.
#pragma once

#include "math.h"

namespace rush {

enum class ResampleMode : i32 { Nearest, NearestExact, Linear, Cubic, SmoothLinear, SmoothCubic };

struct Resampling {
  i64 in, out;
  double ratio;  // from place to place, of outputs in inputs
  bool align_corners;
  ResampleMode mode;

  RUSH_FN bool is_smooth() const { return mode >= ResampleMode::SmoothLinear; }
  // Where output i lies among the inputs.
  RUSH_FN double place(i64 i) const {
    return align_corners ? double(i) * ratio : (double(i) + 0.5) * ratio - 0.5;
  }
  // With antialias the kernel is as wide as the inputs that one output stands for.
  RUSH_FN double width() const { return ratio > 1 ? ratio : 1.0; }
  // How far from its place an output looks.
  RUSH_FN double reach() const {
    if (is_smooth()) return (mode == ResampleMode::SmoothCubic ? 2 : 1) * width();
    return mode == ResampleMode::Cubic ? 2 : 1;
  }
};

// Keys' cubic kernel; a = -0.75 for plain interpolation, -0.5 where it also smooths.
RUSH_FN double cubic_weight(double x, double a) {
  x = math::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

RUSH_FN i64 clamp_place(i64 i, i64 size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }

// Calls f(input, weight) for what output i is made of. Beyond the edges the outermost input counts
// on.
template <class F>
RUSH_FN void each_tap(const Resampling& r, i64 i, F f) {
  switch (r.mode) {
    case ResampleMode::Nearest:
    case ResampleMode::NearestExact: {
      const double at = (double(i) + (r.mode == ResampleMode::Nearest ? 0 : 0.5)) * r.ratio;
      // PyTorch computes the place in float32, which decides where it falls on a boundary.
      f(clamp_place(i64(math::floor(float(at))), r.in), 1.0);
      return;
    }
    case ResampleMode::Linear: {
      const double at = r.place(i) > 0 ? r.place(i) : 0.0, low = math::floor(at);
      f(clamp_place(i64(low), r.in), 1 - (at - low));
      f(clamp_place(i64(low) + 1, r.in), at - low);
      return;
    }
    case ResampleMode::Cubic: {
      const double at = r.place(i), low = math::floor(at);
      for (int k = -1; k <= 2; ++k)
        f(clamp_place(i64(low) + k, r.in), cubic_weight(at - low - double(k), -0.75));
      return;
    }
    default: {
      const double wide = r.width(), reach = r.reach(), centre = r.ratio * (double(i) + 0.5);
      const i64 low = i64(centre - reach + 0.5), high = i64(centre + reach + 0.5);
      const i64 first = low > 0 ? low : 0, last = high < r.in ? high : r.in;
      const auto weight = [&](i64 k) {
        const double d = (double(k) - centre + 0.5) / wide;
        if (r.mode == ResampleMode::SmoothCubic) return cubic_weight(d, -0.5);
        return math::fabs(d) < 1 ? 1 - math::fabs(d) : 0.0;
      };
      double total = 0;
      for (i64 k = first; k < last; ++k) total += weight(k);
      for (i64 k = first; k < last; ++k) f(k, total != 0 ? weight(k) / total : weight(k));
    }
  }
}

// The outputs that may be made of input p: [first, last].
RUSH_FN void outputs_near(const Resampling& r, i64 p, i64& first, i64& last) {
  first = 0, last = r.out - 1;
  if (r.ratio <= 0) return;  // all outputs lie at one place
  const double shift = r.align_corners ? 0 : 0.5, reach = r.reach() + 1;
  const double low = (double(p) + shift - reach) / r.ratio - shift;
  const double high = (double(p) + shift + reach) / r.ratio - shift;
  // What lies beyond an edge is made of the outermost input.
  if (p > 0 && low > 1) first = i64(low) - 1 < r.out ? i64(low) - 1 : r.out;
  if (p < r.in - 1 && high < double(r.out))
    last = i64(high) + 1 < r.out ? i64(high) + 1 : r.out - 1;
}

}  // namespace rush
