// Reductions. Loops are behind device/reduce.h; here: dims, types, gradients.
#include "ops/reduce/reduction.h"

#include <algorithm>

#include "core/layout.h"
#include "core/modes.h"
#include "device/deferred.h"
#include "device/pointwise.h"
#include "device/reduce.h"
#include "ops/framework/data.h"
#include "ops/framework/op_name.h"
#include "ops/framework/operators.h"

namespace rush {

ReducedDims::ReducedDims(const char* op, const Tensor& x, const std::optional<IntList>& dims) {
  if (!dims || dims->empty()) {
    for (int64_t d = 0; d < x.dim(); ++d) mask_.set(size_t(d));
    return;
  }
  for (int64_t d : *dims) {
    const auto w = size_t(wrap_dim(op, d, x.dim()));
    check(!mask_[w], ErrorKind::Runtime, op, "dim ", int64_t(w), " appears more than once in ",
          *dims);
    mask_.set(w);
  }
  if (x.dim() == 0) mask_.reset();
}

Dims ReducedDims::shape(const Tensor& x, bool keepdim) const {
  Dims out;
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (!has(d))
      out.push_back(x.sizes()[size_t(d)]);
    else if (keepdim)
      out.push_back(1);
  }
  return out;
}

Tensor ReducedDims::keepdim_view(const Tensor& x, const Tensor& out) const {
  if (out.dim() == x.dim()) return out;
  Dims sizes(uint32_t(x.dim()), 1), strides(uint32_t(x.dim()), 0);
  for (int64_t d = 0, k = 0; d < x.dim(); ++d) {
    if (has(d)) continue;
    sizes[size_t(d)] = out.sizes()[size_t(k)];
    strides[size_t(d)] = out.strides()[size_t(k++)];
  }
  return make_tensor(out.storage(), sizes, strides, out.offset(),
                     out.dtype());  // an alias would need a version counter
}

int64_t ReducedDims::folded(const Tensor& x) const {
  int64_t n = 1;
  for (int64_t d = 0; d < x.dim(); ++d) n *= has(d) ? x.sizes()[size_t(d)] : 1;
  return n;
}

bool ReducedDims::are_last(const Tensor& x) const {
  for (int64_t d = 1; d < x.dim(); ++d)
    if (has(d - 1) && !has(d)) return false;
  return x.dim() > 0 && has(x.dim() - 1);
}

Tensor restore_dims(const Tensor& reduced, int64_t rank, const char* op,
                    const std::optional<IntList>& dims, bool keepdim) {
  if (keepdim || rank == 0) return reduced;
  Dims sizes(uint32_t(rank), 1);
  std::bitset<kMaxDims> folded;
  if (!dims || dims->empty())
    folded.set();
  else
    for (int64_t d : *dims) folded.set(size_t(wrap_dim(op, d, rank)));
  for (int64_t d = 0, k = 0; d < rank; ++d) {
    if (!folded[size_t(d)]) sizes[size_t(d)] = reduced.sizes()[size_t(k++)];
  }
  return reshape(reduced, sizes);
}

namespace {

// Elements of float8 are summed up in the type that was asked for, and only in another.
void check_float8(const char* op, const Tensor& x, std::optional<DType> dtype) {
  if (!dtype || is_float8(*dtype)) op::refuse_float8(op, x);
}
// Elements are converted before they are summed up. Whether that comes first does not matter but for
// float8, and for bools: 1 and -1 are both true, and so is a half, which no integer is.
Tensor as_summed(const Tensor& x, const Tensor& out) {
  const bool to_bool = out.dtype() == DType::Bool && x.dtype() != DType::Bool;
  return is_float8(x.dtype()) || to_bool ? convert_data(x, out.dtype()) : x;
}

// In a compiled function: may it wait with what is computed for it, and end that pass?
bool may_end_pass(const Tensor& x, std::optional<DType> dtype = {}) {
  return fused_loops(x).folds && is_pending(x) && is_floating(x.dtype()) && !is_float8(x.dtype()) &&
         (!dtype || (is_floating(*dtype) && !is_float8(*dtype)));
}
bool ends_pass(ReduceFn fn, const char* name, const Tensor& x, const ReducedDims& dims,
               const Tensor& out) {
  return t_modes & kDefer && is_unborn(x) && dims.are_last(x) &&
         deferred::take_fold(fn, name, x, out.numel(), out);
}

}  // namespace

struct Sum : RunsAnywhere {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "sum";
  static Spec check(const Tensor& x, const std::optional<IntList>& dim, bool keepdim,
                    std::optional<DType> dtype) {
    check_float8(name, x, dtype);
    const bool exact = category(x.dtype()) <= Category::Integer;
    return {ReducedDims(name, x, dim).shape(x, keepdim),
            dtype.value_or(exact ? DType::Int64 : x.dtype()), x.device()};
  }
  // In a compiled function, with what it adds up, or where the device leaves the last stage for later.
  static bool may_wait(const Tensor& x, const std::optional<IntList>&, bool,
                       std::optional<DType> dtype) {
    return may_end_pass(x, dtype) || (reduce_loops(x).sum_later && is_floating(x.dtype()) &&
                                      !is_float8(x.dtype()) && dtype != DType::Bool);
  }
  static void run(const Tensor& x, const std::optional<IntList>& dim, bool, std::optional<DType>,
                  const Tensor& out) {
    const ReducedDims dims(name, x, dim);
    if (ends_pass(ReduceFn::Sum, name, x, dims, out)) return;
    if (is_unborn(out)) {
      const auto later = reduce_loops(x).sum_later;
      if (later && later(x, dims.shape(x, true), out)) return;
      give_storage(out.impl());
    }
    reduce(ReduceFn::Sum, as_summed(x, out), dims.keepdim_view(x, out));
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const std::optional<IntList>& dim,
                    bool keepdim, std::optional<DType>) {
    return {expand(restore_dims(g, c.sizes(0).size(), name, dim, keepdim), c.sizes(0))};
  }
};

struct Nansum {
  static constexpr const char* name = "nansum";
  static Tensor call(const Tensor& x, const std::optional<IntList>& dim, bool keepdim,
                     std::optional<DType> dtype) {
    check(!x.is_complex(), ErrorKind::Runtime, name, "not implemented for complex tensors");
    if (!x.is_floating()) return sum(x, dim, keepdim, dtype);
    return sum(where(isnan(x), Scalar(0.0), x), dim, keepdim, dtype);
  }
};

struct Mean : RunsAnywhere {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "mean";
  static Spec check(const Tensor& x, const std::optional<IntList>& dim, bool keepdim,
                    std::optional<DType> dtype) {
    check_float8(name, x, dtype);
    const DType t = dtype.value_or(x.dtype());
    rush::check(is_differentiable(t), ErrorKind::Runtime, name,
                "the result must be floating or complex, got ", t,
                ": pass dtype= or convert with .float()");
    return {ReducedDims(name, x, dim).shape(x, keepdim), t, x.device()};
  }
  static bool may_wait(const Tensor& x, const std::optional<IntList>&, bool,
                       std::optional<DType> dtype) {
    return may_end_pass(x, dtype);
  }
  static void run(const Tensor& x, const std::optional<IntList>& dim, bool, std::optional<DType>,
                  const Tensor& out) {
    const ReducedDims dims(name, x, dim);
    if (ends_pass(ReduceFn::Mean, name, x, dims, out)) return;
    if (!out.is_complex())
      return reduce(ReduceFn::Mean, as_summed(x, out), dims.keepdim_view(x, out));
    // Divided as complex numbers are: NaN in one part reaches the other, and the average of nothing
    // is NaN in both.
    reduce(ReduceFn::Sum, as_summed(x, out), dims.keepdim_view(x, out));
    map_binary(BinaryFn::Div, out, wrap_number(Scalar(dims.folded(x))), out, {}, out.dtype());
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const std::optional<IntList>& dim,
                    bool keepdim, std::optional<DType>) {
    const Dims& sizes = c.sizes(0);
    const int64_t n = std::max<int64_t>(1, numel(sizes) / std::max<int64_t>(1, g.numel()));
    return {expand(restore_dims(g, sizes.size(), name, dim, keepdim) / Scalar(n), sizes)};
  }
};

struct Nanmean {
  static constexpr const char* name = "nanmean";
  static Tensor call(const Tensor& x, const std::optional<IntList>& dim, bool keepdim,
                     std::optional<DType> dtype) {
    check(is_differentiable(x.dtype()), ErrorKind::Runtime, name,
          "expects a floating or complex tensor, got ", x.dtype());
    return nansum(x, dim, keepdim, dtype) / sum(logical_not(isnan(detach(x))), dim, keepdim);
  }
};

struct ProdDim {
  static constexpr const char* name = "prod";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, int64_t dim, bool keepdim, std::optional<DType> dtype) {
    const bool exact = category(x.dtype()) <= Category::Integer;
    return {ReducedDims(name, x, IntList(&dim, 1)).shape(x, keepdim),
            dtype.value_or(exact ? DType::Int64 : x.dtype()), x.device()};
  }
  static void run(const Tensor& x, int64_t dim, bool, std::optional<DType>, const Tensor& out) {
    const ReducedDims dims(name, x, IntList(&dim, 1));
    reduce(ReduceFn::Prod, as_summed(x, out), dims.keepdim_view(x, out));
  }
  static constexpr uint32_t needs[] = {in(0)};
  // Each element's gradient is the product of all others: those before it times those after it.
  // Right at zeros, too.
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& x, int64_t dim, bool keepdim,
                    std::optional<DType> dtype) {
    if (x.dim() == 0) return {g};
    const int64_t d = wrap_dim(name, dim, x.dim()), n = x.sizes()[size_t(d)];
    if (n == 0) return {zeros_like(x)};
    const Tensor t = dtype ? cast(x, *dtype) : x;
    const Tensor one = ones_like(slice(t, d, 0, 1, 1));
    const Tensor head[] = {one, cumprod(slice(t, d, 0, n - 1, 1), d)};
    const Tensor tail[] = {one, cumprod(slice(flip(t, IntList(&d, 1)), d, 0, n - 1, 1), d)};
    const Tensor others = cat(head, d) * flip(cat(tail, d), IntList(&d, 1));
    return {(keepdim ? g : unsqueeze(g, d)) * conj(others)};
  }
};

struct Prod {
  static constexpr const char* name = "prod";
  static Tensor call(const Tensor& x, std::optional<DType> dtype) {
    return prod(reshape(x, Dims{x.numel()}), 0, false, dtype);
  }
};

namespace {

void check_ordered(const char* op, const Tensor& x) {
  check(!x.is_complex(), ErrorKind::DType, op, "complex numbers have no order (", x.dtype(), ")");
}

// An extreme of nothing does not exist.
void check_not_empty(const char* op, const Tensor& x, const ReducedDims& dims) {
  check(dims.folded(x) > 0 || numel(dims.shape(x, false)) == 0, ErrorKind::Range, op,
        "cannot reduce over a dimension of size 0 in shape ", x.sizes(),
        ": the operation has no identity");
}

template <OpName N, ReduceFn fn>
struct Extreme : RunsAnywhere {
  static constexpr const char* name = N.text;
  static Spec check(const Tensor& x, IntList dim, bool keepdim) {
    check_ordered(name, x);
    const ReducedDims dims(name, x, dim);
    check_not_empty(name, x, dims);
    return {dims.shape(x, keepdim), x.dtype(), x.device()};
  }
  static bool may_wait(const Tensor& x, IntList, bool) { return may_end_pass(x); }
  static void run(const Tensor& x, IntList dim, bool, const Tensor& out) {
    const ReducedDims dims(name, x, dim);
    if (ends_pass(fn, name, x, dims, out)) return;
    reduce(fn, x, dims.keepdim_view(x, out));
  }
  static constexpr uint32_t needs[] = {in(0) | kOut};
  // Ties share the gradient evenly.
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, IntList dim, bool keepdim) {
    const Tensor best = eq(x, restore_dims(c.out(), x.dim(), name, dim, keepdim));
    const Tensor count = sum(best, dim, true);
    return {restore_dims(g, x.dim(), name, dim, keepdim) * best / count};
  }
};

}  // namespace

struct Amax : Extreme<"amax", ReduceFn::Max> {};
struct Amin : Extreme<"amin", ReduceFn::Min> {};

struct Aminmax {
  static constexpr const char* name = "aminmax";
  static constexpr bool refuses_overlap = true;
  static std::tuple<Tensor, Tensor> call(const Tensor& x, std::optional<int64_t> dim,
                                         bool keepdim) {
    const IntList dims = dim ? IntList(&*dim, 1) : IntList{};
    return {amin(x, dims, keepdim), amax(x, dims, keepdim)};
  }
};

namespace {

// Max and min along one dim, with indices.
template <OpName N, ReduceFn fn>
struct ExtremeDim {
  static constexpr const char* name = N.text;
  static constexpr bool any_device = true;
  static constexpr bool refuses_overlap = true;
  static constexpr uint32_t non_differentiable = 2;
  static std::array<Spec, 2> check(const Tensor& x, int64_t dim, bool keepdim) {
    check_ordered(name, x);
    const ReducedDims dims(name, x, IntList(&dim, 1));
    check_not_empty(name, x, dims);
    const Dims shape = dims.shape(x, keepdim);
    return {Spec{shape, x.dtype(), x.device()}, Spec{shape, DType::Int64, x.device()}};
  }
  static void run(const Tensor& x, int64_t dim, bool, const Tensor& values, const Tensor& indices) {
    if (x.dim() == 0) {
      reduce(fn, x, values);
      fill_data(indices, 0);
      return;
    }
    const ReducedDims dims(name, x, IntList(&dim, 1));
    reduce_arg(fn, x, dims.keepdim_view(x, values), dims.keepdim_view(x, indices),
               wrap_dim(name, dim, x.dim()));
  }
  static constexpr uint32_t needs[] = {result(1)};
  static Grads grad(const Ctx& c, GradSpan g, const Tensor&, int64_t dim, bool keepdim) {
    if (c.sizes(0).empty()) return {g[0]};
    const int64_t d = wrap_dim(name, dim, int64_t(c.sizes(0).size()));
    const Tensor whole = new_zeros(g[0], c.sizes(0));
    return {scatter(whole, d, keepdim ? c.out(1) : unsqueeze(c.out(1), d),
                    keepdim ? g[0] : unsqueeze(g[0], d))};
  }
};

template <OpName N, ReduceFn fn>
struct ArgExtreme {
  static constexpr const char* name = N.text;
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
    check_ordered(name, x);
    rush::check(x.dtype() != DType::Bool, ErrorKind::DType, name,
                "not implemented for bool tensors");
    const ReducedDims dims = reduced(x, dim);
    rush::check(dim || x.numel() > 0, ErrorKind::Index, name, "an empty tensor of shape ",
                x.sizes(), " has no extreme; pass dim");
    check_not_empty(name, x, dims);
    return {dims.shape(x, keepdim), DType::Int64, x.device()};
  }
  static void run(const Tensor& x, std::optional<int64_t> dim, bool, const Tensor& out) {
    reduce(fn, x, reduced(x, dim).keepdim_view(x, out));
  }

 private:
  static ReducedDims reduced(const Tensor& x, const std::optional<int64_t>& dim) {
    return {name, x, dim ? std::optional<IntList>(IntList(&*dim, 1)) : std::nullopt};
  }
};

// The extreme of a whole tensor: `along` without dims folds all of them.
template <OpName N, OpName Which, Tensor (*along)(const Tensor&, IntList, bool)>
struct ExtremeOfAll {
  static constexpr const char* name = N.text;
  static Tensor call(const Tensor& x) {
    check(x.numel() > 0, ErrorKind::Runtime, name, "an empty tensor of shape ", x.sizes(),
          " has no ", Which.text, " element; pass dim");
    return along(x, {}, false);
  }
};

}  // namespace

struct MaxDim : ExtremeDim<"max", ReduceFn::Max> {};
struct MinDim : ExtremeDim<"min", ReduceFn::Min> {};

struct Max : ExtremeOfAll<"max", "largest", amax> {};
struct Min : ExtremeOfAll<"min", "smallest", amin> {};
struct MaxOther {
  static constexpr const char* name = "max";
  static constexpr bool in_place_safe = true;
  static Tensor call(const Tensor& a, const Tensor& b) { return maximum(a, b); }
};
struct MinOther {
  static constexpr const char* name = "min";
  static constexpr bool in_place_safe = true;
  static Tensor call(const Tensor& a, const Tensor& b) { return minimum(a, b); }
};

struct Argmax : ArgExtreme<"argmax", ReduceFn::ArgMax> {};
struct Argmin : ArgExtreme<"argmin", ReduceFn::ArgMin> {};

namespace {

// uint8 stood for bool before bool existed, and answers in kind.
DType truth_type(const Tensor& x) { return x.dtype() == DType::UInt8 ? DType::UInt8 : DType::Bool; }

template <ReduceFn fn>
struct Truth {
  static constexpr bool takes_float8 = true;
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;
  // An empty list of dims folds nothing, unlike for sums.
  static bool keeps_all(const std::optional<IntList>& dim) { return dim && dim->empty(); }
  static Spec check_as(const char* op, const Tensor& x, const std::optional<IntList>& dim,
                       bool keepdim) {
    return {keeps_all(dim) ? x.sizes() : ReducedDims(op, x, dim).shape(x, keepdim), truth_type(x),
            x.device()};
  }
  static void run(const Tensor& x, const std::optional<IntList>& dim, bool, const Tensor& out) {
    const Tensor seen = keeps_all(dim) ? out : ReducedDims("any", x, dim).keepdim_view(x, out);
    if (out.dtype() == DType::Bool) return reduce(fn, x, seen);
    const Tensor answer = make_tensor(seen.sizes(), DType::Bool, seen.device());
    reduce(fn, x, answer);
    copy_data(seen, answer);
  }
};

}  // namespace

struct Any : Truth<ReduceFn::Any> {
  static constexpr const char* name = "any";
  static Spec check(const Tensor& x, const std::optional<IntList>& dim, bool keepdim) {
    return check_as(name, x, dim, keepdim);
  }
};
struct All : Truth<ReduceFn::All> {
  static constexpr const char* name = "all";
  static Spec check(const Tensor& x, const std::optional<IntList>& dim, bool keepdim) {
    return check_as(name, x, dim, keepdim);
  }
};

struct CountNonzero {
  static constexpr const char* name = "count_nonzero";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& x, const std::optional<IntList>& dim) {
    return {ReducedDims(name, x, dim).shape(x, false), DType::Int64, x.device()};
  }
  static void run(const Tensor& x, const std::optional<IntList>& dim, const Tensor& out) {
    reduce(ReduceFn::CountNonzero, x, ReducedDims(name, x, dim).keepdim_view(x, out));
  }
};

struct LogsumexpReal {
  static constexpr const char* name = "logsumexp";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, IntList dim, bool keepdim) {
    return {ReducedDims(name, x, dim).shape(x, keepdim), float_type(x.dtype()), x.device()};
  }
  static void run(const Tensor& x, IntList dim, bool, const Tensor& out) {
    const Tensor source = x.is_floating() ? x : convert_data(x, out.dtype());
    reduce(FoldFn::LogSumExp, source, ReducedDims(name, x, dim).keepdim_view(x, out));
  }
  static constexpr uint32_t needs[] = {in(0) | kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, IntList dim, bool keepdim) {
    const Tensor total = restore_dims(c.out(), x.dim(), name, dim, keepdim);
    return {restore_dims(g, x.dim(), name, dim, keepdim) * exp(x - total)};
  }
};

struct Logsumexp {
  static constexpr const char* name = "logsumexp";
  static Tensor call(const Tensor& x, IntList dim, bool keepdim) {
    if (!x.is_complex()) return logsumexp_real(x, dim, keepdim);
    // Shifted by the largest real part, so that no exponential overflows.
    const Tensor shift =
        x.numel() == 0 ? zeros_like(sum(real(x), dim, true)) : detach(amax(real(x), dim, true));
    const Tensor safe = masked_fill(shift, logical_not(isfinite(shift)), wrap_number(0));
    return log(sum(exp(x - safe), dim, keepdim)) +
           (keepdim ? safe : reshape(safe, ReducedDims(name, x, dim).shape(x, false)));
  }
};

}  // namespace rush

#include "ops/reduction.inc"
