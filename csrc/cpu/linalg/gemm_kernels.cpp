#include "cpu/linalg/gemm_kernels.h"

#include "core/cpu_features.h"

namespace rush {

namespace baseline {
template <class T>
GemmKernels<T> gemm_table();
}
namespace avx2 {
template <class T>
GemmKernels<T> gemm_table();
}
namespace avx512 {
template <class T>
GemmKernels<T> gemm_table();
}

namespace {

template <class T>
GemmKernels<T> pick([[maybe_unused]] IsaLevel level) {
#if defined(__x86_64__)
  if (level == IsaLevel::Avx512) return avx512::gemm_table<T>();
  if (level == IsaLevel::Avx2) return avx2::gemm_table<T>();
#endif
  return baseline::gemm_table<T>();
}

}  // namespace

template <class T>
const GemmKernels<T>& gemm_kernels() {
  static const PerIsa<GemmKernels<T>> tables(pick<T>);
  return tables.now();
}

template const GemmKernels<float>& gemm_kernels<float>();
template const GemmKernels<double>& gemm_kernels<double>();
template const GemmKernels<half>& gemm_kernels<half>();
template const GemmKernels<bfloat16>& gemm_kernels<bfloat16>();
template const GemmKernels<complex<float>>& gemm_kernels<complex<float>>();
template const GemmKernels<complex<double>>& gemm_kernels<complex<double>>();
template const GemmKernels<uint8_t>& gemm_kernels<uint8_t>();
template const GemmKernels<int8_t>& gemm_kernels<int8_t>();
template const GemmKernels<int16_t>& gemm_kernels<int16_t>();
template const GemmKernels<int32_t>& gemm_kernels<int32_t>();
template const GemmKernels<int64_t>& gemm_kernels<int64_t>();

}  // namespace rush
