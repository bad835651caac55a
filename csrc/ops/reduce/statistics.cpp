// Variances, norms, softmax: what measures or normalises along dims.
#include <cmath>

#include "device/nn/softmax.h"
#include "device/reduce.h"
#include "ops/framework/data.h"
#include "ops/framework/differentiated.h"
#include "ops/framework/rows.h"
#include "ops/pointwise/pointwise.h"
#include "ops/reduce/reduction.h"

namespace rush {
namespace {

void check_variance(const char* op, const Tensor& x) {
  check(is_differentiable(x.dtype()), ErrorKind::Runtime, op,
        "expects a floating or complex tensor, got ", x.dtype(), ": convert with .float()");
}

double correction_of(const std::optional<Scalar>& c) { return c ? c->to_double() : 1.0; }
std::optional<Scalar> correction_of(bool unbiased) { return Scalar(int64_t(unbiased)); }

// 2 (x - mean) / (n - correction): the gradient of the variance, before it meets g.
Tensor variance_slope(const Tensor& x, const char* op, const std::optional<IntList>& dim,
                      const std::optional<Scalar>& correction) {
  const int64_t n = ReducedDims(op, x, dim).folded(x);
  return (x - mean(x, dim, true)) * Scalar(2.0 / (double(n) - correction_of(correction)));
}

}  // namespace

struct VarCorrection {
  static constexpr const char* name = "var";
  static constexpr bool any_layout = true;
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, const std::optional<IntList>& dim,
                    const std::optional<Scalar>&, bool keepdim) {
    check_variance(name, x);
    return {ReducedDims(name, x, dim).shape(x, keepdim), to_real(x.dtype()), x.device()};
  }
  static void run(const Tensor& x, const std::optional<IntList>& dim,
                  const std::optional<Scalar>& correction, bool, const Tensor& out) {
    reduce_var(x, ReducedDims(name, x, dim).keepdim_view(x, out), correction_of(correction), false);
  }
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x, const std::optional<IntList>& dim,
                    const std::optional<Scalar>& correction, bool keepdim) {
    return {restore_dims(g, x.dim(), name, dim, keepdim) *
            variance_slope(x, name, dim, correction)};
  }
};

struct StdCorrection {
  static constexpr const char* name = "std";
  static constexpr bool any_layout = true;
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, const std::optional<IntList>& dim,
                    const std::optional<Scalar>& c, bool keepdim) {
    check_variance(name, x);
    return VarCorrection::check(x, dim, c, keepdim);
  }
  static void run(const Tensor& x, const std::optional<IntList>& dim,
                  const std::optional<Scalar>& correction, bool, const Tensor& out) {
    reduce_var(x, ReducedDims(name, x, dim).keepdim_view(x, out), correction_of(correction), true);
  }
  static constexpr uint32_t needs[] = {in(0) | kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x,
                    const std::optional<IntList>& dim, const std::optional<Scalar>& correction,
                    bool keepdim) {
    // Where all elements are equal the root has no slope; zero is taken.
    const Tensor y = c.out();
    const Tensor h = masked_fill(g / (y * Scalar(2)), eq(y, wrap_number(0)), wrap_number(0));
    return {restore_dims(h, x.dim(), name, dim, keepdim) *
            variance_slope(x, name, dim, correction)};
  }
};

namespace {

// var and std with `unbiased`, as they were called before `correction`; `spread` is either of them.
using Spread = Tensor (*)(const Tensor&, std::optional<IntList>, std::optional<Scalar>, bool);
using Pair = std::tuple<Tensor, Tensor>;

template <OpName N, Spread spread>
struct UnbiasedOf {
  static constexpr const char* name = N.text;
  static Tensor call(const Tensor& x, bool unbiased) {
    return spread(x, std::nullopt, correction_of(unbiased), false);
  }
};
template <OpName N, Spread spread>
struct UnbiasedAlong {
  static constexpr const char* name = N.text;
  static Tensor call(const Tensor& x, const std::optional<IntList>& dim, bool unbiased,
                     bool keepdim) {
    return spread(x, dim, correction_of(unbiased), keepdim);
  }
};

// The same with the mean.
template <OpName N, Spread spread>
struct WithMean {
  static constexpr const char* name = N.text;
  static Pair call(const Tensor& x, const std::optional<IntList>& dim,
                   const std::optional<Scalar>& correction, bool keepdim) {
    return {spread(x, dim, correction, keepdim), mean(x, dim, keepdim)};
  }
};
template <class Op>
struct UnbiasedPairOf {
  static constexpr const char* name = Op::name;
  static Pair call(const Tensor& x, bool unbiased) {
    return Op::call(x, std::nullopt, correction_of(unbiased), false);
  }
};
template <class Op>
struct UnbiasedPairAlong {
  static constexpr const char* name = Op::name;
  static Pair call(const Tensor& x, const std::optional<IntList>& dim, bool unbiased,
                   bool keepdim) {
    return Op::call(x, dim, correction_of(unbiased), keepdim);
  }
};

}  // namespace

struct Var : UnbiasedOf<"var", var> {};
struct VarDim : UnbiasedAlong<"var", var> {};
struct Std : UnbiasedOf<"std", rush::std> {};
struct StdDim : UnbiasedAlong<"std", rush::std> {};

struct VarMeanCorrection : WithMean<"var_mean", var> {};
struct VarMean : UnbiasedPairOf<VarMeanCorrection> {};
struct VarMeanDim : UnbiasedPairAlong<VarMeanCorrection> {};
struct StdMeanCorrection : WithMean<"std_mean", rush::std> {};
struct StdMean : UnbiasedPairOf<StdMeanCorrection> {};
struct StdMeanDim : UnbiasedPairAlong<StdMeanCorrection> {};

struct VectorNorm {
  static constexpr const char* name = "norm";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, const Scalar& ord, const std::optional<IntList>& dim,
                    bool keepdim, std::optional<DType> dtype) {
    const DType t = dtype.value_or(x.dtype());
    rush::check(is_differentiable(t), ErrorKind::Runtime, name,
                "expects a floating or complex tensor, got ", t);
    const ReducedDims dims(name, x, dim);
    const double p = ord.to_double();
    rush::check(dims.folded(x) > 0 || (p >= 0 && std::isfinite(p)), ErrorKind::Runtime, name,
                "a norm of order ", ord, " has no value over a dimension of size 0 in shape ",
                x.sizes());
    return {dims.shape(x, keepdim), to_real(t), x.device()};
  }
  static void run(const Tensor& x, const Scalar& ord, const std::optional<IntList>& dim, bool,
                  std::optional<DType> dtype, const Tensor& out) {
    NoGradGuard no_grad;
    const Tensor typed = dtype && *dtype != x.dtype() ? convert_data(x, *dtype) : x;
    const Tensor source = typed.is_complex() ? abs(typed) : typed;
    const Tensor seen = ReducedDims(name, x, dim).keepdim_view(x, out);
    const double p = ord.to_double();
    if (p == 0)
      reduce(ReduceFn::Norm0, source, seen);
    else if (p == 1)
      reduce(ReduceFn::Norm1, source, seen);
    else if (p == 2)
      reduce(ReduceFn::Norm2, source, seen);
    else if (std::isinf(p))
      reduce(p > 0 ? ReduceFn::NormInf : ReduceFn::NormNegInf, source, seen);
    else
      reduce(ReduceFn::NormP, source, seen, {ord});
  }
  static constexpr uint32_t needs[] = {in(0) | kOut};
  static Grads grad(const Ctx& c, const Tensor& g0, const Tensor& self, const Scalar& ord,
                    const std::optional<IntList>& dim, bool keepdim, std::optional<DType> dtype) {
    const double p = ord.to_double();
    const Tensor x = dtype ? cast(self, *dtype) : self;
    const Tensor g = restore_dims(g0, x.dim(), name, dim, keepdim),
                 y = restore_dims(c.out(), x.dim(), name, dim, keepdim);
    if (p == 0) return {zeros_like(x)};
    if (p == 1) return {g * sgn(x)};
    const Tensor at_zero = eq(y, wrap_number(0));
    if (p == 2) return {masked_fill(x / y, at_zero, wrap_number(0)) * g};
    const Tensor size = abs(x);
    if (std::isinf(p)) {
      const Tensor best = eq(size, y);
      return {sgn(x) * best * (g / sum(best, dim, true))};
    }
    // |x|^(p-2) x / y^(p-1); zero where an element or the norm is zero.
    const Tensor slope = sgn(x) * pow(size, wrap_number(p - 1));
    const Tensor safe = p < 1 ? masked_fill(slope, eq(x, wrap_number(0)), wrap_number(0)) : slope;
    return {safe * masked_fill(g / pow(y, wrap_number(p - 1)), at_zero, wrap_number(0))};
  }
};

namespace {

DType softmax_type(const char* op, const Tensor& x) {
  check(is_floating(x.dtype()), ErrorKind::DType, op, "not implemented for ", x.dtype(),
        " tensors: pass dtype= or convert with .float()");
  return x.dtype();
}
Tensor as_asked(const Tensor& x, std::optional<DType> dtype) {
  return dtype && *dtype != x.dtype() ? cast(x, *dtype) : x;
}

// The shape of x with size 1 at dim.
Tensor column(const Tensor& x, int64_t dim, DType dtype) {
  Dims sizes(x.sizes());
  if (!sizes.empty()) sizes[size_t(dim)] = 1;
  return make_tensor(sizes, dtype, x.device());
}

}  // namespace

struct SoftmaxBackward {
  static constexpr const char* name = "softmax_backward";
  static constexpr bool differentiable = false;  // only called where no graph is wanted
  static constexpr bool deferrable = true;
  static Spec check(const Tensor& g, const Tensor& y, int64_t, bool) {
    op::settle_layout(g);
    op::settle_layout(y);
    return like(y, g.dtype());
  }
  static constexpr bool any_device = true;
  static void run(const Tensor& g, const Tensor& y, int64_t dim, bool logarithm,
                  const Tensor& out) {
    softmax_loops(out).backward(g, y, wrap_dim(name, dim, y.dim()), logarithm, out);
  }
  // May backward take this way?
  static bool fits(const Tensor& g, const Tensor& y, int64_t dim) {
    const auto has_backward = softmax_loops(y).has_backward;
    return !is_differentiated(g, y) && !g.is_batched() && !y.is_batched() && y.numel() > 0 &&
           g.dtype() == y.dtype() && has_backward && has_backward(y, wrap_dim(name, dim, y.dim()));
  }
};

namespace {

template <OpName N>
struct SoftmaxTyped {
  static constexpr const char* name = N.text;
  static constexpr bool any_device = true;
  static constexpr bool in_place_safe = true;
  static constexpr bool deferrable = true;
  static Spec check(const Tensor& x, int64_t dim) {
    wrap_dim(name, dim, x.dim());
    op::settle_layout(x);
    return like(x, softmax_type(name, x));
  }
};

}  // namespace

struct SoftmaxAs : SoftmaxTyped<"softmax"> {
  static void run(const Tensor& x, int64_t dim, const Tensor& out) {
    if (x.numel() == 0) return;
    const int64_t d = wrap_dim(name, dim, x.dim());
    if (softmax_loops(x).softmax(x, d, false, out)) return;
    out.storage();  // nothing waits of what follows
    const DType wide = compute_type(x.dtype());
    const Tensor edge = column(x, d, wide);
    const Tensor work =
        wide == out.dtype() ? out : make_tensor(out.sizes(), out.strides(), wide, out.device());
    reduce(ReduceFn::Max, x, edge);
    map_binary(BinaryFn::Sub, x, edge, work, {}, wide);
    map_unary(UnaryFn::Exp, work, work);
    reduce(ReduceFn::Sum, work, edge);
    map_binary(BinaryFn::Div, work, edge, out, {}, wide);
  }
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, int64_t dim) {
    if (SoftmaxBackward::fits(g, c.out(), dim)) return {_softmax_backward(g, c.out(), dim, false)};
    const DType wide = compute_type(g.dtype());  // half types lose what the difference is made of
    const Tensor y = cast(c.out(), wide), gy = cast(g, wide) * y;
    return {gy - y * sum(gy, IntList(&dim, 1), true)};
  }
};

struct LogSoftmaxAs : SoftmaxTyped<"log_softmax"> {
  static void run(const Tensor& x, int64_t dim, const Tensor& out) {
    if (x.numel() == 0) return;
    if (softmax_loops(x).softmax(x, wrap_dim(name, dim, x.dim()), true, out)) return;
    out.storage();  // nothing waits of what follows
    const Tensor total = column(x, wrap_dim(name, dim, x.dim()), compute_type(x.dtype()));
    reduce(FoldFn::LogSumExp, x, total);
    map_binary(BinaryFn::Sub, x, total, out, {}, compute_type(x.dtype()));
  }
  static constexpr uint32_t needs[] = {kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, int64_t dim) {
    if (SoftmaxBackward::fits(g, c.out(), dim)) return {_softmax_backward(g, c.out(), dim, true)};
    const DType wide = compute_type(g.dtype());
    const Tensor gw = cast(g, wide);
    return {gw - exp(cast(c.out(), wide)) * sum(gw, IntList(&dim, 1), true)};
  }
};

namespace {

// As PyTorch's, results lie end to end, however x lies: programs call view() on them.
Tensor end_to_end(const Tensor& x) { return x.is_contiguous() ? x : contiguous(x); }

}  // namespace

struct Softmax {
  static constexpr const char* name = "softmax";
  static Tensor call(const Tensor& x, int64_t dim, std::optional<DType> dtype) {
    return softmax_as(end_to_end(as_asked(x, dtype)), dim);
  }
};
struct LogSoftmax {
  static constexpr const char* name = "log_softmax";
  static Tensor call(const Tensor& x, int64_t dim, std::optional<DType> dtype) {
    return log_softmax_as(end_to_end(as_asked(x, dtype)), dim);
  }
};

}  // namespace rush

#include "ops/statistics.inc"
