#include "cpu/linalg/gemm.h"

#include <algorithm>

#include "core/interrupt.h"
#include "core/threads.h"
#include "cpu/linalg/gemm_kernels.h"
#include "cpu/linalg/multiply.h"
#include "device/linalg.h"

namespace rush {

namespace {

template <class F>
void dispatch_product(const char* op, DType t, F&& f) {
  dispatch<DType::Float32, DType::Float64, DType::BFloat16, DType::Float16, DType::Complex64,
           DType::Complex128, DType::Int64, DType::Int32, DType::Int16, DType::Int8, DType::UInt8>(
      op, t, std::forward<F>(f));
}

// Integer factors wrap around in the tensor's own type first.
template <class T>
Accumulator<T> factor(const Scalar& s) {
  if constexpr (std::is_integral_v<T>)
    return Accumulator<T>(s.to<T>());
  else
    return s.to<Accumulator<T>>();
}

template <class T>
struct Batch {
  Product<T> first;
  int64_t count, a_step, b_step, c_step;

  Product<T> at(int64_t i) const {
    Product<T> p = first;
    p.a.data += i * a_step;
    p.b.data += i * b_step;
    p.c.data += i * c_step;
    return p;
  }
};

template <class T>
Batch<T> batch_of(const Tensor& a, const Tensor& b, const Tensor& out, const Scalar& alpha,
                  const Scalar& beta) {
  const size_t d = size_t(a.dim()) - 2;  // 0 or 1, the place of the rows
  const int64_t *as = a.sizes().data(), *bs = b.sizes().data();
  const int64_t *at = a.strides().data(), *bt = b.strides().data(), *ct = out.strides().data();
  return {{as[d],
           bs[d + 1],
           as[d + 1],
           {a.data<T>(), at[d], at[d + 1]},
           {b.data<T>(), bt[d], bt[d + 1]},
           {out.data<T>(), ct[d], ct[d + 1]},
           factor<T>(alpha),
           factor<T>(beta)},
          d ? as[0] : 1,
          d ? at[0] : 0,
          d ? bt[0] : 0,
          d ? ct[0] : 0};
}

// A shared b and rows that follow each other from matrix to matrix: one tall product. A shared a
// and columns that do: one wide product.
template <class T>
void fold(Batch<T>& batch) {
  Product<T>& p = batch.first;
  if (batch.b_step == 0 && batch.a_step == p.m * p.a.row && batch.c_step == p.m * p.c.row) {
    p.m *= batch.count;
    batch.count = 1;
  } else if (batch.a_step == 0 && batch.b_step == p.n * p.b.col && batch.c_step == p.n * p.c.col) {
    p.n *= batch.count;
    batch.count = 1;
  }
}

// c = beta * c, for products without anything to add up.
template <class T>
void scale_element(T* c, Accumulator<T> beta) {
  finish(c, Accumulator<T>(0), Accumulator<T>(0), beta);
}

template <class T>
void scale(const Batch<T>& batch) {
  for (int64_t i = 0; i < batch.count; ++i) {
    const Product<T> p = batch.at(i);
    for (int64_t r = 0; r < p.m; ++r)
      for (int64_t c = 0; c < p.n; ++c) scale_element(p.c.at(r, c), p.beta);
  }
}

// Small matrices: each thread takes some of them. Large ones, and few that would share badly among
// the threads: all threads work on each. The limits are guesses, not measured yet.
template <class T>
void multiply_batch(const Batch<T>& batch) {
  constexpr int64_t kWorkPerThread = 64 * 64 * 64, kLarge = 512 * 512 * 512;
  const Product<T>& p = batch.first;
  const double work = double(p.m) * double(p.n) * double(p.k);
  const bool uneven = batch.count < 4 * num_threads() && batch.count % num_threads() != 0;
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (i > begin && work > kWorkPerThread) check_interrupt();
      Multiply<T>::product(batch.at(i));
    }
  };
  if (work > kLarge || (uneven && work > 4 * kWorkPerThread)) return run(0, batch.count);
  parallel_for(batch.count, std::max<int64_t>(1, int64_t(kWorkPerThread / work)), run);
}

}  // namespace

void gemm_cpu(const Tensor& a, const Tensor& b, const Tensor& out, const Scalar& alpha,
              const Scalar& beta) {
  dispatch_product("matmul", out.dtype(), [&]<typename T>() {
    Batch<T> batch = batch_of<T>(a, b, out, alpha, beta);
    if (out.numel() == 0) return;
    if (batch.count > 1) fold(batch);
    if (batch.first.k == 0 || is_zero(batch.first.alpha)) return scale(batch);
    if (batch.count == 1) return Multiply<T>::product(batch.first);
    multiply_batch(batch);
  });
}

void gemv_cpu(const Tensor& a, const Tensor& x, const Tensor& out, const Scalar& alpha,
              const Scalar& beta) {
  dispatch_product("mv", out.dtype(), [&]<typename T>() {
    const int64_t m = a.sizes()[0], k = a.sizes()[1], y_stride = out.strides()[0];
    const Matrix<const T> matrix{a.data<T>(), a.strides()[0], a.strides()[1]};
    const Accumulator<T> alpha_t = factor<T>(alpha), beta_t = factor<T>(beta);
    T* const y = out.data<T>();
    if (m == 0) return;
    if (k == 0 || is_zero(alpha_t)) {
      for (int64_t i = 0; i < m; ++i) scale_element(y + i * y_stride, beta_t);
      return;
    }
    Multiply<T>::vector(m, k, matrix, x.data<T>(), x.strides()[0], y, y_stride, alpha_t, beta_t);
  });
}

void dot_cpu(const Tensor& a, const Tensor& b, const Tensor& out) {
  dispatch_product("dot", out.dtype(), [&]<typename T>() {
    *out.data<T>() =
        T(Multiply<T>::dot(a.numel(), a.data<T>(), a.strides()[0], b.data<T>(), b.strides()[0]));
  });
}

namespace {

void add_wide_cpu(const Tensor& a, const Tensor& b, const Tensor& out) {
  const int64_t m = a.sizes()[0], k = a.sizes()[1], n = b.sizes()[1];
  if (m * n == 0 || k == 0) return;
  dispatch<DType::BFloat16, DType::Float16>("matmul", a.dtype(), [&]<typename T>() {
    add_wide_product<T>(m, n, k, {a.data<T>(), a.strides()[0], a.strides()[1]},
                        {b.data<T>(), b.strides()[0], b.strides()[1]}, out.data<float>());
  });
}

const bool registered = [] {
  product_loops(DeviceType::CPU) = {gemm_cpu, gemv_cpu, dot_cpu, nullptr, add_wide_cpu};
  return true;
}();

}  // namespace
}  // namespace rush
