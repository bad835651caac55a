#include "frontend/nn/utils.h"

#include <cmath>

#include "autograd/meta.h"
#include "ops/ops.h"

namespace rush::nn::utils {
namespace {

std::vector<Tensor> gradients(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> grads;
  for (const Tensor& p : parameters) {
    const Tensor grad = grad_meta_or_null(p) ? grad_of(p) : Tensor();
    if (grad.defined()) grads.push_back(grad);
  }
  return grads;
}

}  // namespace

double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  const NoGradGuard no_grad;
  const std::vector<Tensor> grads = gradients(parameters);
  if (grads.empty()) return 0;
  std::vector<Tensor> norms;
  for (const Tensor& g : grads) norms.push_back(_vector_norm(g, Scalar(norm_type)));
  const double total = _vector_norm(stack(norms), Scalar(norm_type)).item().to_double();
  check(!error_if_nonfinite || std::isfinite(total), ErrorKind::Runtime, "clip_grad_norm_",
        "the norm of the gradients is ", total, ", which cannot be clipped");
  const double factor = std::min(1.0, max_norm / (total + 1e-6));
  for (const Tensor& g : grads) mul_(g, wrap_number(factor));
  return total;
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  check_argument(clip_value >= 0, "clip_grad_value_", "clip_value must be at least 0, got ",
                 clip_value);
  const NoGradGuard no_grad;
  for (const Tensor& g : gradients(parameters)) clamp_(g, Scalar(-clip_value), Scalar(clip_value));
}

Tensor parameters_to_vector(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> flat;
  for (const Tensor& p : parameters) flat.push_back(reshape(p, Dims{-1}));
  return cat(flat);
}

void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters) {
  int64_t total = 0;
  for (const Tensor& p : parameters) total += p.numel();
  check_shape(vector.dim() == 1 && vector.numel() == total, "vector_to_parameters",
              "the parameters have ", total, " elements, the vector has shape ", vector.sizes());
  const NoGradGuard no_grad;
  int64_t at = 0;
  for (const Tensor& p : parameters) {
    copy_(p, reshape(slice(vector, 0, at, at + p.numel()), p.sizes()));
    at += p.numel();
  }
}

}  // namespace rush::nn::utils
