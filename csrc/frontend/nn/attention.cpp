#include "frontend/nn/attention.h"

#include <array>
#include <limits>

#include "frontend/nn/init.h"
#include "ops/framework/operators.h"
#include "ops/ops.h"

namespace rush::nn {
namespace {

// True becomes -inf; undefined stays so.
Tensor as_float(const Tensor& mask, DType dtype) {
  if (!mask.defined() || mask.dtype() != DType::Bool) return mask;
  const Tensor zeros = rush::zeros(mask.sizes(), dtype, std::nullopt, mask.device());
  return masked_fill(zeros, mask, wrap_number(-std::numeric_limits<double>::infinity()));
}

// Three linear maps whose weights lie one below the other, as one product where they have the same input, as in Python.
std::array<Tensor, 3> projected(const Tensor& query, const Tensor& key, const Tensor& value,
                                const Tensor& weight, const Tensor& bias) {
  const int64_t size = query.size(-1);
  const auto maps = [&](const Tensor& x, int64_t first, int64_t count) {
    const int64_t begin = first * size, end = begin + count * size;
    const Tensor own = bias.defined() ? slice(bias, 0, begin, end) : Tensor();
    return split(linear(x, slice(weight, 0, begin, end), own), size, -1);
  };
  if (query.is_same(key) && key.is_same(value)) {
    const auto all = split(linear(query, weight, bias), size, -1);
    return {all[0], all[1], all[2]};
  }
  if (key.is_same(value)) {
    const auto rest = maps(key, 1, 2);
    return {maps(query, 0, 1)[0], rest[0], rest[1]};
  }
  return {maps(query, 0, 1)[0], maps(key, 1, 1)[0], maps(value, 2, 1)[0]};
}

}  // namespace

MultiheadAttentionImpl::MultiheadAttentionImpl(const MultiheadAttentionOptions& o) : options(o) {
  check_argument(o.num_heads() > 0 && o.embed_dim() % o.num_heads() == 0, "MultiheadAttention",
                 "embed_dim must be divisible by num_heads, got ", o.embed_dim(), " and ",
                 o.num_heads());
  MultiheadAttentionImpl::reset();
}

void MultiheadAttentionImpl::reset() {
  const int64_t size = options.embed_dim();
  in_proj_weight =
      register_parameter("in_proj_weight", make_tensor(Dims{3 * size, size}, default_dtype()));
  in_proj_bias = register_parameter(
      "in_proj_bias", options.bias() ? make_tensor(Dims{3 * size}, default_dtype()) : Tensor());
  out_proj = Linear(LinearOptions(size, size).bias(options.bias()));
  register_module("out_proj", out_proj);
  init::xavier_uniform_(in_proj_weight);
  if (!options.bias()) return;
  init::zeros_(in_proj_bias);
  init::zeros_(out_proj->bias);
}

void MultiheadAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << "rush::nn::MultiheadAttention(embed_dim=" << options.embed_dim()
         << ", num_heads=" << options.num_heads() << ')';
}

std::tuple<Tensor, Tensor> MultiheadAttentionImpl::forward(const Tensor& query, const Tensor& key,
                                                           const Tensor& value,
                                                           const Tensor& key_padding_mask,
                                                           bool need_weights,
                                                           const Tensor& attn_mask) {
  check_shape(query.dim() == 3 && key.dim() == 3 && value.dim() == 3, "MultiheadAttention",
              "query, key and value must be (length, batch, features), got shapes ", query.sizes(),
              ", ", key.sizes(), " and ", value.sizes());
  const int64_t heads = options.num_heads();
  const int64_t queries = query.size(0), keys = key.size(0), batch = query.size(1);
  Tensor mask = as_float(attn_mask, query.dtype());
  if (mask.defined() && mask.dim() == 3) mask = reshape(mask, Dims{batch, heads, queries, keys});
  if (key_padding_mask.defined()) {
    const Tensor padding =
        reshape(as_float(key_padding_mask, query.dtype()), Dims{batch, 1, 1, keys});
    mask = mask.defined() ? mask + padding : padding;
  }
  const double p = is_training() ? options.dropout() : 0;
  if (query.is_same(key) && key.is_same(value) && !need_weights) {
    const Tensor together = linear(query, in_proj_weight, in_proj_bias);
    return {out_proj(_self_attention(together, heads, false, mask, p, false)), Tensor()};
  }

  const auto by_heads = [&](const Tensor& x) {  // to (batch, heads, length, features per head)
    const Dims apart{x.size(0), batch, heads, options.embed_dim() / heads};
    return permute(reshape(x, apart), Dims{1, 2, 0, 3});
  };
  const auto [q, k, v] = projected(query, key, value, in_proj_weight, in_proj_bias);
  Tensor y, weights;
  if (need_weights) {
    std::tie(y, weights) =
        _attention_with_weights(by_heads(q), by_heads(k), by_heads(v), mask, p, false, true);
  } else {
    y = scaled_dot_product_attention(by_heads(q), by_heads(k), by_heads(v), mask, p);
  }
  y = reshape(permute(y, Dims{2, 0, 1, 3}), Dims{queries, batch, options.embed_dim()});
  return {out_proj(y), weights};
}

TransformerEncoderLayerImpl::TransformerEncoderLayerImpl(const TransformerEncoderLayerOptions& o)
    : options(o) {
  check(o.activation() == "relu" || o.activation() == "gelu", ErrorKind::Value,
        "TransformerEncoderLayer", "activation must be 'relu' or 'gelu', got '", o.activation(),
        "'");
  TransformerEncoderLayerImpl::reset();
}

void TransformerEncoderLayerImpl::reset() {
  const auto& o = options;
  self_attn = register_module(
      "self_attn",
      MultiheadAttention(MultiheadAttentionOptions(o.d_model(), o.nhead()).dropout(o.dropout())));
  linear1 = register_module("linear1", Linear(o.d_model(), o.dim_feedforward()));
  dropout = register_module("dropout", Dropout(o.dropout()));
  linear2 = register_module("linear2", Linear(o.dim_feedforward(), o.d_model()));
  norm1 = register_module("norm1", LayerNorm({o.d_model()}));
  norm2 = register_module("norm2", LayerNorm({o.d_model()}));
  dropout1 = register_module("dropout1", Dropout(o.dropout()));
  dropout2 = register_module("dropout2", Dropout(o.dropout()));
}

void TransformerEncoderLayerImpl::pretty_print(std::ostream& stream) const {
  stream << "rush::nn::TransformerEncoderLayer";
}

Tensor TransformerEncoderLayerImpl::forward(const Tensor& src, const Tensor& src_mask,
                                            const Tensor& src_key_padding_mask) {
  const Tensor looked =
      std::get<0>(self_attn(src, src, src, src_key_padding_mask, false, src_mask));
  const Tensor x = norm1(src + dropout1(looked));
  const Tensor wide = linear1(x);
  const Tensor active = options.activation() == "relu" ? relu(wide) : gelu(wide);
  return norm2(x + dropout2(linear2(dropout(active))));
}

}  // namespace rush::nn
