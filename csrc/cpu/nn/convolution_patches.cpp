// How the patches are cut:
// - `columns` is a (channels * kernel points, output points) matrix: column p holds what output
//   point p reads. A block of columns at a time, so that scratch memory stays small.
// - Enough images: each thread takes whole images. Few: the products are split among threads.
#include "cpu/nn/convolution_patches.h"

#include <algorithm>

#include "core/storage.h"
#include "core/threads.h"
#include "cpu/linalg/multiply.h"

namespace rush {

namespace {

// Bytes of one block of columns: stays in the second-level cache.
constexpr int64_t kColumnBytes = 1 << 20;

template <class T>
class Patches {
 public:
  Patches(ConvKind kind, const ConvShape& s, const ConvTensors& t)
      : kind_(kind),
        s_(s),
        x_(t.x.data<T>()),
        w_(t.w.data<T>()),
        bias_(t.bias.defined() ? t.bias.data<T>() : nullptr),
        y_(t.y.data<T>()),
        rows_(s.group_channels() * s.kernel_points()),
        points_(s.output_points()) {
    const int64_t fit = kColumnBytes / int64_t(sizeof(T)) / std::max<int64_t>(rows_, 1);
    block_ = std::min(points_, std::max<int64_t>(fit, 64));
    if (s.is_pointwise()) block_ = points_;  // nothing to unfold
  }

  void run() {
    if (kind_ == ConvKind::WeightGrad) return weight_grad();
    const int64_t jobs = s_.batch * s_.groups;
    if (jobs >= num_threads()) {
      parallel_for(jobs, 1, [&](int64_t begin, int64_t end) { some(begin, end); });
    } else {
      some(0, jobs);
    }
  }

 private:
  int64_t column_count() const { return s_.is_pointwise() ? 0 : rows_ * block_; }
  T* x_at(int64_t n, int64_t g) const {
    return x_ + (n * s_.channels + g * s_.group_channels()) * s_.input_points();
  }
  T* y_at(int64_t n, int64_t g) const {
    return y_ + (n * s_.out_channels + g * s_.group_out_channels()) * points_;
  }
  T* w_at(int64_t g) const { return w_ + g * s_.group_out_channels() * rows_; }

  // Images and groups [begin, end) of Forward or InputGrad.
  void some(int64_t begin, int64_t end) {
    const Ref<Storage> scratch = Storage::allocate({}, size_t(column_count() + 1) * sizeof(T));
    T* columns = static_cast<T*>(scratch->data());
    for (int64_t job = begin; job < end; ++job) {
      const int64_t n = job / s_.groups, g = job % s_.groups;
      if (kind_ == ConvKind::Forward)
        forward(n, g, columns);
      else
        input_grad(n, g, columns);
    }
  }

  void forward(int64_t n, int64_t g, T* columns) {
    const int64_t outs = s_.group_out_channels();
    for (int64_t p = 0; p < points_; p += block_) {
      const int64_t count = std::min(block_, points_ - p);
      const Matrix<T> y{y_at(n, g) + p, points_, 1};
      for (int64_t o = 0; bias_ && o < outs; ++o)
        std::fill_n(y.at(o, 0), count, bias_[g * outs + o]);
      const Matrix<const T> b = unfold(x_at(n, g), p, count, columns);
      multiply({outs, count, rows_, {w_at(g), rows_, 1}, b, y, A(1), A(bias_ ? 1 : 0)});
    }
  }

  void input_grad(int64_t n, int64_t g, T* columns) {
    const int64_t outs = s_.group_out_channels();
    T* x = x_at(n, g);
    if (!s_.is_pointwise()) std::fill_n(x, s_.group_channels() * s_.input_points(), T(0));
    for (int64_t p = 0; p < points_; p += block_) {
      const int64_t count = std::min(block_, points_ - p);
      const Matrix<T> c{s_.is_pointwise() ? x : columns, count, 1};
      multiply(
          {rows_, count, outs, {w_at(g), 1, rows_}, {y_at(n, g) + p, points_, 1}, c, A(1), A(0)});
      if (!s_.is_pointwise()) fold(x, p, count, columns);
    }
  }

  void weight_grad() {
    const int64_t outs = s_.group_out_channels();
    auto groups = [&](int64_t begin, int64_t end) {
      const Ref<Storage> scratch = Storage::allocate({}, size_t(column_count() + 1) * sizeof(T));
      T* columns = static_cast<T*>(scratch->data());
      for (int64_t g = begin; g < end; ++g) {
        for (int64_t n = 0; n < s_.batch; ++n) {
          for (int64_t p = 0; p < points_; p += block_) {
            const int64_t count = std::min(block_, points_ - p);
            const Matrix<const T> b = unfold(x_at(n, g), p, count, columns);
            multiply({outs,
                      rows_,
                      count,
                      {y_at(n, g) + p, points_, 1},
                      b.transposed(),
                      {w_at(g), rows_, 1},
                      A(1),
                      A(n == 0 && p == 0 ? 0 : 1)});
          }
        }
      }
    };
    if (s_.groups >= num_threads())
      parallel_for(s_.groups, 1, groups);
    else
      groups(0, s_.groups);
  }

  using A = Accumulator<T>;

  static void multiply(const Product<T>& p) {
    if (p.k > 0) return Multiply<T>::product(p);
    if (is_zero(p.beta)) {
      for (int64_t i = 0; i < p.m; ++i) std::fill_n(p.c.at(i, 0), p.n, T(0));
    }
  }

  // Calls f(row, x plane offset, first column, count, from, step): runs of columns along the last
  // dim; `from` is the input place of the first one, -1 where the whole run lies outside.
  template <class F>
  void for_runs(int64_t row, int64_t p, int64_t count, F&& f) const {
    const int64_t kx = row % s_.kernel[2], ky = row / s_.kernel[2] % s_.kernel[1],
                  kz = row / (s_.kernel[2] * s_.kernel[1]) % s_.kernel[0];
    const int64_t channel = row / s_.kernel_points();
    for (int64_t done = 0; done < count;) {
      const int64_t at = p + done, ox = at % s_.output[2], oy = at / s_.output[2] % s_.output[1],
                    oz = at / (s_.output[2] * s_.output[1]);
      const int64_t run = std::min(s_.output[2] - ox, count - done);
      const int64_t iz = oz * s_.stride[0] - s_.padding[0] + kz * s_.dilation[0];
      const int64_t iy = oy * s_.stride[1] - s_.padding[1] + ky * s_.dilation[1];
      const int64_t ix = ox * s_.stride[2] - s_.padding[2] + kx * s_.dilation[2];
      const bool inside = iz >= 0 && iz < s_.input[0] && iy >= 0 && iy < s_.input[1];
      const int64_t line = ((channel * s_.input[0] + iz) * s_.input[1] + iy) * s_.input[2];
      f(done, run, inside ? line : -1, ix);
      done += run;
    }
  }

  // The columns [first, last) of a run whose input place ix + i * stride lies inside the line.
  std::pair<int64_t, int64_t> inside_of(int64_t run, int64_t ix) const {
    const int64_t step = s_.stride[2];
    const int64_t first = ix >= 0 ? 0 : (-ix + step - 1) / step;
    const int64_t last = ix >= s_.input[2] ? 0 : (s_.input[2] - ix + step - 1) / step;
    return {std::min(first, run), std::clamp(last, std::min(first, run), run)};
  }

  Matrix<const T> unfold(const T* x, int64_t p, int64_t count, T* columns) const {
    if (s_.is_pointwise()) return {x + p, s_.input_points(), 1};
    const int64_t step = s_.stride[2];
    parallel_for(rows_, std::max<int64_t>(1, 32768 / count), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* to = columns + row * count;
        for_runs(row, p, count, [&](int64_t done, int64_t run, int64_t line, int64_t ix) {
          T* out = to + done;
          if (line < 0) return void(std::fill_n(out, run, T(0)));
          const auto [first, last] = inside_of(run, ix);
          std::fill_n(out, first, T(0));
          std::fill_n(out + last, run - last, T(0));
          const T* from = x + line + ix;
          if (step == 1) {
            std::copy_n(from + first, last - first, out + first);
          } else {
            for (int64_t i = first; i < last; ++i) out[i] = from[i * step];
          }
        });
      }
    });
    return {columns, count, 1};
  }

  // Adds the columns back to the places they were read from; channels are independent.
  void fold(T* x, int64_t p, int64_t count, const T* columns) const {
    const int64_t step = s_.stride[2], kernel = s_.kernel_points();
    const int64_t grain = std::max<int64_t>(1, 32768 / (count * kernel));
    parallel_for(s_.group_channels(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin * kernel; row < end * kernel; ++row) {
        for_runs(row, p, count, [&](int64_t done, int64_t run, int64_t line, int64_t ix) {
          if (line < 0) return;
          const auto [first, last] = inside_of(run, ix);
          const T* from = columns + row * count + done;
          T* to = x + line + ix;
          for (int64_t i = first; i < last; ++i) to[i * step] = plus(to[i * step], from[i]);
        });
      }
    });
  }

  const ConvKind kind_;
  const ConvShape& s_;
  T *x_, *w_, *bias_, *y_;
  const int64_t rows_, points_;
  int64_t block_;
};

}  // namespace

void convolve_patches(ConvKind kind, const ConvShape& shape, const ConvTensors& t) {
  dispatch<DType::Float32, DType::Float64, DType::Complex64, DType::Complex128, DType::Int64>(
      "convolution", t.x.dtype(), [&]<class T>() { Patches<T>(kind, shape, t).run(); });
}

}  // namespace rush
