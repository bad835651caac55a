#include "frontend/nn/init.h"

#include "core/modes.h"
#include "ops/ops.h"

namespace rush::nn::init {
namespace {

double xavier_std(const Tensor& tensor, double gain) {
  const auto [fan_in, fan_out] = calculate_fan_in_and_fan_out(tensor);
  return gain * std::sqrt(2.0 / double(fan_in + fan_out));
}

double kaiming_std(const Tensor& tensor, double a, FanModeType mode,
                   NonlinearityType nonlinearity) {
  const auto [fan_in, fan_out] = calculate_fan_in_and_fan_out(tensor);
  return calculate_gain(nonlinearity, a) / std::sqrt(double(mode == kFanIn ? fan_in : fan_out));
}

}  // namespace

double calculate_gain(NonlinearityType nonlinearity, double param) {
  switch (nonlinearity) {
    case NonlinearityType::Tanh:
      return 5.0 / 3;
    case NonlinearityType::ReLU:
      return std::sqrt(2.0);
    case NonlinearityType::LeakyReLU:
      return std::sqrt(2.0 / (1 + param * param));
    case NonlinearityType::SELU:
      return 3.0 / 4;
    default:
      return 1;
  }
}

std::pair<int64_t, int64_t> calculate_fan_in_and_fan_out(const Tensor& tensor) {
  check(tensor.dim() >= 2, ErrorKind::Value, "init",
        "fan in and fan out need a tensor of 2 or more dims, got shape ", tensor.sizes());
  int64_t field = 1;
  for (uint32_t d = 2; d < tensor.sizes().size(); ++d) field *= tensor.sizes()[d];
  return {tensor.size(1) * field, tensor.size(0) * field};
}

Tensor constant_(Tensor tensor, const Scalar& value) {
  const NoGradGuard no_grad;
  fill_(tensor, wrap_number(value));
  return tensor;
}

Tensor zeros_(Tensor tensor) {
  const NoGradGuard no_grad;
  zero_(tensor);
  return tensor;
}

Tensor ones_(Tensor tensor) { return constant_(std::move(tensor), 1.0); }

Tensor eye_(Tensor matrix) {
  check(matrix.dim() == 2, ErrorKind::Value, "eye_", "expects a tensor of 2 dims, got shape ",
        matrix.sizes());
  const NoGradGuard no_grad;
  copy_(matrix, eye(matrix.size(0), matrix.size(1), matrix.dtype(), std::nullopt, matrix.device()));
  return matrix;
}

Tensor uniform_(Tensor tensor, double low, double high) {
  const NoGradGuard no_grad;
  rush::uniform_(tensor, low, high);
  return tensor;
}

Tensor normal_(Tensor tensor, double mean, double std) {
  const NoGradGuard no_grad;
  rush::normal_(tensor, mean, std);
  return tensor;
}

Tensor xavier_uniform_(Tensor tensor, double gain) {
  const double bound = std::sqrt(3.0) * xavier_std(tensor, gain);
  return init::uniform_(std::move(tensor), -bound, bound);
}

Tensor xavier_normal_(Tensor tensor, double gain) {
  const double std = xavier_std(tensor, gain);
  return init::normal_(std::move(tensor), 0, std);
}

Tensor kaiming_uniform_(Tensor tensor, double a, FanModeType mode, NonlinearityType nonlinearity) {
  if (tensor.numel() == 0) return tensor;
  const double bound = std::sqrt(3.0) * kaiming_std(tensor, a, mode, nonlinearity);
  return init::uniform_(std::move(tensor), -bound, bound);
}

Tensor kaiming_normal_(Tensor tensor, double a, FanModeType mode, NonlinearityType nonlinearity) {
  if (tensor.numel() == 0) return tensor;
  const double std = kaiming_std(tensor, a, mode, nonlinearity);
  return init::normal_(std::move(tensor), 0, std);
}

}  // namespace rush::nn::init
