#include "frontend/nn/linear.h"

#include <cmath>

#include "core/modes.h"
#include "frontend/nn/init.h"
#include "ops/ops.h"

namespace rush::nn {

LinearImpl::LinearImpl(const LinearOptions& o) : options(o) {
  check_argument(o.in_features() >= 0 && o.out_features() >= 0, "Linear",
                 "in_features and out_features must be at least 0, got ", o.in_features(), " and ",
                 o.out_features());
  LinearImpl::reset();
}

void LinearImpl::reset() {
  const Dims sizes{options.out_features(), options.in_features()};
  weight = register_parameter("weight", make_tensor(sizes, default_dtype()));
  bias = register_parameter(
      "bias", options.bias() ? make_tensor(Dims{sizes[0]}, default_dtype()) : Tensor());
  reset_parameters();
}

void LinearImpl::reset_parameters() {
  init::kaiming_uniform_(weight, std::sqrt(5));
  if (!bias.defined()) return;
  const double bound = options.in_features() > 0 ? 1 / std::sqrt(double(options.in_features())) : 0;
  init::uniform_(bias, -bound, bound);
}

void LinearImpl::pretty_print(std::ostream& stream) const {
  stream << "rush::nn::Linear(in_features=" << options.in_features()
         << ", out_features=" << options.out_features() << ", bias=" << truth(options.bias())
         << ')';
}

Tensor LinearImpl::forward(const Tensor& input) { return linear(input, weight, bias); }

void FlattenImpl::pretty_print(std::ostream& stream) const {
  stream << "rush::nn::Flatten(start_dim=" << options.start_dim()
         << ", end_dim=" << options.end_dim() << ')';
}

Tensor FlattenImpl::forward(const Tensor& input) {
  return flatten(input, options.start_dim(), options.end_dim());
}

EmbeddingImpl::EmbeddingImpl(const EmbeddingOptions& o) : options(o) {
  if (auto& index = options.padding_idx(); index && *index < 0) *index += o.num_embeddings();
  const auto& index = options.padding_idx();
  check_argument(!index || (*index >= 0 && *index < o.num_embeddings()), "Embedding",
                 "padding_idx must lie within the ", o.num_embeddings(), " embeddings");
  EmbeddingImpl::reset();
}

void EmbeddingImpl::reset() {
  const Dims sizes{options.num_embeddings(), options.embedding_dim()};
  weight = register_parameter("weight", make_tensor(sizes, default_dtype()));
  reset_parameters();
}

void EmbeddingImpl::reset_parameters() {
  init::normal_(weight);
  if (!options.padding_idx()) return;
  const NoGradGuard no_grad;
  zero_(select(weight, 0, *options.padding_idx()));
}

void EmbeddingImpl::pretty_print(std::ostream& stream) const {
  stream << "rush::nn::Embedding(num_embeddings=" << options.num_embeddings()
         << ", embedding_dim=" << options.embedding_dim();
  if (options.padding_idx()) stream << ", padding_idx=" << *options.padding_idx();
  stream << ')';
}

Tensor EmbeddingImpl::forward(const Tensor& input) {
  return embedding(weight, input, options.padding_idx().value_or(-1), options.scale_grad_by_freq());
}

}  // namespace rush::nn
