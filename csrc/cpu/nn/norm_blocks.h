// norm_blocks.h: what the normalisations of the CPU share: the loops in use, images as planes, and
// sums over rows of channels.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/layout.h"
#include "core/threads.h"
#include "cpu/isa_table.h"
#include "cpu/kernels/norm_tables.h"
#include "device/deferred.h"
#include "device/nn/norm.h"

namespace rush::norms {

template <class T>
const NormTable<T>& kernels() {
  return kernels_in_use([]<Isa isa>() { return norm_table<isa, T>(); });
}

template <class F>
void for_type(const Tensor& x, F&& f) {
  dispatch<DType::Float32, DType::Float64>("norm", x.dtype(), std::forward<F>(f));
}

template <class T>
T* data_or_null(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

inline int64_t rows_worth_a_thread(int64_t width) {
  constexpr int64_t kGrain = 16384;  // elements that are worth a thread of their own
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(width, 1));
}

// Parts of two sums per element, added up in double and in their order, to whichever of `first` and
// `second` is wanted. part(i, k): what the i-th part adds to the sums of element k.
template <class T, class F>
void add_up_parts(int64_t parts, int64_t width, const Tensor& first, const Tensor& second,
                  F&& part) {
  for (int64_t k = 0; k < width; ++k) {
    double a = 0, b = 0;
    for (int64_t i = 0; i < parts; ++i) {
      const auto [to_a, to_b] = part(i, k);
      a += double(to_a);
      b += double(to_b);
    }
    if (first.defined()) first.data<T>()[k] = T(a);
    if (second.defined()) second.data<T>()[k] = T(b);
  }
}

// Two sums down the columns of rows: blocks of rows have sums of their own, added up in their order.
template <class T>
struct RowSums {
  int64_t rows, width, block, blocks;
  std::vector<T> parts;
  RowSums(int64_t rows, int64_t width)
      : rows(rows),
        width(width),
        block(std::max(rows_worth_a_thread(width), rows / 64)),
        blocks((rows + block - 1) / block),
        parts(size_t(2 * blocks * width), T(0)) {}
  // Where block i adds to the first sums; the second ones are `width` behind.
  T* of_block(int64_t i) { return parts.data() + 2 * i * width; }
  void add_up(const Tensor& first, const Tensor& second) {
    add_up_parts<T>(blocks, width, first, second, [&](int64_t i, int64_t k) {
      const T* at = of_block(i) + k;
      return std::pair(at[0], at[width]);
    });
  }
};

// An image batch as (batch, channels, points).
struct Planes {
  int64_t batch, channels, points;
  explicit Planes(const Tensor& x) : batch(x.sizes()[0]), channels(x.sizes()[1]), points(0) {
    points = x.numel() / std::max<int64_t>(1, batch * channels);
  }
  int64_t count() const { return batch * points; }
};

// y = (x - centre) * scale + shift as a step over rows that waits, with `count` numbers of each kind.
template <class T>
bool take_scale(const Tensor& x, RowStep row, int64_t count, const T* centre, const T* scale,
                const T* shift, const Tensor& y) {
  row.fn = RowOp::Scale;
  const T* all[] = {centre, scale, shift};
  for (size_t i = 0; i < 3; ++i) {
    row.with[i] = make_tensor(Dims{count}, x.dtype(), x.device());
    std::copy_n(all[i], count, row.with[i].data<T>());
  }
  const Tensor* operands[] = {&x};
  return deferred::take_rows(std::move(row), operands, y);
}

// Two sums per channel over rows of channels. Rows are taken in fixed blocks, each block's sums in
// T, blocks added up in double in their order, so that the result does not depend on the number of
// threads.
struct ChannelSums {
  std::vector<double> first, second;
  explicit ChannelSums(int64_t channels) : first(size_t(channels), 0), second(first) {}

  // block(from, rows, a, b) adds to a[channel] and b[channel].
  template <class T, class F>
  static ChannelSums of(int64_t rows, int64_t channels, F&& block) {
    constexpr int64_t kBlockRows = 256;
    const int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
    std::vector<T> parts(size_t(blocks * 2 * channels), T(0));
    parallel_for(blocks, rows_worth_a_thread(kBlockRows * channels), [&](int64_t b, int64_t end) {
      for (; b < end; ++b) {
        T* at = parts.data() + b * 2 * channels;
        block(b * kBlockRows, std::min(kBlockRows, rows - b * kBlockRows), at, at + channels);
      }
    });
    ChannelSums sums(channels);
    for (int64_t b = 0; b < blocks; ++b) {
      const T* at = parts.data() + b * 2 * channels;
      for (int64_t c = 0; c < channels; ++c) {
        sums.first[size_t(c)] += double(at[c]);
        sums.second[size_t(c)] += double(at[channels + c]);
      }
    }
    return sums;
  }
  // Of g, and of g * (x - mean).
  template <class T>
  static ChannelSums of_gradient(const T* g, const T* x, int64_t rows, int64_t channels,
                                 const T* mean) {
    return of<T>(rows, channels, [&](int64_t from, int64_t count, T* a, T* b) {
      const int64_t at = from * channels;
      kernels<T>().last_backward_sums(g + at, x + at, count, channels, mean, a, b);
    });
  }
};

// Channels' moments over rows of channels: differences from a typical value keep the squares small.
template <class T>
struct ChannelMoments {
  std::vector<double> mean, var;

  ChannelMoments(const T* x, int64_t rows, int64_t channels)
      : mean(size_t(channels)), var(size_t(channels)) {
    // A better guess than one row: the mean of a few.
    const int64_t few = std::min<int64_t>(rows, 32);
    std::vector<T> shift(size_t(channels), T(0));
    for (int64_t r = 0; r < few; ++r)
      for (int64_t c = 0; c < channels; ++c) mean[size_t(c)] += double(x[r * channels + c]);
    for (size_t c = 0; c < size_t(channels); ++c) shift[c] = T(mean[c] / double(few));
    const ChannelSums sums =
        ChannelSums::of<T>(rows, channels, [&](int64_t from, int64_t count, T* a, T* b) {
          kernels<T>().last_sums(x + from * channels, count, channels, shift.data(), a, b);
        });
    for (size_t c = 0; c < size_t(channels); ++c) {
      const double n = double(rows), d = sums.first[c] / n, square = sums.second[c];
      mean[c] = double(shift[c]) + d;
      var[c] = std::max(square / n - d * d, 0.0) + (square - square);  // NaN stays NaN
    }
  }
};

}  // namespace rush::norms
