// pooling.h: maxima and means of windows, in one, two and three dimensions.
#pragma once

#include "frontend/arg.h"
#include "frontend/nn/expanding_array.h"
#include "frontend/nn/module.h"

namespace rush::nn {

template <size_t D>
struct MaxPoolOptions {
  MaxPoolOptions(ExpandingArray<D> kernel_size) : kernel_size_(kernel_size), stride_(kernel_size) {}
  RUSH_ARG(ExpandingArray<D>, kernel_size);
  RUSH_ARG(ExpandingArray<D>, stride);
  RUSH_ARG(ExpandingArray<D>, padding) = 0;
  RUSH_ARG(ExpandingArray<D>, dilation) = 1;
  RUSH_ARG(bool, ceil_mode) = false;
};

template <size_t D>
struct AvgPoolOptions {
  AvgPoolOptions(ExpandingArray<D> kernel_size) : kernel_size_(kernel_size), stride_(kernel_size) {}
  RUSH_ARG(ExpandingArray<D>, kernel_size);
  RUSH_ARG(ExpandingArray<D>, stride);
  RUSH_ARG(ExpandingArray<D>, padding) = 0;
  RUSH_ARG(bool, ceil_mode) = false;
  RUSH_ARG(bool, count_include_pad) = true;
};

template <size_t D>
struct AdaptiveAvgPoolOptions {
  AdaptiveAvgPoolOptions(ExpandingArray<D> output_size) : output_size_(output_size) {}
  RUSH_ARG(ExpandingArray<D>, output_size);
};

template <size_t D>
RUSH_API Tensor pooled(const Tensor& input, const MaxPoolOptions<D>& options);
template <size_t D>
RUSH_API Tensor pooled(const Tensor& input, const AvgPoolOptions<D>& options);
template <size_t D>
RUSH_API Tensor pooled(const Tensor& input, const AdaptiveAvgPoolOptions<D>& options);

template <class Options, class Derived>
class PoolImpl : public Cloneable<Derived> {
 public:
  PoolImpl(const Options& o) : options(o) {}
  void reset() override {}
  Tensor forward(const Tensor& input) { return pooled(input, options); }
  Options options;
};

#define RUSH_POOL_OF(Kind, Name, D)                                                               \
  using Name##Options = Kind##Options<D>;                                                         \
  class Name##Impl : public PoolImpl<Kind##Options<D>, Name##Impl> {                              \
   public:                                                                                        \
    using PoolImpl<Kind##Options<D>, Name##Impl>::PoolImpl;                                       \
    Name##Impl(ExpandingArray<D> size) : PoolImpl(Kind##Options<D>(size)) {}                      \
    void pretty_print(std::ostream& stream) const override { stream << "rush::nn::" #Name "()"; } \
  };                                                                                              \
  RUSH_MODULE(Name)
#define RUSH_POOL(Kind)            \
  RUSH_POOL_OF(Kind, Kind##1d, 1); \
  RUSH_POOL_OF(Kind, Kind##2d, 2); \
  RUSH_POOL_OF(Kind, Kind##3d, 3)
RUSH_POOL(MaxPool);
RUSH_POOL(AvgPool);
RUSH_POOL(AdaptiveAvgPool);
#undef RUSH_POOL
#undef RUSH_POOL_OF

}  // namespace rush::nn
