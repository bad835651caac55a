#include "cpu/kernels/small_matrices_tables.h"

#include <algorithm>
#include <cmath>

#include "functors/math.h"

namespace rush {

namespace RUSH_ISA {
namespace {

template <class T>
struct Small {
  // y -= a x over [from, n), from rounded down to whole vectors: x is zero before `from`.
  static void subtract(T* y, const T* x, T a, int64_t from, int64_t n) {
    for (int64_t j = from / kRowStep * kRowStep; j < n; j += kRowStep) {
#pragma omp simd
      for (int64_t i = 0; i < kRowStep; ++i) y[j + i] -= a * x[j + i];
    }
  }
  static void add(T* y, const T* x, T a, int64_t n) {
    for (int64_t j = 0; j < n; j += kRowStep) {
#pragma omp simd
      for (int64_t i = 0; i < kRowStep; ++i) y[j + i] += a * x[j + i];
    }
  }
  // The columns of x from `from` on, zeros before.
  static void copy_tail(T* y, const T* x, int64_t from, int64_t n) {
    std::fill_n(y, from, T(0));
    std::copy(x + from, x + n, y + from);
  }

  static int lu(T* a, int64_t m, int64_t n, int64_t ld, int32_t* pivots, bool pivot, T* row) {
    int info = 0;
    const int64_t steps = std::min(m, n);
    for (int64_t k = 0; k < steps; ++k) {
      int64_t best = k;
      if (pivot) {
        T most = math::fabs(a[k * ld + k]);
        for (int64_t i = k + 1; i < m; ++i) {
          const T size = math::fabs(a[i * ld + k]);
          const bool larger = size > most;  // no branch: nobody could predict it
          most = larger ? size : most;
          best = larger ? i : best;
        }
      }
      pivots[k] = int32_t(best + 1);
      T* top = a + k * ld;
      if (best != k) std::swap_ranges(top, top + ld, a + best * ld);
      const T divisor = top[k];
      if (divisor == T(0)) {
        if (info == 0) info = int(k + 1);
        continue;
      }
      copy_tail(row, top, k + 1, ld);
      for (int64_t i = k + 1; i < m; ++i) {
        T* other = a + i * ld;
        const T factor = other[k] / divisor;
        subtract(other, row, factor, k + 1, ld);
        other[k] = factor;
      }
    }
    return info;
  }

  static int cholesky(T* a, int64_t n, int64_t ld, T* row) {
    for (int64_t k = 0; k < n; ++k) {
      T* top = a + k * ld;
      if (!(top[k] > T(0))) return int(k + 1);
      const T root = std::sqrt(top[k]);
      top[k] = root;
      for (int64_t j = k + 1; j < n; ++j) top[j] /= root;
      copy_tail(row, top, k + 1, ld);
      for (int64_t i = k + 1; i < n; ++i) subtract(a + i * ld, row, row[i], i, ld);
    }
    return 0;
  }

  static void solve(const T* a, int64_t row_step, int64_t col_step, int64_t n, bool upper,
                    bool unit, T* b, int64_t ldb) {
    for (int64_t at = 0; at < ldb; at += kRowStep) {
      for (int64_t step = 0; step < n; ++step) {
        const int64_t i = upper ? n - 1 - step : step;
        T* bi = b + i * ldb + at;
        const int64_t begin = upper ? i + 1 : 0, end = upper ? n : i;
        T sum[kRowStep] = {};  // in a register: through memory each step would wait for the last
        for (int64_t k = begin; k < end; ++k) {
          const T factor = a[i * row_step + k * col_step];
          const T* bk = b + k * ldb + at;
#pragma omp simd
          for (int64_t j = 0; j < kRowStep; ++j) sum[j] += factor * bk[j];
        }
        const T divisor = unit ? T(1) : a[i * (row_step + col_step)];
#pragma omp simd
        for (int64_t j = 0; j < kRowStep; ++j) bi[j] = (bi[j] - sum[j]) / divisor;
      }
    }
  }

  static void qr(T* a, int64_t m, int64_t n, int64_t ld, T* tau, T* row) {
    for (int64_t k = 0; k < std::min(m, n); ++k) {
      T* top = a + k * ld;
      T squares = 0;
      for (int64_t i = k + 1; i < m; ++i) squares += a[i * ld + k] * a[i * ld + k];
      tau[k] = 0;
      if (squares == T(0)) continue;  // nothing to reflect
      const T alpha = top[k];
      const T beta = -std::copysign(std::sqrt(alpha * alpha + squares), alpha);
      tau[k] = (beta - alpha) / beta;
      copy_tail(row, top, k + 1, ld);
      for (int64_t i = k + 1; i < m; ++i) {
        T* other = a + i * ld;
        other[k] /= alpha - beta;
        add(row, other, other[k], ld);
      }
      std::fill_n(row, k + 1, T(0));
      subtract(top, row, tau[k], k + 1, ld);
      for (int64_t i = k + 1; i < m; ++i) {
        T* other = a + i * ld;
        subtract(other, row, tau[k] * other[k], k + 1, ld);
      }
      top[k] = beta;
    }
  }

  static void form_q(const T* a, int64_t m, int64_t k, int64_t ld, const T* tau, T* q,
                     int64_t columns, int64_t ldq, T* row) {
    for (int64_t i = 0; i < m; ++i) {
      std::fill_n(q + i * ldq, ldq, T(0));
      if (i < columns) q[i * ldq + i] = T(1);
    }
    for (int64_t j = k - 1; j >= 0; --j) {
      T* top = q + j * ldq;
      std::copy(top, top + ldq, row);
      for (int64_t i = j + 1; i < m; ++i) add(row, q + i * ldq, a[i * ld + j], ldq);
      subtract(top, row, tau[j], 0, ldq);
      for (int64_t i = j + 1; i < m; ++i)
        subtract(q + i * ldq, row, tau[j] * a[i * ld + j], 0, ldq);
    }
  }

  static constexpr SmallMatrixTable<T> table = {lu, cholesky, solve, qr, form_q};
};

}  // namespace
}  // namespace RUSH_ISA

template <>
const SmallMatrixTable<float>* small_matrix_table<Isa::RUSH_ISA, float>() {
  return &RUSH_ISA::Small<float>::table;
}
template <>
const SmallMatrixTable<double>* small_matrix_table<Isa::RUSH_ISA, double>() {
  return &RUSH_ISA::Small<double>::table;
}

}  // namespace rush
