// The CUDA kernels of neural networks, without a GPU: the .cu files compiled by g++ and run on the
// CPU, against plain loops.
#include "cuda_on_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "testing.h"

#include "cuda/kernels/cross_entropy.cu"
#include "cuda/kernels/ctc.cu"
#include "cuda/kernels/dropout_exact.cu"
#include "cuda/kernels/embedding.cu"
#include "cuda/kernels/fractional_pool.cu"
#include "cuda/kernels/grid_sample.cu"
#include "cuda/kernels/group_norm.cu"
#include "cuda/kernels/loss.cu"
#include "cuda/kernels/resample.cu"
#include "cuda/kernels/row_norm.cu"
#include "cuda/kernels/softmax.cu"

using namespace rush;

namespace {

constexpr Dim3 kBlock{kThreads};

// Numbers between -3 and 3 without a pattern.
template <class T>
std::vector<T> numbers(size_t n, unsigned seed = 1) {
  std::vector<T> v(n);
  for (size_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    v[i] = T(float(seed >> 8) / float(1 << 24) * 6 - 3);
  }
  return v;
}
bool near(double a, double b, double tolerance = 1e-5) {
  return std::abs(a - b) <= tolerance * (1 + std::abs(b)) || (std::isnan(a) && std::isnan(b));
}

// Softmax of (outer, width, inner), and its gradient.
struct PlainSoftmax {
  std::vector<double> y, gx;
  PlainSoftmax(const auto& x, const auto& g, size_t width, size_t inner, bool log)
      : y(x.size()), gx(x.size()) {
    for (size_t c = 0; c < x.size() / width; ++c) {
      const size_t start = c / inner * width * inner + c % inner;
      double sum = 0, dot = 0;
      for (size_t k = 0; k < width; ++k) sum += std::exp(double(float(x[start + k * inner])));
      for (size_t k = 0; k < width; ++k) {
        const size_t at = start + k * inner;
        const double p = std::exp(double(float(x[at]))) / sum;
        y[at] = log ? std::log(p) : p;
        dot += double(float(g[at])) * (log ? 1 : p);
      }
      for (size_t k = 0; k < width; ++k) {
        const size_t at = start + k * inner;
        gx[at] = log ? double(float(g[at])) - std::exp(y[at]) * dot
                     : y[at] * (double(float(g[at])) - dot);
      }
    }
  }
};

template <class T>
bool same(const std::vector<T>& a, const std::vector<double>& b, double tolerance = 1e-5) {
  bool good = a.size() == b.size();
  for (size_t i = 0; good && i < a.size(); ++i) good = near(double(float(a[i])), b[i], tolerance);
  return good;
}

}  // namespace

TEST(softmax_of_rows) {
  const auto x = numbers<float>(3 * 1000), g = numbers<float>(3 * 1000, 7);
  const PlainSoftmax want(x, g, 1000, 1, false), logs(x, g, 1000, 1, true);
  std::vector<float> y(x.size()), gx(x.size());
  SoftmaxArgs args{x.data(), nullptr, y.data(), 3, 1000, 1};
  launch_together({3}, kBlock, softmax_held<float, float, 256, 4, 4, false>, args);
  EXPECT(same(y, want.y));
  launch_together({3}, kBlock, softmax_rows<float, float, 256, 1, true>, args);
  EXPECT(same(y, logs.y));
  launch_together({1}, kBlock, softmax_held<float, float, 32, 4, 8, true>, args);
  EXPECT(same(y, logs.y));
  const SoftmaxArgs back{y.data(), g.data(), gx.data(), 3, 1000, 1};
  launch_together({3}, kBlock, softmax_backward_held<float, float, 256, 1, 16, true>, back);
  EXPECT(same(gx, logs.gx));
  launch_together({3}, kBlock, softmax_rows<float, float, 256, 4, false>, args);
  EXPECT(same(y, want.y));
  launch_together({3}, kBlock, softmax_backward_rows<float, float, 256, 4, false>, back);
  EXPECT(same(gx, want.gx));
}

TEST(softmax_of_short_rows_in_half) {
  const auto x = numbers<half>(37 * 10), g = numbers<half>(37 * 10, 7);
  const PlainSoftmax want(x, g, 10, 1, false);
  std::vector<half> y(x.size()), gx(x.size());
  launch_together({2}, kBlock, softmax_held<float, half, 8, 1, 16, false>,
                  SoftmaxArgs{x.data(), nullptr, y.data(), 37, 10, 1});
  EXPECT(same(y, want.y, 1e-3));
  launch_together({2}, kBlock, softmax_backward_held<float, half, 8, 1, 16, false>,
                  SoftmaxArgs{y.data(), g.data(), gx.data(), 37, 10, 1});
  EXPECT(same(gx, want.gx, 2e-3));
}

TEST(softmax_of_columns) {
  const auto x = numbers<double>(2 * 21 * 45), g = numbers<double>(2 * 21 * 45, 7);
  const PlainSoftmax want(x, g, 21, 45, true);
  std::vector<double> y(x.size()), gx(x.size());
  const SoftmaxArgs args{x.data(), nullptr, y.data(), 90, 21, 45};
  launch_together({6}, kBlock, softmax_columns<double, double, 16, true>, args);
  EXPECT(same(y, want.y));
  launch_together({1}, kBlock, softmax_columns<double, double, 1, true>, args);
  EXPECT(same(y, want.y));
  const SoftmaxArgs back{y.data(), g.data(), gx.data(), 90, 21, 45};
  launch_together({6}, kBlock, softmax_backward_columns<double, double, 16, true>, back);
  EXPECT(same(gx, want.gx));
}

TEST(softmax_of_infinities) {
  const float inf = limits<float>::inf;
  const std::vector<float> x{-inf, 0, -inf, -inf, -inf, -inf};
  std::vector<float> y(6);
  launch_together({1}, kBlock, softmax_rows<float, float, 256, 1, false>,
                  SoftmaxArgs{x.data(), nullptr, y.data(), 2, 3, 1});
  EXPECT(y[0] == 0 && y[1] == 1 && y[2] == 0);
}

// 21 classes at (2, 50) positions, some ignored, one out of range; weights and smoothing.
TEST(cross_entropy_by_columns_and_rows) {
  constexpr i64 batch = 2, classes = 21, points = 50;
  const auto x = numbers<float>(size_t(batch * classes * points));
  auto weight = numbers<float>(size_t(classes), 5);
  for (float& w : weight) w = std::abs(w) + 0.1f;
  std::vector<i64> target(size_t(batch * points));
  for (size_t i = 0; i < target.size(); ++i) target[i] = i64(i * 5 % classes);
  target[3] = target[77] = -100;
  target[60] = 21;
  const double smoothing = 0.1;

  std::vector<double> losses(target.size()), gx(x.size());
  std::vector<float> turned(x.size());  // classes along memory
  double sum = 0, weights = 0, all_weights = 0;
  for (float w : weight) all_weights += w;
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = 0; i < target.size(); ++i) {
      const size_t start = i / points * size_t(classes * points) + i % points;
      const auto score = [&](size_t k) { return double(x[start + k * points]); };
      double lse = 0, mixed = 0;
      for (size_t k = 0; k < classes; ++k) {
        lse += std::exp(score(k));
        mixed += weight[k] * score(k);
        turned[i * classes + k] = x[start + k * points];
      }
      lse = std::log(lse);
      const bool counts = target[i] >= 0 && target[i] < classes;
      const size_t t = size_t(counts ? target[i] : 0);
      const double w = counts ? weight[t] : 0, even = smoothing / classes;
      if (pass == 0) {
        losses[i] =
            counts ? (1 - smoothing) * w * (lse - score(t)) + even * (all_weights * lse - mixed)
                   : 0;
        sum += losses[i];
        weights += w;
        continue;
      }
      for (size_t k = 0; k < classes; ++k) {
        double v = ((1 - smoothing) * w + even * all_weights) * std::exp(score(k) - lse) -
                   even * weight[k] - (k == t ? (1 - smoothing) * w : 0);
        gx[start + k * points] = counts ? 2 * v / weights : 0;
      }
    }
  }

  IndexFault fault{~u64(0), 0, 0, 0};
  std::vector<float> each(target.size()), total(target.size()), got(x.size());
  float loss = 0;
  const float g = 2;
  double partial[8], found = 0;
  CrossEntropyArgs args{};
  args.x = x.data(), args.weight = weight.data(), args.target = target.data();
  args.total = total.data(), args.loss = each.data();
  args.batch = batch, args.classes = classes, args.points = points;
  args.batch_step = classes * points, args.class_step = points, args.point_step = 1;
  args.ignore_index = -100, args.smoothing = smoothing;
  args.fault = &fault, args.launch = 9;
  launch_together({2}, kBlock, cross_entropy_columns<float, float, 8, true>, args);
  EXPECT(same(each, losses));
  EXPECT(fault.launch == 9 && fault.position == 60 && fault.value == 21);

  args.loss = &loss, args.partial = partial, args.weights = &found;
  args.reduces = args.mean = true, args.blocks = 2;
  launch_together({2}, kBlock, cross_entropy_columns<float, float, 8, true>, args);
  launch_together({1}, kBlock, cross_entropy_join<float>, args);
  EXPECT(near(loss, sum / weights) && near(found, weights));
  u32 counter = 0;  // by the last block: the same bits
  const float before = std::exchange(loss, 0.0f);
  const double found_before = std::exchange(found, 0.0);
  args.counter = &counter;
  launch_together({2}, kBlock, cross_entropy_columns<float, float, 8, true>, args);
  EXPECT(loss == before && found == found_before && counter == 0);
  args.counter = nullptr;
  loss = 0;
  launch_together({1}, kBlock, cross_entropy_columns<float, float, 1, true>, args);
  EXPECT(near(loss, sum / weights));
  args.g = &g, args.gx = got.data();
  launch_together({1, 3}, kBlock, cross_entropy_backward_columns<float, float, true>, args);
  EXPECT(same(got, gx));

  // The same with the classes along memory.
  args.x = turned.data(), args.class_step = 1, args.point_step = classes;
  loss = 0;
  launch_together({1}, kBlock, cross_entropy_rows<float, float, 32, 1>, args);
  EXPECT(near(loss, sum / weights) && near(found, weights));
  launch_together({13}, kBlock, cross_entropy_backward_rows<float, float, 32, 1>, args);
  bool alike = true;
  for (size_t i = 0; i < target.size(); ++i)
    for (size_t k = 0; k < classes; ++k)
      alike &= near(got[i * classes + k],
                    gx[i / points * size_t(classes * points) + k * points + i % points]);
  EXPECT(alike);

  // Over the scores themselves, both ways.
  std::vector<float> there = turned;
  args.x = args.gx = there.data();
  launch_together({13}, kBlock, cross_entropy_backward_rows<float, float, 32, 1>, args);
  EXPECT(there == got);
  there = x;
  args.x = args.gx = there.data(), args.class_step = points, args.point_step = 1;
  launch_together({1, 3}, kBlock, cross_entropy_backward_columns<float, float, true>, args);
  EXPECT(same(there, gx));
}

TEST(nll_of_log_probabilities) {
  const auto x = numbers<half>(4 * 3);
  const i64 target[] = {2, 0, 1, 1};
  half loss;
  const half g(1.0f);
  std::vector<half> gx(12);
  double weights = 0;
  CrossEntropyArgs args{};
  args.x = x.data(), args.target = target, args.loss = &loss, args.weights = &weights;
  args.batch = 4, args.classes = 3, args.points = 1;
  args.batch_step = 3, args.class_step = args.point_step = 1;
  args.ignore_index = 0, args.reduces = args.mean = true;
  launch_together({1}, kBlock, cross_entropy_columns<float, half, 1, false>, args);
  EXPECT(near(float(loss), -(float(x[2]) + float(x[7]) + float(x[10])) / 3, 1e-3));
  args.g = &g, args.gx = gx.data();
  launch_together({1, 2}, kBlock, cross_entropy_backward_columns<float, half, false>, args);
  for (size_t i = 0; i < 12; ++i)
    EXPECT(near(float(gx[i]), i == 2 || i == 7 || i == 10 ? -1.0 / 3 : 0, 1e-3));
}

TEST(element_losses) {
  const auto x = numbers<float>(1027), t = numbers<float>(1027, 3);
  std::vector<float> y(x.size());
  std::vector<double> each(x.size()), slopes(x.size());
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    each[i] = std::log1p(std::exp(double(x[i]))) - double(x[i]) * t[i];
    slopes[i] = (1 / (1 + std::exp(-double(x[i]))) - t[i]) * 0.75;
    sum += each[i];
  }
  using F = losses::BinaryLogits<float>;
  LossArgs args{1027, x.data(), t.data(), nullptr, y.data(), nullptr, 0, 0, 0, 1};
  launch({2}, kBlock, loss_each<F, float, float, 4>, args, Noting{});
  EXPECT(same(y, each));
  float one = 0;
  double partial[3];
  args.y = &one, args.partial = partial, args.blocks = 3, args.scale = 0.5;
  launch_together({3}, kBlock, loss_sum<F, float, float, 4>, args, Noting{});
  launch_together({1}, kBlock, loss_join<float>, args);
  EXPECT(near(one, sum / 2));
  u32 counter = 0;  // by the last block: the same bits
  const float before = std::exchange(one, 0.0f);
  args.counter = &counter;
  launch_together({3}, kBlock, loss_sum<F, float, float, 4>, args, Noting{});
  EXPECT(one == before && counter == 0);
  args.counter = nullptr;
  launch_together({1}, kBlock, loss_sum<F, float, float, 1>, args, Noting{});
  EXPECT(near(one, sum / 2));
  const float g = 1.5f;
  args.y = y.data(), args.g = &g;
  launch({1}, kBlock, loss_slope<F, float, float, 4>, args);
  EXPECT(same(y, slopes));
}

TEST(dropout_draws_and_applies) {
  constexpr i64 n = 1029;
  const auto x = numbers<float>(n);
  std::vector<float> y(n), again(n);
  std::vector<char> mask(n), other(n);
  DropoutArgs args{n,       x.data(), y.data(), reinterpret_cast<truth*>(mask.data()), 77, 5, 0.7,
                   1 / 0.7, 0,        0};
  launch({2}, kBlock, dropout<float, float, true, false>, args, nullptr);
  size_t kept = 0;
  bool good = true;
  for (size_t i = 0; i < n; ++i) {
    const float u = uniform_float(philox(77, 5, i / 4).v[i % 4]);
    good &= (u < 0.7f) == bool(mask[i]);
    good &= y[i] == (mask[i] ? x[i] * float(1 / 0.7) : x[i] * 0);
    kept += mask[i];
  }
  EXPECT(good && kept > 680 && kept < 760);
  args.y = again.data(), args.mask = reinterpret_cast<truth*>(other.data());
  const u64 state[] = {77, 2};  // a captured graph's: the seed, and what the calls start from
  args.seed = 0, args.call = 3;
  launch({1}, kBlock, dropout<float, float, false, false>, args, state);
  EXPECT(again == y && other == mask);
  std::fill(again.begin(), again.end(), 0.0f);
  launch({1}, kBlock, masked_flat<float, float, 4, false>, args);
  EXPECT(again == y);
}

// A mask of whole rows, with shift and floor.
TEST(masks_that_are_repeated) {
  const auto x = numbers<double>(12);
  std::vector<double> y(12);
  u8 bytes[] = {2, 0, 255};
  auto* mask = reinterpret_cast<truth*>(bytes);
  const DropoutArgs args{12, x.data(), y.data(), mask, 0, 0, 0, 2, 0.5, -1};
  Nest<u32, 3> nest{};
  nest.dims = 2;
  nest.sizes[0] = Divider<u32>::of(4), nest.sizes[1] = Divider<u32>::of(3);
  for (int o = 0; o < 2; ++o) nest.strides[0][o] = 1, nest.strides[1][o] = 4;
  nest.strides[1][2] = 1;
  launch({1}, kBlock, masked_strided<double, double, u32, true>, args, nest);
  for (size_t i = 0; i < 12; ++i) EXPECT(near(y[i], mask[i / 4] ? x[i] * 2 + 0.5 : -1));
}

namespace {

// Normalised rows with weight[channel_of(i)], and the gradients, by plain loops.
struct PlainNorm {
  std::vector<double> y, gx, gw, gb;
  template <class F>
  PlainNorm(const auto& x, const auto& g, const auto& weight, const auto& bias, size_t width,
            bool centred, double eps, F channel_of)
      : y(x.size()), gx(x.size()), gw(weight.size()), gb(weight.size()) {
    for (size_t at = 0; at < x.size(); at += width) {
      double mean = 0, var = 0, plain = 0, along = 0;
      for (size_t i = at; i < at + width; ++i) mean += double(float(x[i])) / double(width);
      if (!centred) mean = 0;
      for (size_t i = at; i < at + width; ++i)
        var += std::pow(double(float(x[i])) - mean, 2) / double(width);
      const double rstd = 1 / std::sqrt(var + eps);
      for (int pass = 0; pass < 2; ++pass) {
        for (size_t i = at; i < at + width; ++i) {
          const size_t c = channel_of(i);
          const double n = (double(float(x[i])) - mean) * rstd, gi = double(float(g[i]));
          const double wg = double(float(weight[c])) * gi;
          if (pass == 0) {
            y[i] = n * double(float(weight[c])) + double(float(bias[c]));
            gw[c] += gi * n;
            gb[c] += gi;
            plain += centred ? wg / double(width) : 0;
            along += wg * n / double(width);
          } else {
            gx[i] = rstd * (wg - plain - n * along);
          }
        }
      }
    }
  }
};

}  // namespace

TEST(norms_of_rows) {
  constexpr size_t rows = 19, width = 300;
  const auto x = numbers<float>(rows * width), g = numbers<float>(rows * width, 3);
  const auto weight = numbers<float>(width, 5), bias = numbers<float>(width, 6);
  for (const bool centred : {true, false}) {
    const PlainNorm want(x, g, weight, bias, width, centred, 1e-3,
                         [](size_t i) { return i % width; });
    std::vector<float> y(x.size()), gx(x.size()), mean(rows), rstd(rows), gw(width), gb(width);
    std::vector<float> partial(2 * 2 * width);
    RowNormArgs args{x.data(),    g.data(),       weight.data(), bias.data(), y.data(), mean.data(),
                     rstd.data(), partial.data(), rows,          width,       10,       1e-3};
    if (centred) {
      launch_together({3}, kBlock, row_norm_held<float, float, float, 32, 4, 4, true>, args);
      EXPECT(same(y, want.y));
      launch_together({rows}, kBlock, row_norm<float, float, float, 256, 4, true>, args);
    } else {
      launch_together({rows}, kBlock, row_norm<float, float, float, 256, 1, false>, args);
    }
    EXPECT(same(y, want.y));
    args.y = gx.data();
    if (centred) {
      launch_together({rows}, kBlock, row_norm_backward<float, float, float, 256, 4, true>, args);
      launch_together({10, 2}, kBlock, row_norm_columns<float, float, true>, args);
    } else {
      launch_together({1}, kBlock, row_norm_backward<float, float, float, 8, 1, false>, args);
      launch_together({10, 2}, kBlock, row_norm_columns<float, float, false>, args);
    }
    EXPECT(same(gx, want.gx, 1e-4));
    launch_together({10}, kBlock, join_segments<float, float>,
                    JoinPairsArgs{partial.data(), gw.data(), gb.data(), 2, width});
    EXPECT(same(gw, want.gw, 1e-4) && same(gb, want.gb, 1e-4));
    // Two blocks go through the rows, one at a time, two, four or eight.
    for (const int at_once : {1, 2, 4, 8}) {
      std::fill(gx.begin(), gx.end(), 0.0f);
      const auto whole =
          at_once == 8 ? (centred ? row_norm_backward_whole<float, float, float, 32, 4, 4, true>
                                  : row_norm_backward_whole<float, float, float, 32, 1, 16, false>)
          : at_once == 4
              ? (centred ? row_norm_backward_whole<float, float, float, 64, 4, 3, true>
                         : row_norm_backward_whole<float, float, float, 64, 1, 12, false>)
          : at_once == 2
              ? (centred ? row_norm_backward_whole<float, float, float, 128, 4, 2, true>
                         : row_norm_backward_whole<float, float, float, 128, 1, 8, false>)
              : (centred ? row_norm_backward_whole<float, float, float, 256, 4, 4, true>
                         : row_norm_backward_whole<float, float, float, 256, 1, 16, false>);
      launch_together({2}, kBlock, whole, args);
      launch_together({10}, kBlock, join_segments<float, float>,
                      JoinPairsArgs{partial.data(), gw.data(), gb.data(), 2, width});
      EXPECT(same(gx, want.gx, 1e-4));
      EXPECT(same(gw, want.gw, 1e-4) && same(gb, want.gb, 1e-4));
    }
  }
}

// Packs of eight, of which some threads of a team hold two, some one and some none.
TEST(norms_of_rows_in_bfloat16) {
  constexpr size_t rows = 37, width = 1128;
  const auto x = numbers<bfloat16>(rows * width), g = numbers<bfloat16>(rows * width, 3);
  const auto weight = numbers<bfloat16>(width, 5), bias = numbers<bfloat16>(width, 6);
  const PlainNorm want(x, g, weight, bias, width, true, 1e-3, [](size_t i) { return i % width; });
  std::vector<bfloat16> y(x.size()), gx(x.size()), gw(width), gb(width);
  std::vector<float> mean(rows), rstd(rows), partial(3 * 2 * width);
  RowNormArgs args{x.data(),    g.data(),       weight.data(), bias.data(), y.data(), mean.data(),
                   rstd.data(), partial.data(), rows,          width,       0,        1e-3};
  launch_together({rows}, kBlock, row_norm_held<float, bfloat16, bfloat16, 256, 8, 2, true>, args);
  EXPECT(same(y, want.y, 1e-2));
  args.y = gx.data();
  for (const bool whole_block : {true, false}) {
    std::fill(gx.begin(), gx.end(), bfloat16(0.0f));
    launch_together({3}, kBlock,
                    whole_block
                        ? row_norm_backward_whole<float, bfloat16, bfloat16, 256, 8, 2, true>
                        : row_norm_backward_whole<float, bfloat16, bfloat16, 128, 8, 2, true>,
                    args);
    launch_together({36}, kBlock, join_segments<float, bfloat16>,
                    JoinPairsArgs{partial.data(), gw.data(), gb.data(), 3, width});
    EXPECT(same(gx, want.gx, 2e-2));
    EXPECT(same(gw, want.gw, 2e-2) && same(gb, want.gb, 2e-2));
  }
}

namespace {

// A batch of 2 with 6 channels in 3 groups, half with float parameters, and all that comes out.
struct Groups {
  static constexpr size_t batch = 2, channels = 6, groups = 3;
  size_t inner;
  std::vector<half> x, g, y, gx;
  std::vector<float> weight = numbers<float>(channels, 5), bias = numbers<float>(channels, 6);
  std::vector<float> mean, rstd, gw, gb, partial;
  PlainNorm want;

  explicit Groups(size_t inner)
      : inner(inner),
        x(numbers<half>(batch * channels * inner)),
        g(numbers<half>(x.size(), 3)),
        y(x.size()),
        gx(x.size()),
        mean(batch * groups),
        rstd(mean),
        gw(channels),
        gb(channels),
        partial(batch * 2 * channels),
        want(x, g, weight, bias, 2 * inner, true, 1e-3,
             [inner](size_t i) { return i / inner % channels; }) {}

  GroupNormArgs args() {
    GroupNormArgs args{};
    args.x = x.data(), args.g = g.data(), args.weight = weight.data(), args.bias = bias.data();
    args.y = y.data(), args.mean = mean.data(), args.rstd = rstd.data();
    args.partial = partial.data();
    args.batch = batch, args.channels = channels, args.groups = groups, args.inner = i64(inner);
    args.eps = 1e-3;
    return args;
  }
  bool normal() const { return same(y, want.y, 2e-3); }
  bool gradients() {
    launch_together({1}, kBlock, join_segments<float, float>,
                    JoinPairsArgs{partial.data(), gw.data(), gb.data(), batch, channels});
    return same(gx, want.gx, 5e-3) && same(gw, want.gw, 1e-3) && same(gb, want.gb, 1e-3);
  }
};

// The same with the channels last, and back.
std::vector<half> turned(const std::vector<half>& from, size_t rows, size_t columns) {
  std::vector<half> to(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t image = i / (rows * columns), at = i % (rows * columns);
    to[image * rows * columns + at % columns * rows + at / columns] = from[i];
  }
  return to;
}

}  // namespace

TEST(norms_of_groups) {
  Groups all(35);
  GroupNormArgs args = all.args();
  launch_together({6}, kBlock, group_norm<float, half, float, 1>, args);
  EXPECT(all.normal());
  args.y = all.gx.data();
  launch_together({1}, kBlock, group_norm_planes<float, half, 8, 1>, args);
  launch_together({6, 1}, kBlock, group_norm_backward<float, half, float, 1>, args);
  EXPECT(all.gradients());

  // From variances.
  std::vector<float> again = all.rstd;
  for (float& v : again) v = 1 / (v * v) - 1e-3f;
  args.y = all.y.data(), args.rstd = again.data();
  std::fill(all.y.begin(), all.y.end(), half(0.0f));
  launch({6, 2}, kBlock, group_norm_apply<float, half, float, 1>, args);
  EXPECT(all.normal());
  launch({1}, kBlock, group_norm_finish<float>, args);
  for (size_t i = 0; i < 6; ++i) EXPECT(near(again[i], all.rstd[i], 1e-4));
}

// Planes of less than a pack for each thread, of more, and packs of one element.
TEST(norms_of_groups_that_a_block_keeps) {
  for (const size_t inner : {size_t(1040), size_t(2200), size_t(300)}) {
    Groups all(inner);
    GroupNormArgs args = all.args();
    const bool packs = inner % 8 == 0;
    launch_together({6}, kBlock,
                    packs ? group_norm_held<float, half, float, 8, 4, 1>
                          : group_norm_held<float, half, float, 1, 4, 1>,
                    args, Divider<u32>::of(u32(packs ? inner / 8 : inner)));
    EXPECT(all.normal());
    args.y = all.gx.data();
    launch_together({6}, kBlock,
                    packs ? group_norm_backward_held<float, half, float, 8, 4, 1>
                          : group_norm_backward_held<float, half, float, 1, 4, 1>,
                    args);
    EXPECT(all.gradients());
    std::fill(all.gx.begin(), all.gx.end(), half(0.0f));
    launch_together(
        {2}, kBlock,
        packs ? group_norm_planes<float, half, 32, 8> : group_norm_planes<float, half, 32, 1>,
        args);
    launch_together({6, 2}, kBlock,
                    packs ? group_norm_backward<float, half, float, 8>
                          : group_norm_backward<float, half, float, 1>,
                    args);
    EXPECT(all.gradients());
  }
}

// Packs of two channels, 4 columns by 64 lanes, segments of 70 points of 150.
TEST(norms_of_groups_with_the_channels_last) {
  Groups all(150);
  const std::vector<half> x = turned(all.x, 6, 150), g = turned(all.g, 6, 150);
  GroupNormArgs args = all.args();
  args.x = x.data(), args.g = g.data();
  args.segment = 70, args.segments = 3, args.columns = 4;
  std::vector<float> sums(2 * 3 * 6 * 2), means(6 * 2);
  args.segment_sums = sums.data(), args.means = means.data();
  launch_together({6}, kBlock, group_sums_last<GroupMoments<half, float>, float, half, 2>, args);
  launch_together({1}, kBlock, group_moments_last<float, half>, args);
  launch({6}, kBlock, group_map_last<GroupNormalize<half, float, float>, half, 2>, args);
  all.y = turned(all.y, 150, 6);
  EXPECT(all.normal());
  args.y = all.gx.data();
  launch_together({6}, kBlock, group_sums_last<GroupGradSums<half, float>, float, half, 2>, args);
  launch_together({1}, kBlock, group_means_last<float, float>, args);
  launch({6}, kBlock, group_map_last<GroupInputGrad<half, float, float>, half, 2>, args);
  all.gx = turned(all.gx, 150, 6);
  EXPECT(all.gradients());
}

// The last block of a sample joins its sums: the same bits, and the counters are left as they were.
TEST(sums_of_groups_joined_by_the_last_block) {
  Groups all(150);
  const std::vector<half> x = turned(all.x, 6, 150), g = turned(all.g, 6, 150);
  GroupNormArgs args = all.args();
  args.x = x.data(), args.g = g.data();
  args.segment = 70, args.segments = 3, args.columns = 2;  // two blocks side by side
  std::vector<float> sums(2 * 3 * 6 * 2), means(6 * 2), mean(6), rstd(6), partial(2 * 2 * 6);
  std::vector<u32> counters(2);
  args.segment_sums = sums.data(), args.means = means.data(), args.counters = counters.data();
  args.mean = mean.data(), args.rstd = rstd.data(), args.partial = partial.data();
  launch_together({6, 2}, kBlock, group_sums_last<GroupMoments<half, float>, float, half, 2>, args);
  launch_together({1}, kBlock, group_moments_last<float, half>, args);
  launch_together({6, 2}, kBlock, group_sums_last<GroupGradSums<half, float>, float, half, 2>,
                  args);
  launch_together({1}, kBlock, group_means_last<float, float>, args);
  const auto parted = std::tuple(mean, rstd, means, partial);
  for (auto* v : {&sums, &mean, &rstd, &means, &partial}) std::fill(v->begin(), v->end(), 7.0f);
  launch_together({6, 2}, kBlock,
                  group_sums_joined<GroupMoments<half, float>, float, half, float, 2>, args);
  launch_together({6, 2}, kBlock,
                  group_sums_joined<GroupGradSums<half, float>, float, half, float, 2>, args);
  EXPECT(std::tuple(mean, rstd, means, partial) == parted);
  EXPECT(counters == std::vector<u32>(2));
}

TEST(rows_of_a_table) {
  const auto table = numbers<float>(5 * 6);
  const i32 index[] = {4, 0, 7, 2};
  std::vector<float> out(4 * 6, -1.0f);
  IndexFault fault{~u64(0), 0, 0, 0};
  EmbeddingArgs args{table.data(), index, out.data(), 4, 3, 5, 2, 8, &fault, 3};
  launch({1}, kBlock, embedding_rows<u64, i32>, args);
  for (size_t c = 0; c < 6; ++c) {
    EXPECT(out[c] == table[4 * 6 + c] && out[6 + c] == table[c]);
    EXPECT(out[12 + c] == 0 && out[18 + c] == table[2 * 6 + c]);
  }
  EXPECT(fault.launch == 8 && fault.position == 2 && fault.value == 7);

  // Rows of a wider tensor: what is beside them stays as it is.
  std::vector<float> wide(4 * 10, -1.0f);
  args.out = wide.data() + 2, args.step = 5;
  launch({1}, kBlock, embedding_rows<u64, i32>, args);
  for (size_t i = 0; i < 4; ++i)
    for (size_t c = 0; c < 10; ++c)
      EXPECT(wide[i * 10 + c] == (c < 2 || c >= 8 ? -1.0f : out[i * 6 + c - 2]));
}

namespace {

// The launches of cuda/nn/embedding.cpp: sums of rows by key, level by level.
template <class K>
std::vector<float> summed(const std::vector<float>& rows, size_t width, std::vector<K> keys,
                          size_t limit, i64 chunk, bool by_count) {
  std::vector<i64> order(keys.size());
  std::iota(order.begin(), order.end(), i64(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](i64 a, i64 b) { return keys[size_t(a)] < keys[size_t(b)]; });
  std::stable_sort(keys.begin(), keys.end());
  std::vector<float> out(limit * width), from, partial;
  std::vector<K> next_keys;
  std::vector<i64> counts, next_counts;
  SegmentArgs args{};
  args.keys = keys.data(), args.order = order.data(), args.rows = rows.data();
  args.step = args.width = i64(width), args.n = i64(keys.size()), args.chunk = chunk;
  args.limit = i64(limit), args.out = out.data(), args.by_count = by_count, args.across_log = 1;
  for (;;) {
    const size_t chunks = size_t((args.n + args.chunk - 1) / args.chunk);
    std::vector<float> sums(chunks > 1 ? 2 * chunks * width : 0, -77.0f);
    next_keys.assign(2 * chunks, K(0)), next_counts.assign(2 * chunks, -1);
    args.partial = chunks > 1 ? sums.data() : nullptr;
    args.partial_keys = next_keys.data(), args.partial_counts = next_counts.data();
    launch({1}, kBlock, segment_sums<float, float, float, K, 2>, args);
    if (chunks == 1) return out;
    from.swap(sums), keys.swap(next_keys), counts.swap(next_counts);
    args.keys = keys.data(), args.counts = counts.data(), args.rows = from.data();
    args.order = nullptr, args.n = i64(2 * chunks), args.chunk = 8;
  }
}

}  // namespace

TEST(sums_of_rows_by_key) {
  for (const int kinds : {1, 3, 40, 1000}) {
    for (const size_t n : {size_t(1), size_t(8), size_t(9), size_t(700)}) {
      const size_t width = 6, limit = 1000;
      const auto rows = numbers<float>(n * width);
      std::vector<u16> keys(n);
      std::vector<double> want(limit * width), counts(limit);
      for (size_t i = 0; i < n; ++i) {
        keys[i] = i % 7 == 3 ? u16(limit) : u16((i * 37 + 11) % size_t(kinds));  // 3: not counted
        if (keys[i] == limit) continue;
        counts[keys[i]] += 1;
        for (size_t c = 0; c < width; ++c) want[keys[i] * width + c] += rows[i * width + c];
      }
      EXPECT(same(summed(rows, width, keys, limit, 8, false), want, 1e-4));
      for (size_t k = 0; k < limit; ++k)
        for (size_t c = 0; c < width; ++c)
          if (counts[k] > 0) want[k * width + c] /= counts[k];
      EXPECT(same(summed(rows, width, keys, limit, 8, true), want, 1e-4));
    }
  }
}

TEST(bags_of_rows) {
  const auto table = numbers<float>(6 * 5), g = numbers<float>(4 * 5, 9);
  const i64 index[] = {0, 5, 5, 2, 1, 3, 4, 4};
  const i64 bounds[] = {0, 3, 3, 7, 7};  // the last index is in none
  std::vector<float> out(4 * 5), scale(8), gweight(8);
  std::vector<i64> counts(4), places(4 * 5), bag_of(8);
  std::vector<u16> keys(8);
  IndexFault fault{~u64(0), 0, 0, 0};
  BagArgs args{};
  args.table = table.data(), args.index = index, args.bounds = bounds, args.out = out.data();
  args.counts = counts.data(), args.places = places.data();
  args.n = 8, args.bags = 4, args.width = 5, args.rows = 6, args.skip = 2, args.mode = 1;
  args.across_log = 3, args.fault = &fault;
  launch({1}, kBlock, embedding_bag<float, float, i64>, args);
  EXPECT((counts == std::vector<i64>{3, 0, 3, 0}));
  for (size_t c = 0; c < 5; ++c) {
    EXPECT(near(out[c], (table[c] + 2 * table[25 + c]) / 3) && out[5 + c] == 0);
    EXPECT(near(out[10 + c], (table[5 + c] + table[15 + c] + table[20 + c]) / 3));
  }
  args.keys = keys.data(), args.bag_of = bag_of.data(), args.scale = scale.data();
  launch({1}, kBlock, bag_entries<float, float, i64, u16>, args);
  EXPECT((keys == std::vector<u16>{0, 5, 5, 6, 1, 3, 4, 6}));
  EXPECT(bag_of[2] == 0 && bag_of[4] == 2 && near(scale[4], 1.0 / 3));
  args.mode = 2;
  launch({1}, kBlock, embedding_bag<float, float, i64>, args);
  for (size_t c = 0; c < 5; ++c) {
    EXPECT(out[c] == std::max(table[c], table[25 + c]) && places[5 + c] == -1);
    EXPECT(places[c] == (table[c] >= table[25 + c] ? 0 : 5));
  }
  args.g = g.data(), args.gweight = gweight.data();
  launch_together({1}, kBlock, bag_weights<float, float, i64>, args);
  for (size_t i : {0, 3, 5, 7}) {
    double sum = 0;
    const size_t bag = i < 3 ? 0 : 2;
    for (size_t c = 0; c < 5; ++c) sum += double(g[bag * 5 + c]) * table[size_t(index[i]) * 5 + c];
    EXPECT(near(gweight[i], i == 3 || i == 7 ? 0 : sum));
  }
}

template <bool backward>
void resample_by_table(const std::vector<double>& x, std::vector<double>& y, i64 outer, i64 inner,
                       const Resampling& how) {
  const i64 rows = backward ? how.in : how.out, taps = most_taps(how, backward);
  std::vector<ResampleSpan> spans(static_cast<size_t>(rows));
  std::vector<double> weights(static_cast<size_t>(rows * taps));
  const ResampleTable table{spans.data(), weights.data(), rows, taps};
  launch({1}, kBlock, resample_table<double, backward>, ResampleTableArgs{table, how});
  for (const ResampleSpan& span : spans) EXPECT(span.count <= taps);
  const i64 points = rows * inner, in = backward ? how.out : how.in;
  ResampleArgs args{x.data(), y.data(), table, outer, in, inner, points, 1};
  args.side = i32(std::clamp<i64>(kThreads / points, 1, outer));
  launch({unsigned((points + kThreads - 1) / kThreads), 2}, kBlock, resample<double, double>, args);
}

// Every mode: the backward pass is the adjoint of the forward pass, <r(x), g> = <x, r'(g)>, and a
// constant image stays what it is.
TEST(resampling_and_its_adjoint) {
  constexpr i64 outer = 3, inner = 2;
  for (const auto& [in, out] :
       {std::pair<i64, i64>{5, 13}, {13, 5}, {1, 4}, {7, 1}, {6, 6}, {2, 40}, {300, 290}})
    for (int mode = 0; mode < 6; ++mode)
      for (const bool align : {false, true}) {
        if (align && (mode < 2 || mode > 3)) continue;
        const double ratio =
            align ? (out > 1 ? double(in - 1) / double(out - 1) : 0) : double(in) / double(out);
        const Resampling how{in, out, ratio, align, ResampleMode(mode)};
        const auto x = numbers<double>(size_t(outer * in * inner));
        const auto g = numbers<double>(size_t(outer * out * inner), 4);
        std::vector<double> y(g.size()), gx(x.size()), ones(x.size(), 1.0);
        resample_by_table<false>(x, y, outer, inner, how);
        resample_by_table<true>(g, gx, outer, inner, how);
        const double a = std::inner_product(y.begin(), y.end(), g.begin(), 0.0);
        const double b = std::inner_product(x.begin(), x.end(), gx.begin(), 0.0);
        EXPECT(near(a, b, 1e-9));
        resample_by_table<false>(ones, y, outer, inner, how);
        for (double v : y) EXPECT(near(v, 1, 1e-9));
      }
}

TEST(patches_and_their_adjoint) {
  PatchArgs args{};
  args.in[0] = 7, args.in[1] = 9, args.kernel[0] = 3, args.kernel[1] = 2, args.dilation[0] = 1;
  args.dilation[1] = 2, args.padding[0] = 1, args.padding[1] = 2, args.stride[0] = 2;
  args.stride[1] = 3, args.out[0] = 4, args.out[1] = 4;
  const auto x = numbers<double>(2 * 7 * 9), g = numbers<double>(2 * 6 * 16, 4);
  std::vector<double> columns(g.size()), gx(x.size());
  args.n = i64(columns.size()), args.x = x.data(), args.y = columns.data();
  launch({1}, kBlock, unfold<u64>, args);
  // Plane 1, kernel point (2, 1), output (1, 2): row 1 * 2 - 1 + 2, column 2 * 3 - 2 + 2.
  EXPECT(columns[(6 + 5) * 16 + 6] == x[63 + 3 * 9 + 6]);
  EXPECT(columns[0] == 0);  // in the padding
  args.n = i64(gx.size()), args.x = g.data(), args.y = gx.data();
  launch({1}, kBlock, fold<double, double>, args);
  EXPECT(near(std::inner_product(columns.begin(), columns.end(), g.begin(), 0.0),
              std::inner_product(x.begin(), x.end(), gx.begin(), 0.0), 1e-9));
}

// A grid over the elements' own places gives the image back; and the gradients of a random grid
// are those of differences.
TEST(images_at_points_of_a_grid) {
  constexpr i64 h = 4, w = 5;
  const auto x = numbers<double>(2 * h * w);
  for (int mode = 0; mode < 3; ++mode)
    for (int padding = 0; padding < 3; ++padding) {
      std::vector<double> grid, y(2 * h * w);
      for (i64 i = 0; i < h * w; ++i) {
        grid.push_back(-1 + 2.0 * double(i % w) / (w - 1));
        grid.push_back(-1 + 2.0 * double(i / w) / (h - 1));
      }
      GridArgs args{};
      args.x = x.data(), args.grid = grid.data(), args.y = y.data();
      args.batch = 1, args.channels = 2, args.points = h * w;
      args.size[0] = 1, args.size[1] = h, args.size[2] = w;
      args.how = {SampleMode(mode), SamplePadding(padding), true};
      launch({1}, kBlock, grid_sample<double, double, 2>, args);
      for (size_t i = 0; i < y.size(); ++i) EXPECT(near(y[i], x[i], 1e-9));
      if (mode == 1) continue;  // jumps

      grid = numbers<double>(6, 8);
      for (double& v : grid) v *= 0.6;
      const auto g = numbers<double>(2 * 3, 5);
      std::vector<double> gx(x.size()), ggrid(6), moved = x;
      args.points = 3, args.grid = grid.data(), args.g = g.data();
      args.gx = gx.data(), args.ggrid = ggrid.data();
      args.how.align_corners = false;
      launch({1}, kBlock, grid_sample_backward<double, double, 2>, args);
      const auto total = [&](const std::vector<double>& image, const std::vector<double>& at) {
        std::vector<double> out(6);
        args.x = image.data(), args.grid = at.data(), args.y = out.data();
        launch({1}, kBlock, grid_sample<double, double, 2>, args);
        return std::inner_product(out.begin(), out.end(), g.begin(), 0.0);
      };
      const double step = 1e-6, before = total(x, grid);
      for (size_t i : {0, 7, 13, 31}) {
        moved[i] += step;
        EXPECT(near((total(moved, grid) - before) / step, gx[i], 1e-4));
        moved[i] -= step;
      }
      for (size_t i = 0; i < 6; ++i) {
        std::vector<double> other = grid;
        other[i] += step;
        EXPECT(near((total(x, other) - before) / step, ggrid[i], 1e-4));
      }
    }
}

// Against all alignments, one by one.
TEST(alignments_of_labels) {
  constexpr i64 steps = 5, batch = 2, classes = 4;
  auto x = numbers<double>(size_t(steps * batch * classes));
  for (size_t r = 0; r < x.size(); r += classes) {  // log-probabilities
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += std::exp(x[r + c]);
    for (size_t c = 0; c < classes; ++c) x[r + c] -= std::log(sum);
  }
  const std::vector<i64> targets{2, 2, 1, 3}, inputs{5, 4}, lengths{3, 1}, first{0, 3};
  const auto probability = [&](size_t b, std::vector<double>* posterior) {
    double all = 0;
    const size_t time = size_t(inputs[b]);
    std::vector<size_t> path(time);
    for (size_t code = 0; code < size_t(std::pow(classes, double(time))); ++code) {
      double p = 1;
      std::vector<i64> found;
      for (size_t t = 0, rest = code; t < time; ++t, rest /= classes) {
        path[t] = rest % classes;
        p *= std::exp(x[(t * batch + b) * classes + path[t]]);
        if (path[t] != 0 && (t == 0 || path[t] != path[t - 1])) found.push_back(i64(path[t]));
      }
      const auto begin = targets.begin() + first[b];
      if (found != std::vector<i64>(begin, begin + lengths[b])) continue;
      all += p;
      for (size_t t = 0; t < time && posterior; ++t)
        (*posterior)[(t * batch + b) * classes + path[t]] += p;
    }
    return all;
  };
  std::vector<double> alpha(batch * steps * 7), beta(alpha.size()), loss(batch), gx(x.size());
  std::vector<i32> chains(batch * 2 * 3);
  IndexFault fault{~u64(0), 0, 0, 0};
  CtcArgs args{};
  args.log_probs = x.data(), args.targets = targets.data(), args.inputs = inputs.data();
  args.lengths = lengths.data(), args.first = first.data(), args.log_alpha = alpha.data();
  args.log_beta = beta.data(), args.loss = loss.data(), args.gx = gx.data();
  args.chains = chains.data(), args.blank = 0, args.steps = steps, args.batch = batch;
  args.classes = classes, args.width = 7, args.longest = 3, args.fault = &fault;
  launch_together({batch}, kBlock, ctc_alpha<double>, args);
  launch_together({batch}, kBlock, ctc_beta<double>, args);
  launch_together({steps * batch}, kBlock, ctc_gradient<double>, args);
  std::vector<double> posterior(x.size());
  for (size_t b = 0; b < batch; ++b) {
    const double p = probability(b, &posterior);
    EXPECT(near(loss[b], -std::log(p), 1e-9));
    for (size_t t = 0; t < steps; ++t)
      for (size_t c = 0; c < classes; ++c) {
        const size_t at = (t * batch + b) * classes + c;
        const bool in_time = i64(t) < inputs[b];
        EXPECT(near(gx[at], in_time ? std::exp(x[at]) - posterior[at] / p : 0, 1e-9));
      }
  }
  EXPECT(fault.launch == ~u64(0));
}

TEST(windows_at_random_places) {
  const auto x = numbers<float>(2 * 6 * 7);
  const float samples[] = {0.3f, 0.8f, 0.6f, 0.1f};  // x first
  std::vector<float> y(2 * 3 * 3);
  std::vector<i64> indices(y.size());
  FractionalPoolArgs args{18, x.data(),  samples,   y.data(), indices.data(),
                          2,  {1, 6, 7}, {1, 3, 3}, {1, 2, 2}};
  launch({1}, kBlock, fractional_max_pool<float, float>, args);
  for (size_t plane = 0; plane < 2; ++plane)
    for (size_t o = 0; o < 9; ++o) {
      const float sx = samples[plane * 2], sy = samples[plane * 2 + 1];
      const auto start = [](float u, i64 in, i64 i) {
        const float alpha = float(in - 2) / 2;
        return i == 2 ? in - 2 : i64((float(i) + u) * alpha) - i64(u * alpha);
      };
      float most = -10;
      const i64 y0 = start(sy, 6, i64(o / 3)), x0 = start(sx, 7, i64(o % 3));
      for (i64 k = 0; k < 4; ++k)
        most = std::max(most, x[plane * 42 + size_t((y0 + k / 2) * 7 + x0 + k % 2)]);
      EXPECT(y[plane * 9 + o] == most);
      EXPECT(x[plane * 42 + size_t(indices[plane * 9 + o])] == most);
    }
}

// All dims at once: as one after the other, contiguous and with the channels last.
TEST(resampling_of_images) {
  constexpr i64 channels = 3;
  for (int mode = 0; mode < 4; ++mode) {
    Resampling how[3];
    const i64 in[] = {3, 4, 5}, out[] = {5, 7, 4};
    for (int d = 0; d < 3; ++d)
      how[d] = {in[d], out[d], double(in[d]) / double(out[d]), false, ResampleMode(mode)};
    const auto x = numbers<double>(2 * channels * 60);
    std::vector<double> want = x;
    i64 inner = 20;
    for (int d = 0; d < 3; ++d) {
      std::vector<double> y(want.size() / size_t(in[d]) * size_t(out[d]));
      const i64 outer = i64(want.size()) / (in[d] * inner);
      resample_by_table<false>(want, y, outer, inner, how[d]);
      want.swap(y);
      inner /= d < 2 ? in[d + 1] : 1;
    }
    std::vector<double> y(want.size()), last(want.size()), turned(x.size());
    ResampleImageArgs args{140, 2 * channels, 1, x.data(), y.data(), {how[0], how[1], how[2]}};
    const auto image = mode < 2    ? resample_image<double, double, 1, true>
                       : mode == 2 ? resample_image<double, double, 2, true>
                                   : resample_image<double, double, 4, true>;
    launch({1, 4}, kBlock, image, args);
    EXPECT(same(y, want, 1e-6));
    for (size_t b = 0; b < 2; ++b)
      for (size_t c = 0; c < channels; ++c)
        for (size_t p = 0; p < 60; ++p)
          turned[(b * 60 + p) * channels + c] = x[(b * channels + c) * 60 + p];
    args.n = 140 * channels, args.outer = 2, args.inner = channels;
    args.x = turned.data(), args.y = last.data();
    launch({2, 1}, kBlock, image, args);
    bool good = true;
    for (size_t b = 0; b < 2; ++b)
      for (size_t c = 0; c < channels; ++c)
        for (size_t p = 0; p < 140; ++p)
          good &=
              near(last[(b * 140 + p) * channels + c], want[(b * channels + c) * 140 + p], 1e-9);
    EXPECT(good);
  }
}
