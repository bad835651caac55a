// linear.h: linear maps, and modules that only change shapes.
#pragma once

#include "frontend/arg.h"
#include "frontend/nn/module.h"

namespace rush::nn {

struct LinearOptions {
  LinearOptions(int64_t in_features, int64_t out_features)
      : in_features_(in_features), out_features_(out_features) {}
  RUSH_ARG(int64_t, in_features);
  RUSH_ARG(int64_t, out_features);
  RUSH_ARG(bool, bias) = true;
};

class RUSH_API LinearImpl : public Cloneable<LinearImpl> {
  RUSH_MODULE_MEMBERS(Linear);
  void reset_parameters();
  Tensor forward(const Tensor& input);
  Tensor weight, bias;
};
RUSH_MODULE(Linear);

class RUSH_API IdentityImpl : public Cloneable<IdentityImpl> {
 public:
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "rush::nn::Identity()"; }
  Tensor forward(const Tensor& input) { return input; }
};
RUSH_MODULE(Identity);

struct FlattenOptions {
  RUSH_ARG(int64_t, start_dim) = 1;
  RUSH_ARG(int64_t, end_dim) = -1;
};

class RUSH_API FlattenImpl : public Cloneable<FlattenImpl> {
 public:
  explicit FlattenImpl(const FlattenOptions& o = {}) : options(o) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  FlattenOptions options;
};
RUSH_MODULE(Flatten);

struct EmbeddingOptions {
  EmbeddingOptions(int64_t num_embeddings, int64_t embedding_dim)
      : num_embeddings_(num_embeddings), embedding_dim_(embedding_dim) {}
  RUSH_ARG(int64_t, num_embeddings);
  RUSH_ARG(int64_t, embedding_dim);
  RUSH_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;
  RUSH_ARG(bool, scale_grad_by_freq) = false;
};

class RUSH_API EmbeddingImpl : public Cloneable<EmbeddingImpl> {
  RUSH_MODULE_MEMBERS(Embedding);
  void reset_parameters();
  Tensor forward(const Tensor& input);
  Tensor weight;
};
RUSH_MODULE(Embedding);

}  // namespace rush::nn
