// init.h: ways to fill parameters before training. All work in place and record nothing; with the
// same seed they give the numbers of Python's nn.init.
#pragma once

#include <cmath>
#include <string_view>
#include <utility>

#include "core/tensor.h"

namespace rush::nn::init {

enum class FanModeType : uint8_t { FanIn, FanOut };
enum class NonlinearityType : uint8_t { Linear, Sigmoid, Tanh, ReLU, LeakyReLU, SELU };
inline constexpr FanModeType kFanIn = FanModeType::FanIn, kFanOut = FanModeType::FanOut;

// The factor on the standard deviation that a nonlinearity asks for.
RUSH_API double calculate_gain(NonlinearityType nonlinearity, double param = 0.01);
// How many numbers go into one output, and how many outputs one input reaches.
RUSH_API std::pair<int64_t, int64_t> calculate_fan_in_and_fan_out(const Tensor& tensor);

RUSH_API Tensor constant_(Tensor tensor, const Scalar& value);
RUSH_API Tensor zeros_(Tensor tensor);
RUSH_API Tensor ones_(Tensor tensor);
RUSH_API Tensor eye_(Tensor matrix);
RUSH_API Tensor uniform_(Tensor tensor, double low = 0, double high = 1);
RUSH_API Tensor normal_(Tensor tensor, double mean = 0, double std = 1);
RUSH_API Tensor xavier_uniform_(Tensor tensor, double gain = 1);
RUSH_API Tensor xavier_normal_(Tensor tensor, double gain = 1);
RUSH_API Tensor kaiming_uniform_(Tensor tensor, double a = 0, FanModeType mode = kFanIn,
                                 NonlinearityType nonlinearity = NonlinearityType::LeakyReLU);
RUSH_API Tensor kaiming_normal_(Tensor tensor, double a = 0, FanModeType mode = kFanIn,
                                NonlinearityType nonlinearity = NonlinearityType::LeakyReLU);

}  // namespace rush::nn::init
