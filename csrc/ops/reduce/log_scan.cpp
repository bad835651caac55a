// Running log-sums of complex numbers: one after the other, so that neither a large element later on
// nor a phase beyond pi is lost, as both would be in the logarithm of a running sum.
#include "ops/log_scan_ops.h"

#include <cmath>
#include <complex>
#include <limits>
#include <utility>

#include "core/interrupt.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {
namespace {

using Number = std::complex<double>;

bool is_nan(const Number& z) { return std::isnan(z.real()) || std::isnan(z.imag()); }

// log(exp(a) + exp(b))
Number log_add(Number a, Number b) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  if (is_nan(a) || is_nan(b)) return {nan, nan};
  if (a.real() > b.real()) std::swap(a, b);
  if (std::isinf(a.real()) && a.real() == b.real())
    return a.real() < 0 ? a : std::log(std::exp(a) + std::exp(b));
  return std::log(1.0 + std::exp(a - b)) + b;
}

}  // namespace

struct LogcumsumexpComplex {
  static constexpr const char* name = "logcumsumexp";
  static Spec check(const Tensor& x, int64_t dim) {
    rush::check(x.is_complex(), ErrorKind::DType, name, "not implemented for ", x.dtype(),
                " tensors");
    wrap_dim(name, dim, x.dim());
    return {x.sizes(), x.dtype(), x.device()};
  }
  static void run(const Tensor& x, int64_t dim, const Tensor& out) {
    if (x.dim() == 0 || x.numel() == 0) return copy_data(out, x);
    const auto d = size_t(wrap_dim(name, dim, x.dim()));
    const Tensor from = contiguous_data(convert_data(x, DType::Complex128));
    const Tensor to = make_tensor(x.sizes(), DType::Complex128, x.device());
    int64_t inner = 1;
    for (size_t i = d + 1; i < x.sizes().size(); ++i) inner *= x.sizes()[i];
    const int64_t length = x.sizes()[d], lines = x.numel() / length;
    const auto* in = reinterpret_cast<const Number*>(from.data<complex<double>>());
    auto* result = reinterpret_cast<Number*>(to.data<complex<double>>());
    InterruptCounter interrupts(65536);
    for (int64_t line = 0; line < lines; ++line) {
      const int64_t start = line / inner * inner * length + line % inner;
      Number sum = in[start];
      result[start] = sum;
      for (int64_t i = 1; i < length; ++i) {
        sum = log_add(in[start + i * inner], sum);
        result[start + i * inner] = sum;
      }
      interrupts.add(length);
    }
    copy_data(out, to);
  }
  static constexpr uint32_t needs[] = {in(0) | kOut};
  // Element i weighs exp(x_i - y_j) in every later sum j.
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, int64_t dim) {
    if (x.dim() == 0) return {g};
    const IntList d(&dim, 1);
    const Tensor logs = log(conj(g)) - c.out();
    return {conj(exp(flip(logcumsumexp_complex(flip(logs, d), dim), d) + x))};
  }
};

}  // namespace rush

#include "ops/log_scan.inc"
