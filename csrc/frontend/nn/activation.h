// activation.h: activations and dropout as modules, a line or two each.
#pragma once

#include <string>

#include "frontend/arg.h"
#include "frontend/losses.h"
#include "frontend/nn/module.h"
#include "ops/ops.h"

namespace rush::nn {

#define RUSH_ACTIVATION(Name, function)                                                           \
  class Name##Impl : public Cloneable<Name##Impl> {                                               \
   public:                                                                                        \
    void reset() override {}                                                                      \
    void pretty_print(std::ostream& stream) const override { stream << "rush::nn::" #Name "()"; } \
    Tensor forward(const Tensor& input) { return rush::function(input); }                         \
  };                                                                                              \
  RUSH_MODULE(Name)
RUSH_ACTIVATION(Sigmoid, sigmoid);
RUSH_ACTIVATION(Tanh, tanh);
RUSH_ACTIVATION(SiLU, silu);
RUSH_ACTIVATION(Mish, mish);
RUSH_ACTIVATION(LogSigmoid, log_sigmoid);
RUSH_ACTIVATION(Softsign, softsign);
RUSH_ACTIVATION(Tanhshrink, tanhshrink);
RUSH_ACTIVATION(Hardswish, hardswish);
RUSH_ACTIVATION(Hardsigmoid, hardsigmoid);
#undef RUSH_ACTIVATION

// Those that may write over their input.
struct InplaceOptions {
  InplaceOptions(bool inplace = false) : inplace_(inplace) {}
  RUSH_ARG(bool, inplace);
};
using ReLUOptions = InplaceOptions;
using ReLU6Options = InplaceOptions;
using SELUOptions = InplaceOptions;
#define RUSH_ACTIVATION(Name, function)                                                           \
  class Name##Impl : public Cloneable<Name##Impl> {                                               \
   public:                                                                                        \
    explicit Name##Impl(const InplaceOptions& o = {}) : options(o) {}                             \
    void reset() override {}                                                                      \
    void pretty_print(std::ostream& stream) const override { stream << "rush::nn::" #Name "()"; } \
    Tensor forward(const Tensor& input) {                                                         \
      return options.inplace() ? rush::function##_(input) : rush::function(input);                \
    }                                                                                             \
    InplaceOptions options;                                                                       \
  };                                                                                              \
  RUSH_MODULE(Name)
RUSH_ACTIVATION(ReLU, relu);
RUSH_ACTIVATION(ReLU6, relu6);
RUSH_ACTIVATION(SELU, selu);
#undef RUSH_ACTIVATION

// Those with numbers.
struct LeakyReLUOptions {
  RUSH_ARG(double, negative_slope) = 0.01;
  RUSH_ARG(bool, inplace) = false;
};
struct ELUOptions {
  RUSH_ARG(double, alpha) = 1.0;
  RUSH_ARG(bool, inplace) = false;
};
struct HardtanhOptions {
  RUSH_ARG(double, min_val) = -1.0;
  RUSH_ARG(double, max_val) = 1.0;
  RUSH_ARG(bool, inplace) = false;
};
struct SoftplusOptions {
  RUSH_ARG(double, beta) = 1.0;
  RUSH_ARG(double, threshold) = 20.0;
};
struct GELUOptions {
  RUSH_ARG(std::string, approximate) = "none";
};
struct SoftmaxOptions {
  SoftmaxOptions(int64_t dim = -1) : dim_(dim) {}
  RUSH_ARG(int64_t, dim);
};
using LogSoftmaxOptions = SoftmaxOptions;
struct PReLUOptions {
  RUSH_ARG(int64_t, num_parameters) = 1;
  RUSH_ARG(double, init) = 0.25;
};
struct DropoutOptions {
  DropoutOptions(double p = 0.5) : p_(p) {}
  RUSH_ARG(double, p);
};
using Dropout2dOptions = DropoutOptions;
using Dropout3dOptions = DropoutOptions;

template <class Derived, class Options>
class WithOptions : public Cloneable<Derived> {
 public:
  WithOptions() = default;
  explicit WithOptions(const Options& o) : options(o) {}
  void reset() override {}
  Options options;
};

// Name, how its numbers are shown, what it computes.
#define RUSH_ACTIVATION(Name, shown, ...)                            \
  class Name##Impl : public WithOptions<Name##Impl, Name##Options> { \
   public:                                                           \
    using WithOptions<Name##Impl, Name##Options>::WithOptions;       \
    void pretty_print(std::ostream& stream) const override {         \
      stream << "rush::nn::" #Name "(" << shown << ')';              \
    }                                                                \
    Tensor forward(const Tensor& input) { return __VA_ARGS__; }      \
  };                                                                 \
  RUSH_MODULE(Name)
RUSH_ACTIVATION(LeakyReLU, "negative_slope=" << options.negative_slope(),
                options.inplace() ? leaky_relu_(input, options.negative_slope())
                                  : leaky_relu(input, options.negative_slope()));
RUSH_ACTIVATION(ELU, "alpha=" << options.alpha(),
                options.inplace() ? elu_(input, options.alpha()) : elu(input, options.alpha()));
RUSH_ACTIVATION(Hardtanh, "min_val=" << options.min_val() << ", max_val=" << options.max_val(),
                options.inplace() ? hardtanh_(input, options.min_val(), options.max_val())
                                  : hardtanh(input, options.min_val(), options.max_val()));
RUSH_ACTIVATION(Softplus, "beta=" << options.beta() << ", threshold=" << options.threshold(),
                softplus(input, options.beta(), options.threshold()));
RUSH_ACTIVATION(GELU, "approximate=" << options.approximate(), gelu(input, options.approximate()));
RUSH_ACTIVATION(Softmax, "dim=" << options.dim(), softmax(input, options.dim()));
RUSH_ACTIVATION(LogSoftmax, "dim=" << options.dim(), log_softmax(input, options.dim()));
RUSH_ACTIVATION(Dropout, "p=" << options.p(), dropout(input, options.p(), is_training()));
// Of whole channels.
RUSH_ACTIVATION(Dropout2d, "p=" << options.p(), feature_dropout(input, options.p(), is_training()));
RUSH_ACTIVATION(Dropout3d, "p=" << options.p(), feature_dropout(input, options.p(), is_training()));
#undef RUSH_ACTIVATION

class RUSH_API PReLUImpl : public Cloneable<PReLUImpl> {
 public:
  explicit PReLUImpl(const PReLUOptions& o = {}) : options(o) { PReLUImpl::reset(); }
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
  PReLUOptions options;
  Tensor weight;
};
RUSH_MODULE(PReLU);

}  // namespace rush::nn
