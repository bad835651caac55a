#include "frontend/nn/norm.h"

#include "core/modes.h"
#include "ops/ops.h"

namespace rush::nn {
namespace {

Tensor full_of(IntList sizes, double value, bool wanted) {
  return wanted ? full(sizes, Scalar(value), default_dtype()) : Tensor();
}

// (N, C), (N, C, L) and for instances (C, L); or (N, C, H, W); or (N, C, D, H, W).
void check_dims(const char* name, const Tensor& input, int64_t least, int64_t most) {
  check(input.dim() >= least && input.dim() <= most, ErrorKind::Value, name, "expected ", least,
        " to ", most, " dims, got shape ", input.sizes());
}

// One value has no variance.
void check_count(const char* name, const Tensor& input, bool with_batch) {
  if (input.dim() < 2) return;
  int64_t count = with_batch ? input.size(0) : 1;
  for (int64_t d = 2; d < input.dim(); ++d) count *= input.size(d);
  check(count != 1, ErrorKind::Value, name,
        "expected more than 1 value per channel when training, got shape ", input.sizes());
}

template <class Options>
void print_channels(std::ostream& stream, const char* name, size_t dims, const Options& o) {
  stream << "rush::nn::" << name << dims << "d(" << o.num_features() << ", eps=" << o.eps()
         << ", affine=" << truth(o.affine())
         << ", track_running_stats=" << truth(o.track_running_stats()) << ')';
}

}  // namespace

template <class Derived, class Options>
ChannelNormImpl<Derived, Options>::ChannelNormImpl(const Options& o) : options(o) {
  ChannelNormImpl::reset();
}

template <class Derived, class Options>
void ChannelNormImpl<Derived, Options>::reset() {
  const Dims sizes{options.num_features()};
  const bool tracks = options.track_running_stats();
  weight = this->register_parameter("weight", full_of(sizes, 1, options.affine()));
  bias = this->register_parameter("bias", full_of(sizes, 0, options.affine()));
  running_mean = this->register_buffer("running_mean", full_of(sizes, 0, tracks));
  running_var = this->register_buffer("running_var", full_of(sizes, 1, tracks));
  num_batches_tracked = this->register_buffer(
      "num_batches_tracked", tracks ? scalar_tensor(Scalar(0), DType::Int64) : Tensor());
}

template <class Derived, class Options>
void ChannelNormImpl<Derived, Options>::reset_running_stats() {
  if (!running_mean.defined()) return;
  const NoGradGuard no_grad;
  zero_(running_mean);
  fill_(running_var, wrap_number(1));
  zero_(num_batches_tracked);
}

template <size_t D, class Derived>
void BatchNormImpl<D, Derived>::pretty_print(std::ostream& stream) const {
  print_channels(stream, "BatchNorm", D, this->options);
}

template <size_t D, class Derived>
Tensor BatchNormImpl<D, Derived>::forward(const Tensor& input) {
  check_dims("BatchNorm", input, D == 1 ? 2 : D + 2, D + 2);
  const bool training = this->is_training(), tracks = this->running_mean.defined();
  if (training) check_count("batch_norm", input, true);
  const auto& momentum = this->options.momentum();
  if (training && tracks && momentum) {
    return _batch_norm_counted(input, this->weight, this->bias, this->running_mean,
                               this->running_var, this->num_batches_tracked, *momentum,
                               this->options.eps());
  }
  double factor = momentum.value_or(0);
  if (training && tracks) {
    const NoGradGuard no_grad;
    add_(this->num_batches_tracked, wrap_number(1));
    factor = 1 / this->num_batches_tracked.item().to_double();
  }
  return batch_norm(input, this->weight, this->bias, this->running_mean, this->running_var,
                    training || !tracks, factor, this->options.eps(), true);
}

template <size_t D, class Derived>
void InstanceNormImpl<D, Derived>::pretty_print(std::ostream& stream) const {
  print_channels(stream, "InstanceNorm", D, this->options);
}

template <size_t D, class Derived>
Tensor InstanceNormImpl<D, Derived>::forward(const Tensor& input) {
  check_dims("InstanceNorm", input, D + 1, D + 2);
  const bool by_input = this->is_training() || !this->running_mean.defined();
  const bool batched = input.dim() == int64_t(D) + 2;
  const Tensor x = batched ? input : unsqueeze(input, 0);
  if (by_input) check_count("instance_norm", x, false);
  const Tensor y = instance_norm(x, this->weight, this->bias, this->running_mean, this->running_var,
                                 by_input, this->options.momentum(), this->options.eps(), true);
  return batched ? y : squeeze(y, Dims{0});
}

#define RUSH_INSTANCES(D)                                                      \
  template class ChannelNormImpl<BatchNorm##D##dImpl, BatchNormOptions>;       \
  template class ChannelNormImpl<InstanceNorm##D##dImpl, InstanceNormOptions>; \
  template class BatchNormImpl<D, BatchNorm##D##dImpl>;                        \
  template class InstanceNormImpl<D, InstanceNorm##D##dImpl>
RUSH_INSTANCES(1);
RUSH_INSTANCES(2);
RUSH_INSTANCES(3);
#undef RUSH_INSTANCES

LayerNormImpl::LayerNormImpl(const LayerNormOptions& o) : options(o) { LayerNormImpl::reset(); }

void LayerNormImpl::reset() {
  const bool affine = options.elementwise_affine();
  weight = register_parameter("weight", full_of(options.normalized_shape(), 1, affine));
  bias = register_parameter("bias", full_of(options.normalized_shape(), 0, affine));
}

void LayerNormImpl::pretty_print(std::ostream& stream) const {
  stream << "rush::nn::LayerNorm(" << Dims(options.normalized_shape()) << ", eps=" << options.eps()
         << ", elementwise_affine=" << truth(options.elementwise_affine()) << ')';
}

Tensor LayerNormImpl::forward(const Tensor& input) {
  return layer_norm(input, options.normalized_shape(), weight, bias, options.eps());
}

GroupNormImpl::GroupNormImpl(const GroupNormOptions& o) : options(o) {
  check(o.num_groups() > 0 && o.num_channels() % o.num_groups() == 0, ErrorKind::Value, "GroupNorm",
        "num_channels must be divisible by num_groups, got ", o.num_channels(), " and ",
        o.num_groups());
  GroupNormImpl::reset();
}

void GroupNormImpl::reset() {
  const Dims sizes{options.num_channels()};
  weight = register_parameter("weight", full_of(sizes, 1, options.affine()));
  bias = register_parameter("bias", full_of(sizes, 0, options.affine()));
}

void GroupNormImpl::pretty_print(std::ostream& stream) const {
  stream << "rush::nn::GroupNorm(" << options.num_groups() << ", " << options.num_channels()
         << ", eps=" << options.eps() << ", affine=" << truth(options.affine()) << ')';
}

Tensor GroupNormImpl::forward(const Tensor& input) {
  return group_norm(input, options.num_groups(), weight, bias, options.eps());
}

}  // namespace rush::nn
