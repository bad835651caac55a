// Distinct elements and slices: bring equal ones together, then look where a run begins.
#include "device/sort.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {
namespace {

using Distinct = std::tuple<Tensor, Tensor, Tensor>;

void check_has_values(const char* op, const Tensor& x) {
  rush::op::refuse_float8(op, x);
  check(!x.is_meta(), ErrorKind::NotImplemented, op,
        "the result's shape depends on the values, and a meta tensor has none");
}

Tensor nothing(Device device) { return make_tensor(Dims{0}, DType::Int64, device); }

Tensor flattened(const Tensor& x) {
  const Tensor c = contiguous_data(x);
  return make_tensor(c.storage(), Dims{c.numel()}, Dims{1}, c.offset(), c.dtype());
}

// x with dim in front, contiguous: its slices lie one after the other.
Tensor slices_of(const char* op, const Tensor& x, int64_t d) {
  check(x.sizes()[size_t(d)] == 0 || x.numel() > 0, ErrorKind::Runtime, op, "slices of shape ",
        x.sizes(), " along dimension ", d, " have no elements to compare");
  Dims sizes{x.sizes()[size_t(d)]}, strides{x.strides()[size_t(d)]};
  for (int64_t i = 0; i < x.dim(); ++i) {
    if (i == d) continue;
    sizes.push_back(x.sizes()[size_t(i)]);
    strides.push_back(x.strides()[size_t(i)]);
  }
  return contiguous_data(make_tensor(x.storage(), sizes, strides, x.offset(), x.dtype()));
}

Tensor positions(int64_t n, Device device) {
  return arange(Scalar(n), DType::Int64, std::nullopt, device);
}

// How long each of the runs of n elements is.
Tensor lengths_of(const Tensor& starts, int64_t n) {
  if (starts.numel() == 0) return clone(starts);
  const Tensor end = full(Dims{1}, Scalar(n), DType::Int64, std::nullopt, starts.device());
  const Tensor next[] = {slice(starts, 0, 1, starts.numel(), 1), end};
  return cat(next) - starts;
}

Tensor inverse_if(bool wanted, const Dims& shape, Device device) {
  return wanted ? make_tensor(shape, DType::Int64, device) : Tensor();
}
Tensor or_nothing(const Tensor& t, Device device) { return t.defined() ? t : nothing(device); }

}  // namespace

struct Unique2 {
  static constexpr const char* name = "unique";
  static Distinct call(const Tensor& self, bool, bool return_inverse, bool return_counts) {
    check_has_values(name, self);
    check_dtype(!self.is_complex(), name, "not implemented for ", self.dtype(), " tensors");
    NoGradGuard no_grad;
    const Device device = self.device();
    const SortLoops& loops = sort_loops(device);
    const Tensor flat = flattened(self), values = make_tensor(flat.sizes(), self.dtype(), device);
    const Tensor order =
        return_inverse ? make_tensor(flat.sizes(), DType::Int64, device) : Tensor();
    if (return_inverse || !loops.sort_integers || !loops.sort_integers(flat, values))
      loops.sort(name, flat, false, values, order);
    const int64_t n = flat.numel();
    if (!return_inverse && loops.first_of_runs) {
      Tensor counts = nothing(device);
      const Tensor found =
          loops.first_of_runs(name, values, Tensor(), return_counts ? &counts : nullptr);
      return {found, nothing(device), counts};
    }
    const Tensor inverse = inverse_if(return_inverse, self.sizes(), device);
    const Tensor starts = loops.run_starts(name, values, n, Tensor(), inverse, order);
    return {index_select(values, 0, starts), or_nothing(inverse, device),
            return_counts ? lengths_of(starts, n) : nothing(device)};
  }
};

struct UniqueDim {
  static constexpr const char* name = "unique";
  static Distinct call(const Tensor& self, int64_t dim, bool, bool return_inverse,
                       bool return_counts) {
    check_has_values(name, self);
    check_dtype(!self.is_complex(), name, "not implemented for ", self.dtype(), " tensors");
    NoGradGuard no_grad;
    const int64_t d = wrap_dim(name, dim, self.dim());
    check(self.dim() > 0, ErrorKind::Index, name, "a 0-d tensor has no slices");
    const Device device = self.device();
    const Tensor slices = slices_of(name, self, d);
    const int64_t n = self.sizes()[size_t(d)];
    const Tensor order = positions(n, device), inverse = inverse_if(return_inverse, {n}, device);
    sort_loops(device).sort_slices(name, slices, n, order);
    const Tensor starts = sort_loops(device).run_starts(name, slices, n, order, inverse, order);
    return {index_select(detach(self), d, index_select(order, 0, starts)),
            or_nothing(inverse, device), return_counts ? lengths_of(starts, n) : nothing(device)};
  }
};

struct UniqueConsecutive {
  static constexpr const char* name = "unique_consecutive";
  static Distinct call(const Tensor& self, bool return_inverse, bool return_counts,
                       std::optional<int64_t> dim) {
    check_has_values(name, self);
    NoGradGuard no_grad;
    const int64_t d = dim ? wrap_dim(name, *dim, self.dim()) : 0;
    check(!dim || self.dim() > 0, ErrorKind::Index, name, "a 0-d tensor has no slices");
    const Device device = self.device();
    const SortLoops& loops = sort_loops(device);
    const Tensor slices = dim ? slices_of(name, self, d) : flattened(self);
    const int64_t n = dim ? self.sizes()[size_t(d)] : self.numel();
    const Tensor inverse = inverse_if(return_inverse, dim ? Dims{n} : self.sizes(), device);
    if (!dim && loops.first_of_runs) {
      Tensor counts = nothing(device);
      const Tensor found =
          loops.first_of_runs(name, slices, inverse, return_counts ? &counts : nullptr);
      return {found, or_nothing(inverse, device), counts};
    }
    const Tensor starts = loops.run_starts(name, slices, n, Tensor(), inverse, Tensor());
    return {index_select(dim ? detach(self) : slices, d, starts), or_nothing(inverse, device),
            return_counts ? lengths_of(starts, n) : nothing(device)};
  }
};

}  // namespace rush

#include "ops/unique.inc"
