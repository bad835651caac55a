// matrices.h: what linear algebra on GPUs shares: batches of matrices, working memory, calls.
#pragma once

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/tensor.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "cuda/vendor/solver_api.h"

namespace rush::cuda {

template <class F>
void by_type(const char* op, const Tensor& t, F&& f) {
  dispatch<DType::Float32, DType::Float64, DType::Complex64, DType::Complex128>(op, t.dtype(),
                                                                                std::forward<F>(f));
}

// Matrices that lie end to end.
struct Batch {
  int64_t rows, cols, count;
  explicit Batch(const Tensor& t)
      : rows(t.size(-2)), cols(t.size(-1)), count(t.numel() == 0 ? 0 : t.numel() / (rows * cols)) {}
  int64_t step() const { return rows * cols; }
};

// Most functions count in 32 bits.
inline void check_sizes(const char* op, const Tensor& t) {
  check(t.size(-1) < (int64_t(1) << 31) && t.size(-2) < (int64_t(1) << 31), ErrorKind::Runtime, op,
        "matrices of shape ", t.sizes(), " are too large for cuSOLVER");
}

inline Tensor device_bytes(size_t nbytes, Device device) {
  return make_tensor(Dims{int64_t(std::max<size_t>(nbytes, 16))}, DType::UInt8, device);
}

// Working memory that a function asks for.
struct Workspace {
  Tensor device;
  std::vector<char> host;
  Workspace(size_t on_device, size_t on_host, Device where)
      : device(device_bytes(on_device, where)), host(std::max<size_t>(on_host, 16)) {}
};

// The addresses of a batch's matrices, in the GPU's memory.
template <class T>
T** addresses(const Tensor& table) {
  return reinterpret_cast<T**>(table.data());
}
Tensor address_table(const void* first, int64_t step_bytes, int64_t count, Device device);

// cuBLAS with working memory of ours. What it was given last may have gone to somebody else since,
// so every call is made through one of these.
class BlasCall {
 public:
  BlasCall(const char* op, Device device);
  solver::Blas handle() const { return handle_; }

 private:
  SingleLaunches single_;
  Tensor memory_;
  solver::Blas handle_;
};

// Batches are passed on in parts that the libraries count without overflow.
template <class F>
void in_parts(int64_t count, int64_t most, F&& f) {
  for (int64_t begin = 0; begin < count; begin += most) f(begin, std::min(most, count - begin));
}
inline constexpr int64_t kMostMatrices = 32768;

}  // namespace rush::cuda
