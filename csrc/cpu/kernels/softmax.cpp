#include "cpu/kernels/softmax_tables.h"

#include <algorithm>

#include "functors/math.h"

namespace rush {

namespace RUSH_ISA {
namespace {

// Sums of float32 are taken in float32 over pieces of this many elements, in double across them.
constexpr int64_t kPiece = 4096;

template <class T>
struct Softmax {
  static T largest(const T* x, int64_t n) {
    T most = -limits<T>::inf;
    bool nan = false;
#pragma omp simd reduction(max : most) reduction(| : nan)
    for (int64_t i = 0; i < n; ++i) {
      most = x[i] > most ? x[i] : most;
      nan |= x[i] != x[i];
    }
    return nan ? limits<T>::nan : most;
  }

  template <class F>
  static double in_pieces(int64_t n, F&& f) {
    double all = 0;
    for (int64_t at = 0; at < n; at += kPiece) all += double(f(at, std::min(at + kPiece, n)));
    return all;
  }

  static void softmax(const T* x, T* y, int64_t n) {
    const T most = largest(x, n);
    const double all = in_pieces(n, [=](int64_t i, int64_t end) {
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t k = i; k < end; ++k) {
        const T e = math::exp(x[k] - most);
        y[k] = e;
        sum += e;
      }
      return sum;
    });
    const T by = T(1 / all);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = y[i] * by;
  }

  static T log_sum_exp(const T* x, int64_t n) {
    const T most = largest(x, n);
    // All -inf: the sum is zero, and differences of infinities must not get into it.
    const T shift = most == -limits<T>::inf || most == limits<T>::inf ? T(0) : most;
    const double all = in_pieces(n, [=](int64_t i, int64_t end) {
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t k = i; k < end; ++k) sum += math::exp(x[k] - shift);
      return sum;
    });
    return T(math::log(all)) + shift;
  }

  static void log_softmax(const T* x, T* y, int64_t n) {
    const T total = log_sum_exp(x, n);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] - total;
  }

  static void softmax_backward(const T* g, const T* y, T* gx, int64_t n) {
    const T total = T(in_pieces(n, [=](int64_t i, int64_t end) {
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t k = i; k < end; ++k) sum += g[k] * y[k];
      return sum;
    }));
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) gx[i] = y[i] * (g[i] - total);
  }

  static void log_softmax_backward(const T* g, const T* y, T* gx, int64_t n) {
    const T total = weighted_sum(g, nullptr, n);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) gx[i] = g[i] - math::exp(y[i]) * total;
  }

  static T weighted_sum(const T* x, const T* w, int64_t n) {
    return T(in_pieces(n, [=](int64_t i, int64_t end) {
      T sum = 0;
      if (w) {
#pragma omp simd reduction(+ : sum)
        for (int64_t k = i; k < end; ++k) sum += x[k] * w[k];
      } else {
#pragma omp simd reduction(+ : sum)
        for (int64_t k = i; k < end; ++k) sum += x[k];
      }
      return sum;
    }));
  }

  static void scaled_softmax(const T* x, T* y, int64_t n, T shift, T a, T b, const T* w) {
    if (w && b != 0) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = a * math::exp(x[i] - shift) - b * w[i];
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = a * math::exp(x[i] - shift) - b;
    }
  }

  static void column_log_sum_exp(const T* x, int64_t classes, int64_t stride, int64_t n, T* out) {
    T most[kColumns], sum[kColumns];
    std::copy_n(x, n, most);
    for (int64_t c = 1; c < classes; ++c) {
      const T* row = x + c * stride;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) most[i] = row[i] > most[i] ? row[i] : most[i];
    }
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      most[i] = fabs(most[i]) == limits<T>::inf ? T(0) : most[i];
      sum[i] = 0;
    }
    for (int64_t c = 0; c < classes; ++c) {
      const T* row = x + c * stride;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) sum[i] += math::exp(row[i] - most[i]);
    }
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = math::log(sum[i]) + most[i];
  }

  static void column_scaled_softmax(const T* x, T* y, int64_t n, const T* shift, const T* a, T w,
                                    const T* b) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = a[i] * math::exp(x[i] - shift[i]) - w * b[i];
  }

  static T fabs(T x) { return x < 0 ? -x : x; }

  static constexpr SoftmaxTable<T> table = {softmax,
                                            log_softmax,
                                            softmax_backward,
                                            log_softmax_backward,
                                            log_sum_exp,
                                            weighted_sum,
                                            scaled_softmax,
                                            column_log_sum_exp,
                                            column_scaled_softmax};
};

}  // namespace
}  // namespace RUSH_ISA

template <>
const SoftmaxTable<float>* softmax_table<Isa::RUSH_ISA, float>() {
  return &RUSH_ISA::Softmax<float>::table;
}
template <>
const SoftmaxTable<double>* softmax_table<Isa::RUSH_ISA, double>() {
  return &RUSH_ISA::Softmax<double>::table;
}

}  // namespace rush
