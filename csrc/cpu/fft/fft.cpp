// Fourier transforms on the CPU: how tensors are cut into rows and columns. The transforms of these
// are in fft_rows.cpp.
#include "device/fft.h"

#include <algorithm>

#include "core/interrupt.h"
#include "core/threads.h"
#include "cpu/fft/fft_rows.h"
#include "cpu/prepare.h"
#include "cpu/scratch.h"

namespace rush {
namespace {

constexpr int64_t kPerLook = 1 << 18;  // elements between looks for an interrupt

// One image of the batch, all its dims one after the other: it stays in the cache meanwhile.
template <class T>
void image(const T* in, T* out, IntList sizes, IntList dims, bool forward, T scale) {
  for (size_t step = 0; step < dims.size(); ++step) {
    const int64_t d = dims[dims.size() - 1 - step];
    int64_t outer = 1, inner = 1;
    for (int64_t i = 0; i < d; ++i) outer *= sizes[size_t(i)];
    for (size_t i = size_t(d) + 1; i < sizes.size(); ++i) inner *= sizes[i];
    const auto plan = fft_plan<T>(sizes[size_t(d)]);
    const T* from = step == 0 ? in : out;
    const T factor = step + 1 == dims.size() ? scale : T(1);
    if (inner == 1)
      fft_rows(*plan, from, out, outer, forward, factor);
    else
      fft_columns(*plan, from, out, outer, inner, forward, factor);
  }
}

// Contiguous tensors of one shape, perhaps the same one.
void transform(const Tensor& in, const Tensor& out, IntList dims, double scale, bool forward) {
  if (in.numel() == 0) return;
  Dims sorted(dims);
  std::sort(sorted.begin(), sorted.end());
  const int64_t top = sorted.empty() ? 0 : sorted[0];
  int64_t images = 1, size = 1;
  Dims sizes;
  for (int64_t d = 0; d < in.dim(); ++d) {
    if (d < top) {
      images *= in.size(d);
    } else {
      size *= in.size(d);
      sizes.push_back(in.size(d));
    }
  }
  for (int64_t& d : sorted) d -= top;
  dispatch<DType::Float32, DType::Float64>("fft", to_real(in.dtype()), [&]<class T>() {
    const T* from = in.data<T>();
    T* to = out.data<T>();
    for (const int64_t d : sorted) fft_plan<T>(sizes[size_t(d)]);  // made before the threads ask
    if (sizes.size() == 1)
      return image<T>(from, to, Dims{images, size}, Dims{1}, forward, T(scale));
    const auto run = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        image(from + 2 * i * size, to + 2 * i * size, sizes, sorted, forward, T(scale));
    };
    if (images >= num_threads())
      parallel_for(images, std::max<int64_t>(1, 16384 / size), run);
    else
      run(0, images);
  });
}

// Rows of n real numbers; `step` is the length of their transforms, n / 2 + 1 complex numbers, in
// reals.
struct RealRows {
  int64_t n, half, step, count;
  explicit RealRows(const Tensor& real)
      : n(real.size(-1)), half(n / 2), step(2 * (half + 1)), count(real.numel() / n) {}

  // Calls some(begin, end) until all rows are done. Few of them are taken one after another: then
  // each uses all threads.
  template <class F>
  void share(F some) const {
    if (count < num_threads()) return some(0, count);
    parallel_for(count, std::max<int64_t>(1, 8192 / n), some);
  }
  // one(row)
  template <class F>
  void each(F one) const {
    share([&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) one(i);
    });
  }
  // one(row, room for n complex numbers)
  template <class T, class F>
  void each_in_room(F one) const {
    share([&](int64_t begin, int64_t end) {
      const Scratch<T> room(2 * n);
      for (int64_t i = begin; i < end; ++i) one(i, room.get());
    });
  }
};

// Along the last dim of contiguous tensors: n real numbers to the first n / 2 + 1 complex ones of
// their transform.
void transform_real(const Tensor& in, const Tensor& out, double scale) {
  if (out.numel() == 0) return;
  const RealRows rows(in);
  const int64_t n = rows.n, half = rows.half, step = rows.step;
  dispatch<DType::Float32, DType::Float64>("fft", in.dtype(), [&]<class T>() {
    const T* from = in.data<T>();
    T* to = out.data<T>();
    if (n % 2) {
      const auto plan = fft_plan<T>(n);
      return rows.each_in_room<T>([&](int64_t i, T* z) {
        for (int64_t j = 0; j < n; ++j) z[2 * j] = from[i * n + j], z[2 * j + 1] = 0;
        fft_row(*plan, z, z, true, T(scale));
        std::copy(z, z + step, to + i * step);
      });
    }
    // Pairs of neighbours as complex numbers: a transform of half the length, which is then taken
    // apart into those of the even and the odd elements.
    const auto plan = fft_plan<T>(half);
    const auto kept = real_fft_roots<T>(n);
    const std::vector<T>& roots = *kept;
    rows.each([&](int64_t i) {
      T* z = to + i * step;
      fft_row(*plan, from + i * n, z, true, T(scale));
      const T re = z[0], im = z[1];
      z[0] = re + im, z[1] = 0;
      z[2 * half] = re - im, z[2 * half + 1] = 0;
      in_steps(half / 2, kPerLook, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin + 1; k <= end; ++k) {
          T *a = z + 2 * k, *b = z + 2 * (half - k);
          const T sr = T(0.5) * (a[0] + b[0]), si = T(0.5) * (a[1] - b[1]);
          const T dr = T(0.5) * (a[1] + b[1]), di = T(0.5) * (b[0] - a[0]);  // over 2i
          const T wr = roots[size_t(2 * k)], wi = roots[size_t(2 * k + 1)];
          const T tr = dr * wr - di * wi, ti = dr * wi + di * wr;
          a[0] = sr + tr, a[1] = si + ti;
          b[0] = sr - tr, b[1] = ti - si;
        }
      });
    });
  });
}

// Along the last dim of contiguous tensors: the first n / 2 + 1 numbers of a Hermitian sequence to
// n real ones, by the transform with a positive exponent.
void transform_hermitian(const Tensor& in, const Tensor& out, double scale) {
  if (out.numel() == 0) return;
  const RealRows rows(out);
  const int64_t n = rows.n, half = rows.half, step = rows.step;
  dispatch<DType::Float32, DType::Float64>("fft", out.dtype(), [&]<class T>() {
    const T* from = in.data<T>();
    T* to = out.data<T>();
    if (n % 2) {
      const auto plan = fft_plan<T>(n);
      return rows.each_in_room<T>([&](int64_t i, T* z) {
        const T* x = from + i * step;
        z[0] = x[0], z[1] = 0;  // the imaginary part of a Hermitian sequence's first is zero
        for (int64_t k = 1; k <= half; ++k) {
          z[2 * k] = z[2 * (n - k)] = x[2 * k];
          z[2 * k + 1] = x[2 * k + 1];
          z[2 * (n - k) + 1] = -x[2 * k + 1];
        }
        fft_row(*plan, z, z, false, T(scale));
        for (int64_t j = 0; j < n; ++j) to[i * n + j] = z[2 * j];
      });
    }
    const auto plan = fft_plan<T>(half);
    const auto kept = real_fft_roots<T>(n);
    const std::vector<T>& roots = *kept;
    rows.each([&](int64_t i) {
      const T* x = from + i * step;
      T* z = to + i * n;
      z[0] = x[0] + x[2 * half];
      z[1] = x[0] - x[2 * half];
      in_steps(half / 2, kPerLook, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin + 1; k <= end; ++k) {
          const T *a = x + 2 * k, *b = x + 2 * (half - k);
          const T sr = a[0] + b[0], si = a[1] - b[1], dr = a[0] - b[0], di = a[1] + b[1];
          const T wr = roots[size_t(2 * k)], wi = -roots[size_t(2 * k + 1)];
          const T tr = dr * wr - di * wi, ti = dr * wi + di * wr;  // times i: (-ti, tr)
          T *c = z + 2 * k, *d = z + 2 * (half - k);
          d[0] = sr + ti, d[1] = tr - si;
          c[0] = sr - ti, c[1] = si + tr;
        }
      });
      fft_row(*plan, z, z, false, T(scale));
    });
  });
}

// The same memory with dim d in the last place, and the last one in its place.
Tensor last_dim_moved(const Tensor& x, int64_t d) {
  Dims sizes(x.sizes()), strides(x.strides());
  std::swap(sizes[size_t(d)], sizes[sizes.size() - 1]);
  std::swap(strides[size_t(d)], strides[strides.size() - 1]);
  return x.alias(sizes, strides, x.offset());
}
// All dims but the last one, as they are numbered after that.
Dims other_dims(const Tensor& x, IntList dims) {
  Dims others;
  for (size_t i = 0; i + 1 < dims.size(); ++i)
    others.push_back(dims[i] == x.dim() - 1 ? dims.back() : dims[i]);
  return others;
}
// Runs f on out, or on a contiguous tensor whose values out takes then.
template <class F>
void into_contiguous(const Tensor& out, F&& f) {
  const Tensor to = out.is_contiguous() ? out : make_tensor(out.sizes(), out.dtype());
  f(to);
  if (!to.is_same(out)) copy_cpu(to, out);
}

// An argument and its result as they lie in the result's memory, outermost dim first, so that rows of
// the result are rows of memory; the dims are renumbered. Note [How transforms lie] in ops/fft.
struct AsTheyLie {
  Tensor x, out;
  Dims dims;

  AsTheyLie(const Tensor& given, const Tensor& result, IntList given_dims) {
    Dims order;
    for (int64_t d = 0; d < result.dim(); ++d) order.push_back(d);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return result.strides()[size_t(a)] > result.strides()[size_t(b)];
    });
    x = permuted(given, order);
    out = permuted(result, order);
    for (const int64_t d : given_dims)
      dims.push_back(std::find(order.begin(), order.end(), d) - order.begin());
  }

 private:
  static Tensor permuted(const Tensor& t, IntList order) {
    Dims sizes, strides;
    for (const int64_t d : order) {
      sizes.push_back(t.size(d));
      strides.push_back(t.strides()[size_t(d)]);
    }
    return t.alias(sizes, strides, t.offset());
  }
};

void fft_complex_cpu(const Tensor& given, const Tensor& result, IntList given_dims, double scale,
                     bool forward) {
  const auto [x, out, dims] = AsTheyLie(given, result, given_dims);
  into_contiguous(out, [&](const Tensor& to) {
    if (dims.empty())
      copy_cpu(x, to);
    else
      transform(cpu::contiguous(x), to, dims, scale, forward);
  });
}

void fft_real_cpu(const Tensor& given, const Tensor& result, IntList given_dims, double scale) {
  const auto [x, out, dims] = AsTheyLie(given, result, given_dims);
  const int64_t last = dims.back();
  const Dims others = other_dims(x, dims);
  into_contiguous(last_dim_moved(out, last), [&](const Tensor& to) {
    transform_real(cpu::contiguous(last_dim_moved(x, last)), to, scale);
    if (!others.empty()) transform(to, to, others, 1.0, true);
  });
}

void fft_hermitian_cpu(const Tensor& given, const Tensor& result, IntList given_dims,
                       double scale) {
  const auto [x, out, dims] = AsTheyLie(given, result, given_dims);
  const int64_t last = dims.back();
  const Dims others = other_dims(x, dims);
  Tensor from = cpu::contiguous(last_dim_moved(x, last));
  if (!others.empty()) {
    const Tensor between = make_tensor(from.sizes(), from.dtype());
    transform(from, between, others, 1.0, false);
    from = between;
  }
  into_contiguous(last_dim_moved(out, last),
                  [&](const Tensor& to) { transform_hermitian(from, to, scale); });
}

const bool registered = [] {
  fourier_loops(DeviceType::CPU) = {fft_complex_cpu, fft_real_cpu, fft_hermitian_cpu};
  return true;
}();

}  // namespace
}  // namespace rush
