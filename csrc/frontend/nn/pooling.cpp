#include "frontend/nn/pooling.h"

#include "ops/ops.h"

namespace rush::nn {

template <size_t D>
Tensor pooled(const Tensor& input, const MaxPoolOptions<D>& o) {
  const auto call = [&](auto function) {
    return function(input, o.kernel_size(), o.stride(), o.padding(), o.dilation(), o.ceil_mode());
  };
  if constexpr (D == 1) return call([](auto&&... a) { return max_pool1d(a...); });
  if constexpr (D == 2) return call([](auto&&... a) { return max_pool2d(a...); });
  if constexpr (D == 3) return call([](auto&&... a) { return max_pool3d(a...); });
}

template <size_t D>
Tensor pooled(const Tensor& input, const AvgPoolOptions<D>& o) {
  const auto call = [&](auto function) {
    return function(input, o.kernel_size(), o.stride(), o.padding(), o.ceil_mode(),
                    o.count_include_pad());
  };
  if constexpr (D == 1) return call([](auto&&... a) { return avg_pool1d(a...); });
  if constexpr (D == 2) return call([](auto&&... a) { return _avg_pool2d(a...); });
  if constexpr (D == 3) return call([](auto&&... a) { return _avg_pool3d(a...); });
}

template <size_t D>
Tensor pooled(const Tensor& input, const AdaptiveAvgPoolOptions<D>& o) {
  if constexpr (D == 1) return adaptive_avg_pool1d(input, o.output_size());
  if constexpr (D == 2) return _adaptive_avg_pool2d(input, o.output_size());
  if constexpr (D == 3) return _adaptive_avg_pool3d(input, o.output_size());
}

#define RUSH_POOLED(Options)                                           \
  template Tensor pooled<1>(const Tensor& input, const Options<1>& o); \
  template Tensor pooled<2>(const Tensor& input, const Options<2>& o); \
  template Tensor pooled<3>(const Tensor& input, const Options<3>& o)
RUSH_POOLED(MaxPoolOptions);
RUSH_POOLED(AvgPoolOptions);
RUSH_POOLED(AdaptiveAvgPoolOptions);
#undef RUSH_POOLED

}  // namespace rush::nn
