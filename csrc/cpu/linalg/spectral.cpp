// Singular values, eigenvalues and least squares on the CPU, by LAPACK.
#include "device/linalg.h"

#include <cstring>

#include "cpu/linalg/matrices.h"
#include "cpu/vendor/lapack.h"

namespace rush {
namespace {

// Calls f<type>(), or raises without LAPACK.
template <class F>
void by_lapack(const char* op, const Tensor& t, F&& f) {
  lapack::require(op);
  dispatch<DType::Float32, DType::Float64, DType::Complex64, DType::Complex128>(op, t.dtype(),
                                                                                std::forward<F>(f));
}

constexpr int32_t kNotFinite = -1;

int32_t* cleared(const Tensor& info) {
  std::memset(info.data(), 0, size_t(info.nbytes()));
  return info.data<int32_t>();
}

// Room for a matrix that LAPACK may overwrite, by columns.
template <class T>
struct MatrixRoom {
  std::vector<T> memory;
  const Matrix<T> x;
  MatrixRoom(int64_t rows, int64_t cols) : memory(size_t(rows * cols)), x{memory.data(), 1, rows} {}
};

void svd_cpu(const char* op, const Tensor& a, std::string_view driver, const Tensor& u,
             const Tensor& s, const Tensor& vh, const Tensor& info) {
  const int64_t rows = a.size(-2), cols = a.size(-1), k = std::min(rows, cols);
  int32_t* found = cleared(info);
  by_lapack(op, a, [&]<class T>() {
    using R = lapack::Real<T>;
    const Matrices<T> from(a);
    const bool vectors = u.defined();
    const int64_t u_cols = vectors ? u.size(-1) : 0, v_rows = vectors ? vh.size(-2) : 0;
    const char job = !vectors ? 'N' : u_cols == rows && v_rows == cols ? 'A' : 'S';
    if (k == 0) {  // no singular values; all vectors are those of the identity
      for (const Tensor* t : {&u, &vh}) {
        if (!vectors || t->numel() == 0) continue;
        std::memset(t->data(), 0, size_t(t->nbytes()));
        const Matrices<T> to(*t);
        for (int64_t m = 0; m < to.count; ++m)
          for (int64_t i = 0; i < to.rows; ++i) *to[m].at(i, i) = T(1);
      }
      return;
    }
    for_matrices(from.count, 10 * rows * cols * k, [&](int64_t begin, int64_t end) {
      lapack::Workspace<T> w;
      T dummy{};
      const MatrixRoom<T> room(rows, cols);
      for (int64_t m = begin; m < end; ++m) {
        if (!is_finite_matrix(from[m], rows, cols)) {
          found[m] = kNotFinite;
          continue;
        }
        R* values = s.data<R>() + m * k;
        T* left = vectors ? Matrices<T>(u)[m].data : &dummy;
        T* right = vectors ? Matrices<T>(vh)[m].data : &dummy;
        const int ldu = int(vectors ? rows : 1), ldv = int(vectors ? v_rows : 1);
        const auto run = [&](bool divide) {
          copy_matrix(from[m], room.x, rows, cols);
          return divide ? lapack::gesdd(job, int(rows), int(cols), room.x.data, int(rows), values,
                                        left, ldu, right, ldv, w)
                        : lapack::gesvd(job, int(rows), int(cols), room.x.data, int(rows), values,
                                        left, ldu, right, ldv, w);
        };
        found[m] = run(driver != "gesvd");
        if (found[m] > 0 && driver != "gesvd") found[m] = run(false);  // slower, and surer
      }
    });
  });
}

void eigh_cpu(const char* op, const Tensor& a, bool upper, const Tensor& values, const Tensor& v,
              const Tensor& info) {
  const int64_t n = a.size(-1);
  int32_t* found = cleared(info);
  if (a.numel() == 0) return;
  by_lapack(op, a, [&]<class T>() {
    using R = lapack::Real<T>;
    const Matrices<T> from(a);
    for_matrices(from.count, 5 * n * n * n, [&](int64_t begin, int64_t end) {
      lapack::Workspace<T> w;
      std::vector<T> copy(v.defined() ? 0 : size_t(n * n));
      for (int64_t m = begin; m < end; ++m) {
        const Matrix<T> x = v.defined() ? Matrices<T>(v)[m] : Matrix<T>{copy.data(), 1, n};
        copy_matrix(from[m], x, n, n);
        // Only one triangle is read.
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = upper ? 0 : i + 1; j < (upper ? i : n); ++j) *x.at(i, j) = T(0);
        if (!is_finite_matrix(x, n, n)) {
          found[m] = kNotFinite;
          continue;
        }
        found[m] = lapack::syevd(v.defined() ? 'V' : 'N', upper ? 'U' : 'L', int(n), x.data, int(n),
                                 values.data<R>() + m * n, w);
      }
    });
  });
}

void eig_cpu(const char* op, const Tensor& a, const Tensor& values, const Tensor& v,
             const Tensor& info) {
  const int64_t n = a.size(-1);
  int32_t* found = cleared(info);
  if (a.numel() == 0) return;
  by_lapack(op, a, [&]<class T>() {
    using C = complex<lapack::Real<T>>;
    const Matrices<T> from(a);
    for_matrices(from.count, 20 * n * n * n, [&](int64_t begin, int64_t end) {
      lapack::Workspace<T> w;
      const MatrixRoom<T> room(n, n);
      C dummy{};
      for (int64_t m = begin; m < end; ++m) {
        copy_matrix(from[m], room.x, n, n);
        if (!is_finite_matrix(room.x, n, n)) {
          found[m] = kNotFinite;
          continue;
        }
        found[m] = lapack::geev(v.defined() ? 'V' : 'N', int(n), room.x.data, int(n),
                                values.data<C>() + m * n,
                                v.defined() ? Matrices<C>(v)[m].data : &dummy, w);
      }
    });
  });
}

void least_squares_cpu(const char* op, const Tensor& a, const Tensor& x, double rcond,
                       std::string_view driver, const Tensor& rank, const Tensor& singular,
                       const Tensor& info) {
  using lapack::LeastSquares;
  const LeastSquares which = driver == "gels"    ? LeastSquares::Gels
                             : driver == "gelsy" ? LeastSquares::Gelsy
                             : driver == "gelss" ? LeastSquares::Gelss
                                                 : LeastSquares::Gelsd;
  const int64_t rows = a.size(-2), cols = a.size(-1), columns = x.size(-1),
                k = std::min(rows, cols);
  int32_t* found = cleared(info);
  std::memset(rank.data(), 0, size_t(rank.nbytes()));
  if (k == 0 || columns == 0) {
    if (x.numel()) std::memset(x.data(), 0, size_t(x.nbytes()));
    if (singular.numel()) std::memset(singular.data(), 0, size_t(singular.nbytes()));
    return;
  }
  by_lapack(op, a, [&]<class T>() {
    using R = lapack::Real<T>;
    const Matrices<T> from(a), xs(x);
    for_matrices(xs.count, 4 * rows * cols * (k + columns), [&](int64_t begin, int64_t end) {
      lapack::Workspace<T> w;
      std::vector<T> copy(size_t(rows * cols));
      std::vector<R> spare(static_cast<size_t>(k));
      const Matrix<T> y{copy.data(), 1, rows};
      for (int64_t m = begin; m < end; ++m) {
        copy_matrix(from[m], y, rows, cols);
        if (!is_finite_matrix(y, rows, cols) || !is_finite_matrix(xs[m], rows, columns)) {
          found[m] = kNotFinite;
          continue;
        }
        int r = 0;
        R* s = singular.numel() ? singular.data<R>() + m * k : spare.data();
        found[m] =
            lapack::least_squares(which, int(rows), int(cols), int(columns), y.data, int(rows),
                                  xs[m].data, int(std::max(rows, cols)), rcond, s, &r, w);
        rank.data<int64_t>()[m] = r;
      }
    });
  });
}

const bool registered = [] {
  MatrixLoops& loops = matrix_loops(DeviceType::CPU);
  loops.spectral_takes_any = true;
  loops.svd = svd_cpu;
  loops.eigh = eigh_cpu;
  loops.eig = eig_cpu;
  loops.least_squares = least_squares_cpu;
  return true;
}();

}  // namespace
}  // namespace rush
