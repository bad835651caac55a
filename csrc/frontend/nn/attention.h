// attention.h: many heads of attention with projections, and the layer of a transformer's encoder.
#pragma once

#include <string>
#include <tuple>

#include "frontend/arg.h"
#include "frontend/nn/activation.h"
#include "frontend/nn/linear.h"
#include "frontend/nn/norm.h"

namespace rush::nn {

struct MultiheadAttentionOptions {
  MultiheadAttentionOptions(int64_t embed_dim, int64_t num_heads)
      : embed_dim_(embed_dim), num_heads_(num_heads) {}
  RUSH_ARG(int64_t, embed_dim);
  RUSH_ARG(int64_t, num_heads);
  RUSH_ARG(double, dropout) = 0;
  RUSH_ARG(bool, bias) = true;
};

// Inputs are (length, batch, features). A mask is true (or -inf) where nobody looks.
class RUSH_API MultiheadAttentionImpl : public Cloneable<MultiheadAttentionImpl> {
  RUSH_MODULE_MEMBERS(MultiheadAttention);
  // The output, and the weights' mean over the heads, undefined where they are not needed.
  std::tuple<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& key_padding_mask = {}, bool need_weights = true,
                                     const Tensor& attn_mask = {});
  Tensor in_proj_weight, in_proj_bias;
  Linear out_proj = nullptr;
};
RUSH_MODULE(MultiheadAttention);

struct TransformerEncoderLayerOptions {
  TransformerEncoderLayerOptions(int64_t d_model, int64_t nhead)
      : d_model_(d_model), nhead_(nhead) {}
  RUSH_ARG(int64_t, d_model);
  RUSH_ARG(int64_t, nhead);
  RUSH_ARG(int64_t, dim_feedforward) = 2048;
  RUSH_ARG(double, dropout) = 0.1;
  RUSH_ARG(std::string, activation) = "relu";  // or "gelu"
};

class RUSH_API TransformerEncoderLayerImpl : public Cloneable<TransformerEncoderLayerImpl> {
  RUSH_MODULE_MEMBERS(TransformerEncoderLayer);
  Tensor forward(const Tensor& src, const Tensor& src_mask = {},
                 const Tensor& src_key_padding_mask = {});
  MultiheadAttention self_attn = nullptr;
  Linear linear1 = nullptr, linear2 = nullptr;
  Dropout dropout = nullptr, dropout1 = nullptr, dropout2 = nullptr;
  LayerNorm norm1 = nullptr, norm2 = nullptr;
};
RUSH_MODULE(TransformerEncoderLayer);

}  // namespace rush::nn
