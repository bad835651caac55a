// settings.h: switches of the GPU's libraries, with PyTorch's meaning and defaults.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/export.h"

namespace rush::cuda {

struct Settings {
  std::atomic<bool> matmul_tf32{false};  // float32 products in 10-bit mantissas
  std::atomic<bool> split_float32{
      true};  // float32 products may be sums of products of bfloat16 pieces
  std::atomic<bool> convolution_tf32{true};
  std::atomic<bool> cudnn_enabled{true}, cudnn_benchmark{false}, cudnn_deterministic{false};
  std::atomic<bool> deterministic_algorithms{false};

  // Must libraries give the same bits every time?
  bool wants_repeatable() const { return cudnn_deterministic || deterministic_algorithms; }
};
RUSH_API Settings& settings();
// 91000 for cuDNN 9.10; 0 without it.
RUSH_API int64_t cudnn_version();

}  // namespace rush::cuda
