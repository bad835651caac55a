// Singular values and eigenvalues on GPUs, by cuSOLVER.
//
// Singular values come from Jacobi's method: many small matrices at once, others one by one. Where
// it does not converge, and where it is asked for, QR iterations (gesvd) do it.
#include "core/matrix_shape.h"
#include "cuda/linalg/matmul.h"
#include "cuda/linalg/matrices.h"
#include "device/copy.h"
#include "device/linalg.h"
#include "device/pointwise.h"

namespace rush::cuda {
namespace {

using solver::done;
using solver::library;
using solver::session;

// The largest sides that cuSOLVER takes many of at once.
constexpr int64_t kSmallSide = 32;

// Matrices column by column, one after the other.
Tensor columns_of(int64_t count, int64_t rows, int64_t cols, const Tensor& like) {
  return make_tensor(Dims{count, rows, cols}, Dims{rows * cols, 1, rows}, like.dtype(),
                     like.device());
}
Tensor flat_batch(const Tensor& t, int64_t count) {
  const int64_t rows = t.size(-2), cols = t.size(-1);
  return make_tensor(t.storage(), Dims{count, rows, cols},
                     Dims{rows * cols, t.stride(-2), t.stride(-1)}, t.offset(), t.dtype());
}
// Of a view's matrices the first rows and columns.
Tensor corner(const Tensor& t, int64_t rows, int64_t cols) {
  return make_tensor(t.storage(), Dims{t.size(0), rows, cols}, t.strides(), t.offset(), t.dtype());
}
Tensor one_of(const Tensor& t, int64_t index) {
  return make_tensor(t.storage(), Dims{1, t.size(1), t.size(2)}, t.strides(),
                     t.offset() + index * t.stride(0), t.dtype());
}
Tensor swapped(const Tensor& t) {
  return make_tensor(t.storage(), Dims{t.size(0), t.size(2), t.size(1)},
                     Dims{t.stride(0), t.stride(2), t.stride(1)}, t.offset(), t.dtype());
}
// out = x^H
void write_adjoint(const Tensor& x, const Tensor& out) {
  if (is_complex(x.dtype()))
    map_unary(UnaryFn::Conj, swapped(x), out);
  else
    copy(swapped(x), out, false);
}

// All matrices of a call as one batch; u and vh may be undefined.
struct Svd {
  const char* op;
  Tensor a, u, s, vh, info;  // (count, rows, cols), s: (count, k)
  int64_t rows, cols, k, count;
  bool vectors, thin;
  Device device;
};

// What both ways by rotations hand to the library.
template <class T>
struct JacobiCall {
  const solver::Session& s;
  const solver::Typed<T>& l;
  int m, n;
  solver::Vectors job;
  explicit JacobiCall(const Svd& c)
      : s(session(c.op, c.device.index)),
        l(library().of<T>()),
        m(int(c.rows)),
        n(int(c.cols)),
        job(c.vectors ? solver::kWithVectors : solver::kNoVectors) {}
};

template <class T>
void jacobi_batched(const Svd& c) {
  using R = real_of<T>;
  const SingleLaunches single;
  const auto& [s, l, m, n, job] = JacobiCall<T>(c);
  in_parts(c.count, kMostMatrices, [&](int64_t begin, int64_t count) {
    const Tensor own = columns_of(count, m, n, c.a), u = columns_of(count, m, m, c.a),
                 v = columns_of(count, n, n, c.a);
    const auto part = [&](const Tensor& t) {
      return make_tensor(t.storage(), Dims{count, t.size(1), t.size(2)}, t.strides(),
                         t.offset() + begin * t.stride(0), t.dtype());
    };
    copy(part(c.a), own, false);
    R* values = c.s.data<R>() + begin * c.k;
    int size = 0;
    done(c.op,
         l.GesvdjBatchedSize(s.handle, job, m, n, own.data<T>(), m, values, u.data<T>(), m,
                             v.data<T>(), n, &size, s.jacobi, int(count)),
         "cusolverDngesvdjBatched_bufferSize");
    Workspace w(size_t(size) * sizeof(T), 0, c.device);
    done(c.op,
         l.GesvdjBatched(s.handle, job, m, n, own.data<T>(), m, values, u.data<T>(), m, v.data<T>(),
                         n, static_cast<T*>(w.device.data()), size, c.info.data<int32_t>() + begin,
                         s.jacobi, int(count)),
         "cusolverDngesvdjBatched");
    if (!c.vectors) return;
    copy(corner(u, m, c.u.size(2)), part(c.u), false);
    write_adjoint(corner(v, n, c.vh.size(1)), part(c.vh));
  });
}

// Many matrices with one short side: A = Q R (or A^H is), and the singular values are those of the
// small R.
template <class T>
void jacobi_of_factors(const Svd& c) {
  const bool transposed = c.rows < c.cols;
  const int64_t m = std::max(c.rows, c.cols), n = c.k;
  const MatrixLoops& loops = matrix_loops(c.device);
  Tensor tall = c.a;
  if (transposed) write_adjoint(c.a, tall = columns_of(c.count, m, n, c.a));
  const Tensor factors = columns_of(c.count, m, n, c.a), r = columns_of(c.count, n, n, c.a);
  const Tensor tau = make_tensor(Dims{c.count, n}, c.a.dtype(), c.device);
  loops.geqrf(c.op, tall, factors, tau);
  copy_loops(r).triangle(corner(factors, n, n), 0, true, r);
  Svd inner = c;
  inner.a = r;
  inner.rows = inner.cols = n;
  if (c.vectors) {
    inner.u = columns_of(c.count, n, n, c.a);
    inner.vh = columns_of(c.count, n, n, c.a);
  }
  jacobi_batched<T>(inner);
  if (!c.vectors) return;
  const Tensor q = columns_of(c.count, m, n, c.a);
  loops.orgqr(c.op, factors, tau, q);
  const Tensor long_side = transposed ? columns_of(c.count, m, n, c.a) : c.u;
  multiply_matrices(q, inner.u, long_side, false, false);  // never in TF32
  if (transposed) {
    write_adjoint(inner.vh, c.u);
    write_adjoint(long_side, c.vh);
  } else {
    copy(inner.vh, c.vh, false);
  }
}

template <class T>
void jacobi(const Svd& c) {
  using R = real_of<T>;
  const SingleLaunches single;
  const auto& [s, l, m, n, job] = JacobiCall<T>(c);
  const Tensor own = columns_of(c.count, m, n, c.a);
  copy(c.a, own, false);
  // Vectors that nobody asked for are not written, but have to have a place.
  const int64_t u_cols = c.thin ? c.k : m, v_cols = c.thin ? c.k : n;
  const Tensor u = c.vectors ? c.u : columns_of(1, m, u_cols, c.a);
  const Tensor v = columns_of(c.vectors ? c.count : 1, n, v_cols, c.a);
  int size = 0;
  done(c.op,
       l.GesvdjSize(s.handle, job, c.thin, m, n, own.data<T>(), m, c.s.data<R>(), u.data<T>(), m,
                    v.data<T>(), n, &size, s.jacobi),
       "cusolverDngesvdj_bufferSize");
  Workspace w(size_t(size) * sizeof(T), 0, c.device);
  for (int64_t i = 0; i < c.count; ++i)
    done(c.op,
         l.Gesvdj(s.handle, job, c.thin, m, n, own.data<T>() + i * c.rows * c.cols, m,
                  c.s.data<R>() + i * c.k, u.data<T>() + (c.vectors ? i * c.rows * u_cols : 0), m,
                  v.data<T>() + (c.vectors ? i * c.cols * v_cols : 0), n,
                  static_cast<T*>(w.device.data()), size, c.info.data<int32_t>() + i, s.jacobi),
         "cusolverDngesvdj");
  if (c.vectors) write_adjoint(v, c.vh);
}

// One matrix, by QR iterations, which want at least as many rows as columns: a wide one is taken as
// its adjoint, whose vectors have changed places.
template <class T>
void qr_iterations(const Svd& c, int64_t i) {
  using R = real_of<T>;
  const SingleLaunches single;
  const solver::Session& s = session(c.op, c.device.index);
  const solver::Library& l = library();
  const bool transposed = c.rows < c.cols;
  const int64_t m = std::max(c.rows, c.cols), n = std::min(c.rows, c.cols);
  const Tensor own = columns_of(1, m, n, c.a);
  const Tensor from = one_of(c.a, i);
  transposed ? write_adjoint(from, own) : copy(from, own, false);
  const signed char job = !c.vectors ? 'N' : c.thin ? 'S' : 'A';
  const int64_t u_cols = c.thin ? n : m;
  const Tensor u = columns_of(1, m, u_cols, c.a), vh = columns_of(1, n, n, c.a);
  const solver::DataType type = solver::data_type(c.a.dtype()),
                         real = solver::data_type(to_real(c.a.dtype()));
  R* values = c.s.data<R>() + i * c.k;
  size_t on_device = 0, on_host = 0;
  done(c.op,
       l.GesvdSize(s.handle, s.params, job, job, m, n, type, own.data(), m, real, values, type,
                   u.data(), m, type, vh.data(), n, type, &on_device, &on_host),
       "cusolverDnXgesvd_bufferSize");
  Workspace w(on_device, on_host, c.device);
  done(c.op,
       l.Gesvd(s.handle, s.params, job, job, m, n, type, own.data(), m, real, values, type,
               u.data(), m, type, vh.data(), n, type, w.device.data(), on_device, w.host.data(),
               on_host, c.info.data<int32_t>() + i),
       "cusolverDnXgesvd");
  if (!c.vectors) return;
  const Tensor to_u = one_of(c.u, i), to_vh = one_of(c.vh, i);
  if (transposed) {
    write_adjoint(vh, to_u);
    write_adjoint(u, to_vh);
  } else {
    copy(u, to_u, false);
    copy(vh, to_vh, false);
  }
}

void svd(const char* op, const Tensor& a, std::string_view driver, const Tensor& u, const Tensor& s,
         const Tensor& vh, const Tensor& info) {
  check_sizes(op, a);
  const Batch b(a);
  Svd c{op,     flat_batch(a, b.count),   {},      s,           {},   info,      b.rows,
        b.cols, std::min(b.rows, b.cols), b.count, u.defined(), true, a.device()};
  if (c.vectors) {
    c.u = flat_batch(u, b.count);
    c.vh = flat_batch(vh, b.count);
    c.thin = c.u.size(2) == c.k && c.vh.size(1) == c.k;
  }
  by_type(op, a, [&]<class T>() {
    if (driver == "gesvd") {
      for (int64_t i = 0; i < c.count; ++i) qr_iterations<T>(c, i);
      return;
    }
    if (c.count > 1 && std::max(c.rows, c.cols) <= kSmallSide)
      jacobi_batched<T>(c);
    else if (c.count > 1 && c.k <= kSmallSide && c.thin)
      jacobi_of_factors<T>(c);
    else
      jacobi<T>(c);
    after_launch(current_stream(c.device.index));
    note_wait(op);
    const Tensor found = make_tensor(info.sizes(), DType::Int32);
    copy(info, found, false);
    for (int64_t i = 0; i < c.count; ++i)
      if (found.data<int32_t>()[i] > 0) qr_iterations<T>(c, i);
  });
  after_launch(current_stream(c.device.index));
}

void eigh(const char* op, const Tensor& a, bool upper, const Tensor& values, const Tensor& to,
          const Tensor& info) {
  check_sizes(op, a);
  // The matrices become their vectors.
  const bool vectors = to.defined();
  const Tensor v =
      vectors ? to : make_tensor(a.sizes(), by_column_strides(a.sizes()), a.dtype(), a.device());
  copy(a, v, false);
  const Batch b(v);
  const int64_t n = b.rows;
  const Device device = v.device();
  const SingleLaunches single;
  const solver::Session& s = session(op, device.index);
  const solver::Library& l = library();
  const solver::Vectors job = vectors ? solver::kWithVectors : solver::kNoVectors;
  const solver::Triangle uplo = upper ? solver::kUpper : solver::kLower;
  const solver::DataType type = solver::data_type(v.dtype()),
                         real = solver::data_type(values.dtype());
  by_type(op, v, [&]<class T>() {
    using R = real_of<T>;
    size_t on_device = 0, on_host = 0;
    if (b.count > 1 && l.SyevBatched && l.SyevBatchedSize) {
      const int64_t most = std::clamp<int64_t>((int64_t(1) << 27) / (n * n), 1, kMostMatrices);
      in_parts(b.count, most, [&](int64_t begin, int64_t count) {
        T* from = v.data<T>() + begin * b.step();
        R* to = values.data<R>() + begin * n;
        done(op,
             l.SyevBatchedSize(s.handle, s.params, job, uplo, n, type, from, n, real, to, type,
                               &on_device, &on_host, count),
             "cusolverDnXsyevBatched_bufferSize");
        Workspace w(on_device, on_host, device);
        done(op,
             l.SyevBatched(s.handle, s.params, job, uplo, n, type, from, n, real, to, type,
                           w.device.data(), on_device, w.host.data(), on_host,
                           info.data<int32_t>() + begin, count),
             "cusolverDnXsyevBatched");
      });
      return;
    }
    done(op,
         l.SyevdSize(s.handle, s.params, job, uplo, n, type, v.data(), n, real, values.data(), type,
                     &on_device, &on_host),
         "cusolverDnXsyevd_bufferSize");
    Workspace w(on_device, on_host, device);
    for (int64_t i = 0; i < b.count; ++i)
      done(op,
           l.Syevd(s.handle, s.params, job, uplo, n, type, v.data<T>() + i * b.step(), n, real,
                   values.data<R>() + i * n, type, w.device.data(), on_device, w.host.data(),
                   on_host, info.data<int32_t>() + i),
           "cusolverDnXsyevd");
  });
  after_launch(current_stream(device.index));
}

bool eig(const char* op, const Tensor& a, const Tensor& values, const Tensor& v,
         const Tensor& info) {
  const solver::Library& l = library();
  if (l.missing.empty() && (!l.Geev || !l.GeevSize)) return false;
  check_sizes(op, a);
  const Batch b(a);
  const int64_t n = b.rows;
  const Device device = a.device();
  const SingleLaunches single;
  const solver::Session& s = session(op, device.index);
  const solver::DataType type = solver::data_type(a.dtype()),
                         complex_type = solver::data_type(values.dtype());
  const solver::Vectors job = v.defined() ? solver::kWithVectors : solver::kNoVectors;
  const int64_t size = a.element_size();
  void* first = v.defined() ? v.data() : nullptr;
  const int64_t ld = v.defined() ? n : 1;
  size_t on_device = 0, on_host = 0;
  done(op,
       l.GeevSize(s.handle, s.params, solver::kNoVectors, job, n, type, a.data(), n, complex_type,
                  values.data(), type, nullptr, 1, type, first, ld, type, &on_device, &on_host),
       "cusolverDnXgeev_bufferSize");
  Workspace w(on_device, on_host, device);
  for (int64_t i = 0; i < b.count; ++i)
    done(op,
         l.Geev(s.handle, s.params, solver::kNoVectors, job, n, type,
                a.data<char>() + i * b.step() * size, n, complex_type,
                values.data<char>() + i * n * values.element_size(), type, nullptr, 1, type,
                first ? static_cast<char*>(first) + i * b.step() * size : nullptr, ld, type,
                w.device.data(), on_device, w.host.data(), on_host, info.data<int32_t>() + i),
         "cusolverDnXgeev");
  after_launch(current_stream(device.index));
  return true;
}

const bool registered = [] {
  MatrixLoops& loops = matrix_loops(DeviceType::CUDA);
  loops.svd = svd;
  loops.eigh = eigh;
  loops.eig_in_pairs = eig;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
