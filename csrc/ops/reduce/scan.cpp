// Running sums, products and extremes along a dim. Loops are in cpu/scan.*.
#include "device/reduce.h"

#include "core/interrupt.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/op_name.h"
#include "ops/framework/operators.h"
#include "ops/log_scan_ops.h"

namespace rush {
namespace {

Spec scan_spec(const char* op, const Tensor& x, int64_t dim, std::optional<DType> dtype) {
  wrap_dim(op, dim, x.dim());
  const bool exact = category(x.dtype()) <= Category::Integer;
  return {x.sizes(), dtype.value_or(exact ? DType::Int64 : x.dtype()), x.device()};
}

// In place, dtype= cannot ask for another one; that integers add up in int64 does not count.
void check_own_dtype(const char* op, const Tensor& x, const Spec& spec) {
  check(spec.dtype == x.dtype() || (spec.dtype == DType::Int64 && is_integral(x.dtype())),
        ErrorKind::Runtime, op, "in place, dtype must be the tensor's own ", x.dtype(), ", got ",
        spec.dtype);
}

// Sums from each position to the end.
Tensor reverse_cumsum(const Tensor& g, int64_t dim) {
  if (g.dim() == 0) return g;
  const IntList d(&dim, 1);
  return flip(cumsum(flip(g, d), dim), d);
}

void check_ordered(const char* op, const Tensor& x) {
  check(!x.is_complex(), ErrorKind::DType, op, "complex numbers have no order (", x.dtype(), ")");
}

template <OpName N, ScanFn fn>
struct Accumulated {
  static constexpr const char* name = N.text;
  static constexpr bool any_device = true;
  static constexpr bool refuses_overlap = true;
  static void check_in_place(const Tensor& x, const Spec& spec) { check_own_dtype(name, x, spec); }
  static Spec check(const Tensor& x, int64_t dim, std::optional<DType> dtype) {
    check_dtype(dtype != DType::Bool, name, "not implemented for dtype=bool: cummax() of bools is ",
                "true from the first true on, cummin() until the first false");
    return scan_spec(name, x, dim, dtype);
  }
  static void run(const Tensor& x, int64_t dim, std::optional<DType>, const Tensor& out) {
    if (x.dim() == 0) return copy_data(out, x);
    scan(fn, x, out, wrap_dim(name, dim, x.dim()));
  }
};

}  // namespace

struct Cumsum : Accumulated<"cumsum", ScanFn::Sum> {
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, int64_t dim, std::optional<DType>) {
    return {reverse_cumsum(g, dim)};
  }
};

struct Cumprod : Accumulated<"cumprod", ScanFn::Prod> {
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& self, int64_t dim,
                    std::optional<DType> dtype) {
    const Tensor x = conj(dtype ? cast(self, *dtype) : self);
    if (x.dim() == 0) return {g};
    const int64_t d = wrap_dim(name, dim, x.dim());
    if (x.numel() == 0 || x.sizes()[size_t(d)] == 1) return {g};
    if (!any(eq(x, wrap_number(0))).item().to<bool>())
      return {reverse_cumsum(g * cumprod(x, d), d) / x};
    // Division fails at zeros: leave each element out in turn.
    std::vector<Tensor> slopes;
    const int64_t n = x.sizes()[size_t(d)];
    for (int64_t k = 0; k < n; ++k) {
      check_interrupt();
      const Tensor before =
          k == 0 ? ones_like(slice(x, d, 0, 1, 1)) : prod(slice(x, d, 0, k, 1), d, true);
      const Tensor parts[] = {before, slice(x, d, k + 1, n, 1)};
      slopes.push_back(sum(cumprod(cat(parts, d), d) * slice(g, d, k, n, 1), IntList(&d, 1), true));
    }
    return {cat(slopes, d)};
  }
};

namespace {

template <OpName N, ScanFn fn>
struct RunningExtreme {
  static constexpr const char* name = N.text;
  static constexpr bool any_device = true;
  static constexpr uint32_t non_differentiable = 2;
  static std::array<Spec, 2> check(const Tensor& x, int64_t dim) {
    check_ordered(name, x);
    wrap_dim(name, dim, x.dim());
    return {Spec{x.sizes(), x.dtype(), x.device()}, Spec{x.sizes(), DType::Int64, x.device()}};
  }
  static void run(const Tensor& x, int64_t dim, const Tensor& values, const Tensor& indices) {
    if (x.dim() == 0) {
      copy_data(values, x);
      fill_data(indices, 0);
      return;
    }
    scan(fn, x, values, wrap_dim(name, dim, x.dim()), &indices);
  }
  static constexpr uint32_t needs[] = {result(1)};
  static Grads grad(const Ctx& c, GradSpan g, const Tensor&, int64_t dim) {
    if (c.sizes(0).empty()) return {g[0]};
    const Tensor whole = zeros(c.sizes(0), g[0].dtype(), std::nullopt, g[0].device());
    return {scatter_add(whole, dim, c.out(1), g[0])};
  }
};

}  // namespace

struct Cummax : RunningExtreme<"cummax", ScanFn::Max> {};
struct Cummin : RunningExtreme<"cummin", ScanFn::Min> {};

struct LogcumsumexpReal {
  static constexpr const char* name = "logcumsumexp";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, int64_t dim) {
    rush::check(is_floating(x.dtype()), ErrorKind::DType, name, "not implemented for ", x.dtype(),
                " tensors");
    wrap_dim(name, dim, x.dim());
    return {x.sizes(), x.dtype(), x.device()};
  }
  static void run(const Tensor& x, int64_t dim, const Tensor& out) {
    if (x.dim() == 0) return copy_data(out, x);
    scan(ScanFn::LogCumSumExp, x, out, wrap_dim(name, dim, x.dim()));
  }
  static constexpr uint32_t needs[] = {in(0) | kOut};
  // With weights exp(x_i - y_j) for i <= j: the gradient sums g_j over later positions, the tangent
  // t_i over earlier ones. Both in logarithms, positive and negative numbers apart, as the weights
  // alone may overflow. What has no logarithm is masked rather than clipped: a clipped zero would
  // have an infinite derivative.
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, int64_t dim) {
    if (x.dim() == 0) return {g};
    const IntList d(&dim, 1);
    const Tensor nothing = eq(c.out(), minus_infinity());
    const Tensor y = masked_fill(c.out(), nothing, wrap_number(0));
    auto part = [&](const Tensor& h) {
      const Tensor logs = masked_fill(log_of_positive(h) - y, nothing, minus_infinity());
      return exp(flip(logcumsumexp_real(flip(logs, d), dim), d) + x);
    };
    return {part(g) - part(neg(g))};
  }
  static Tensor jvp(const Jvp& j, const Tensor& x, int64_t dim) {
    if (x.dim() == 0) return j.tangent(0);
    const Tensor nothing = eq(j.out(), minus_infinity());
    const Tensor y = masked_fill(j.out(), nothing, wrap_number(0));
    auto part = [&](const Tensor& h) {
      const Tensor logs = logcumsumexp_real(log_of_positive(h) + x, dim) - y;
      return exp(masked_fill(logs, nothing, minus_infinity()));
    };
    return part(j.tangent(0)) - part(neg(j.tangent(0)));
  }
  static Tensor minus_infinity() { return wrap_number(-std::numeric_limits<double>::infinity()); }
  static Tensor log_of_positive(const Tensor& h) {
    const Tensor none = le(h, wrap_number(0));
    return masked_fill(log(masked_fill(h, none, wrap_number(1))), none, minus_infinity());
  }
};

struct Logcumsumexp {
  static constexpr const char* name = "logcumsumexp";
  static constexpr bool refuses_overlap = true;
  static Tensor call(const Tensor& x, int64_t dim) {
    return x.is_complex() ? logcumsumexp_complex(x, dim) : logcumsumexp_real(x, dim);
  }
};

}  // namespace rush

#include "ops/scan.inc"
