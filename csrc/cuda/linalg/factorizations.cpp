// Elimination and reflections on GPUs: Cholesky, LU, QR and the systems they solve, by cuSOLVER for
// large matrices and by the batched functions of cuBLAS and cuSOLVER for many small ones.
#include "core/matrix_shape.h"
#include "cuda/kernels/matrices_args.h"
#include "cuda/linalg/matmul.h"
#include "cuda/linalg/matrices.h"
#include "device/copy.h"
#include "device/index.h"
#include "device/linalg.h"
#include "device/pointwise.h"

namespace rush::cuda {

Tensor address_table(const void* first, int64_t step_bytes, int64_t count, Device device) {
  const Tensor table = make_tensor(Dims{count}, DType::Int64, device);
  copy_loops(table).arange(table, int64_t(reinterpret_cast<uintptr_t>(first)), step_bytes);
  return table;
}

BlasCall::BlasCall(const char* op, Device device)
    : memory_(device_bytes(size_t(8) << 20, device)),
      handle_(solver::blas_handle(op, device.index)) {
  solver::done(op, solver::library().blas.SetWorkspace(handle_, memory_.data(), size_t(8) << 20),
               "cublasSetWorkspace");
}

namespace {

using solver::done;
using solver::library;
using solver::session;

constexpr uint64_t kPermutation = 15;
std::string spell_matrices(uint64_t key) {
  if (key == kPermutation) return "rush::permutation<rush::i64>";
  return concat("rush::form_q<", kernel_type(DType(key)), ">");
}
const KernelFamily kMatrices{"matrices.cu", spell_matrices};

// Many small matrices go to the batched functions, a few large ones one by one.
bool is_batch_of_small(const Batch& b, int64_t largest) {
  return b.count > 1 && std::max(b.rows, b.cols) <= largest;
}

Tensor by_columns_copy(const Tensor& a) {
  const Tensor out = make_tensor(a.sizes(), by_column_strides(a.sizes()), a.dtype(), a.device());
  copy(a, out, false);
  return out;
}

// ---- Cholesky ----

// Read by columns, the rows of a are those of its transpose, and the triangles change places.
void cholesky(const char* op, const Tensor& a, bool upper, const Tensor& out, const Tensor& info) {
  check_sizes(op, a);
  const Batch b(a);
  const auto n = int(b.rows);
  const Device device = a.device();
  const Tensor own = make_tensor(a.sizes(), a.dtype(), device);
  copy(a, own, false);
  const solver::Triangle uplo = upper ? solver::kLower : solver::kUpper;
  const SingleLaunches single;
  const solver::Session& s = session(op, device.index);
  const solver::Library& l = library();
  by_type(op, a, [&]<class T>() {
    int* found = info.data<int32_t>();
    if (is_batch_of_small(b, 512)) {
      const Tensor table =
          address_table(own.data(), b.step() * int64_t(sizeof(T)), b.count, device);
      in_parts(b.count, kMostMatrices, [&](int64_t begin, int64_t count) {
        done(op,
             l.of<T>().PotrfBatched(s.handle, uplo, n, addresses<T>(table) + begin, n,
                                    found + begin, int(count)),
             "cusolverDnpotrfBatched");
      });
      return;
    }
    const solver::DataType type = solver::data_type(a.dtype());
    size_t on_device = 0, on_host = 0;
    done(op,
         l.PotrfSize(s.handle, s.params, uplo, n, type, own.data(), n, type, &on_device, &on_host),
         "cusolverDnXpotrf_bufferSize");
    Workspace w(on_device, on_host, device);
    for (int64_t m = 0; m < b.count; ++m)
      done(op,
           l.Potrf(s.handle, s.params, uplo, n, type, own.data<T>() + m * b.step(), n, type,
                   w.device.data(), on_device, w.host.data(), on_host, found + m),
           "cusolverDnXpotrf");
  });
  copy_loops(own).triangle(own, 0, upper, out);
  after_launch(current_stream(device.index));
}

// ---- triangular systems ----

// The rows of b, read by columns, are x^T with x^T a^T = b^T.
void solve_triangular(const char* op, const Tensor& a, bool upper, bool unit, const Tensor& b) {
  check_sizes(op, a);
  check_sizes(op, b);
  const Batch x(b);
  const auto n = int(x.rows), cols = int(x.cols);
  const Device device = b.device();
  const bool columns = lies_by_columns(a);
  const solver::Triangle uplo = upper == columns ? solver::kUpper : solver::kLower;
  const solver::Operation trans = columns ? solver::kTranspose : solver::kNone;
  const solver::Diagonal diagonal = unit ? solver::kUnit : solver::kNonUnit;
  const BlasCall blas(op, device);
  by_type(op, b, [&]<class T>() {
    const solver::Typed<T>& l = library().of<T>();
    const T one(1);
    const int64_t size = int64_t(sizeof(T));
    if (is_batch_of_small(x, 512)) {
      const Tensor as = address_table(a.data(), int64_t(n) * n * size, x.count, device);
      const Tensor bs = address_table(b.data(), x.step() * size, x.count, device);
      in_parts(x.count, kMostMatrices, [&](int64_t begin, int64_t count) {
        done(op,
             l.TrsmBatched(blas.handle(), solver::kRight, uplo, trans, diagonal, cols, n, &one,
                           addresses<const T>(as) + begin, n, addresses<T>(bs) + begin, cols,
                           int(count)),
             "cublastrsmBatched");
      });
      return;
    }
    for (int64_t m = 0; m < x.count; ++m)
      done(op,
           l.Trsm(blas.handle(), solver::kRight, uplo, trans, diagonal, cols, n, &one,
                  a.data<T>() + m * n * n, n, b.data<T>() + m * x.step(), cols),
           "cublastrsm");
  });
  after_launch(current_stream(device.index));
}

// ---- LU ----

// 1, 2, 3, ... for every matrix.
void count_pivots(const Tensor& pivots) {
  const Tensor row = make_tensor(Dims{pivots.size(-1)}, DType::Int32, pivots.device());
  copy_loops(row).arange(row, 1, 1);
  copy(row, pivots, false);
}

void lu_factor(const char* op, const Tensor& a, bool pivot, const Tensor& lu, const Tensor& pivots,
               const Tensor& info) {
  check_sizes(op, a);
  const Batch b(lu);
  const Device device = a.device();
  const int64_t k = std::min(b.rows, b.cols);
  copy(a, lu, false);
  if (!pivot) count_pivots(pivots);
  by_type(op, a, [&]<class T>() {
    int* found = info.data<int32_t>();
    if (b.rows == b.cols && is_batch_of_small(b, 256)) {
      const BlasCall blas(op, device);
      const auto n = int(b.rows);
      const Tensor table = address_table(lu.data(), b.step() * int64_t(sizeof(T)), b.count, device);
      in_parts(b.count, kMostMatrices, [&](int64_t begin, int64_t count) {
        done(op,
             library().of<T>().GetrfBatched(blas.handle(), n, addresses<T>(table) + begin, n,
                                            pivot ? pivots.data<int32_t>() + begin * n : nullptr,
                                            found + begin, int(count)),
             "cublasgetrfBatched");
      });
      return;
    }
    const SingleLaunches single;
    const solver::Session& s = session(op, device.index);
    const solver::Library& l = library();
    const solver::DataType type = solver::data_type(a.dtype());
    size_t on_device = 0, on_host = 0;
    done(op,
         l.GetrfSize(s.handle, s.params, b.rows, b.cols, type, lu.data(), b.rows, type, &on_device,
                     &on_host),
         "cusolverDnXgetrf_bufferSize");
    Workspace w(on_device, on_host, device);
    Tensor wide;
    if (pivot) wide = make_tensor(pivots.sizes(), DType::Int64, device);
    for (int64_t m = 0; m < b.count; ++m)
      done(op,
           l.Getrf(s.handle, s.params, b.rows, b.cols, type, lu.data<T>() + m * b.step(), b.rows,
                   pivot ? wide.data<int64_t>() + m * k : nullptr, type, w.device.data(), on_device,
                   w.host.data(), on_host, found + m),
           "cusolverDnXgetrf");
    if (pivot) copy(wide, pivots, false);
  });
  after_launch(current_stream(device.index));
}

void lu_solve(const char* op, const Tensor& lu, const Tensor& pivots, const Tensor& b, bool adjoint,
              const Tensor& x) {
  check_sizes(op, lu);
  check_sizes(op, x);
  const Batch to(x), factors(lu);
  const int64_t n = to.rows, cols = to.cols;
  const Device device = x.device();
  copy(b, x, false);
  const solver::Operation trans = !adjoint                ? solver::kNone
                                  : is_complex(x.dtype()) ? solver::kAdjoint
                                                          : solver::kTranspose;
  by_type(op, x, [&]<class T>() {
    const int64_t size = int64_t(sizeof(T));
    if (is_batch_of_small(factors, 256)) {
      const BlasCall blas(op, device);
      const Tensor as = address_table(lu.data(), factors.step() * size, to.count, device);
      const Tensor bs = address_table(x.data(), to.step() * size, to.count, device);
      in_parts(to.count, kMostMatrices, [&](int64_t begin, int64_t count) {
        int wrong = 0;  // of the arguments
        done(op,
             library().of<T>().GetrsBatched(blas.handle(), trans, int(n), int(cols),
                                            addresses<const T>(as) + begin, int(n),
                                            pivots.data<int32_t>() + begin * n,
                                            addresses<T>(bs) + begin, int(n), &wrong, int(count)),
             "cublasgetrsBatched");
      });
      return;
    }
    const SingleLaunches single;
    const solver::Session& s = session(op, device.index);
    const solver::DataType type = solver::data_type(x.dtype());
    const Tensor wide = make_tensor(pivots.sizes(), DType::Int64, device);
    copy(pivots, wide, false);
    const Tensor ignored = make_tensor(Dims{1}, DType::Int32, device);
    for (int64_t m = 0; m < to.count; ++m)
      done(op,
           library().Getrs(s.handle, s.params, trans, n, cols, type,
                           lu.data<T>() + m * factors.step(), n, wide.data<int64_t>() + m * n, type,
                           x.data<T>() + m * to.step(), n, ignored.data<int32_t>()),
           "cusolverDnXgetrs");
  });
  after_launch(current_stream(device.index));
}

void permutation(const char* op, const Tensor& pivots, int64_t rows, const Tensor& out) {
  const int device = out.device().index;
  index_loops(pivots).check_between(pivots, 1, double(rows), op,
                                    "pivots must lie between 1 and the number of rows");
  const PermutationArgs args{out.numel() / rows, rows, pivots.size(-1), pivots.data<int32_t>(),
                             reinterpret_cast<i64*>(out.data<int64_t>())};
  launch_each(kMatrices, kPermutation, device, args.count, args);
}

// ---- LDL ----

void ldl_factor(const char* op, const Tensor& a, bool, const Tensor& ld, const Tensor& pivots,
                const Tensor& info) {
  check_sizes(op, ld);
  copy_loops(ld).triangle(a, 0, false, ld);
  const Batch b(ld);
  const auto n = int(b.rows);
  const Device device = ld.device();
  const SingleLaunches single;
  const solver::Session& s = session(op, device.index);
  by_type(op, ld, [&]<class T>() {
    const solver::Typed<T>& l = library().of<T>();
    int size = 0;
    done(op, l.SytrfSize(s.handle, n, ld.data<T>(), n, &size), "cusolverDnsytrf_bufferSize");
    Workspace w(size_t(size) * sizeof(T), 0, device);
    for (int64_t m = 0; m < b.count; ++m)
      done(op,
           l.Sytrf(s.handle, solver::kLower, n, ld.data<T>() + m * b.step(), n,
                   pivots.data<int32_t>() + m * n, static_cast<T*>(w.device.data()), size,
                   info.data<int32_t>() + m),
           "cusolverDnsytrf");
  });
  after_launch(current_stream(device.index));
}

void ldl_solve(const char* op, const Tensor& ld, const Tensor& pivots, const Tensor& b, bool,
               const Tensor& x) {
  check_sizes(op, ld);
  const Batch to(x), factors(ld);
  const int64_t n = to.rows, cols = to.cols;
  const Device device = x.device();
  copy(b, x, false);
  const Tensor own = lies_by_columns(ld) ? ld : by_columns_copy(ld);
  const SingleLaunches single;
  const solver::Session& s = session(op, device.index);
  const solver::DataType type = solver::data_type(x.dtype());
  const Tensor wide = make_tensor(pivots.sizes(), DType::Int64, device);
  copy(pivots, wide, false);
  const Tensor ignored = make_tensor(Dims{1}, DType::Int32, device);
  by_type(op, x, [&]<class T>() {
    size_t on_device = 0, on_host = 0;
    done(op,
         library().SytrsSize(s.handle, solver::kLower, n, cols, type, own.data(), n,
                             wide.data<int64_t>(), type, x.data(), n, &on_device, &on_host),
         "cusolverDnXsytrs_bufferSize");
    Workspace w(on_device, on_host, device);
    for (int64_t m = 0; m < to.count; ++m)
      done(op,
           library().Sytrs(s.handle, solver::kLower, n, cols, type,
                           own.data<T>() + m * factors.step(), n, wide.data<int64_t>() + m * n,
                           type, x.data<T>() + m * to.step(), n, w.device.data(), on_device,
                           w.host.data(), on_host, ignored.data<int32_t>()),
           "cusolverDnXsytrs");
  });
  after_launch(current_stream(device.index));
}

// ---- QR ----

void geqrf(const char* op, const Tensor& a, const Tensor& out, const Tensor& tau) {
  check_sizes(op, a);
  const Batch b(out);
  const int64_t k = std::min(b.rows, b.cols);
  const Device device = out.device();
  copy(a, out, false);
  by_type(op, a, [&]<class T>() {
    const int64_t size = int64_t(sizeof(T));
    if (is_batch_of_small(b, 256)) {
      const BlasCall blas(op, device);
      const Tensor as = address_table(out.data(), b.step() * size, b.count, device);
      const Tensor taus = address_table(tau.data(), k * size, b.count, device);
      in_parts(b.count, kMostMatrices, [&](int64_t begin, int64_t count) {
        int wrong = 0;
        done(op,
             library().of<T>().GeqrfBatched(blas.handle(), int(b.rows), int(b.cols),
                                            addresses<T>(as) + begin, int(b.rows),
                                            addresses<T>(taus) + begin, &wrong, int(count)),
             "cublasgeqrfBatched");
      });
      return;
    }
    const SingleLaunches single;
    const solver::Session& s = session(op, device.index);
    const solver::Library& l = library();
    const solver::DataType type = solver::data_type(a.dtype());
    size_t on_device = 0, on_host = 0;
    done(op,
         l.GeqrfSize(s.handle, s.params, b.rows, b.cols, type, out.data(), b.rows, type, tau.data(),
                     type, &on_device, &on_host),
         "cusolverDnXgeqrf_bufferSize");
    Workspace w(on_device, on_host, device);
    const Tensor ignored = make_tensor(Dims{1}, DType::Int32, device);
    for (int64_t m = 0; m < b.count; ++m)
      done(op,
           l.Geqrf(s.handle, s.params, b.rows, b.cols, type, out.data<T>() + m * b.step(), b.rows,
                   type, tau.data<T>() + m * k, type, w.device.data(), on_device, w.host.data(),
                   on_host, ignored.data<int32_t>()),
           "cusolverDnXgeqrf");
  });
  after_launch(current_stream(device.index));
}

void orgqr(const char* op, const Tensor& a, const Tensor& tau, const Tensor& out) {
  check_sizes(op, a);
  const Batch b(out);
  const int64_t k = tau.size(-1);
  const Device device = out.device();
  copy(a, out, false);
  // cuSOLVER has no function for many, and wants at least one reflection.
  if (is_batch_of_small(b, 256) || k == 0) {
    const FormQArgs args{b.count, b.rows, b.cols, k, out.data(), k ? tau.data() : nullptr};
    launch(kMatrices, uint64_t(out.dtype()), device.index,
           {unsigned(std::min<int64_t>(b.count, 65535))}, {kThreads}, args);
    return;
  }
  by_type(op, a, [&]<class T>() {
    const SingleLaunches single;
    const solver::Session& s = session(op, device.index);
    const solver::Typed<T>& l = library().of<T>();
    int size = 0;
    done(op,
         l.OrgqrSize(s.handle, int(b.rows), int(b.cols), int(k), out.data<T>(), int(b.rows),
                     tau.data<T>(), &size),
         "cusolverDnorgqr_bufferSize");
    Workspace w(size_t(size) * sizeof(T), 0, device);
    const Tensor ignored = make_tensor(Dims{1}, DType::Int32, device);
    for (int64_t m = 0; m < b.count; ++m)
      done(op,
           l.Orgqr(s.handle, int(b.rows), int(b.cols), int(k), out.data<T>() + m * b.step(),
                   int(b.rows), tau.data<T>() + m * k, static_cast<T*>(w.device.data()), size,
                   ignored.data<int32_t>()),
           "cusolverDnorgqr");
  });
  after_launch(current_stream(device.index));
}

// The same for many small ones: Q as a whole, and a product.
void multiply_by_q(const Tensor& a, const Tensor& tau, const Tensor& c, bool left, bool transpose,
                   const Tensor& out) {
  const Batch to(out);
  const int64_t side = a.size(-2), k = tau.size(-1);
  const auto flat = [&](const Tensor& t, int64_t cols) {
    return make_tensor(t.storage(), Dims{to.count, t.size(-2), cols},
                       Dims{t.size(-2) * t.size(-1), t.stride(-2), t.stride(-1)}, t.offset(),
                       t.dtype());
  };
  Tensor q =
      make_tensor(Dims{to.count, side, side}, Dims{side * side, 1, side}, a.dtype(), a.device());
  const Tensor reflections =
      make_tensor(q.storage(), Dims{to.count, side, k}, q.strides(), q.offset(), q.dtype());
  copy(flat(a, k), reflections, false);
  const FormQArgs args{to.count, side, side, k, q.data(), tau.data()};
  launch(kMatrices, uint64_t(q.dtype()), q.device().index,
         {unsigned(std::min<int64_t>(to.count, 65535))}, {kThreads}, args);
  if (transpose) {
    const Tensor transposed =
        make_tensor(q.storage(), q.sizes(), Dims{side * side, side, 1}, q.offset(), q.dtype());
    q = transposed;
    if (is_complex(q.dtype())) {
      q = make_tensor(transposed.sizes(), transposed.dtype(), transposed.device());
      map_unary(UnaryFn::Conj, transposed, q);
    }
  }
  const Tensor other = flat(c, c.size(-1));
  multiply_matrices(left ? q : other, left ? other : q, flat(out, to.cols), false, false);
}

void ormqr(const char* op, const Tensor& a, const Tensor& tau, const Tensor& c, bool left,
           bool transpose, const Tensor& out) {
  check_sizes(op, a);
  check_sizes(op, out);
  const Batch b(out);
  const int64_t k = tau.size(-1), rows_a = a.size(-2), step_a = rows_a * a.size(-1);
  const Device device = out.device();
  if (k > 0 && b.count > 1 && rows_a <= 256) return multiply_by_q(a, tau, c, left, transpose, out);
  copy(c, out, false);
  if (k == 0) return;
  const Tensor own = lies_by_columns(a) ? a : by_columns_copy(a);
  const solver::Operation trans = !transpose              ? solver::kNone
                                  : is_complex(a.dtype()) ? solver::kAdjoint
                                                          : solver::kTranspose;
  const solver::Side side = left ? solver::kLeft : solver::kRight;
  by_type(op, a, [&]<class T>() {
    const SingleLaunches single;
    const solver::Session& s = session(op, device.index);
    const solver::Typed<T>& l = library().of<T>();
    int size = 0;
    done(op,
         l.OrmqrSize(s.handle, side, trans, int(b.rows), int(b.cols), int(k), own.data<T>(),
                     int(rows_a), tau.data<T>(), out.data<T>(), int(b.rows), &size),
         "cusolverDnormqr_bufferSize");
    Workspace w(size_t(size) * sizeof(T), 0, device);
    const Tensor ignored = make_tensor(Dims{1}, DType::Int32, device);
    for (int64_t m = 0; m < b.count; ++m)
      done(op,
           l.Ormqr(s.handle, side, trans, int(b.rows), int(b.cols), int(k),
                   own.data<T>() + m * step_a, int(rows_a), tau.data<T>() + m * k,
                   out.data<T>() + m * b.step(), int(b.rows), static_cast<T*>(w.device.data()),
                   size, ignored.data<int32_t>()),
           "cusolverDnormqr");
  });
  after_launch(current_stream(device.index));
}

const bool registered = [] {
  MatrixLoops& loops = matrix_loops(DeviceType::CUDA);
  loops.cholesky = cholesky;
  loops.solve_triangular = solve_triangular;
  loops.lu_factor = lu_factor;
  loops.lu_solve = lu_solve;
  loops.permutation = permutation;
  loops.ldl_factor = ldl_factor;
  loops.ldl_solve = ldl_solve;
  loops.geqrf = geqrf;
  loops.orgqr = orgqr;
  loops.ormqr = ormqr;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
