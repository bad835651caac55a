// gemv.cpp: matrix times vector, and the dot product.
//
// Both wait for memory, so the work is to read it in order: rows of a as dot products, columns as
// multiples added up. Sums run in fixed lanes: their order does not depend on threads.
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

// Adds products of x with elements where they lie, if a vector of them can be loaded from there,
// and otherwise by way of the buffer.
template <class T, class Sums>
RUSH_FN void add_chunk(Sums& sums, int64_t n, const T* p, int64_t stride, const Accumulator<T>* x,
                       Accumulator<T>* buffer) {
  if constexpr (std::is_same_v<T, Accumulator<T>> || std::is_same_v<T, bfloat16>) {
    if (stride == 1) return sums.add(n, p, x);
  }
  widen(n, p, stride, buffer);
  sums.add(n, buffer, x);
}

// Sums of up to kChunk products, in four vectors of lanes that live from chunk to chunk.
template <class A>
struct Lanes {
  static constexpr int W = kVectorBytes / int(sizeof(A));
  using V = typename VectorOf<A, W>::type;
  V lanes[4] = {};
  A rest = 0;

  template <class T>
  RUSH_FN void add(int64_t n, const T* a, const A* b) {
    int64_t i = 0;
    V x, y;
    for (; i + 4 * W <= n; i += 4 * W)
      for (int v = 0; v < 4; ++v) {
        load(x, a + i + v * W);
        load(y, b + i + v * W);
        lanes[v] += x * y;
      }
    for (; i + W <= n; i += W) {
      load(x, a + i);
      load(y, b + i);
      lanes[0] += x * y;
    }
    for (; i < n; ++i) rest += A(a[i]) * b[i];
  }
  RUSH_FN A total() const { return fold<W>((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + rest; }

 private:
  // The upper half is added to the lower one until one lane is left.
  template <int width>
  RUSH_FN static A fold(const typename VectorOf<A, width>::type& v) {
    if constexpr (width == 1) {
      return v[0];
    } else {
      const auto half = [&]<int... i>(std::integer_sequence<int, i...>, auto from) {
        return __builtin_shufflevector(v, v, (decltype(from)::value + i)...);
      };
      constexpr std::make_integer_sequence<int, width / 2> order;
      return fold<width / 2>(half(order, std::integral_constant<int, 0>()) +
                             half(order, std::integral_constant<int, width / 2>()));
    }
  }
};

template <class R>
struct Lanes<complex<R>> {
  static constexpr int W = 8;
  R re[W] = {}, im[W] = {};

  RUSH_FN void add(int64_t n, const complex<R>* a, const complex<R>* b) {
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
  }
  RUSH_FN complex<R> total() const {
    R x = 0, y = 0;
    for (int w = 0; w < W; ++w) x += re[w], y += im[w];
    return {x, y};
  }
};

template <class T>
Accumulator<T> dot(int64_t n, const T* a, int64_t a_stride, const T* b, int64_t b_stride) {
  using A = Accumulator<T>;
  alignas(64) A a_buffer[kChunk], b_buffer[kChunk];
  Lanes<A> sums;
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t count = n - i < kChunk ? n - i : kChunk;
    const A* x = b_buffer;
    if (std::is_same_v<T, A> && b_stride == 1)
      x = reinterpret_cast<const A*>(b + i);
    else
      widen(count, b + i * b_stride, b_stride, b_buffer);
    add_chunk(sums, count, a + i * a_stride, a_stride, x, a_buffer);
  }
  return sums.total();
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
    if (k < Lanes<A>::W) return gemv_by_short_rows(m, k, a, x, y, y_stride, alpha, beta);
  }
  alignas(64) A buffer[kChunk];
  for (int64_t i = 0; i < m; ++i) {
    Lanes<A> sums;
    for (int64_t j = 0; j < k; j += kChunk) {
      const int64_t count = k - j < kChunk ? k - j : kChunk;
      add_chunk(sums, count, a.at(i, j), a.col, x + j, buffer);
    }
    finish(y + i * y_stride, sums.total(), alpha, beta);
  }
}

// Four columns at a time, so that the sums are read and written a quarter as often.
template <class T>
void gemv_by_columns(int64_t m, int64_t k, Matrix<const T> a, const Accumulator<T>* x, T* y,
                     int64_t y_stride, Accumulator<T> alpha, Accumulator<T> beta) {
  using A = Accumulator<T>;
  alignas(64) A sums[kChunk];
  for (int64_t i = 0; i < m; i += kChunk) {
    const int64_t count = m - i < kChunk ? m - i : kChunk;
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
