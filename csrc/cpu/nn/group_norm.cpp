// Group and instance norm on the CPU, through kernels/norm.cpp: float32 and float64.
#include <cmath>
#include <vector>

#include "cpu/nn/norm_blocks.h"

namespace rush {

namespace {

using namespace norms;

template <class T>
struct Groups {
  Planes p;
  int64_t count, share, width;  // share: channels of a group
  const T *weight, *bias;

  Groups(const Tensor& x, const Tensor& w, const Tensor& b, int64_t groups)
      : p(x),
        count(groups),
        share(p.channels / groups),
        width(share * p.points),
        weight(data_or_null<T>(w)),
        bias(data_or_null<T>(b)) {}
  T scale_of(T rstd, int64_t channel) const { return weight ? rstd * weight[channel] : rstd; }
  double weight_of(int64_t channel) const { return weight ? double(weight[channel]) : 1; }

  // Calls f(sample): samples side by side where there are enough, else one after the other, each
  // shared by all threads. What f computes does not depend on that.
  template <class F>
  void each_sample(F&& f) const {
    const bool enough = p.batch >= num_threads();
    const int64_t grain = rows_worth_a_thread(p.channels * p.points);
    parallel_for(p.batch, enough ? grain : p.batch, [&](int64_t n, int64_t end) {
      for (; n < end; ++n) f(n);
    });
  }
  // Calls f(offset, points) over pieces of a sample whose channels lie last.
  template <class F>
  void each_piece(int64_t sample, F&& f) const {
    const int64_t first = sample * p.points;
    parallel_for(p.points, rows_worth_a_thread(p.channels),
                 [&](int64_t begin, int64_t end) { f((first + begin) * p.channels, end - begin); });
  }
};

// ---- contiguous: a group of a sample is one stretch ----

// By what a group of a sample is normalised.
template <class T>
struct GroupNumbers {
  T mean, rstd;
  GroupNumbers(const T* x, int64_t width, double eps) {
    double m, m2;
    kernels<T>().moments(x, width, &m, &m2);
    mean = T(m);
    rstd = T(1 / std::sqrt(m2 / double(width) + eps));
  }
};

template <class T>
void normalize_planes(const Groups<T>& groups, const T* x, double eps, T* y, T* mean, T* rstd) {
  const int64_t share = groups.share, points = groups.p.points, width = groups.width;
  const T* b = groups.bias;
  parallel_for(groups.p.batch * groups.count, rows_worth_a_thread(width),
               [&](int64_t i, int64_t end) {
                 for (; i < end; ++i) {
                   const T* from = x + i * width;
                   T* to = y + i * width;
                   const GroupNumbers<T> own(from, width, eps);
                   mean[i] = own.mean;
                   rstd[i] = own.rstd;
                   for (int64_t k = 0; k < share; ++k) {
                     const int64_t c = i % groups.count * share + k;
                     kernels<T>().plane(from + k * points, to + k * points, points, own.mean,
                                        groups.scale_of(own.rstd, c), b ? b[c] : T(0));
                   }
                 }
               });
}

// gx from the gradients' sums, for one group: gx = a * g + b * (x - mean) + c, of which only a
// differs from channel to channel, by its weight.
struct GroupGradient {
  double rstd, b, c;
  GroupGradient(double rstd, double all_g, double all_gx, double n)
      : rstd(rstd), b(-rstd * rstd * rstd * all_gx / n), c(-rstd * all_g / n) {}
};

// sum_g and sum_gx: per plane, of g and of g times the normalised x. gx may be null.
template <class T>
void planes_backward(const Groups<T>& groups, const T* g, const T* x, const T* mean, const T* rstd,
                     T* gx, double* sum_g, double* sum_gx) {
  const int64_t share = groups.share, points = groups.p.points, channels = groups.p.channels;
  parallel_for(groups.p.batch * groups.count, rows_worth_a_thread(groups.width),
               [&](int64_t i, int64_t end) {
                 for (; i < end; ++i) {
                   const T m = mean[i];
                   const double r = double(rstd[i]);
                   double all_g = 0, all_gx = 0;
                   for (int64_t plane = i * share; plane < (i + 1) * share; ++plane) {
                     const int64_t at = plane * points;
                     double &a = sum_g[plane], &b = sum_gx[plane];
                     kernels<T>().plane_sums(g + at, x + at, points, m, &a, &b);
                     const double scale = groups.weight_of(plane % channels);
                     all_g += scale * a;
                     all_gx += scale * b;
                     b *= r;
                   }
                   const GroupGradient own(r, all_g, all_gx, double(groups.width));
                   for (int64_t plane = i * share; gx && plane < (i + 1) * share; ++plane) {
                     const int64_t at = plane * points;
                     kernels<T>().plane_backward(g + at, x + at, gx + at, points, m,
                                                 T(groups.weight_of(plane % channels) * r),
                                                 T(own.b), T(own.c));
                   }
                 }
               });
}

// ---- channels last: a sample is rows of channels, its numbers one per channel ----

// What a sample is normalised by, one of each per channel; and the statistics that are kept of it.
template <class T>
struct SampleNumbers {
  std::vector<T> centre, scale, shift;

  SampleNumbers(const Groups<T>& groups, const T* x, int64_t n, double eps, T* mean, T* rstd)
      : centre(size_t(groups.p.channels)), scale(centre), shift(centre) {
    const Planes& p = groups.p;
    const ChannelMoments<T> own(x + n * p.points * p.channels, p.points, p.channels);
    for (int64_t i = 0; i < groups.count; ++i) {
      // Channels have equally many points: their moments join simply.
      const int64_t first = i * groups.share;
      double m = 0, var = 0;
      for (int64_t c = first; c < first + groups.share; ++c) m += own.mean[size_t(c)];
      m /= double(groups.share);
      for (int64_t c = first; c < first + groups.share; ++c) {
        const double gap = own.mean[size_t(c)] - m;
        var += own.var[size_t(c)] + gap * gap;
      }
      const double r = 1 / std::sqrt(var / double(groups.share) + eps);
      mean[n * groups.count + i] = T(m);
      rstd[n * groups.count + i] = T(r);
      for (int64_t c = first; c < first + groups.share; ++c) {
        centre[size_t(c)] = T(m);
        scale[size_t(c)] = groups.scale_of(T(r), c);
        shift[size_t(c)] = groups.bias ? groups.bias[c] : T(0);
      }
    }
  }
};

template <class T>
void normalize_last(const Groups<T>& groups, const T* x, double eps, T* y, T* mean, T* rstd) {
  groups.each_sample([&](int64_t n) {
    const SampleNumbers<T> own(groups, x, n, eps, mean, rstd);
    groups.each_piece(n, [&](int64_t at, int64_t points) {
      kernels<T>().last(x + at, y + at, points, groups.p.channels, own.centre.data(),
                        own.scale.data(), own.shift.data());
    });
  });
}

// As planes_backward.
template <class T>
void last_backward(const Groups<T>& groups, const T* g, const T* x, const T* mean, const T* rstd,
                   T* gx, double* sum_g, double* sum_gx) {
  const Planes& p = groups.p;
  groups.each_sample([&](int64_t n) {
    std::vector<T> centre(size_t(p.channels)), a(centre), b(centre), c(centre);
    const auto row_of = [&](int64_t channel) { return n * groups.count + channel / groups.share; };
    for (int64_t k = 0; k < p.channels; ++k) centre[size_t(k)] = mean[row_of(k)];
    const int64_t at = n * p.points * p.channels;
    const ChannelSums sums =
        ChannelSums::of_gradient(g + at, x + at, p.points, p.channels, centre.data());
    for (int64_t first = 0; first < p.channels; first += groups.share) {
      const double r = double(rstd[row_of(first)]);
      double all_g = 0, all_gx = 0;
      for (int64_t k = first; k < first + groups.share; ++k) {
        const double plain = sums.first[size_t(k)], along = sums.second[size_t(k)];
        all_g += groups.weight_of(k) * plain;
        all_gx += groups.weight_of(k) * along;
        sum_g[n * p.channels + k] = plain;
        sum_gx[n * p.channels + k] = along * r;
      }
      const GroupGradient own(r, all_g, all_gx, double(groups.width));
      for (int64_t k = first; k < first + groups.share; ++k) {
        a[size_t(k)] = T(groups.weight_of(k) * r);
        b[size_t(k)] = T(own.b);
        c[size_t(k)] = T(own.c);
      }
    }
    if (!gx) return;
    groups.each_piece(n, [&](int64_t from, int64_t points) {
      kernels<T>().last_backward(g + from, x + from, gx + from, points, p.channels, centre.data(),
                                 a.data(), b.data(), c.data());
    });
  });
}

// ---- either ----

// The statistics, and what follows as a step that waits. False: it has to be run.
template <class T>
bool take_group_norm(const Groups<T>& groups, const Tensor& x, double eps, const Tensor& y,
                     const Tensor& mean, const Tensor& rstd) {
  const Planes& p = groups.p;
  const int64_t count = p.batch * p.channels;
  std::vector<T> centre(size_t(count), T(0)), scale(centre), shift(centre);
  RowStep row{.planes = x.is_contiguous()};
  if (row.planes) {
    row.width = p.points, row.shared = count;
    parallel_for(p.batch * groups.count, rows_worth_a_thread(groups.width),
                 [&](int64_t i, int64_t end) {
                   for (; i < end; ++i) {
                     const GroupNumbers<T> own(x.data<T>() + i * groups.width, groups.width, eps);
                     mean.data<T>()[i] = own.mean;
                     rstd.data<T>()[i] = own.rstd;
                     for (int64_t k = i * groups.share; k < (i + 1) * groups.share; ++k) {
                       centre[size_t(k)] = own.mean;
                       scale[size_t(k)] = groups.scale_of(own.rstd, k % p.channels);
                       shift[size_t(k)] = groups.bias ? groups.bias[k % p.channels] : T(0);
                     }
                   }
                 });
  } else {
    row.width = p.channels, row.shared = p.points;
    groups.each_sample([&](int64_t n) {
      const SampleNumbers<T> own(groups, x.data<T>(), n, eps, mean.data<T>(), rstd.data<T>());
      std::ranges::copy(own.centre, centre.begin() + n * p.channels);
      std::ranges::copy(own.scale, scale.begin() + n * p.channels);
      std::ranges::copy(own.shift, shift.begin() + n * p.channels);
    });
  }
  return take_scale<T>(x, std::move(row), count, centre.data(), scale.data(), shift.data(), y);
}

void group_norm_cpu(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups,
                    double eps, const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  for_type(x, [&]<class T>() {
    const Groups<T> own(x, weight, bias, groups);
    if (is_unborn(y) && take_group_norm<T>(own, x, eps, y, mean, rstd)) return;
    const auto run = x.is_contiguous() ? normalize_planes<T> : normalize_last<T>;
    run(own, x.data<T>(), eps, y.data<T>(), mean.data<T>(), rstd.data<T>());
  });
}

void group_norm_backward_cpu(const Tensor& g, const Tensor& x, const Tensor& weight,
                             const Tensor& mean, const Tensor& rstd, int64_t groups,
                             const Tensor& gx, const Tensor& gw, const Tensor& gb) {
  for_type(x, [&]<class T>() {
    const Groups<T> own(x, weight, Tensor(), groups);
    const Planes& p = own.p;
    std::vector<double> sum_g(size_t(p.batch * p.channels), 0), sum_gx(sum_g);
    const auto run = x.is_contiguous() ? planes_backward<T> : last_backward<T>;
    run(own, g.data<T>(), x.data<T>(), mean.data<T>(), rstd.data<T>(), data_or_null<T>(gx),
        sum_g.data(), sum_gx.data());
    add_up_parts<T>(p.batch, p.channels, gb, gw, [&](int64_t n, int64_t c) {
      const auto at = size_t(n * p.channels + c);
      return std::pair(sum_g[at], sum_gx[at]);
    });
  });
}

const bool registered = [] {
  NormLoops& loops = norm_loops(DeviceType::CPU);
  loops.group_norm = group_norm_cpu;
  loops.group_norm_backward = group_norm_backward_cpu;
  return true;
}();

}  // namespace
}  // namespace rush
