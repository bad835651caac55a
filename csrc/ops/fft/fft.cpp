// Fourier transforms. Sizes, norms and the public names are Python's (rushlight/fft).
#include "device/fft.h"

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

}  // namespace

struct FftComplex {
  static constexpr const char* name = "fft";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& self, IntList dim, double, bool) {
    check_type(name, self, true);
    wrapped_dims(name, self, dim);
    return {self.sizes(), self.dtype(), self.device()};
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
    return {sizes, to_complex(self.dtype()), self.device()};
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
    return {sizes, to_real(self.dtype()), self.device()};
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
