// policies.cpp: which ops run in lower precision, in float32, or in the widest dtype of
// their arguments. The lists are PyTorch's, for the CPU and for CUDA; everything else runs in
// whatever dtype its arguments have.
#include <algorithm>
#include <string>
#include <unordered_map>

#include "ops/autocast/autocast.h"

namespace rush {
namespace {

constexpr std::string_view kLowerCpu =
    "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution "
    "_convolution bmm mm linalg_vecdot baddbmm addmm addbmm linear matmul prelu "
    "scaled_dot_product_attention self_attention attention_with_weights "
    "_native_multi_head_attention lstm rnn_tanh rnn_relu "
    "rnn_tanh_cell "
    "rnn_relu_cell";
constexpr std::string_view kFloat32Cpu =
    "avg_pool3d binary_cross_entropy grid_sampler grid_sample grid_sampler_2d grid_sampler_3d "
    "polar prod quantile nanquantile stft cdist trace view_as_complex cholesky cholesky_inverse "
    "cholesky_solve inverse lu_solve orgqr ormqr pinverse max_pool3d max_unpool2d max_unpool3d "
    "adaptive_avg_pool3d reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d "
    "replication_pad3d mse_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss "
    "poisson_nll_loss smooth_l1_loss cross_entropy_loss cross_entropy l1_loss huber_loss "
    "margin_ranking_loss soft_margin_loss triplet_margin_loss multi_margin_loss ctc_loss kl_div "
    "multilabel_margin_loss binary_cross_entropy_with_logits fft_fft fft_ifft fft_fft2 fft_ifft2 "
    "fft_fftn fft_ifftn fft_rfft fft_irfft fft_rfft2 fft_irfft2 fft_rfftn fft_irfftn fft_hfft "
    "fft_ihfft linalg_cond linalg_matrix_rank linalg_solve linalg_cholesky linalg_svdvals "
    "linalg_eigvals linalg_eigvalsh linalg_inv linalg_householder_product linalg_tensorinv "
    "linalg_tensorsolve fake_quantize_per_tensor_affine geqrf qr svd triangular_solve "
    "fractional_max_pool2d fractional_max_pool3d adaptive_max_pool3d linalg_qr linalg_cholesky_ex "
    "linalg_svd linalg_eig linalg_eigh linalg_lstsq linalg_inv_ex max_pool3d_with_indices";
constexpr std::string_view kWidestCpu = "cat stack index_copy gru gru_cell lstm_cell";

constexpr std::string_view kLowerCuda =
    "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution "
    "_convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm "
    "bmm chain_matmul linalg_multi_dot lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell "
    "rnn_relu_cell scaled_dot_product_attention self_attention attention_with_weights";
constexpr std::string_view kFloat32Cuda =
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus "
    "layer_norm native_layer_norm rms_norm group_norm norm frobenius_norm nuclear_norm "
    "cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d "
    "hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss "
    "multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss "
    "binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d "
    "upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d "
    "upsample_trilinear3d upsample_bicubic2d";
constexpr std::string_view kFloat32ByOptionCuda =
    "prod softmax log_softmax cumprod cumsum linalg_vector_norm linalg_matrix_norm sum";
constexpr std::string_view kWidestCuda =
    "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler grid_sample index_put tensordot "
    "scatter_add cat stack";

using Policies = std::unordered_map<std::string_view, AutocastPolicy>;

void add(Policies& to, std::string_view names, AutocastPolicy policy) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    to.emplace(names.substr(0, end), policy);
    names.remove_prefix(std::min(end + 1, names.size()));
  }
}

}  // namespace

AutocastPolicy autocast_policy(std::string_view op, DeviceType device) {
  static const auto* cpu = [] {
    auto* p = new Policies;
    add(*p, kLowerCpu, AutocastPolicy::LowerPrecision);
    add(*p, kFloat32Cpu, AutocastPolicy::Float32);
    add(*p, kWidestCpu, AutocastPolicy::Widest);
    return p;
  }();
  static const auto* cuda = [] {
    auto* p = new Policies;
    add(*p, kLowerCuda, AutocastPolicy::LowerPrecision);
    add(*p, kFloat32Cuda, AutocastPolicy::Float32);
    add(*p, kFloat32ByOptionCuda, AutocastPolicy::Float32ByOption);
    add(*p, kWidestCuda, AutocastPolicy::Widest);
    return p;
  }();
  const Policies& policies = device == DeviceType::CUDA ? *cuda : *cpu;
  auto found = policies.find(op);
  // The table's _einsum is what einsum() calls once it has read its arguments.
  if (found == policies.end() && op.starts_with('_')) found = policies.find(op.substr(1));
  return found == policies.end() ? AutocastPolicy::None : found->second;
}

}  // namespace rush
