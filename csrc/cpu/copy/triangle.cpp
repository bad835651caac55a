// The part of a matrix on one side of a diagonal.
#include <algorithm>
#include <cstring>

#include "core/interrupt.h"
#include "cpu/loop_nest.h"
#include "device/copy.h"

namespace rush {
namespace {

template <class W>
void copy_columns(W* out, int64_t out_stride, const W* x, int64_t x_stride, int64_t begin,
                  int64_t end) {
  if (out == x || begin >= end) return;
  if (out_stride == 1 && x_stride == 1)
    std::memcpy(out + begin, x + begin, size_t(end - begin) * sizeof(W));
  else
    for (int64_t k = begin; k < end; ++k) out[k * out_stride] = x[k * x_stride];
}

template <class W>
void clear_columns(W* out, int64_t out_stride, int64_t begin, int64_t end) {
  if (begin >= end) return;
  if (out_stride == 1)
    std::memset(out + begin, 0, size_t(end - begin) * sizeof(W));
  else
    for (int64_t k = begin; k < end; ++k) std::memset(out + k * out_stride, 0, sizeof(W));
}

void triangle(const Tensor& x, int64_t diagonal, bool upper, const Tensor& out) {
  if (out.numel() == 0) return;
  const auto last = size_t(x.dim() - 1);
  const int64_t cols = x.sizes()[last], rows = x.numel() / cols;
  const int64_t height = x.sizes()[last - 1];
  dispatch_width(x.dtype(), [&]<typename W>() {
    parallel_for(rows, std::max<int64_t>(1, kGrain / cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        int64_t from = 0, to = 0;  // offsets of the row
        for (int64_t d = int64_t(last) - 1, rest = r; d >= 0; --d) {
          const int64_t n = x.sizes()[size_t(d)], i = rest % n;
          rest /= n;
          from += i * x.strides()[size_t(d)];
          to += i * out.strides()[size_t(d)];
        }
        // The first column right of the lower part; rows and cols are far from overflow, the
        // diagonal may not be.
        const int64_t shift = std::clamp(diagonal, -height - 1, cols + 1);
        const int64_t split = std::clamp<int64_t>(r % height + shift + (upper ? 0 : 1), 0, cols);
        const int64_t in = x.strides()[last], step = out.strides()[last];
        copy_columns(out.data<W>() + to, step, x.data<W>() + from, in, upper ? split : 0,
                     upper ? cols : split);
        clear_columns(out.data<W>() + to, step, upper ? 0 : split, upper ? split : cols);
      }
    });
  });
}

void triangle_indices(int64_t rows, int64_t cols, int64_t diagonal, bool upper, const Tensor& out) {
  // Rows outside [begin, end) have no elements.
  const int64_t begin = upper ? 0 : std::clamp<int64_t>(-diagonal, 0, rows);
  const int64_t end = upper ? std::clamp<int64_t>(cols - diagonal, 0, rows) : rows;
  dispatch<DType::Int64, DType::Int32>("triangle_indices", out.dtype(), [&]<typename T>() {
    T* row = out.data<T>();
    T* col = row + out.sizes()[1];
    InterruptCounter interrupts(1 << 18);
    for (int64_t r = begin; r < end; ++r) {
      const int64_t first = upper ? std::clamp<int64_t>(r + diagonal, 0, cols) : 0;
      const int64_t last = upper ? cols : std::clamp<int64_t>(r + diagonal + 1, 0, cols);
      interrupts.add(1 + last - first);
      for (int64_t c = first; c < last; ++c) *row++ = T(r), *col++ = T(c);
    }
  });
}

const bool registered = [] {
  copy_loops(DeviceType::CPU).triangle = triangle;
  copy_loops(DeviceType::CPU).triangle_indices = triangle_indices;
  return true;
}();

}  // namespace
}  // namespace rush
