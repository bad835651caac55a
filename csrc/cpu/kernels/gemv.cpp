// gemv.cpp: matrix times vector, and the dot product.
//
// Both wait for memory, so the work is to read it in order: rows of a as dot products, several at a
// time, because a core fetches further ahead where it reads in several places; columns as multiples
// added up. Sums run in fixed lanes: their order depends neither on threads nor on neighbours.
#include <algorithm>
#include <utility>

#include "cpu/kernels/gemm_vector.h"
#include "cpu/linalg/gemm_kernels.h"

namespace rush::RUSH_ISA {

namespace {

constexpr int64_t kChunk = 512;  // elements brought into the accumulator's type at a time

template <class T>
void widen(int64_t n, const T* from, int64_t stride, Accumulator<T>* to) {
  using A = Accumulator<T>;
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = A(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = A(from[i * stride]);
  }
}

template <class T>
void finish_row(int64_t n, const Accumulator<T>* sums, Accumulator<T> alpha, Accumulator<T> beta,
                T* to, int64_t stride) {
  if (stride == 1 && is_zero(beta)) {
    for (int64_t i = 0; i < n; ++i) to[i] = T(times(alpha, sums[i]));
  } else {
    for (int64_t i = 0; i < n; ++i) finish(to + i * stride, sums[i], alpha, beta);
  }
}

template <class T>
constexpr bool kLoadsAsAccumulator =
    !is_complex_v<T> && (std::is_same_v<T, Accumulator<T>> || std::is_same_v<T, bfloat16>);

// The upper half is added to the lower one until one lane is left.
template <class A, int width>
RUSH_FN A fold(const typename VectorOf<A, width>::type& v) {
  if constexpr (width == 1) {
    return v[0];
  } else {
    const auto half = [&]<int... i>(std::integer_sequence<int, i...>, auto from) {
      return __builtin_shufflevector(v, v, (decltype(from)::value + i)...);
    };
    constexpr std::make_integer_sequence<int, width / 2> order;
    return fold<A, width / 2>(half(order, std::integral_constant<int, 0>()) +
                              half(order, std::integral_constant<int, width / 2>()));
  }
}

// As many rows as there are registers for two vectors of lanes each. Measured beside four rows of
// four: a core gets more out of memory, the more rows it reads. A row by itself wants four.
constexpr int kRowsAtOnce = kVectorBytes == 64 ? 8 : 4, kOfRows = 2, kAlone = 4;

// Sums of the products of `rows` rows of a with b, in so many vectors of lanes each.
template <int rows, int vectors, class A, class T>
RUSH_FN void sum_rows(int64_t n, const T* a, int64_t step, const A* b, A* sums) {
  constexpr int W = kVectorBytes / int(sizeof(A));
  typename VectorOf<A, W>::type lanes[rows][vectors] = {}, x, y;
  int64_t i = 0;
  for (; i + vectors * W <= n; i += vectors * W)
    for (int v = 0; v < vectors; ++v) {
      load(y, b + i + v * W);
      for (int r = 0; r < rows; ++r) {
        load(x, a + r * step + i + v * W);
        lanes[r][v] += x * y;
      }
    }
  for (; i + W <= n; i += W) {
    load(y, b + i);
    for (int r = 0; r < rows; ++r) {
      load(x, a + r * step + i);
      lanes[r][0] += x * y;
    }
  }
  for (int r = 0; r < rows; ++r) {
    x = lanes[r][0] + lanes[r][1];
    if constexpr (vectors == 4) x += lanes[r][2] + lanes[r][3];
    sums[r] = fold<A, W>(x);
  }
  for (; i < n; ++i)
    for (int r = 0; r < rows; ++r) sums[r] += A(a[r * step + i]) * b[i];
}

template <int rows, int, class R>
RUSH_FN void sum_rows(int64_t n, const complex<R>* a, int64_t, const complex<R>* b,
                      complex<R>* sums) {
  static_assert(rows == 1);
  constexpr int W = 8;
  R re[W] = {}, im[W] = {};
  int64_t i = 0;
  for (; i + W <= n; i += W)
    for (int w = 0; w < W; ++w) {
      re[w] += a[i + w].re * b[i + w].re - a[i + w].im * b[i + w].im;
      im[w] += a[i + w].re * b[i + w].im + a[i + w].im * b[i + w].re;
    }
  for (; i < n; ++i) {
    re[0] += a[i].re * b[i].re - a[i].im * b[i].im;
    im[0] += a[i].re * b[i].im + a[i].im * b[i].re;
  }
  R x = 0, y = 0;
  for (int w = 0; w < W; ++w) x += re[w], y += im[w];
  sums[0] = {x, y};
}

// The same of one row with x, which lies in order, by way of a buffer if elements cannot be loaded
// from where they lie.
template <int vectors, class T>
Accumulator<T> sum_row(int64_t n, const T* a, int64_t stride, const Accumulator<T>* x) {
  using A = Accumulator<T>;
  A sum(0);
  if constexpr (kLoadsAsAccumulator<T> || std::is_same_v<T, A>) {
    if (stride == 1) {
      sum_rows<1, vectors>(n, a, 0, x, &sum);
      return sum;
    }
  }
  alignas(64) A buffer[kChunk];
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t count = std::min(kChunk, n - i);
    widen(count, a + i * stride, stride, buffer);
    A part;
    sum_rows<1, vectors>(count, buffer, 0, x + i, &part);
    sum = plus(sum, part);
  }
  return sum;
}

template <class T>
Accumulator<T> dot(int64_t n, const T* a, int64_t a_stride, const T* b, int64_t b_stride) {
  using A = Accumulator<T>;
  if constexpr (std::is_same_v<T, A>) {
    if (b_stride == 1) return sum_row<kAlone>(n, a, a_stride, b);
  }
  alignas(64) A buffer[kChunk];
  A sum(0);
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t count = std::min(kChunk, n - i);
    widen(count, b + i * b_stride, b_stride, buffer);
    sum = plus(sum, sum_row<kAlone>(count, a + i * a_stride, a_stride, buffer));
  }
  return sum;
}

// Rows that are shorter than a vector: the same sums in the same order, without empty lanes.
template <class T>
void gemv_by_short_rows(int64_t m, int64_t k, Matrix<const T> a, const Accumulator<T>* x, T* y,
                        int64_t y_stride, Accumulator<T> alpha, Accumulator<T> beta) {
  const bool plain = y_stride == 1 && is_zero(beta);
  for (int64_t i = 0; i < m; ++i) {
    const T* row = a.at(i, 0);
    Accumulator<T> sum(0);
    for (int64_t j = 0; j < k; ++j) sum += Accumulator<T>(row[j * a.col]) * x[j];
    if (plain)
      y[i] = T(times(alpha, sum));
    else
      finish(y + i * y_stride, sum, alpha, beta);
  }
}

template <class T>
void gemv_by_rows(int64_t m, int64_t k, Matrix<const T> a, const Accumulator<T>* x, T* y,
                  int64_t y_stride, Accumulator<T> alpha, Accumulator<T> beta) {
  using A = Accumulator<T>;
  if constexpr (!is_complex_v<T>) {
    if (k < kVectorBytes / int64_t(sizeof(A)))
      return gemv_by_short_rows(m, k, a, x, y, y_stride, alpha, beta);
  }
  int64_t i = 0;
  if constexpr (kLoadsAsAccumulator<T>) {
    for (; a.col == 1 && i + kRowsAtOnce <= m; i += kRowsAtOnce) {
      A sums[kRowsAtOnce];
      sum_rows<kRowsAtOnce, kOfRows>(k, a.at(i, 0), a.row, x, sums);
      for (int r = 0; r < kRowsAtOnce; ++r) finish(y + (i + r) * y_stride, sums[r], alpha, beta);
    }
  }
  for (; i < m; ++i)
    finish(y + i * y_stride, sum_row<kOfRows>(k, a.at(i, 0), a.col, x), alpha, beta);
}

// Four columns at a time, so that the sums are read and written a quarter as often.
template <class T>
void gemv_by_columns(int64_t m, int64_t k, Matrix<const T> a, const Accumulator<T>* x, T* y,
                     int64_t y_stride, Accumulator<T> alpha, Accumulator<T> beta) {
  using A = Accumulator<T>;
  alignas(64) A sums[kChunk];
  for (int64_t i = 0; i < m; i += kChunk) {
    const int64_t count = std::min(kChunk, m - i);
    for (int64_t r = 0; r < count; ++r) sums[r] = A(0);
    int64_t j = 0;
    if constexpr (!is_complex_v<T>) {
      for (; j + 4 <= k; j += 4) {
        const T *a0 = a.at(i, j), *a1 = a0 + a.col, *a2 = a1 + a.col, *a3 = a2 + a.col;
        const A x0 = x[j], x1 = x[j + 1], x2 = x[j + 2], x3 = x[j + 3];
#pragma omp simd
        for (int64_t r = 0; r < count; ++r) {
          A sum = sums[r];
          sum += x0 * A(a0[r]);
          sum += x1 * A(a1[r]);
          sum += x2 * A(a2[r]);
          sum += x3 * A(a3[r]);
          sums[r] = sum;
        }
      }
    }
    for (; j < k; ++j) {
      const T* column = a.at(i, j);
      for (int64_t r = 0; r < count; ++r) sums[r] = plus(sums[r], times(x[j], A(column[r])));
    }
    finish_row(count, sums, alpha, beta, y + i * y_stride, y_stride);
  }
}

template <class T>
void gemv(int64_t m, int64_t k, Matrix<const T> a, const Accumulator<T>* x, T* y, int64_t y_stride,
          Accumulator<T> alpha, Accumulator<T> beta) {
  if (a.row == 1 && a.col != 1)
    gemv_by_columns(m, k, a, x, y, y_stride, alpha, beta);
  else
    gemv_by_rows(m, k, a, x, y, y_stride, alpha, beta);
}

}  // namespace

template <class T>
GemmKernels<T> vector_table() {
  GemmKernels<T> table{};
  table.gemv = gemv<T>;
  table.dot = dot<T>;
  table.widen = widen<T>;
  table.finish_row = finish_row<T>;
  return table;
}

template GemmKernels<float> vector_table();
template GemmKernels<double> vector_table();
template GemmKernels<half> vector_table();
template GemmKernels<bfloat16> vector_table();
template GemmKernels<complex<float>> vector_table();
template GemmKernels<complex<double>> vector_table();
template GemmKernels<uint8_t> vector_table();
template GemmKernels<int8_t> vector_table();
template GemmKernels<int16_t> vector_table();
template GemmKernels<int32_t> vector_table();
template GemmKernels<int64_t> vector_table();

}  // namespace rush::RUSH_ISA
