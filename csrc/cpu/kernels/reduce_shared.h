// reduce_shared.h: the CPU's loops for the folds of functors/fold.h. The generated reduce_folds.cpp
// lists them.
#pragma once

#include "cpu/kernels/reduce_loops.h"
#include "functors/fold.h"

namespace rush::RUSH_ISA {

// Elements of type T are folded in double, one by one. A fold that is worth more has loops of its
// own: a specialisation, as below.
template <template <class> class F, class T>
struct CpuFold {
  using Op = F<double>;
  using Acc = typename Op::Acc;
  static_assert(sizeof(Acc) <= folds::kMostAcc);
  static constexpr Acc blank_acc = Op::blank();
  static void merge(Acc& into, const Acc& other) { Op::merge(into, other); }
  static T finish(const Acc& acc, double count, double) { return T(Op::finish(acc, count)); }

  static void row(const char* p, int64_t n, char* acc, double) {
    const T* x = reinterpret_cast<const T*>(p);
    auto& into = *reinterpret_cast<Acc*>(acc);
    // Steps do not wait for each other.
    constexpr int kWays = 8;
    int64_t i = 0;
    if (n >= 2 * kWays) {
      Acc ways[kWays];
      for (Acc& way : ways) way = blank_acc;
      for (; i + kWays <= n; i += kWays) {
        for (int k = 0; k < kWays; ++k) Op::step(ways[k], double(x[i + k]), 0);
      }
      for (const Acc& way : ways) Op::merge(into, way);
    }
    for (; i < n; ++i) Op::step(into, double(x[i]), 0);
  }
  static void columns(const char* p, int64_t row_stride, int64_t rows, int64_t n, char* accs,
                      double) {
    auto* into = reinterpret_cast<Acc*>(accs);
    for (int64_t r = 0; r < rows; ++r) {
      const T* x = reinterpret_cast<const T*>(p + r * row_stride);
      for (int64_t j = 0; j < n; ++j) Op::step(into[j], double(x[j]), 0);
    }
  }
  static constexpr FoldKernel kernel() { return custom_kernel<CpuFold, CpuFold>(); }
};

// The largest element so far and the sum of exp(x - largest); exponentials are vectorised.
template <class T>
struct CpuFold<folds::LogSumExp, T> {
  struct Acc {
    T largest;
    double sum;
  };
  static constexpr Acc blank_acc{kLowest<T>, 0};
  // Infinite peaks are not subtracted: inf - inf would be NaN.
  static T peak(T largest) { return largest - largest == 0 ? largest : T(0); }
  static void merge(Acc& a, const Acc& b) {
    const T top = ExtremeFold<T, true>::join(a.largest, b.largest);
    const double base = peak(top);
    const double mine = a.sum == 0 ? 0 : a.sum * math::exp(double(peak(a.largest)) - base);
    const double other = b.sum == 0 ? 0 : b.sum * math::exp(double(peak(b.largest)) - base);
    a = {top, mine + other};
  }
  static T finish(const Acc& a, double, double) {
    return T(math::log(a.sum) + double(peak(a.largest)));
  }
  static void row(const char* p, int64_t n, char* acc, double) {
    const T* x = reinterpret_cast<const T*>(p);
    for (int64_t i = 0; i < n; i += kRowBlock<T>) {
      const int64_t m = n - i < kRowBlock<T> ? n - i : kRowBlock<T>;
      const T top = block<ExtremeFold<T, true>>(x + i, m), base = peak(top);
      alignas(64) T powers[kRowBlock<T>];
#pragma omp simd
      for (int64_t k = 0; k < m; ++k) powers[k] = math::exp(x[i + k] - base);
      merge(*reinterpret_cast<Acc*>(acc), {top, double(block<SumFold<T>>(powers, m))});
    }
  }
  static void columns(const char* p, int64_t row_stride, int64_t rows, int64_t n, char* accs,
                      double) {
    auto* into = reinterpret_cast<Acc*>(accs);
    for_column_blocks<T>(p, row_stride, rows, n, [&](const ColumnBlock<T>& b) {
      alignas(64) T top[kColumns], base[kColumns], sum[kColumns];
      for (int64_t j = 0; j < b.columns; ++j) top[j] = kLowest<T>, sum[j] = 0;
      for (int64_t r = 0; r < b.rows; ++r) {
        const T* x = b.row(r);
#pragma omp simd
        for (int64_t j = 0; j < b.columns; ++j) top[j] = ExtremeFold<T, true>::join(top[j], x[j]);
      }
      for (int64_t j = 0; j < b.columns; ++j) base[j] = peak(top[j]);
      for (int64_t r = 0; r < b.rows; ++r) {
        const T* x = b.row(r);
#pragma omp simd
        for (int64_t j = 0; j < b.columns; ++j) sum[j] += math::exp(x[j] - base[j]);
      }
      for (int64_t j = 0; j < b.columns; ++j) merge(into[b.first + j], {top[j], double(sum[j])});
    });
  }
  static constexpr FoldKernel kernel() { return custom_kernel<CpuFold, CpuFold>(); }
};

}  // namespace rush::RUSH_ISA
