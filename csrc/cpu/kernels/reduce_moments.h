// reduce_moments.h: variance and p-norms: folds with loops of their own.
#pragma once

#include "cpu/kernels/reduce_loops.h"

namespace rush::RUSH_ISA {

// Mean and sum of squared deviations, two passes over a block that is in the cache, blocks merged
// by Chan's formula: as exact as two passes over everything, and memory is read once.
template <class T>
struct VarFold {
  using Element = T;
  struct Acc {
    double count, mean, squares;
  };
  static constexpr Acc blank_acc{};
  static void merge(Acc& a, const Acc& b) {
    if (b.count == 0) return;
    if (a.count == 0) {
      a = b;
      return;
    }
    const double total = a.count + b.count, gap = b.mean - a.mean;
    a.mean += gap * (b.count / total);
    a.squares += b.squares + gap * gap * (a.count * b.count / total);
    a.count = total;
  }
  // param: what to divide by; negative asks for the mean. `root`: 1 for the standard deviation.
  static T finish(const Acc& a, double root, double param) {
    if (param < 0) return T(a.count > 0 ? a.mean : limits<double>::nan);
    const double variance = a.squares / param;
    return T(root == 1 ? math::sqrt(variance) : variance);
  }

  // Did squares of T leave its range, above or below? (As 1e30 and 1e-30 do in float.)
  static bool left_range(double squares, double count) {
    if constexpr (sizeof(T) == sizeof(double)) return false;
    return !(squares < double(limits<T>::max)) || squares < 1e-28 * count;
  }
  // The same in double, for a block where that happened: a row of n, `step` elements apart.
  static Acc in_double(const T* x, int64_t n, int64_t step) {
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < n; ++k) sum += double(x[k * step]);
    const double mean = sum / double(n);
    for (int64_t k = 0; k < n; ++k) {
      const double gap = double(x[k * step]) - mean;
      squares += gap * gap;
    }
    return {double(n), mean, squares};
  }

  static void row(const char* p, int64_t n, char* acc, double) {
    const T* x = reinterpret_cast<const T*>(p);
    auto& into = *reinterpret_cast<Acc*>(acc);
    for (int64_t i = 0; i < n; i += kRowBlock<T>) {
      const int64_t m = n - i < kRowBlock<T> ? n - i : kRowBlock<T>;
      const double sum = block<SumFold<T>>(x + i, m);
      const double mean = sum / double(m);
      const T center = T(mean);
      using V = typename Vector<T>::type;
      constexpr int width = Vector<T>::width;
      V squares[2] = {}, gaps[2] = {};
      int64_t k = 0;
      for (; k + 2 * width <= m; k += 2 * width) {
        for (int h = 0; h < 2; ++h) {
          const V gap = load(x + i + k + h * width) - center;
          squares[h] += gap * gap;
          gaps[h] += gap;
        }
      }
      squares[0] += squares[1];
      gaps[0] += gaps[1];
      double square = 0, drift = 0;
      for (int h = 0; h < width; ++h) square += squares[0][h], drift += gaps[0][h];
      for (; k < m; ++k) {
        const double gap = double(x[i + k]) - double(center);
        square += gap * gap;
        drift += gap;
      }
      if (left_range(square, double(m))) {
        merge(into, in_double(x + i, m, 1));
        continue;
      }
      // The center was rounded; the mean gap puts both right.
      const double shift = drift / double(m);
      merge(into, {double(m), double(center) + shift, square - shift * drift});
    }
  }
  static void columns(const char* p, int64_t row_stride, int64_t rows, int64_t n, char* accs,
                      double) {
    auto* into = reinterpret_cast<Acc*>(accs);
    for_column_blocks<T>(p, row_stride, rows, n, [&](const ColumnBlock<T>& b) {
      alignas(64) T center[kColumns], squares[kColumns], drift[kColumns];
      for (int64_t j = 0; j < b.columns; ++j) center[j] = squares[j] = drift[j] = 0;
      for (int64_t r = 0; r < b.rows; ++r) {
        const T* x = b.row(r);
#pragma omp simd
        for (int64_t j = 0; j < b.columns; ++j) center[j] += x[j];
      }
      const T share = T(1) / T(b.rows);
      for (int64_t j = 0; j < b.columns; ++j) center[j] *= share;
      for (int64_t r = 0; r < b.rows; ++r) {
        const T* x = b.row(r);
#pragma omp simd
        for (int64_t j = 0; j < b.columns; ++j) {
          const T gap = x[j] - center[j];
          squares[j] += gap * gap;
          drift[j] += gap;
        }
      }
      const double count = double(b.rows);
      for (int64_t j = 0; j < b.columns; ++j) {
        if (left_range(double(squares[j]), count)) {
          merge(into[b.first + j],
                in_double(b.row(0) + j, b.rows, row_stride / int64_t(sizeof(T))));
          continue;
        }
        const double shift = double(drift[j]) / count;
        merge(into[b.first + j],
              {count, double(center[j]) + shift, double(squares[j]) - shift * double(drift[j])});
      }
    });
  }
};

// |x|^p into a buffer, then a plain sum of it.
template <class T>
struct NormPFold : SumFold<T> {
  using Acc = typename SumFold<T>::Acc;
  static T finish(const Acc& acc, double, double p) {
    return T(math::pow(double(acc.value()), 1 / p));
  }
  static void powers(const T* x, T* out, int64_t n, T p) {
#pragma omp simd
    for (int64_t k = 0; k < n; ++k) out[k] = math::pow(math::fabs(x[k]), p);
  }
  static void row(const char* p, int64_t n, char* acc, double param) {
    const T* x = reinterpret_cast<const T*>(p);
    alignas(64) T buffer[kRowBlock<T>];
    for (int64_t i = 0; i < n; i += kRowBlock<T>) {
      const int64_t m = n - i < kRowBlock<T> ? n - i : kRowBlock<T>;
      powers(x + i, buffer, m, T(param));
      SumFold<T>::fold(*reinterpret_cast<Acc*>(acc), block<SumFold<T>>(buffer, m));
    }
  }
  static void columns(const char* p, int64_t row_stride, int64_t rows, int64_t n, char* accs,
                      double param) {
    auto* into = reinterpret_cast<Acc*>(accs);
    alignas(64) T buffer[kColumns];
    for (int64_t r = 0; r < rows; ++r) {
      const T* x = reinterpret_cast<const T*>(p + r * row_stride);
      for (int64_t c = 0; c < n; c += kColumns) {
        const int64_t m = n - c < kColumns ? n - c : kColumns;
        powers(x + c, buffer, m, T(param));
        for (int64_t j = 0; j < m; ++j) SumFold<T>::fold(into[c + j], buffer[j]);
      }
    }
  }
};

}  // namespace rush::RUSH_ISA
