// utils.h: what training loops do to parameters.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace rush::nn::utils {

// Scales the gradients so that their common norm is at most max_norm; returns what it was.
RUSH_API double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                                double norm_type = 2, bool error_if_nonfinite = false);
RUSH_API void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);
RUSH_API Tensor parameters_to_vector(const std::vector<Tensor>& parameters);
RUSH_API void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters);

}  // namespace rush::nn::utils
