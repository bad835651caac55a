#include <algorithm>

#include "cpu/kernels/norm_tables.h"

namespace rush {

namespace RUSH_ISA {
namespace {

// Short enough for float32 sums, and for the first-level cache.
constexpr int64_t kPiece = 2048;

template <class T>
struct Norm {
  // Of at most kPiece elements; by is 1 / n.
  static void piece_moments(const T* x, int64_t n, double by, double* mean, double* m2) {
    T sum = 0, squares = 0, rest = 0;  // rest: what rounding the centre left over
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += x[i];
    const T centre = T(double(sum) * by);
#pragma omp simd reduction(+ : squares, rest)
    for (int64_t i = 0; i < n; ++i) {
      const T d = x[i] - centre;
      squares += d * d;
      rest += d;
    }
    *mean = double(centre) + double(rest) * by;
    *m2 = double(squares) - double(rest) * double(rest) * by;
  }

  // Each piece's own moments, joined by Chan's formula: one pass over memory, no cancellation.
  static void moments(const T* x, int64_t n, double* mean, double* m2) {
    double all_mean = 0, all_m2 = 0;
    for (int64_t at = 0; at < n; at += kPiece) {
      const int64_t m = std::min(kPiece, n - at);
      double piece, part;
      piece_moments(x + at, m, 1 / double(m), &piece, &part);
      const double delta = piece - all_mean, share = double(m) / double(at + m);
      all_mean += delta * share;
      all_m2 += part + delta * delta * double(at) * share;
    }
    *mean = all_mean;
    *m2 = all_m2;
  }

  static void squares(const T* x, int64_t n, double* sum) {
    double all = 0;
    for (int64_t at = 0; at < n; at += kPiece) {
      const int64_t m = std::min(kPiece, n - at);
      const T* p = x + at;
      T part = 0;
#pragma omp simd reduction(+ : part)
      for (int64_t i = 0; i < m; ++i) part += p[i] * p[i];
      all += double(part);
    }
    *sum = all;
  }

  static void plane(const T* x, T* y, int64_t n, T mean, T scale, T shift) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale + shift;
  }

  static void plane_sums(const T* g, const T* x, int64_t n, T mean, double* sum_g, double* sum_gx) {
    double all_g = 0, all_gx = 0;
    for (int64_t at = 0; at < n; at += kPiece) {
      const int64_t m = std::min(kPiece, n - at);
      const T *pg = g + at, *px = x + at;
      T a = 0, b = 0;
#pragma omp simd reduction(+ : a, b)
      for (int64_t i = 0; i < m; ++i) {
        a += pg[i];
        b += pg[i] * (px[i] - mean);
      }
      all_g += double(a);
      all_gx += double(b);
    }
    *sum_g = all_g;
    *sum_gx = all_gx;
  }

  static void plane_backward(const T* g, const T* x, T* gx, int64_t n, T mean, T a, T b, T c) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) gx[i] = a * g[i] + b * (x[i] - mean) + c;
  }

  static void row(const T* x, T* y, int64_t n, T mean, T rstd, const T* w, const T* b) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * w[i] + b[i];
  }

  // Rows, each normalised by its own moments; in one call, for most rows are short.
  static void rows(const T* x, T* y, int64_t count, int64_t n, const T* w, const T* b, bool centred,
                   double eps, T* mean, T* rstd) {
    const double by = 1 / double(n);
    for (int64_t i = 0; i < count; ++i, x += n, y += n) {
      double m = 0, m2;
      if (centred && n <= kPiece)
        piece_moments(x, n, by, &m, &m2);
      else if (centred)
        moments(x, n, &m, &m2);
      else
        squares(x, n, &m2);
      const T r = T(1 / __builtin_sqrt(m2 * by + eps));
      mean[i] = T(m);
      rstd[i] = r;
      row(x, y, n, T(m), r, w, b);
    }
  }

  static void row_sums(const T* g, const T* x, const T* w, int64_t n, T mean, double* sum_g,
                       double* sum_gx) {
    double all_g = 0, all_gx = 0;
    for (int64_t at = 0; at < n; at += kPiece) {
      const int64_t m = std::min(kPiece, n - at);
      const T *pg = g + at, *px = x + at, *pw = w + at;
      T a = 0, b = 0;
#pragma omp simd reduction(+ : a, b)
      for (int64_t i = 0; i < m; ++i) {
        const T scaled = pg[i] * pw[i];
        a += scaled;
        b += scaled * (px[i] - mean);
      }
      all_g += double(a);
      all_gx += double(b);
    }
    *sum_g = all_g;
    *sum_gx = all_gx;
  }

  static void row_backward(const T* g, const T* x, const T* w, T* gx, int64_t n, T mean, T a, T b,
                           T c) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) gx[i] = a * g[i] * w[i] + b * (x[i] - mean) + c;
  }

  static void row_weights(const T* g, const T* x, int64_t n, T mean, T rstd, T* gw, T* gb) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      gw[i] += g[i] * (x[i] - mean) * rstd;
      gb[i] += g[i];
    }
  }

  // All gradients of rows, each row while it lies in the cache; gx, gw and gb may be null.
  static void rows_backward(const T* g, const T* x, const T* w, T* gx, int64_t count, int64_t n,
                            const T* mean, const T* rstd, bool centred, T* gw, T* gb) {
    const double by = 1 / double(n);
    for (int64_t i = 0; i < count; ++i, g += n, x += n) {
      if (gx) {
        double a, b;
        row_sums(g, x, w, n, mean[i], &a, &b);
        const double r = double(rstd[i]);
        row_backward(g, x, w, gx, n, mean[i], T(r), T(-r * r * r * b * by),
                     T(centred ? -r * a * by : 0));
        gx += n;
      }
      if (gw) row_weights(g, x, n, mean[i], rstd[i], gw, gb);
    }
  }

  // Four rows between two looks at the sums, which would otherwise wait for each other.
  static void last_sums(const T* x, int64_t rows, int64_t n, const T* shift, T* sum, T* square) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4, x += 4 * n) {
      const T *x1 = x + n, *x2 = x1 + n, *x3 = x2 + n;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const T s = shift[i], a = x[i] - s, b = x1[i] - s, c = x2[i] - s, d = x3[i] - s;
        sum[i] += (a + b) + (c + d);
        square[i] += (a * a + b * b) + (c * c + d * d);
      }
    }
    for (; r < rows; ++r, x += n) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const T d = x[i] - shift[i];
        sum[i] += d;
        square[i] += d * d;
      }
    }
  }

  static void last(const T* x, T* y, int64_t rows, int64_t n, const T* mean, const T* scale,
                   const T* shift) {
    for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean[i]) * scale[i] + shift[i];
    }
  }

  static void last_backward_sums(const T* g, const T* x, int64_t rows, int64_t n, const T* mean,
                                 T* sum_g, T* sum_gx) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4, x += 4 * n, g += 4 * n) {
      const T *x1 = x + n, *x2 = x1 + n, *x3 = x2 + n;
      const T *g1 = g + n, *g2 = g1 + n, *g3 = g2 + n;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const T m = mean[i];
        sum_g[i] += (g[i] + g1[i]) + (g2[i] + g3[i]);
        sum_gx[i] +=
            (g[i] * (x[i] - m) + g1[i] * (x1[i] - m)) + (g2[i] * (x2[i] - m) + g3[i] * (x3[i] - m));
      }
    }
    for (; r < rows; ++r, x += n, g += n) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        sum_g[i] += g[i];
        sum_gx[i] += g[i] * (x[i] - mean[i]);
      }
    }
  }

  static void last_backward(const T* g, const T* x, T* gx, int64_t rows, int64_t n, const T* mean,
                            const T* a, const T* b, const T* c) {
    for (int64_t r = 0; r < rows; ++r, x += n, g += n, gx += n) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) gx[i] = a[i] * g[i] + b[i] * (x[i] - mean[i]) + c[i];
    }
  }

  static constexpr NormTable<T> table = {
      moments,       squares,   plane, plane_sums,         plane_backward, rows,
      rows_backward, last_sums, last,  last_backward_sums, last_backward};
};

}  // namespace
}  // namespace RUSH_ISA

template <>
const NormTable<float>* norm_table<Isa::RUSH_ISA, float>() {
  return &RUSH_ISA::Norm<float>::table;
}
template <>
const NormTable<double>* norm_table<Isa::RUSH_ISA, double>() {
  return &RUSH_ISA::Norm<double>::table;
}

}  // namespace rush
