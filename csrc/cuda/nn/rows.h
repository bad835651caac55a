// rows.h: how launches of rows, columns and packs are cut, for the kernels of networks.
#pragma once

#include "cuda/runtime/launch.h"

namespace rush::cuda {

inline const char* compute_name(DType t) { return t == DType::Float64 ? "double" : "float"; }
// "C, T": the type of computation and the tensors' own, as most kernels take them.
inline std::string type_pair(DType t) { return concat(compute_name(t), ", ", kernel_type(t)); }
inline DType compute_dtype(DType t) {
  return t == DType::Float64 ? DType::Float64 : DType::Float32;
}
inline const void* data_or_null(const Tensor& t) { return t.defined() ? t.data() : nullptr; }

// The type of a norm's weight and bias.
inline DType parameter_type(const Tensor& x, const Tensor& a, const Tensor& b) {
  return a.defined() ? a.dtype() : b.defined() ? b.dtype() : x.dtype();
}

// Elements of 16 bytes.
inline int64_t pack_of(DType t) { return 16 / element_size(t); }
inline bool aligned(std::initializer_list<const void*> places, int64_t bytes = 16) {
  for (const void* p : places)
    if (reinterpret_cast<uintptr_t>(p) % uintptr_t(bytes) != 0) return false;
  return true;
}

// Threads that share a row: 8, 32, the block, half or a quarter of it, numbered 0 to 4.
inline constexpr int kTeams[] = {8, 32, kThreads, kThreads / 2, kThreads / 4};
inline Grid blocks_of_teams(int64_t rows, int team) {
  const int64_t teams = kThreads / kTeams[team];
  return {unsigned((rows + teams - 1) / teams)};
}

// Rows that one block's sums cover, where `tiles` blocks lie side by side: enough segments to fill
// the GPU, each long enough to be worth its place.
inline int64_t rows_of_segment(int64_t rows, int64_t tiles, int device) {
  const int64_t wanted = int64_t(device_info(device).processors) * 8 / std::max<int64_t>(tiles, 1);
  const int64_t segments = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, rows / 32));
  return (rows + segments - 1) / segments;
}

// Enough threads, or is a column to be shared by several?
inline bool few_columns(int64_t columns, int device) {
  return columns < int64_t(device_info(device).processors) * 512;
}

}  // namespace rush::cuda
