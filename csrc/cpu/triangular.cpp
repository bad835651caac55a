#include "cpu/triangular.h"

#include <cmath>

#include "core/threads.h"

namespace rush {
namespace {

// Row by row; returns the order of the first minor that is not positive, or 0.
int32_t cholesky(double* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    double* row = a + i * n;
    for (int64_t j = 0; j <= i; ++j) {
      const double* other = a + j * n;
      double sum = row[j];
      for (int64_t k = 0; k < j; ++k) sum -= row[k] * other[k];
      if (j < i) {
        row[j] = sum / other[j];
      } else {
        if (!(sum > 0)) return int32_t(i + 1);
        row[i] = std::sqrt(sum);
      }
    }
    for (int64_t j = i + 1; j < n; ++j) row[j] = 0;
  }
  return 0;
}

// Whole rows of x at a time, so that the inner loop runs along memory.
void solve(const double* a, bool upper, bool unit, double* x, int64_t n, int64_t cols) {
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = upper ? n - 1 - step : step;
    const double* row = a + i * n;
    double* xi = x + i * cols;
    const int64_t begin = upper ? i + 1 : 0, end = upper ? n : i;
    for (int64_t k = begin; k < end; ++k) {
      const double factor = row[k], *xk = x + k * cols;
      for (int64_t c = 0; c < cols; ++c) xi[c] -= factor * xk[c];
    }
    if (!unit)
      for (int64_t c = 0; c < cols; ++c) xi[c] /= row[i];
  }
}

}  // namespace

void cholesky_cpu(const Tensor& a, const Tensor& info) {
  const int64_t n = a.sizes().back();
  double* p = a.data<double>();
  int32_t* found = info.data<int32_t>();
  parallel_for(info.numel(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) found[m] = n ? cholesky(p + m * n * n, n) : 0;
  });
}

void solve_triangular_cpu(const Tensor& a, bool upper, bool unit, const Tensor& b) {
  const int64_t n = a.sizes().back(), cols = b.sizes().back();
  if (b.numel() == 0) return;
  const double* pa = a.data<double>();
  double* pb = b.data<double>();
  parallel_for(b.numel() / (n * cols), 1, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m)
      solve(pa + m * n * n, upper, unit, pb + m * n * cols, n, cols);
  });
}

}  // namespace rush
