// Products with a sparse matrix in CSR layout on the CPU. Threads share the elements, not the rows:
// in graphs of the world some rows have thousands. A row is one thread's, so that sums do not depend
// on how many there are.
#include <algorithm>

#include "core/threads.h"
#include "cpu/lines.h"
#include "cpu/prepare.h"
#include "device/index.h"
#include "device/sparse.h"

namespace rush {
namespace {

constexpr int64_t kGrain = 16384;     // numbers that are worth a thread
constexpr int64_t kAhead = 16;        // elements between a row's fetch and its use
constexpr int64_t kCached = 1 << 18;  // bytes of a dense matrix that lie in the cache anyway

struct Matrix {
  Tensor columns_kept, values_kept;
  const int64_t *columns, *bounds;
  int64_t rows, count;

  explicit Matrix(const Bags& m)
      : columns_kept(cpu::converted(m.index, DType::Int64)),
        values_kept(m.weight.defined() ? cpu::in_loop_type(m.weight) : m.weight),
        columns(columns_kept.data<int64_t>()),
        bounds(m.bounds.data<int64_t>()),
        rows(m.size()),
        count(m.index.numel()) {}

  void check(const char* op, int64_t width, int64_t size) const {
    check_indices(columns_kept, {op, size, width, 0, false});
    bool rises = bounds[0] == 0 && bounds[rows] == count;
    for (int64_t r = 0; r < rows; ++r) rises &= bounds[r] <= bounds[r + 1];
    rush::check(rises, ErrorKind::Runtime, op, "bounds must rise from 0 to the number of columns, ",
                count);
  }

  // Calls f(first row, end) so that each thread has as many rows and elements as the others.
  template <class F>
  void share(int64_t width, F&& f) const {
    const auto start = [&](int64_t at) {  // the first row that begins at or behind `at`
      int64_t low = 0, high = rows;
      while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (bounds[middle] + middle < at)
          low = middle + 1;
        else
          high = middle;
      }
      return low;
    };
    parallel_for(rows + count, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, width)),
                 [&](int64_t begin, int64_t end) {
                   const int64_t last = end == rows + count ? rows : start(end);
                   if (const int64_t first = start(begin); first < last) f(first, last);
                 });
  }
};

template <class F>
void for_type(const Tensor& x, F&& f) {
  dispatch<DType::Float32, DType::Float64>("sparse product", x.dtype(), std::forward<F>(f));
}

// A matrix times a vector.
template <class T>
void times_vector(const Matrix& m, const T* x, T* y) {
  const T* value = m.values_kept.data<T>();
  m.share(1, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      T even = 0, odd = 0;
      int64_t k = m.bounds[r];
      for (; k + 1 < m.bounds[r + 1]; k += 2) {
        even += value[k] * x[m.columns[k]];
        odd += value[k + 1] * x[m.columns[k + 1]];
      }
      if (k < m.bounds[r + 1]) even += value[k] * x[m.columns[k]];
      y[r] = even + odd;
    }
  });
}

template <class T>
void times_matrix(const Matrix& m, const Tensor& dense, const Tensor& out) {
  const int64_t width = dense.sizes()[1];
  const T *from = dense.data<T>(), *value = m.values_kept.data<T>();
  T* to = out.data<T>();
  const auto& lines = line_kernels<T>();
  const bool fetch = width <= 64 && dense.nbytes() > kCached;
  m.share(width, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const int64_t begin = m.bounds[r], end = m.bounds[r + 1];
      if (fetch) {
        for (int64_t k = begin; k < end; ++k) {
          const T* row = from + m.columns[std::min(k + kAhead, m.count - 1)] * width;
          for (int64_t at = 0; at < width; at += 64 / int64_t(sizeof(T)))
            __builtin_prefetch(row + at);
        }
      }
      lines.sum_rows(to + r * width, from, m.columns + begin, value + begin, end - begin, width);
    }
  });
}

void product_cpu(const Tensor& given, const Bags& matrix, const Tensor& out) {
  const Tensor dense = cpu::in_loop_type(given);
  const Matrix m(matrix);
  m.check("sparse product", dense.sizes()[1], dense.sizes()[0]);
  cpu::into(out, [&](const Tensor& y) {
    for_type(y, [&]<class T>() {
      if (dense.sizes()[1] == 1)
        times_vector<T>(m, dense.data<T>(), y.data<T>());
      else
        times_matrix<T>(m, dense, y);
    });
  });
}

void sampled_cpu(const Tensor& left, const Tensor& right, const Bags& matrix, const Tensor& out) {
  const Tensor a = cpu::in_loop_type(left), b = cpu::in_loop_type(right);
  const Matrix m(matrix);
  const int64_t width = a.sizes()[1];
  m.check("sampled product", width, b.sizes()[0]);
  cpu::into(out, [&](const Tensor& y) {
    for_type(y, [&]<class T>() {
      const auto& lines = line_kernels<T>();
      m.share(width, [&](int64_t first, int64_t last) {
        for (int64_t r = first; r < last; ++r) {
          for (int64_t k = m.bounds[r]; k < m.bounds[r + 1]; ++k) {
            __builtin_prefetch(b.data<T>() + m.columns[std::min(k + kAhead, m.count - 1)] * width);
            y.data<T>()[k] =
                lines.dot(a.data<T>() + r * width, b.data<T>() + m.columns[k] * width, width);
          }
        }
      });
    });
  });
}

const bool registered = [] {
  sparse_loops(DeviceType::CPU) = {product_cpu, sampled_cpu};
  return true;
}();

}  // namespace
}  // namespace rush
