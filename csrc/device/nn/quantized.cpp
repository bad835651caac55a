#include "device/nn/quantized.h"

#include <algorithm>
#include <cmath>

namespace rush {

Steps steps_for(double low, double high, int64_t most) {
  // The smallest scale that sums of products can be brought back by.
  constexpr double kSmallest = 6.0999998822808266e-05;
  low = std::min(low, 0.0), high = std::max(high, 0.0);
  double scale = (high - low) / double(most);
  if (scale == 0 || std::isinf(1 / scale)) scale = 0.1;
  // Whichever end gives the smaller error is where the zero is counted from.
  const double from_low = -low / scale, from_high = double(most) - high / scale;
  const double zero =
      std::abs(low / scale) < double(most) + std::abs(high / scale) ? from_low : from_high;
  const double whole = std::clamp(std::nearbyint(zero), 0.0, double(most));
  return {std::max(scale, kSmallest), std::isnan(whole) ? 0 : int64_t(whole)};
}

Dims strides_of_last_channels(IntList sizes) {
  Dims out(uint32_t(sizes.size()), 1);
  int64_t step = sizes[1];
  for (size_t d = sizes.size() - 1; d >= 2; --d) {
    out[d] = step;
    step *= sizes[d];
  }
  out[0] = step;
  return out;
}

}  // namespace rush
