#pragma once
#include <span>
#include <string_view>
#include "ops/value.h"
namespace rush {
RUSH_API int64_t optimizer_step(std::string_view rule, TensorList params, TensorList grads, TensorList scalars, TensorList states, std::span<const double> options);
RUSH_API Tensor _list_norm(TensorList tensors, double ord);
RUSH_API int64_t _list_scale_(TensorList tensors, const Tensor& scale);
RUSH_API int64_t _list_unscale_(TensorList tensors, const Tensor& found_inf, const Tensor& inv_scale);
}
