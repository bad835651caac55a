// Batch, layer and RMS norm on the CPU, through kernels/norm.cpp: float32 and float64.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/nn/norm_blocks.h"

namespace rush {

namespace {

using namespace norms;

// Do the channels of a point lie end to end? Where each has one point only, they do anyway.
bool channels_lie_end_to_end(const Tensor& x) {
  if (x.is_contiguous()) return x.numel() == x.sizes()[0] * x.sizes()[1];
  return is_channels_last(x.sizes(), x.strides());
}

template <class T>
void moments_last(const Tensor& x, const Planes& p, T* mean, T* var) {
  const ChannelMoments<T> all(x.data<T>(), p.count(), p.channels);
  for (int64_t c = 0; c < p.channels; ++c) {
    mean[c] = T(all.mean[size_t(c)]);
    var[c] = T(all.var[size_t(c)]);
  }
}

template <class T>
void moments_planes(const Tensor& x, const Planes& p, T* mean, T* var) {
  parallel_for(p.channels, rows_worth_a_thread(p.count()), [&](int64_t c, int64_t end) {
    for (; c < end; ++c) {
      double all_mean = 0, all_m2 = 0;
      for (int64_t n = 0; n < p.batch; ++n) {
        double m, m2;
        kernels<T>().moments(x.data<T>() + (n * p.channels + c) * p.points, p.points, &m, &m2);
        const double before = double(n), delta = m - all_mean;
        all_mean += delta / (before + 1);
        all_m2 += m2 + delta * delta * double(p.points) * before / (before + 1);
      }
      mean[c] = T(all_mean);
      var[c] = T(all_m2 / double(p.count()));
    }
  });
}

// y = (x - mean) * scale + shift, channel by channel.
template <class T>
void scale_channels(const Tensor& x, const Planes& p, const T* mean, const T* scale, const T* shift,
                    const Tensor& y) {
  const T* from = x.data<T>();
  T* to = y.data<T>();
  if (channels_lie_end_to_end(x)) {
    parallel_for(p.count(), rows_worth_a_thread(p.channels), [&](int64_t begin, int64_t end) {
      kernels<T>().last(from + begin * p.channels, to + begin * p.channels, end - begin, p.channels,
                        mean, scale, shift);
    });
    return;
  }
  parallel_for(p.batch * p.channels, rows_worth_a_thread(p.points), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      const int64_t c = i % p.channels;
      kernels<T>().plane(from + i * p.points, to + i * p.points, p.points, mean[c], scale[c],
                         shift[c]);
    }
  });
}

template <class T>
void normalize(const Tensor& x, const Tensor& weight, const Tensor& bias, const T* mean,
               const T* var, double eps, const Tensor& y) {
  const Planes p(x);
  std::vector<T> scale(size_t(p.channels)), shift(size_t(p.channels), T(0));
  const T *w = data_or_null<T>(weight), *b = data_or_null<T>(bias);
  for (int64_t c = 0; c < p.channels; ++c) {
    scale[size_t(c)] = T(1 / std::sqrt(double(var[c]) + eps)) * (w ? w[c] : T(1));
    if (b) shift[size_t(c)] = b[c];
  }
  if (is_unborn(y)) {
    const bool last = channels_lie_end_to_end(x);
    if (take_scale<T>(x,
                      {.planes = !last,
                       .width = last ? p.channels : p.points,
                       .shared = last ? p.count() : p.channels},
                      p.channels, mean, scale.data(), shift.data(), y))
      return;
  }
  scale_channels<T>(x, p, mean, scale.data(), shift.data(), y);
}

// The sums of g and of g * (x - mean), channel by channel.
template <class T>
ChannelSums gradient_sums(const Tensor& g, const Tensor& x, const Planes& p, const T* mean) {
  if (channels_lie_end_to_end(x))
    return ChannelSums::of_gradient(g.data<T>(), x.data<T>(), p.count(), p.channels, mean);
  ChannelSums sums(p.channels);
  parallel_for(p.channels, rows_worth_a_thread(p.count()), [&](int64_t c, int64_t end) {
    for (; c < end; ++c) {
      for (int64_t n = 0; n < p.batch; ++n) {
        const int64_t at = (n * p.channels + c) * p.points;
        double a, b;
        kernels<T>().plane_sums(g.data<T>() + at, x.data<T>() + at, p.points, mean[c], &a, &b);
        sums.first[size_t(c)] += a;
        sums.second[size_t(c)] += b;
      }
    }
  });
  return sums;
}

// running = (1 - momentum) * running + momentum * factor * value
template <class T>
void move_towards(const Tensor& running, const T* value, double momentum, double factor) {
  if (!running.defined()) return;
  T* to = running.data<T>();
  const T keep = T(1 - momentum), take = T(momentum), scale = T(factor);
  for (int64_t c = 0; c < running.numel(); ++c) to[c] = keep * to[c] + take * (value[c] * scale);
}

void batch_norm_cpu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const RunningMoments& running, double eps, const Tensor& y, const Tensor& mean,
                    const Tensor& var) {
  for_type(x, [&]<class T>() {
    const Planes p(x);
    if (channels_lie_end_to_end(x))
      moments_last<T>(x, p, mean.data<T>(), var.data<T>());
    else
      moments_planes<T>(x, p, mean.data<T>(), var.data<T>());
    normalize<T>(x, weight, bias, mean.data<T>(), var.data<T>(), eps, y);
    const double n = double(p.count());
    move_towards<T>(running.mean, mean.data<T>(), running.momentum, 1);
    move_towards<T>(running.var, var.data<T>(), running.momentum, n / (n - 1));
  });
  if (running.batches.defined()) ++*running.batches.data<int64_t>();
}

void batch_norm_eval_cpu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const Tensor& mean, const Tensor& var, double eps, const Tensor& y) {
  for_type(
      x, [&]<class T>() { normalize<T>(x, weight, bias, mean.data<T>(), var.data<T>(), eps, y); });
}

void batch_norm_backward_cpu(const Tensor& g, const Tensor& x, const Tensor& weight,
                             const Tensor& mean_, const Tensor& var_, double eps, const Tensor& gx,
                             const Tensor& gw, const Tensor& gb) {
  for_type(x, [&]<class T>() {
    const Planes p(x);
    const T *mean = mean_.data<T>(), *var = var_.data<T>(), *w = data_or_null<T>(weight);
    const auto [sum_g, sum_gx] = gradient_sums<T>(g, x, p, mean);
    std::vector<T> a(size_t(p.channels)), b(a), c(a);
    const double n = double(p.count());
    for (size_t i = 0; i < size_t(p.channels); ++i) {
      const double rstd = 1 / std::sqrt(double(var[i]) + eps), scale = w ? double(w[i]) : 1;
      if (gw.defined()) gw.data<T>()[i] = T(sum_gx[i] * rstd);
      if (gb.defined()) gb.data<T>()[i] = T(sum_g[i]);
      a[i] = T(scale * rstd);
      b[i] = T(-scale * rstd * rstd * rstd * sum_gx[i] / n);
      c[i] = T(-scale * rstd * sum_g[i] / n);
    }
    if (!gx.defined()) return;
    const T *from_g = g.data<T>(), *from_x = x.data<T>();
    T* to = gx.data<T>();
    if (channels_lie_end_to_end(x)) {
      parallel_for(p.count(), rows_worth_a_thread(p.channels), [&](int64_t begin, int64_t end) {
        const int64_t at = begin * p.channels;
        kernels<T>().last_backward(from_g + at, from_x + at, to + at, end - begin, p.channels, mean,
                                   a.data(), b.data(), c.data());
      });
      return;
    }
    parallel_for(p.batch * p.channels, rows_worth_a_thread(p.points), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        const size_t ch = size_t(i % p.channels);
        kernels<T>().plane_backward(from_g + i * p.points, from_x + i * p.points, to + i * p.points,
                                    p.points, mean[ch], a[ch], b[ch], c[ch]);
      }
    });
  });
}

void row_norm_cpu(const Tensor& x, int64_t width, const Tensor& weight, const Tensor& bias,
                  bool centred, double eps, const Tensor& y, const Tensor& mean,
                  const Tensor& rstd) {
  if (is_unborn(y) && deferred::take_row_norm(x, width, weight, bias, centred, eps, y, mean, rstd))
    return;
  for_type(x, [&]<class T>() {
    const std::vector<T> ones(weight.defined() ? 0 : size_t(width), T(1)),
        zeros(bias.defined() ? 0 : size_t(width), T(0));
    const T* w = weight.defined() ? weight.data<T>() : ones.data();
    const T* b = bias.defined() ? bias.data<T>() : zeros.data();
    parallel_for(rstd.numel(), rows_worth_a_thread(width), [&](int64_t i, int64_t end) {
      kernels<T>().rows(x.data<T>() + i * width, y.data<T>() + i * width, end - i, width, w, b,
                        centred, eps, mean.data<T>() + i, rstd.data<T>() + i);
    });
  });
}

void row_norm_backward_cpu(const Tensor& g, const Tensor& x, int64_t width, const Tensor& weight,
                           const Tensor& mean, const Tensor& rstd, bool centred, const Tensor& gx,
                           const Tensor& gw, const Tensor& gb) {
  if (gx.defined() && is_unborn(gx) &&
      deferred::take_row_norm_backward(g, x, width, weight, mean, rstd, centred, gx, gw, gb))
    return;
  for_type(x, [&]<class T>() {
    const std::vector<T> ones(weight.defined() ? 0 : size_t(width), T(1));
    const T* w = weight.defined() ? weight.data<T>() : ones.data();
    const int64_t rows = rstd.numel();
    const auto run = [&](int64_t i, int64_t count, T* to_w, T* to_b) {
      const int64_t at = i * width;
      kernels<T>().rows_backward(g.data<T>() + at, x.data<T>() + at, w,
                                 gx.defined() ? gx.data<T>() + at : nullptr, count, width,
                                 mean.data<T>() + i, rstd.data<T>() + i, centred, to_w, to_b);
    };
    if (!gw.defined() && !gb.defined()) {
      parallel_for(rows, rows_worth_a_thread(width),
                   [&](int64_t i, int64_t end) { run(i, end - i, nullptr, nullptr); });
      return;
    }
    RowSums<T> sums(rows, width);
    parallel_for(sums.blocks, rows_worth_a_thread(sums.block * width), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        T* at = sums.of_block(i);
        run(i * sums.block, std::min(rows - i * sums.block, sums.block), at, at + width);
      }
    });
    sums.add_up(gw, gb);
  });
}

const bool registered = [] {
  NormLoops& loops = norm_loops(DeviceType::CPU);
  loops.batch_norm = batch_norm_cpu;
  loops.batch_norm_eval = batch_norm_eval_cpu;
  loops.batch_norm_backward = batch_norm_backward_cpu;
  loops.row_norm = row_norm_cpu;
  loops.row_norm_backward = row_norm_backward_cpu;
  return true;
}();

}  // namespace
}  // namespace rush
