// norm.h: normalisations.
#pragma once

#include <vector>

#include "frontend/arg.h"
#include "frontend/nn/module.h"

namespace rush::nn {

struct RUSH_API BatchNormOptions {
  BatchNormOptions(int64_t num_features) : num_features_(num_features) {}
  RUSH_ARG(int64_t, num_features);
  RUSH_ARG(double, eps) = 1e-5;
  RUSH_ARG(std::optional<double>, momentum) = 0.1;  // none: the plain average of all batches
  RUSH_ARG(bool, affine) = true;
  RUSH_ARG(bool, track_running_stats) = true;
};
using BatchNorm1dOptions = BatchNormOptions;
using BatchNorm2dOptions = BatchNormOptions;
using BatchNorm3dOptions = BatchNormOptions;

struct RUSH_API InstanceNormOptions {
  InstanceNormOptions(int64_t num_features) : num_features_(num_features) {}
  RUSH_ARG(int64_t, num_features);
  RUSH_ARG(double, eps) = 1e-5;
  RUSH_ARG(double, momentum) = 0.1;
  RUSH_ARG(bool, affine) = false;
  RUSH_ARG(bool, track_running_stats) = false;
};
using InstanceNorm1dOptions = InstanceNormOptions;
using InstanceNorm2dOptions = InstanceNormOptions;
using InstanceNorm3dOptions = InstanceNormOptions;

// Parameters and running statistics of a number of channels.
template <class Derived, class Options>
class RUSH_API ChannelNormImpl : public Cloneable<Derived> {
 public:
  explicit ChannelNormImpl(const Options& o);
  void reset() override;
  void reset_running_stats();

  Options options;
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;
};

template <size_t D, class Derived>
class RUSH_API BatchNormImpl : public ChannelNormImpl<Derived, BatchNormOptions> {
 public:
  using ChannelNormImpl<Derived, BatchNormOptions>::ChannelNormImpl;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
};

template <size_t D, class Derived>
class RUSH_API InstanceNormImpl : public ChannelNormImpl<Derived, InstanceNormOptions> {
 public:
  using ChannelNormImpl<Derived, InstanceNormOptions>::ChannelNormImpl;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
};

#define RUSH_NORM(D)                                                                           \
  class RUSH_API BatchNorm##D##dImpl : public BatchNormImpl<D, BatchNorm##D##dImpl> {          \
   public:                                                                                     \
    using BatchNormImpl<D, BatchNorm##D##dImpl>::BatchNormImpl;                                \
  };                                                                                           \
  RUSH_MODULE(BatchNorm##D##d);                                                                \
  class RUSH_API InstanceNorm##D##dImpl : public InstanceNormImpl<D, InstanceNorm##D##dImpl> { \
   public:                                                                                     \
    using InstanceNormImpl<D, InstanceNorm##D##dImpl>::InstanceNormImpl;                       \
  };                                                                                           \
  RUSH_MODULE(InstanceNorm##D##d)
RUSH_NORM(1);
RUSH_NORM(2);
RUSH_NORM(3);
#undef RUSH_NORM

struct LayerNormOptions {
  LayerNormOptions(std::vector<int64_t> normalized_shape)
      : normalized_shape_(std::move(normalized_shape)) {}
  RUSH_ARG(std::vector<int64_t>, normalized_shape);
  RUSH_ARG(double, eps) = 1e-5;
  RUSH_ARG(bool, elementwise_affine) = true;
};

class RUSH_API LayerNormImpl : public Cloneable<LayerNormImpl> {
  RUSH_MODULE_MEMBERS(LayerNorm);
  Tensor forward(const Tensor& input);
  Tensor weight, bias;
};
class LayerNorm : public ModuleHolder<LayerNormImpl> {
 public:
  using ModuleHolder<LayerNormImpl>::ModuleHolder;
  using Impl = LayerNormImpl;
  explicit LayerNorm(std::initializer_list<int64_t> shape)
      : ModuleHolder(std::make_shared<LayerNormImpl>(std::vector<int64_t>(shape))) {}
};

struct GroupNormOptions {
  GroupNormOptions(int64_t num_groups, int64_t num_channels)
      : num_groups_(num_groups), num_channels_(num_channels) {}
  RUSH_ARG(int64_t, num_groups);
  RUSH_ARG(int64_t, num_channels);
  RUSH_ARG(double, eps) = 1e-5;
  RUSH_ARG(bool, affine) = true;
};

class RUSH_API GroupNormImpl : public Cloneable<GroupNormImpl> {
  RUSH_MODULE_MEMBERS(GroupNorm);
  Tensor forward(const Tensor& input);
  Tensor weight, bias;
};
RUSH_MODULE(GroupNorm);

}  // namespace rush::nn
