// Matrices factored by elimination and reflections on the CPU: Cholesky, LU, QR, LDL, and the
// systems they solve. The spectral ones are in spectral.cpp.
#include "cpu/linalg/factorizations.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "cpu/copy/copy.h"
#include "cpu/isa_table.h"
#include "cpu/kernels/small_matrices_tables.h"
#include "cpu/linalg/matrices.h"
#include "cpu/vendor/lapack.h"
#include "device/linalg.h"

namespace rush {
namespace {

// Up to here our own loops beat a call of LAPACK.
constexpr int64_t kSmall = 32;

template <class T>
const SmallMatrixTable<T>& small_kernels() {
  return kernels_in_use([]<Isa isa>() { return small_matrix_table<isa, T>(); });
}

// Does our own code do it? Always for small real matrices, and for any real one without LAPACK.
template <class T>
bool own_loops(const char* op, int64_t largest) {
  if constexpr (std::is_floating_point_v<T>) {
    if (largest <= kSmall || !lapack::available()) return true;
  }
  lapack::require(op);
  check(largest < (int64_t(1) << 31), ErrorKind::Runtime, op, "a matrix of size ", largest,
        " is too large for LAPACK");
  return false;
}

template <class F>
void by_type(const char* op, const Tensor& t, F&& f) {
  dispatch<DType::Float32, DType::Float64, DType::Complex64, DType::Complex128>(op, t.dtype(),
                                                                                std::forward<F>(f));
}

int64_t padded(int64_t n) { return (n + kRowStep - 1) / kRowStep * kRowStep; }

// A matrix in the form the small kernels want.
template <class T>
struct Buffer {
  Buffer(int64_t rows, int64_t cols)
      : rows(rows), cols(cols), ld(padded(cols)), data(size_t(rows * ld + ld)) {}
  Matrix<T> matrix() { return {data.data(), ld, 1}; }
  T* get() { return data.data(); }
  T* spare() { return data.data() + rows * ld; }  // one row more
  void load(const Matrix<T>& from) {
    if (from.col != 1) return copy_matrix(from, matrix(), rows, cols);
    for (int64_t i = 0; i < rows; ++i) std::copy_n(from.at(i, 0), cols, get() + i * ld);
  }
  int64_t rows, cols, ld;
  std::vector<T> data;
};

template <class T>
void zero_triangle(const Matrix<T>& a, int64_t n, bool upper) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = upper ? i + 1 : 0; j < (upper ? n : i); ++j) *a.at(i, j) = T(0);
}

template <class T>
void swap_rows(T* b, int64_t ld, int64_t n, const int32_t* pivots, bool backwards) {
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = backwards ? n - 1 - step : step;
    const int64_t other = pivots[i] - 1;
    if (other != i) std::swap_ranges(b + i * ld, b + i * ld + ld, b + other * ld);
  }
}

// b = (P^T L U)^-1 b, or that of the transposed.
template <class T>
void lu_solve_small(const T* lu, int64_t ld, int64_t n, const int32_t* pivots, bool transposed,
                    T* b, int64_t ldb) {
  const SmallMatrixTable<T>& k = small_kernels<T>();
  if (!transposed) {
    swap_rows(b, ldb, n, pivots, false);
    k.solve(lu, ld, 1, n, false, true, b, ldb);
    k.solve(lu, ld, 1, n, true, false, b, ldb);
  } else {
    k.solve(lu, 1, ld, n, false, false, b, ldb);
    k.solve(lu, 1, ld, n, true, true, b, ldb);
    swap_rows(b, ldb, n, pivots, true);
  }
}

void cholesky_cpu(const char* op, const Tensor& a, bool upper, const Tensor& out,
                  const Tensor& info) {
  const int64_t n = a.size(-1);
  int32_t* found = info.data<int32_t>();
  if (n == 0) return void(std::memset(found, 0, size_t(info.nbytes())));
  by_type(op, a, [&]<class T>() {
    const Matrices<T> from(a), to(out);
    const bool own = own_loops<T>(op, n);
    for_matrices(to.count, n * n * n / 3, [&](int64_t begin, int64_t end) {
      if constexpr (std::is_floating_point_v<T>) {
        if (own) {
          Buffer<T> u(n, n);
          for (int64_t m = begin; m < end; ++m) {
            // Only one triangle is read, and the other one of the result is zero.
            const Matrix<T> a_upper = upper ? from[m] : from[m].transposed();
            for (int64_t i = 0; i < n; ++i)
              for (int64_t j = i; j < n; ++j) u.get()[i * u.ld + j] = *a_upper.at(i, j);
            found[m] = small_kernels<T>().cholesky(u.get(), n, u.ld, u.spare());
            for (int64_t i = 0; i < n; ++i) {
              T* row = to[m].at(i, 0);  // contiguous
              for (int64_t j = 0; j < n; ++j) {
                const bool kept = upper ? j >= i : j <= i;
                row[j] = kept ? u.get()[std::min(i, j) * u.ld + std::max(i, j)] : T(0);
              }
            }
          }
          return;
        }
      }
      // Read by columns, the rows of a are those of its transpose, and the triangles change places.
      for (int64_t m = begin; m < end; ++m) {
        copy_matrix(from[m], to[m], n, n);
        found[m] = lapack::potrf(upper ? 'L' : 'U', int(n), to[m].data, int(n));
        zero_triangle(to[m], n, !upper);
      }
    });
  });
}

void solve_triangular_cpu(const char* op, const Tensor& a, bool upper, bool unit, const Tensor& b) {
  const int64_t n = b.size(-2), cols = b.size(-1);
  if (b.numel() == 0) return;
  by_type(op, b, [&]<class T>() {
    const Matrices<T> as(a), bs(b);
    const bool own = own_loops<T>(op, n);
    for_matrices(bs.count, n * n * cols / 2, [&](int64_t begin, int64_t end) {
      if constexpr (std::is_floating_point_v<T>) {
        if (own) {
          Buffer<T> x(n, cols);
          for (int64_t m = begin; m < end; ++m) {
            x.load(bs[m]);
            small_kernels<T>().solve(as[m].data, as.row, as.col, n, upper, unit, x.get(), x.ld);
            copy_matrix(x.matrix(), bs[m], n, cols);
          }
          return;
        }
      }
      // The rows of b, read by columns, are x^T with x^T a^T = b^T.
      const bool columns = as.by_columns();
      for (int64_t m = begin; m < end; ++m)
        lapack::trsm<T>('R', upper == columns ? 'U' : 'L', columns ? 'T' : 'N', unit ? 'U' : 'N',
                        int(cols), int(n), as[m].data, int(n), bs[m].data, int(cols));
    });
  });
}

}  // namespace

void lu_factor_cpu(const char* op, const Tensor& a, bool pivot, const Tensor& lu,
                   const Tensor& pivots, const Tensor& info) {
  const int64_t rows = a.size(-2), cols = a.size(-1), k = std::min(rows, cols);
  int32_t* found = info.data<int32_t>();
  if (a.numel() == 0) return void(std::memset(found, 0, size_t(info.nbytes())));
  by_type(op, a, [&]<class T>() {
    const Matrices<T> from(a), to(lu);
    int32_t* piv = pivots.data<int32_t>();
    // LAPACK always exchanges rows.
    if (!pivot)
      check(std::is_floating_point_v<T>, ErrorKind::NotImplemented, op,
            "pivot=False is there for real matrices only, got ", a.dtype());
    const bool own = own_loops<T>(op, pivot ? std::max(rows, cols) : 0);
    for_matrices(to.count, rows * cols * k, [&](int64_t begin, int64_t end) {
      if constexpr (std::is_floating_point_v<T>) {
        if (own) {
          Buffer<T> x(rows, cols);
          for (int64_t m = begin; m < end; ++m) {
            x.load(from[m]);
            found[m] =
                small_kernels<T>().lu(x.get(), rows, cols, x.ld, piv + m * k, pivot, x.spare());
            copy_matrix(x.matrix(), to[m], rows, cols);
          }
          return;
        }
      }
      for (int64_t m = begin; m < end; ++m) {
        copy_matrix(from[m], to[m], rows, cols);
        found[m] = lapack::getrf(int(rows), int(cols), to[m].data, int(rows), piv + m * k);
      }
    });
  });
}

namespace {

void lu_solve_cpu(const char* op, const Tensor& lu, const Tensor& pivots, const Tensor& b,
                  bool adjoint, const Tensor& x) {
  const int64_t n = x.size(-2), cols = x.size(-1);
  if (x.numel() == 0) return;
  by_type(op, x, [&]<class T>() {
    const Matrices<T> lus(lu), from(b), to(x);
    const int32_t* piv = pivots.data<int32_t>();
    const bool own = own_loops<T>(op, std::max(n, cols));
    for_matrices(to.count, n * n * cols, [&](int64_t begin, int64_t end) {
      if constexpr (std::is_floating_point_v<T>) {
        if (own) {
          Buffer<T> f(n, n), y(n, cols);
          for (int64_t m = begin; m < end; ++m) {
            f.load(lus[m]);
            y.load(from[m]);
            lu_solve_small(f.get(), f.ld, n, piv + m * n, adjoint, y.get(), y.ld);
            copy_matrix(y.matrix(), to[m], n, cols);
          }
          return;
        }
      }
      for (int64_t m = begin; m < end; ++m) {
        copy_matrix(from[m], to[m], n, cols);
        lapack::getrs(adjoint ? 'C' : 'N', int(n), int(cols), lus[m].data, int(n), piv + m * n,
                      to[m].data, int(n));
      }
    });
  });
}

void solve_cpu(const char* op, const Tensor& a, const Tensor& b, const Tensor& x, const Tensor& lu,
               const Tensor& pivots, const Tensor& info) {
  const int64_t n = x.size(-2), cols = x.size(-1);
  const bool small = n > 0 && n <= kSmall && cols > 0 && cols <= kSmall && x.numel() > 0;
  if (!small || is_complex(x.dtype())) {
    lu_factor_cpu(op, a, true, lu, pivots, info);
    lu_solve_cpu(op, lu, pivots, b, false, x);
    return;
  }
  dispatch<DType::Float32, DType::Float64>(op, x.dtype(), [&]<class T>() {
    const Matrices<T> as(a), bs(b), xs(x), lus(lu);
    int32_t *found = info.data<int32_t>(), *piv = pivots.data<int32_t>();
    const SmallMatrixTable<T>& k = small_kernels<T>();
    for_matrices(xs.count, n * n * n, [&](int64_t begin, int64_t end) {
      Buffer<T> f(n, n), y(n, cols);
      for (int64_t m = begin; m < end; ++m) {
        f.load(as[m]);
        y.load(bs[m]);
        found[m] = k.lu(f.get(), n, n, f.ld, piv + m * n, true, f.spare());
        lu_solve_small(f.get(), f.ld, n, piv + m * n, false, y.get(), y.ld);
        copy_matrix(f.matrix(), lus[m], n, n);
        copy_matrix(y.matrix(), xs[m], n, cols);
      }
    });
  });
}

void inverse_cpu(const char* op, const Tensor& a, const Tensor& out, const Tensor& info) {
  const int64_t n = a.size(-1);
  int32_t* found = info.data<int32_t>();
  if (a.numel() == 0) return void(std::memset(found, 0, size_t(info.nbytes())));
  by_type(op, a, [&]<class T>() {
    const Matrices<T> from(a), to(out);
    const bool own = own_loops<T>(op, n);
    for_matrices(to.count, 2 * n * n * n, [&](int64_t begin, int64_t end) {
      std::vector<int> piv(static_cast<size_t>(n));
      if constexpr (std::is_floating_point_v<T>) {
        if (own) {
          Buffer<T> f(n, n), y(n, n);
          for (int64_t m = begin; m < end; ++m) {
            f.load(from[m]);
            found[m] = small_kernels<T>().lu(f.get(), n, n, f.ld, piv.data(), true, f.spare());
            std::fill(y.data.begin(), y.data.end(), T(0));
            for (int64_t i = 0; i < n; ++i) *y.matrix().at(i, i) = T(1);
            lu_solve_small(f.get(), f.ld, n, piv.data(), false, y.get(), y.ld);
            copy_matrix(y.matrix(), to[m], n, n);
          }
          return;
        }
      }
      lapack::Workspace<T> w;
      for (int64_t m = begin; m < end; ++m) {
        copy_matrix(from[m], to[m], n, n);
        found[m] = lapack::getrf(int(n), int(n), to[m].data, int(n), piv.data());
        if (found[m] == 0) found[m] = lapack::getri(int(n), to[m].data, int(n), piv.data(), w);
      }
    });
  });
}

// Squares of very large or small elements would leave the range of T: such a matrix is scaled by a
// power of two, which is exact.
template <class T>
T safe_scale(Buffer<T>& x) {
  T most = 0;
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.cols; ++j) {
      const T size = std::fabs(*x.matrix().at(i, j));
      if (size > most) most = size;
    }
  const T far = sizeof(T) == 4 ? T(0x1p40) : T(0x1p300);
  if (most == 0 || !(most <= limits<T>::max) || (most < far && most > 1 / far)) return T(1);
  const T scale = std::ldexp(T(1), std::ilogb(most));
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.cols; ++j) *x.matrix().at(i, j) /= scale;
  return scale;
}

void qr_cpu(const char* op, const Tensor& a, const Tensor& q, const Tensor& r) {
  const int64_t rows = a.size(-2), cols = a.size(-1), k = std::min(rows, cols);
  const int64_t q_cols = r.size(-2);
  if (r.numel() == 0 && (!q.defined() || q.numel() == 0)) return;
  by_type(op, a, [&]<class T>() {
    const Matrices<T> from(a), rs(r);
    const bool own = own_loops<T>(op, std::max(rows, cols));
    for_matrices(rs.count, 2 * rows * cols * (k + 1), [&](int64_t begin, int64_t end) {
      std::vector<T> tau(static_cast<size_t>(k + 1));
      if constexpr (std::is_floating_point_v<T>) {
        if (own) {
          const SmallMatrixTable<T>& kernels = small_kernels<T>();
          Buffer<T> x(rows, cols), y(rows, q_cols);
          for (int64_t m = begin; m < end; ++m) {
            x.load(from[m]);
            const T scale = safe_scale(x);
            kernels.qr(x.get(), rows, cols, x.ld, tau.data(), x.spare());
            for (int64_t j = 0; j < cols; ++j)
              for (int64_t i = 0; i < q_cols; ++i)
                *rs[m].at(i, j) = i <= j ? *x.matrix().at(i, j) * scale : T(0);
            if (!q.defined()) continue;
            kernels.form_q(x.get(), rows, k, x.ld, tau.data(), y.get(), q_cols, y.ld, y.spare());
            copy_matrix(y.matrix(), Matrices<T>(q)[m], rows, q_cols);
          }
          return;
        }
      }
      lapack::Workspace<T> w;
      std::vector<T> copy(size_t(rows * std::max(cols, q_cols)));
      const Matrix<T> x{copy.data(), 1, rows};
      for (int64_t m = begin; m < end; ++m) {
        copy_matrix(from[m], x, rows, cols);
        if (cols > 0) lapack::geqrf(int(rows), int(cols), x.data, int(rows), tau.data(), w);
        for (int64_t j = 0; j < cols; ++j)
          for (int64_t i = 0; i < q_cols; ++i) *rs[m].at(i, j) = i <= j ? *x.at(i, j) : T(0);
        if (!q.defined()) continue;
        const Matrix<T> to = Matrices<T>(q)[m];
        copy_matrix(x, to, rows, std::min(cols, q_cols));
        if (rows > 0 && q_cols > 0)
          lapack::orgqr(int(rows), int(q_cols), int(k), to.data, int(rows), tau.data(), w);
      }
    });
  });
}

// run(matrix of out, its number, workspace) for each matrix of a, copied to out. `steps`: how many of
// the columns cost something.
template <class F>
void each_by_lapack(const char* op, const Tensor& a, int64_t steps, const Tensor& out, F run) {
  const int64_t rows = a.size(-2), cols = a.size(-1);
  lapack::require(op);
  by_type(op, a, [&]<class T>() {
    const Matrices<T> from(a), to(out);
    for_matrices(to.count, rows * cols * steps, [&](int64_t begin, int64_t end) {
      lapack::Workspace<T> w;
      for (int64_t m = begin; m < end; ++m) {
        copy_matrix(from[m], to[m], rows, cols);
        run(to[m].data, m, w);
      }
    });
  });
}

void geqrf_cpu(const char* op, const Tensor& a, const Tensor& out, const Tensor& tau) {
  const auto rows = int(a.size(-2)), cols = int(a.size(-1)), k = std::min(rows, cols);
  if (a.numel() == 0) return;
  each_by_lapack(op, a, k, out, [&]<class T>(T* x, int64_t m, lapack::Workspace<T>& w) {
    lapack::geqrf(rows, cols, x, rows, tau.data<T>() + m * k, w);
  });
}

void orgqr_cpu(const char* op, const Tensor& a, const Tensor& tau, const Tensor& out) {
  const auto rows = int(a.size(-2)), cols = int(a.size(-1)), k = int(tau.size(-1));
  if (out.numel() == 0) return;
  each_by_lapack(op, a, k, out, [&]<class T>(T* x, int64_t m, lapack::Workspace<T>& w) {
    lapack::orgqr(rows, cols, k, x, rows, tau.data<T>() + m * k, w);
  });
}

void ormqr_cpu(const char* op, const Tensor& a, const Tensor& tau, const Tensor& c, bool left,
               bool transpose, const Tensor& out) {
  const int64_t rows = out.size(-2), cols = out.size(-1), k = tau.size(-1);
  if (out.numel() == 0) return;
  lapack::require(op);
  by_type(op, out, [&]<class T>() {
    const Matrices<T> as(a), from(c), to(out);
    const char adjoint = is_complex_v<T> ? 'C' : 'T';
    for_matrices(to.count, rows * cols * k, [&](int64_t begin, int64_t end) {
      lapack::Workspace<T> w;
      std::vector<T> reflections(size_t(as.rows * as.cols));
      const Matrix<T> x{reflections.data(), 1, as.rows};
      for (int64_t m = begin; m < end; ++m) {
        copy_matrix(as[m], x, as.rows, as.cols);
        copy_matrix(from[m], to[m], rows, cols);
        lapack::ormqr(left ? 'L' : 'R', transpose ? adjoint : 'N', int(rows), int(cols), int(k),
                      x.data, int(as.rows), tau.data<T>() + m * k, to[m].data, int(rows), w);
      }
    });
  });
}

void ldl_factor_cpu(const char* op, const Tensor& a, bool hermitian, const Tensor& ld,
                    const Tensor& pivots, const Tensor& info) {
  const int64_t n = a.size(-1);
  int32_t* found = info.data<int32_t>();
  if (a.numel() == 0) return void(std::memset(found, 0, size_t(info.nbytes())));
  lapack::require(op);
  by_type(op, a, [&]<class T>() {
    const Matrices<T> from(a), to(ld);
    int32_t* piv = pivots.data<int32_t>();
    for_matrices(to.count, n * n * n, [&](int64_t begin, int64_t end) {
      lapack::Workspace<T> w;
      for (int64_t m = begin; m < end; ++m) {
        copy_matrix(from[m], to[m], n, n);
        zero_triangle(to[m], n, true);
        found[m] = lapack::sytrf(hermitian, 'L', int(n), to[m].data, int(n), piv + m * n, w);
      }
    });
  });
}

void ldl_solve_cpu(const char* op, const Tensor& ld, const Tensor& pivots, const Tensor& b,
                   bool hermitian, const Tensor& x) {
  const int64_t n = x.size(-2), cols = x.size(-1);
  if (x.numel() == 0) return;
  lapack::require(op);
  by_type(op, x, [&]<class T>() {
    const Matrices<T> lds(ld), from(b), to(x);
    const int32_t* piv = pivots.data<int32_t>();
    for_matrices(to.count, n * n * cols, [&](int64_t begin, int64_t end) {
      std::vector<T> copy(size_t(n * n));
      const Matrix<T> f{copy.data(), 1, n};
      for (int64_t m = begin; m < end; ++m) {
        copy_matrix(lds[m], f, n, n);
        copy_matrix(from[m], to[m], n, cols);
        lapack::sytrs(hermitian, 'L', int(n), int(cols), f.data, int(n), piv + m * n, to[m].data,
                      int(n));
      }
    });
  });
}

const bool registered = [] {
  MatrixLoops& loops = matrix_loops(DeviceType::CPU);
  loops.cholesky = cholesky_cpu;
  loops.solve_triangular = solve_triangular_cpu;
  loops.lu_factor = lu_factor_cpu;
  loops.lu_solve = lu_solve_cpu;
  loops.solve = solve_cpu;
  loops.inverse = inverse_cpu;
  loops.ldl_factor = ldl_factor_cpu;
  loops.ldl_solve = ldl_solve_cpu;
  loops.ldl_takes_hermitian = true;
  loops.geqrf = geqrf_cpu;
  loops.orgqr = orgqr_cpu;
  loops.ormqr = ormqr_cpu;
  loops.qr = qr_cpu;
  return true;
}();

}  // namespace
}  // namespace rush
