// Fourier transforms. Sizes, norms and the public names are Python's (rushlight/fft).
#include "device/fft.h"

#include <algorithm>

#include "ops/fft_ops.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {
namespace {

// The dims counted from 0; raises for one out of range or named twice.
Dims wrapped_dims(const char* op, const Tensor& x, IntList dim) {
  Dims out;
  for (const int64_t d : dim) {
    const int64_t w = wrap_dim(op, d, x.dim());
    for (const int64_t other : out)
      check(other != w, ErrorKind::Runtime, op, "dim ", d, " is named twice");
    check(x.sizes()[size_t(w)] > 0, ErrorKind::Runtime, op, "needs at least one element along dim ",
          d, ", got shape ", x.sizes());
    out.push_back(w);
  }
  return out;
}

void check_type(const char* op, const Tensor& x, bool complex) {
  const DType t = x.dtype();
  const bool wide = to_real(t) == DType::Float32 || to_real(t) == DType::Float64;
  check(wide && is_complex(t) == complex, ErrorKind::DType, op, "not implemented for ", t,
        " tensors: convert with .", is_complex(t) ? "cfloat()" : "float()");
}

// Note [How transforms lie]
//
// As PyTorch's on the CPU: the dims that are not transformed first, then the others, each in the
// order they have in the argument, and for real numbers the halved one last. That is also where
// rows come from without a copy out. But a contiguous argument whose dims lie elsewhere is
// transformed in its place, by columns: to turn it over would cost a pass over memory.
// On GPUs cuFFT takes such columns, and results are contiguous.
Dims strides_of_result(const Tensor& x, IntList sizes, IntList dims, bool halved) {
  const int64_t n = x.dim();
  const bool in_place = x.is_contiguous() && (!halved || dims.back() == n - 1);
  if (in_place || !(x.is_cpu() || x.is_meta())) return {};
  // 0: outside, as it is not transformed; 2: innermost.
  const auto depth = [&](int64_t d) {
    if (halved && d == dims.back()) return 2;
    return int(std::find(dims.begin(), dims.end(), d) != dims.end());
  };
  Dims order;
  for (int64_t d = 0; d < n; ++d) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    if (depth(a) != depth(b)) return depth(a) < depth(b);
    return x.strides()[size_t(a)] > x.strides()[size_t(b)];
  });
  Dims strides(uint32_t(n), 0);
  int64_t step = 1;
  for (int64_t i = n - 1; i >= 0; --i) {
    const auto d = size_t(order[size_t(i)]);
    strides[d] = step;
    step *= std::max<int64_t>(1, sizes[d]);
  }
  return strides;
}

}  // namespace

struct FftComplex {
  static constexpr const char* name = "fft";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& self, IntList dim, double, bool) {
    check_type(name, self, true);
    const Dims d = wrapped_dims(name, self, dim);
    return {self.sizes(), self.dtype(), self.device(),
            strides_of_result(self, self.sizes(), d, false)};
  }
  static void run(const Tensor& self, IntList dim, double scale, bool forward, const Tensor& out) {
    fourier_loops(out).complex(self, out, wrapped_dims(name, self, dim), scale, forward);
  }
  static constexpr uint32_t needs[] = {0};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, IntList dim, double scale,
                    bool forward) {
    return {_fft_c2c(g, dim, scale, !forward)};
  }
};

struct FftReal {
  static constexpr const char* name = "rfft";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& self, IntList dim, double) {
    check_type(name, self, false);
    rush::check(!dim.empty(), ErrorKind::Runtime, name, "needs at least one dim");
    const Dims d = wrapped_dims(name, self, dim);
    Dims sizes(self.sizes());
    sizes[size_t(d.back())] = sizes[size_t(d.back())] / 2 + 1;
    return {sizes, to_complex(self.dtype()), self.device(),
            strides_of_result(self, sizes, d, true)};
  }
  static void run(const Tensor& self, IntList dim, double scale, const Tensor& out) {
    fourier_loops(out).real(self, out, wrapped_dims(name, self, dim), scale);
  }
  static constexpr uint32_t needs[] = {0};
  // As if the half that was not kept had a gradient of zero.
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, IntList dim, double scale) {
    const int64_t last = wrap_dim(name, dim.back(), g.dim());
    const int64_t n = c.sizes(0)[size_t(last)];
    Dims pad(uint32_t(2 * g.dim()), 0);
    pad[size_t(2 * (g.dim() - 1 - last) + 1)] = n - g.size(last);
    return {real(_fft_c2c(constant_pad_nd(g, pad, 0), dim, scale, false))};
  }
};

struct FftHermitian {
  static constexpr const char* name = "irfft";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& self, IntList dim, double, int64_t n) {
    check_type(name, self, true);
    rush::check(!dim.empty(), ErrorKind::Runtime, name, "needs at least one dim");
    rush::check(n >= 1, ErrorKind::Runtime, name, "the length must be at least 1, got ", n);
    const Dims d = wrapped_dims(name, self, dim);
    check_shape(self.size(d.back()) == n / 2 + 1, name, "a length of ", n, " needs ", n / 2 + 1,
                " elements along dim ", d.back(), ", got shape ", self.sizes());
    Dims sizes(self.sizes());
    sizes[size_t(d.back())] = n;
    return {sizes, to_real(self.dtype()), self.device(), strides_of_result(self, sizes, d, true)};
  }
  static void run(const Tensor& self, IntList dim, double scale, int64_t, const Tensor& out) {
    fourier_loops(out).hermitian(self, out, wrapped_dims(name, self, dim), scale);
  }
  static constexpr uint32_t needs[] = {0};
  // Each number but the first (and the middle one) stands for two of the whole sequence.
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, IntList dim, double scale,
                    int64_t n) {
    const Tensor half = _fft_r2c(g, dim, scale);
    const int64_t last = wrap_dim(name, dim.back(), g.dim()), twice = n - half.size(last);
    if (twice <= 0) return {half};
    const Tensor parts[] = {slice(half, last, 0, 1), slice(half, last, 1, 1 + twice) * 2,
                            slice(half, last, 1 + twice, half.size(last))};
    return {cat(TensorList(parts), last)};
  }
};

}  // namespace rush

#include "ops/fft.inc"
