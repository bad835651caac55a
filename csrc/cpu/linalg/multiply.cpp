// multiply.cpp: who does a product.
//
//   up to 16 x 16 x 16          our own `tiny` kernel (complex: up to 6), no call into a library
//   one row or one column       our own gemv
//   float32                     OpenBLAS or oneDNN; see the table below
//   float64, complex            OpenBLAS, cut into one piece per thread
//   bfloat16, float16           oneDNN where the processor has bfloat16; else float32 in blocks
//   integers, or no library     our own `blocked` kernel, cut into one piece per thread
//
// Libraries want one unit stride in each operand and rows of c end to end. with_blas_operands
// brings a product into that form: by reading transposes as such, and by copying only what has to
// be.
#include "cpu/linalg/multiply.h"

#include <algorithm>
#include <vector>

#include "core/threads.h"
#include "cpu/linalg/gemm_kernels.h"
#include "cpu/scratch.h"
#include "cpu/vendor/onednn_matmul.h"
#include "cpu/vendor/openblas.h"

namespace rush {

namespace {

// Multiply-adds that are worth a thread of their own: about 5 us of one core's work.
constexpr int64_t kWorkPerThread = 64 * 64 * 64;
// Below this we widen to float ourselves. Measured: 1.3 us at 32^3, 4.1 at 48^3, where oneDNN's
// bfloat16 takes 2.7; oneDNN was not timed below that.
constexpr int64_t kSmallBfloat16 = 40 * 40 * 40;
// Up to this we cut a product for oneDNN, so that it need not wait for threads that do not run; see
// Note [Threads that do not run] in core/parallel.cpp.
constexpr int64_t kCutByUs = 20'000'000;
// Below this, packing strided operands ourselves beats copying them for a library.
constexpr int64_t kSmallStrided = 64 * 64 * 64;

template <class T>
double work(const Product<T>& p) {
  return double(p.m) * double(p.n) * double(p.k);
}

// Runs pieces of the product, cut along the longer side of c, on all threads.
template <class T, class F>
void in_pieces(const Product<T>& p, F&& run) {
  const double line = work(p) / double(std::max(p.m, p.n));  // multiply-adds of one row or column
  const int64_t grain = std::max<int64_t>(16, int64_t(kWorkPerThread / std::max(line, 1.0)));
  if (p.m >= p.n)
    parallel_for_whole(p.m, grain, [&](int64_t begin, int64_t end) { run(p.rows(begin, end)); });
  else
    parallel_for_whole(p.n, grain, [&](int64_t begin, int64_t end) { run(p.columns(begin, end)); });
}

template <class T>
void multiply_ourselves(const Product<T>& p) {
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  in_pieces(p, [&](const Product<T>& piece) {
    const Scratch<char> scratch(int64_t(kernels.scratch_bytes));
    kernels.blocked(piece, scratch.get());
  });
}

// ---- operands as BLAS takes them ---------------------------------------------------------------

// The stride over a size of 1 means nothing; give it a value that libraries accept.
template <class T>
Matrix<T> with_plain_strides(Matrix<T> x, int64_t rows, int64_t cols) {
  if (cols == 1) x.col = 1;
  if (rows == 1) x.row = x.col == 1 ? cols : 1;
  return x;
}

// A copy of the matrix with rows end to end, or columns where those were nearer to it.
template <class T, class To>
Matrix<const To> copy_matrix(const Matrix<const T>& x, int64_t rows, int64_t cols, To* to) {
  if (x.row < x.col) return copy_matrix(x.transposed(), cols, rows, to).transposed();
  const int64_t grain = std::max<int64_t>(1, (1 << 15) / cols);
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if constexpr (std::is_same_v<To, Accumulator<T>>) {
        gemm_kernels<T>().widen(cols, x.at(i, 0), x.col, to + i * cols);
      } else {
        for (int64_t j = 0; j < cols; ++j) to[i * cols + j] = *x.at(i, j);
      }
    }
  });
  return {to, cols, 1};
}

// c = beta * c + alpha * sums, where sums lie end to end.
template <class T>
void finish_matrix(const Product<T>& p, const Accumulator<T>* sums) {
  const int64_t grain = std::max<int64_t>(1, (1 << 15) / p.n);
  parallel_for(p.m, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      gemm_kernels<T>().finish_row(p.n, sums + i * p.n, p.alpha, p.beta, p.c.at(i, 0), p.c.col);
  });
}

// Calls run(q) with the same product in a form that suits_blas, with q.c.col == 1.
template <class T, class F>
void with_blas_operands(Product<T> p, F&& run) {
  p.a = with_plain_strides(p.a, p.m, p.k);
  p.b = with_plain_strides(p.b, p.k, p.n);
  p.c = with_plain_strides(p.c, p.m, p.n);
  if (p.c.col != 1 && suits_blas(p.c, p.m, p.n)) p = p.transposed();
  const bool a_fits = suits_blas(p.a, p.m, p.k), b_fits = suits_blas(p.b, p.k, p.n);
  const bool c_fits = p.c.col == 1 && p.c.row >= p.n;
  if (a_fits && b_fits && c_fits) return run(p);
  if (work(p) <= kSmallStrided) return multiply_ourselves(p);

  const Scratch<T> a(a_fits ? 0 : p.m * p.k), b(b_fits ? 0 : p.k * p.n);
  if (!a_fits) p.a = copy_matrix(p.a, p.m, p.k, a.get());
  if (!b_fits) p.b = copy_matrix(p.b, p.k, p.n, b.get());
  if (c_fits) return run(p);
  if constexpr (std::is_same_v<T, Accumulator<T>>) {
    const Scratch<T> c(p.m * p.n);
    run({p.m, p.n, p.k, p.a, p.b, {c.get(), p.n, 1}, T(1), T(0)});
    finish_matrix(p, c.get());
  } else {
    multiply_ourselves(p);
  }
}

// ---- one type at a time ------------------------------------------------------------------------

template <class T>
bool fits_openblas(const Product<T>& p) {
  constexpr int64_t most = (int64_t{1} << 31) - 1;
  return has_openblas() &&
         std::max({p.m, p.n, p.k, p.a.row, p.a.col, p.b.row, p.b.col, p.c.row}) <= most;
}

template <class T>
void by_openblas(const Product<T>& p) {
  if (!fits_openblas(p)) return multiply_ourselves(p);
  in_pieces(p, [](const Product<T>& piece) { openblas_gemm(piece); });
}

// Which library for float32: measured on two cores of a Zen 4 (AVX-512), oneDNN 3.2 against
// OpenBLAS 0.3.34 on one thread. The least of 41 runs (*: of 15) in us, on a machine that was busy
// with other work; for two threads two such series, which disagree below 112.
//
//     m x n x k             one thread           two threads
//                       oneDNN   OpenBLAS     oneDNN: first, second
//     48   48   48         2.3        2.0        2.3      2.3
//     64   64   64         5.4        4.6        3.9      8.6
//     80   80   80         9.4        9.0        6.1      9.0
//     96   96   96        15.8       15.3        9.2     11.3
//    112  112  112        26.7       28.9       18.0     17.9
//    128  128  128        36.8       42.7       21.7     22.1
//    512  512  512       2391*      2518*       1387*
//   2048 2048 2048     156535*    167438*
//      8 1024 1024         169        483                 91
//   1024    8 1024         435        338                222
//     32   10  784        10.6        7.3        8.8      8.9
//
// So: OpenBLAS on one thread up to the size at which it leaves its small-matrix kernels (100^3), or
// at which a second thread surely pays (80^3: the threads may have to be woken first, and one
// series has oneDNN ahead from 64 on); and OpenBLAS for a few columns, where oneDNN's tiles run
// half empty.
void multiply_type(const Product<float>& p) {
  with_blas_operands(p, [](const Product<float>& q) {
    const bool serial = num_threads() == 1 || in_parallel_region();
    const double small = serial ? 100.0 * 100 * 100 : 80.0 * 80 * 80;
    if (work(q) <= small && fits_openblas(q)) return openblas_gemm(q);
    if (q.n <= 8 && fits_openblas(q)) return by_openblas(q);
    // (Narrow products of long rows are better cut along k, which oneDNN does by itself.)
    const bool wide = 32 * std::max(q.m, q.n) >= q.k;
    if (!serial && wide && work(q) <= kCutByUs && onednn::available())
      return in_pieces(q, [](const Product<float>& piece) { onednn::gemm(piece); });
    if (!onednn::gemm(q)) by_openblas(q);
  });
}

template <class T>
  requires(std::is_same_v<T, double> || is_complex_v<T>)
void multiply_type(const Product<T>& p) {
  with_blas_operands(p, [](const Product<T>& q) { by_openblas(q); });
}

template <class T>
  requires std::is_integral_v<T>
void multiply_type(const Product<T>& p) {
  multiply_ourselves(p);
}

// Rows of half types that are converted at a time: so many that they are not large, even where they
// are long.
int64_t rows_at_a_time(int64_t m, int64_t n, int64_t k) {
  return std::min(m, std::clamp<int64_t>((1 << 20) / std::max(n, k), 64, 1024));
}

// float32 has the library that the half types lack. b is converted once, a and c by blocks of rows.
template <class T>
void multiply_as_float(const Product<T>& p) {
  if (p.m < p.n) return multiply_as_float(p.transposed());
  const int64_t block = rows_at_a_time(p.m, p.n, p.k);
  const Scratch<float> a(block * p.k), b(p.k * p.n), c(block * p.n);
  const Matrix<const float> wide_b = copy_matrix(p.b, p.k, p.n, b.get());
  for (int64_t i = 0; i < p.m; i += block) {
    const Product<T> q = p.rows(i, std::min(i + block, p.m));
    const Matrix<const float> wide_a = copy_matrix(q.a, q.m, q.k, a.get());
    Multiply<float>::product({q.m, q.n, q.k, wide_a, wide_b, {c.get(), q.n, 1}, 1.0f, 0.0f});
    finish_matrix(q, c.get());
  }
}

bool multiply_as_bfloat16(const Product<bfloat16>& p) {
  if (p.alpha == 1 && p.beta == 0) return onednn::gemm(p.m, p.n, p.k, p.a, p.b, p.c);
  const Scratch<float> c(p.m * p.n);
  if (!onednn::gemm(p.m, p.n, p.k, p.a, p.b, Matrix<float>{c.get(), p.n, 1})) return false;
  finish_matrix(p, c.get());
  return true;
}

template <class T>
  requires(std::is_same_v<T, half> || std::is_same_v<T, bfloat16>)
void multiply_type(const Product<T>& p) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    if (work(p) > kSmallBfloat16 && onednn::has_bfloat16())
      return with_blas_operands(p, [](const Product<T>& q) {
        if (!multiply_as_bfloat16(q)) multiply_as_float(q);
      });
  }
  if (work(p) <= kSmallStrided) return multiply_ourselves(p);
  multiply_as_float(p);
}

}  // namespace

template <class T>
void Multiply<T>::product(const Product<T>& p) {
  constexpr int64_t tiny = kTinyProduct<T>;
  if (p.m <= tiny && p.n <= tiny && p.k <= tiny) return gemm_kernels<T>().tiny(p);
  if (p.n == 1) return vector(p.m, p.k, p.a, p.b.data, p.b.row, p.c.data, p.c.row, p.alpha, p.beta);
  if (p.m == 1)
    return vector(p.n, p.k, p.b.transposed(), p.a.data, p.a.col, p.c.data, p.c.col, p.alpha,
                  p.beta);
  multiply_type(p);
}

template <class T>
void Multiply<T>::vector(int64_t m, int64_t k, const Matrix<const T>& a, const T* x,
                         int64_t x_stride, T* y, int64_t y_stride, A alpha, A beta) {
  constexpr int64_t kElements = 1 << 15;  // of a that are worth a thread; a guess, not measured
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  const bool as_is = std::is_same_v<T, A> && x_stride == 1;
  const Scratch<A> wide(as_is ? 0 : k);
  if (!as_is) kernels.widen(k, x, x_stride, wide.get());
  const A* in_order = as_is ? reinterpret_cast<const A*>(x) : wide.get();
  parallel_for(m, std::max<int64_t>(16, kElements / k), [&](int64_t begin, int64_t end) {
    kernels.gemv(end - begin, k, {a.at(begin, 0), a.row, a.col}, in_order, y + begin * y_stride,
                 y_stride, alpha, beta);
  });
}

// In blocks of a fixed size, so that the number of threads does not show in the result.
template <class T>
auto Multiply<T>::dot(int64_t n, const T* a, int64_t a_stride, const T* b, int64_t b_stride) -> A {
  constexpr int64_t kBlock = 1 << 15;
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  if (n <= kBlock) return kernels.dot(n, a, a_stride, b, b_stride);
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  std::vector<A> sums(static_cast<size_t>(blocks));
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      sums[size_t(i)] = kernels.dot(std::min(kBlock, n - i * kBlock), a + i * kBlock * a_stride,
                                    a_stride, b + i * kBlock * b_stride, b_stride);
  });
  for (size_t step = 1; step < sums.size(); step *= 2)
    for (size_t i = 0; i + step < sums.size(); i += 2 * step)
      sums[i] = plus(sums[i], sums[i + step]);
  return sums[0];
}

// Some rows of c at a time, so that neither their sums nor a in float32 are large.
template <class T>
void add_wide_product(int64_t m, int64_t n, int64_t k, Matrix<const T> a, Matrix<const T> b,
                      float* c) {
  const int64_t block = rows_at_a_time(m, n, k);
  const auto rows = [&](int64_t i) {
    return Product<float>{std::min(block, m - i), n, k, {}, {}, {c + i * n, n, 1}, 1.0f, 1.0f};
  };
  int64_t done = 0;
  if constexpr (std::is_same_v<T, bfloat16>) {
    a = with_plain_strides(a, m, k);
    b = with_plain_strides(b, k, n);
    if (onednn::has_bfloat16() && suits_blas(a, m, k) && suits_blas(b, k, n)) {
      const Scratch<float> sums(block * n);
      for (; done < m; done += block) {
        const Product<float> p = rows(done);
        const Matrix<const T> part{a.at(done, 0), a.row, a.col};
        if (!onednn::gemm(p.m, n, k, part, b, Matrix<float>{sums.get(), n, 1})) break;
        finish_matrix(p, sums.get());
      }
    }
  }
  if (done >= m) return;
  const Scratch<float> wide_a(block * k), wide_b(k * n);
  const Matrix<const float> right = copy_matrix(b, k, n, wide_b.get());
  for (; done < m; done += block) {
    Product<float> p = rows(done);
    p.a = copy_matrix(Matrix<const T>{a.at(done, 0), a.row, a.col}, p.m, k, wide_a.get());
    p.b = right;
    Multiply<float>::product(p);
  }
}
template void add_wide_product<half>(int64_t, int64_t, int64_t, Matrix<const half>,
                                     Matrix<const half>, float*);
template void add_wide_product<bfloat16>(int64_t, int64_t, int64_t, Matrix<const bfloat16>,
                                         Matrix<const bfloat16>, float*);

template struct Multiply<float>;
template struct Multiply<double>;
template struct Multiply<half>;
template struct Multiply<bfloat16>;
template struct Multiply<complex<float>>;
template struct Multiply<complex<double>>;
template struct Multiply<uint8_t>;
template struct Multiply<int8_t>;
template struct Multiply<int16_t>;
template struct Multiply<int32_t>;
template struct Multiply<int64_t>;

}  // namespace rush
