// Determinants from LU factors on the CPU, and what pivots say about the order of rows.
#include <cmath>
#include <numeric>
#include <utility>

#include "cpu/linalg/factorizations.h"
#include "cpu/linalg/matrices.h"
#include "device/linalg.h"
#include "functors/complex.h"

namespace rush {
namespace {

// Calls f(matrix, diagonal, its stride, number of elements, were rows exchanged an odd number of
// times) for the LU factors of each matrix.
template <class T, class F>
void for_diagonals(const Tensor& LU, const Tensor& pivots, F&& f) {
  const Matrices<T> all(LU);
  const int64_t n = all.rows;
  for (int64_t m = 0; m < all.count; ++m) {
    bool odd = false;
    for (int64_t i = 0; i < n; ++i) odd ^= pivots.data<int32_t>()[m * n + i] != i + 1;
    f(m, all[m].data, n + 1, n, odd);
  }
}

template <class F>
void by_type(const char* op, const Tensor& t, F&& f) {
  dispatch<DType::Float32, DType::Float64, DType::Complex64, DType::Complex128>(op, t.dtype(),
                                                                                std::forward<F>(f));
}

void factor(const char* op, const Tensor& a, const Tensor& lu, const Tensor& pivots) {
  const Tensor info = make_tensor(batch_of(a), DType::Int32);
  lu_factor_cpu(op, a, true, lu, pivots, info);
}

void det_cpu(const char* op, const Tensor& a, const Tensor& det, const Tensor& lu,
             const Tensor& pivots) {
  factor(op, a, lu, pivots);
  by_type(op, a, [&]<class T>() {
    for_diagonals<T>(lu, pivots, [&](int64_t m, const T* d, int64_t step, int64_t n, bool odd) {
      T product = odd ? T(-1) : T(1);
      for (int64_t i = 0; i < n; ++i) product = product * d[i * step];
      det.data<T>()[m] = product;
    });
  });
}

void slogdet_cpu(const char* op, const Tensor& a, const Tensor& sign, const Tensor& logabs,
                 const Tensor& lu, const Tensor& pivots) {
  factor(op, a, lu, pivots);
  by_type(op, a, [&]<class T>() {
    using R = real_of<T>;
    for_diagonals<T>(lu, pivots, [&](int64_t m, const T* d, int64_t step, int64_t n, bool odd) {
      T direction = odd ? T(-1) : T(1);
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) {
        const T x = d[i * step];
        if constexpr (is_complex_v<T>) {
          const R size = math::abs(x);
          direction = size == 0 ? T(0) : direction * (x / size);
          sum += std::log(double(size));
        } else {
          direction = x == 0 ? T(0) : (x < 0 ? -direction : direction);
          sum += std::log(std::fabs(double(x)));
          if (math::isnan(x)) direction = x;
        }
      }
      sign.data<T>()[m] = direction;
      logabs.data<R>()[m] = R(sum);
    });
  });
}

void permutation_cpu(const char* op, const Tensor& pivots, int64_t rows, const Tensor& out) {
  const int64_t k = pivots.size(-1);
  for (int64_t m = 0; m < out.numel() / rows; ++m) {
    int64_t* row = out.data<int64_t>() + m * rows;
    std::iota(row, row + rows, int64_t{0});
    for (int64_t i = 0; i < k; ++i) {
      const int64_t other = pivots.data<int32_t>()[m * k + i] - 1;
      check(other >= 0 && other < rows, ErrorKind::Runtime, op, "LU_pivots must lie between 1 and ",
            rows, ", got ", other + 1, ": are they those that lu_factor returned?");
      std::swap(row[i], row[other]);
    }
  }
}

const bool registered = [] {
  MatrixLoops& loops = matrix_loops(DeviceType::CPU);
  loops.det = det_cpu;
  loops.slogdet = slogdet_cpu;
  loops.permutation = permutation_cpu;
  return true;
}();

}  // namespace
}  // namespace rush
