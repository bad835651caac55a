// gemm.cpp: products by our own hands.
//
// - `tiny` keeps b in a small padded buffer and a row of sums in registers.
// - `blocked` cuts the product into tiles whose parts stay in the second-level cache. a and b are
//   packed into panels of the accumulator's type, which deals with strides, half types and narrow
//   integers at once; sums stay in a tile of the accumulator's type until all of k is done.
// - A sum's order depends on k alone, so cutting c among threads does not change a bit of it.
#include "core/interrupt.h"
#include "cpu/kernels/gemm_vector.h"
#include "cpu/linalg/gemm_kernels.h"

namespace rush::RUSH_ISA {

namespace {

// Sizes of a tile. kRows suits 12 and 6 rows of registers.
constexpr int64_t kRows = 96, kColumns = 256, kDepth = 256;

// ---- tiny --------------------------------------------------------------------------------------

// Rows of c, R at once, from b's rows padded to W.
template <int R, int W, class T>
RUSH_FN void tiny_rows(const Product<T>& p, int64_t i, const Accumulator<T>* b) {
  using A = Accumulator<T>;
  using V = typename VectorOf<A, W>::type;
  V sums[R] = {};
  for (int64_t k = 0; k < p.k; ++k) {
    V row;
    load(row, b + k * W);
    for (int r = 0; r < R; ++r) sums[r] += A(*p.a.at(i + r, k)) * row;
  }
  for (int r = 0; r < R; ++r) {
    if (std::is_same_v<T, A> && p.c.col == 1 && p.n == W && is_zero(p.beta)) {
      store(reinterpret_cast<A*>(p.c.at(i + r, 0)), p.alpha * sums[r]);
    } else {
      A out[W];
      store(out, sums[r]);
      for (int64_t j = 0; j < p.n; ++j) finish(p.c.at(i + r, j), out[j], p.alpha, p.beta);
    }
  }
}

template <int W, class T>
void tiny_width(const Product<T>& p) {
  using A = Accumulator<T>;
  A buffer[kTinyProduct<T> * W];
  const A* b = buffer;
  if (std::is_same_v<T, A> && p.b.col == 1 && p.n == W && p.b.row == W) {
    b = reinterpret_cast<const A*>(p.b.data);
  } else {
    for (int64_t k = 0; k < p.k; ++k) {
      const T* row = p.b.at(k, 0);
      for (int64_t j = 0; j < W; ++j) buffer[k * W + j] = j < p.n ? A(row[j * p.b.col]) : A(0);
    }
  }
  int64_t i = 0;
  for (; i + 4 <= p.m; i += 4) tiny_rows<4, W>(p, i, b);
  for (; i < p.m; ++i) tiny_rows<1, W>(p, i, b);
}

template <class T>
void tiny(const Product<T>& p) {
  if constexpr (is_complex_v<T>) {
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        T sum(0);
        for (int64_t k = 0; k < p.k; ++k) sum = plus(sum, times(*p.a.at(i, k), *p.b.at(k, j)));
        finish(p.c.at(i, j), sum, p.alpha, p.beta);
      }
  } else {
    if (p.n <= 4) return tiny_width<4>(p);
    if (p.n <= 8) return tiny_width<8>(p);
    if constexpr (sizeof(Accumulator<T>) == 4) {
      tiny_width<16>(p);
    } else {  // 16 of these would not stay in registers
      tiny_width<8>(p.columns(0, 8));
      tiny_width<8>(p.columns(8, p.n));
    }
  }
}

// ---- blocked -----------------------------------------------------------------------------------

// A panel holds, for each k, `Width` neighbours of the other index; what is missing is 0. Complex
// numbers are split: all real parts of the neighbours, then all imaginary ones.
template <int Width, class T, class R>
void pack(int64_t count, int64_t depth, const T* from, int64_t stride, int64_t k_stride, R* to) {
  constexpr int parts = is_complex_v<T> ? 2 : 1;
  for (int64_t start = 0; start < count; start += Width) {
    const int64_t w = count - start < Width ? count - start : Width;
    for (int64_t k = 0; k < depth; ++k) {
      const T* p = from + start * stride + k * k_stride;
      if constexpr (parts == 2) {
        for (int64_t i = 0; i < Width; ++i) to[i] = i < w ? p[i * stride].re : R(0);
        for (int64_t i = 0; i < Width; ++i) to[Width + i] = i < w ? p[i * stride].im : R(0);
      } else if (w == Width && stride == 1) {
        for (int64_t i = 0; i < Width; ++i) to[i] = R(p[i]);
      } else {
        for (int64_t i = 0; i < w; ++i) to[i] = R(p[i * stride]);
        for (int64_t i = w; i < Width; ++i) to[i] = R(0);
      }
      to += Width * parts;
    }
  }
}

// Register tiles: MR rows by two vectors, or by one for complex numbers, whose sums come in two.
template <class A>
struct Shape {
  using R = A;
  static constexpr int W = kVectorBytes / int(sizeof(A)), NR = 2 * W,
                       MR = kVectorBytes == 64 ? 12 : 6;
  static constexpr int parts = 1;
};
template <class F>
struct Shape<complex<F>> {
  using R = F;
  static constexpr int W = kVectorBytes / int(sizeof(F)), NR = W, MR = kVectorBytes == 64 ? 12 : 6;
  static constexpr int parts = 2;
};

// sums[MR][NR] (real ones, then imaginary ones for complex) += panel of a times panel of b.
template <class A>
void multiply_panels(int64_t depth, const typename Shape<A>::R* a, const typename Shape<A>::R* b,
                     typename Shape<A>::R* sums, int64_t stride, bool first) {
  using S = Shape<A>;
  using V = typename VectorOf<typename S::R, S::W>::type;
  V x[S::MR], y[S::MR];
  for (int i = 0; i < S::MR; ++i) x[i] = y[i] = V{};
  for (int64_t k = 0; k < depth; ++k) {
    V b0, b1;
    load(b0, b);
    load(b1, b + S::W);
#pragma GCC unroll 12
    for (int i = 0; i < S::MR; ++i) {
      if constexpr (S::parts == 2) {
        const V re = a[i] - V{}, im = a[S::MR + i] - V{};
        x[i] += re * b0 - im * b1;
        y[i] += re * b1 + im * b0;
      } else {
        x[i] += a[i] * b0;
        y[i] += a[i] * b1;
      }
    }
    a += S::MR * S::parts;
    b += S::NR * S::parts;
  }
#pragma GCC unroll 12
  for (int i = 0; i < S::MR; ++i) {
    typename S::R* row = sums + i * stride;
    if (!first) {
      V before;
      load(before, row);
      x[i] += before;
      load(before, row + S::W);
      y[i] += before;
    }
    store(row, x[i]);
    store(row + S::W, y[i]);
  }
}

template <class A>
constexpr int64_t padded_rows = (kRows + Shape<A>::MR - 1) / Shape<A>::MR * Shape<A>::MR;

// One tile of c: rows and columns at most kRows and kColumns.
template <class T>
void multiply_tile(const Product<T>& p, typename Shape<Accumulator<T>>::R* scratch) {
  using A = Accumulator<T>;
  using S = Shape<A>;
  typename S::R* const a = scratch;
  typename S::R* const b = a + padded_rows<A> * kDepth * S::parts;
  typename S::R* const sums = b + kColumns * kDepth * S::parts;
  constexpr int64_t stride = kColumns * S::parts;
  for (int64_t k = 0; k < p.k; k += kDepth) {
    if (k > 0) check_interrupt();
    const int64_t depth = p.k - k < kDepth ? p.k - k : kDepth;
    pack<S::MR>(p.m, depth, p.a.at(0, k), p.a.row, p.a.col, a);
    pack<S::NR>(p.n, depth, p.b.at(k, 0), p.b.col, p.b.row, b);
    for (int64_t j = 0; j < p.n; j += S::NR)
      for (int64_t i = 0; i < p.m; i += S::MR)
        multiply_panels<A>(depth, a + i * depth * S::parts, b + j * depth * S::parts,
                           sums + i * stride + j * S::parts, stride, k == 0);
  }
  for (int64_t i = 0; i < p.m; ++i) {
    const typename S::R* row = sums + i * stride;
    for (int64_t j = 0; j < p.n; ++j) {
      if constexpr (S::parts == 2) {
        const typename S::R* group = row + j / S::NR * (2 * S::NR) + j % S::NR;
        finish(p.c.at(i, j), A(group[0], group[S::NR]), p.alpha, p.beta);
      } else {
        finish(p.c.at(i, j), row[j], p.alpha, p.beta);
      }
    }
  }
}

template <class T>
constexpr size_t scratch_bytes() {
  using A = Accumulator<T>;
  return sizeof(A) * (padded_rows<A> * kDepth + kColumns * kDepth + padded_rows<A> * kColumns);
}

template <class T>
void blocked(const Product<T>& p, void* scratch) {
  using R = typename Shape<Accumulator<T>>::R;
  for (int64_t j = 0; j < p.n; j += kColumns) {
    const Product<T> strip = p.columns(j, p.n - j < kColumns ? p.n : j + kColumns);
    for (int64_t i = 0; i < p.m; i += kRows) {
      if (i + j > 0) check_interrupt();
      multiply_tile(strip.rows(i, p.m - i < kRows ? p.m : i + kRows), static_cast<R*>(scratch));
    }
  }
}

}  // namespace

template <class T>
GemmKernels<T> vector_table();  // gemv.cpp

template <class T>
GemmKernels<T> gemm_table() {
  GemmKernels<T> table = vector_table<T>();
  table.tiny = tiny<T>;
  table.blocked = blocked<T>;
  table.scratch_bytes = scratch_bytes<T>();
  return table;
}

template GemmKernels<float> gemm_table();
template GemmKernels<double> gemm_table();
template GemmKernels<half> gemm_table();
template GemmKernels<bfloat16> gemm_table();
template GemmKernels<complex<float>> gemm_table();
template GemmKernels<complex<double>> gemm_table();
template GemmKernels<uint8_t> gemm_table();
template GemmKernels<int8_t> gemm_table();
template GemmKernels<int16_t> gemm_table();
template GemmKernels<int32_t> gemm_table();
template GemmKernels<int64_t> gemm_table();

}  // namespace rush::RUSH_ISA
