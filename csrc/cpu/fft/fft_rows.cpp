#include "cpu/fft/fft_rows.h"

#include <algorithm>
#include <cstring>

#include "core/cpu_features.h"
#include "core/threads.h"
#include "cpu/isa_table.h"
#include "cpu/scratch.h"

namespace rush {

template <class T>
const FftTable<T>& fft_kernels() {
  return kernels_in_use([]<Isa isa>() { return fft_table<isa, T>(); });
}
template const FftTable<float>& fft_kernels();
template const FftTable<double>& fft_kernels();

namespace {

// Real and imaginary parts of n numbers.
template <class T>
struct Parts {
  T *re, *im;
};

// `count` transforms side by side, from x by way of y and x ...; returns where the result is.
template <class T>
Parts<T> lanes(const FftPlan<T>& plan, Parts<T> x, Parts<T> y, int64_t count) {
  const FftTable<T>& k = fft_kernels<T>();
  int64_t inner = count;
  for (const auto& pass : plan.passes) {
    k.pass(pass.radix, x.re, x.im, y.re, y.im, pass.m, inner, pass.twiddles.data(),
           pass.roots.data());
    inner *= pass.radix;
    std::swap(x, y);
  }
  return x;
}

// Scratch memory for two sets of parts.
template <class T>
struct TwoParts {
  explicit TwoParts(int64_t n) : memory(4 * n), n(n) {}
  Parts<T> first() const { return {memory.get(), memory.get() + n}; }
  Parts<T> second() const { return {memory.get() + 2 * n, memory.get() + 3 * n}; }
  Scratch<T> memory;
  int64_t n;
};

// How many transforms side by side: a line or two of the cache.
template <class T>
constexpr int64_t kStrip = 128 / int64_t(2 * sizeof(T));

// A backward transform is the forward one with real and imaginary parts exchanged, before and
// after.
template <class T>
Parts<T> facing(Parts<T> p, bool forward) {
  return forward ? p : Parts<T>{p.im, p.re};
}

template <class T>
void medium_row(const FftPlan<T>& plan, const T* in, T* out, bool forward, T scale,
                const TwoParts<T>& memory) {
  const FftTable<T>& k = fft_kernels<T>();
  const int64_t n = plan.n, n1 = plan.n1, n2 = plan.n2;
  Parts<T> a = memory.first(), b = memory.second();
  const Parts<T> loaded = facing(a, forward);
  k.split(in, loaded.re, loaded.im, n);
  if (n2 == 0) {
    const Parts<T> r = facing(lanes(plan, a, b, 1), forward);
    return k.join(r.re, r.im, out, n, scale);
  }
  Parts<T> columns = lanes(*plan.first, a, b, n2);
  Parts<T> other = columns.re == a.re ? b : a;
  k.turn(columns.re, columns.im, plan.turn_re.data(), plan.turn_im.data(), n);
  k.transpose(columns.re, n2, other.re, n1, n1, n2);
  k.transpose(columns.im, n2, other.im, n1, n1, n2);
  const Parts<T> result = facing(lanes(*plan.second, other, columns, n1), forward);
  k.join(result.re, result.im, out, n, scale);
}

// Strips of columns, then strips of rows; the strips are spread over threads.
template <class T>
void long_row(const FftPlan<T>& plan, const T* in, T* out, bool forward, T scale) {
  const FftTable<T>& k = fft_kernels<T>();
  const int64_t n1 = plan.n1, n2 = plan.n2, width = kStrip<T>;
  const Scratch<T> between(2 * plan.n);  // the real parts, then the imaginary ones
  T *mid_re = between.get(), *mid_im = mid_re + plan.n;
  parallel_for((n2 + width - 1) / width, 1, [&](int64_t begin, int64_t end) {
    const TwoParts<T> memory(n1 * width);
    for (int64_t strip = begin; strip < end; ++strip) {
      const int64_t at = strip * width, w = std::min(width, n2 - at);
      const Parts<T> x = memory.first(), loaded = facing(x, forward);
      for (int64_t i = 0; i < n1; ++i)
        k.split(in + 2 * (i * n2 + at), loaded.re + i * w, loaded.im + i * w, w);
      const Parts<T> r = lanes(*plan.first, x, memory.second(), w);
      for (int64_t i = 0; i < n1; ++i) {
        T *re = r.re + i * w, *im = r.im + i * w;
        k.turn(re, im, plan.turn_re.data() + i * n2 + at, plan.turn_im.data() + i * n2 + at, w);
        std::memcpy(mid_re + i * n2 + at, re, size_t(w) * sizeof(T));
        std::memcpy(mid_im + i * n2 + at, im, size_t(w) * sizeof(T));
      }
    }
  });
  parallel_for((n1 + width - 1) / width, 1, [&](int64_t begin, int64_t end) {
    const TwoParts<T> memory(n2 * width);
    for (int64_t strip = begin; strip < end; ++strip) {
      const int64_t at = strip * width, w = std::min(width, n1 - at);
      const Parts<T> x = memory.first();
      k.transpose(mid_re + at * n2, n2, x.re, w, w, n2);
      k.transpose(mid_im + at * n2, n2, x.im, w, w, n2);
      const Parts<T> r = facing(lanes(*plan.second, x, memory.second(), w), forward);
      for (int64_t j = 0; j < n2; ++j)
        k.join(r.re + j * w, r.im + j * w, out + 2 * (j * n1 + at), w, scale);
    }
  });
}

template <class T>
void convolved_row(const FftPlan<T>& plan, const T* in, T* out, bool forward, T scale) {
  const FftTable<T>& k = fft_kernels<T>();
  const int64_t n = plan.n, m = plan.convolution->n;
  const Scratch<T> pairs(2 * m);
  const TwoParts<T> memory(m);
  const Parts<T> x = memory.first(), loaded = facing(x, forward);
  k.split(in, loaded.re, loaded.im, n);
  k.turn(x.re, x.im, plan.chirp_re.data(), plan.chirp_im.data(), n);
  k.join(x.re, x.im, pairs.get(), n, T(1));
  std::fill(pairs.get() + 2 * n, pairs.get() + 2 * m, T(0));
  fft_row(*plan.convolution, pairs.get(), pairs.get(), true, T(1));
  k.split(pairs.get(), x.re, x.im, m);
  k.turn(x.re, x.im, plan.kernel_re.data(), plan.kernel_im.data(), m);
  k.join(x.re, x.im, pairs.get(), m, T(1));
  fft_row(*plan.convolution, pairs.get(), pairs.get(), false, T(1) / T(m));
  k.split(pairs.get(), x.re, x.im, n);
  k.turn(x.re, x.im, plan.chirp_re.data(), plan.chirp_im.data(), n);
  k.join(loaded.re, loaded.im, out, n, scale);
}

}  // namespace

template <class T>
void fft_row(const FftPlan<T>& plan, const T* in, T* out, bool forward, T scale) {
  if (plan.n == 1) {
    out[0] = in[0] * scale;
    out[1] = in[1] * scale;
  } else if (plan.convolution) {
    convolved_row(plan, in, out, forward, scale);
  } else if (plan.n <= plan.kMedium || plan.n2 == 0) {
    medium_row(plan, in, out, forward, scale, TwoParts<T>(plan.n));
  } else {
    long_row(plan, in, out, forward, scale);
  }
}

namespace {

// Rows too short to be cut: several side by side.
template <class T>
void short_rows(const FftPlan<T>& plan, const T* in, T* out, int64_t count, bool forward, T scale) {
  const FftTable<T>& k = fft_kernels<T>();
  const int64_t n = plan.n, width = std::max<int64_t>(16, 1024 / n);
  const TwoParts<T> memory(n * width);
  for (int64_t at = 0; at < count; at += width) {
    const int64_t w = std::min(width, count - at);
    const Parts<T> a = memory.first(), b = memory.second(), loaded = facing(a, forward);
    k.split(in + 2 * at * n, b.re, b.im, w * n);
    k.transpose(b.re, n, loaded.re, w, w, n);
    k.transpose(b.im, n, loaded.im, w, w, n);
    const Parts<T> r = lanes(plan, a, b, w), spare = r.re == a.re ? b : a,
                   seen = facing(r, forward);
    k.transpose(seen.re, w, spare.re, n, n, w);
    k.transpose(seen.im, w, spare.im, n, n, w);
    k.join(spare.re, spare.im, out + 2 * at * n, w * n, scale);
  }
}

}  // namespace

template <class T>
void fft_rows(const FftPlan<T>& plan, const T* in, T* out, int64_t count, bool forward, T scale) {
  const int64_t n = plan.n, grain = std::max<int64_t>(1, 8192 / n);
  if (plan.n == 1 || plan.convolution || (plan.n > plan.kMedium && plan.n2 != 0)) {
    // Few long rows: each is spread over the threads by itself.
    if (count < num_threads() && plan.n > plan.kMedium) {
      for (int64_t i = 0; i < count; ++i)
        fft_row(plan, in + 2 * i * n, out + 2 * i * n, forward, scale);
      return;
    }
    parallel_for(count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        fft_row(plan, in + 2 * i * n, out + 2 * i * n, forward, scale);
    });
    return;
  }
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    if (plan.n2 == 0 || (n <= 64 && end - begin >= 8))
      return short_rows(plan, in + 2 * begin * n, out + 2 * begin * n, end - begin, forward, scale);
    const TwoParts<T> memory(n);
    for (int64_t i = begin; i < end; ++i)
      medium_row(plan, in + 2 * i * n, out + 2 * i * n, forward, scale, memory);
  });
}

template <class T>
void fft_columns(const FftPlan<T>& plan, const T* in, T* out, int64_t outer, int64_t inner,
                 bool forward, T scale) {
  const FftTable<T>& k = fft_kernels<T>();
  const int64_t n = plan.n, width = kStrip<T>, strips = (inner + width - 1) / width;
  const bool side_by_side = plan.has_lanes();
  const int64_t grain = std::max<int64_t>(1, 8192 / (n * width));
  parallel_for(outer * strips, grain, [&](int64_t begin, int64_t end) {
    const TwoParts<T> memory(n * width);
    const Scratch<T> row(side_by_side ? 0 : 2 * n);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i % strips * width, w = std::min(width, inner - at);
      const T* from = in + 2 * (i / strips * n * inner + at);
      T* to = out + 2 * (i / strips * n * inner + at);
      if (!side_by_side) {
        for (int64_t c = 0; c < w; ++c) {
          for (int64_t j = 0; j < n; ++j) {
            row.get()[2 * j] = from[2 * (j * inner + c)];
            row.get()[2 * j + 1] = from[2 * (j * inner + c) + 1];
          }
          fft_row(plan, row.get(), row.get(), forward, scale);
          for (int64_t j = 0; j < n; ++j) {
            to[2 * (j * inner + c)] = row.get()[2 * j];
            to[2 * (j * inner + c) + 1] = row.get()[2 * j + 1];
          }
        }
        continue;
      }
      const Parts<T> x = memory.first(), loaded = facing(x, forward);
      for (int64_t j = 0; j < n; ++j)
        k.split(from + 2 * j * inner, loaded.re + j * w, loaded.im + j * w, w);
      const Parts<T> r = facing(lanes(plan, x, memory.second(), w), forward);
      for (int64_t j = 0; j < n; ++j)
        k.join(r.re + j * w, r.im + j * w, to + 2 * j * inner, w, scale);
    }
  });
}

template void fft_row(const FftPlan<float>&, const float*, float*, bool, float);
template void fft_row(const FftPlan<double>&, const double*, double*, bool, double);
template void fft_rows(const FftPlan<float>&, const float*, float*, int64_t, bool, float);
template void fft_rows(const FftPlan<double>&, const double*, double*, int64_t, bool, double);
template void fft_columns(const FftPlan<float>&, const float*, float*, int64_t, int64_t, bool,
                          float);
template void fft_columns(const FftPlan<double>&, const double*, double*, int64_t, int64_t, bool,
                          double);

}  // namespace rush
