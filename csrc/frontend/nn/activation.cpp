#include "frontend/nn/activation.h"

namespace rush::nn {

void PReLUImpl::reset() {
  const Dims sizes{options.num_parameters()};
  weight = register_parameter("weight", full(sizes, Scalar(options.init()), default_dtype()));
}

void PReLUImpl::pretty_print(std::ostream& stream) const {
  stream << "rush::nn::PReLU(num_parameters=" << options.num_parameters() << ')';
}

Tensor PReLUImpl::forward(const Tensor& input) { return prelu(input, weight); }

}  // namespace rush::nn
