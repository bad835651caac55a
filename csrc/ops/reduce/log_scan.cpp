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
  // Element i weighs exp(x_i - y_j) in every later sum j. Both parts are shifted by the largest real
  // part along dim; sums that are 700 below it have no finite weight.
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, int64_t dim) {
    if (x.dim() == 0 || x.numel() == 0) return {g};
    const IntList d(&dim, 1);
    const auto [up, down] = weights(x, c.out(), dim);
    return {conj(up) * flip(cumsum(flip(g * conj(down), d), dim), d)};
  }
  static Tensor jvp(const Jvp& j, const Tensor& x, int64_t dim) {
    if (x.dim() == 0 || x.numel() == 0) return j.tangent(0);
    const auto [up, down] = weights(x, j.out(), dim);
    return down * cumsum(up * j.tangent(0), dim);
  }
  // exp(x - s) and exp(s - y); 0 for sums of nothing but exp(-inf).
  static std::pair<Tensor, Tensor> weights(const Tensor& x, const Tensor& y, int64_t dim) {
    const Tensor largest = detach(amax(real(x), IntList(&dim, 1), true));
    const Tensor s = masked_fill(largest, logical_not(isfinite(largest)), wrap_number(0));
    const Tensor lowest = wrap_number(-std::numeric_limits<double>::infinity());
    const Tensor nothing = eq(real(detach(y)), lowest);
    const Tensor known = masked_fill(y, nothing, wrap_number(0));
    return {exp(x - s), masked_fill(exp(s - known), nothing, wrap_number(0))};
  }
};

}  // namespace rush

#include "ops/log_scan.inc"
