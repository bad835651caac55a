// Distinct elements and slices: bring equal ones together, then look where a run begins.
#include "cpu/sort/unique.h"

#include "core/interrupt.h"
#include "cpu/index/masking.h"
#include "cpu/sort/sort.h"
#include "device/loops.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {
namespace {

using Distinct = std::tuple<Tensor, Tensor, Tensor>;

void check_has_values(const char* op, const Tensor& x) {
  check(!x.is_meta(), ErrorKind::NotImplemented, op,
        "the result's shape depends on the values, and a meta tensor has none");
}

Tensor index_tensor(const std::vector<int64_t>& v) {
  Tensor t = make_tensor(Dims{int64_t(v.size())}, DType::Int64);
  std::copy(v.begin(), v.end(), t.data<int64_t>());
  return t;
}

// Which run each of n places belongs to; place i of the sequence is place order[i] of the input.
Tensor inverse_of(const std::vector<int64_t>& starts, int64_t n, const int64_t* order,
                  const Dims& shape) {
  Tensor out = make_tensor(shape, DType::Int64);
  auto* p = out.data<int64_t>();
  InterruptCounter interrupts(1 << 18);
  for (size_t run = 0; run < starts.size(); ++run) {
    const int64_t end = run + 1 < starts.size() ? starts[run + 1] : n;
    interrupts.add(end - starts[run]);
    for (int64_t i = starts[run]; i < end; ++i) p[order ? order[i] : i] = int64_t(run);
  }
  return out;
}

Tensor counts_of(const std::vector<int64_t>& starts, int64_t n) {
  std::vector<int64_t> counts;
  for (size_t run = 0; run < starts.size(); ++run)
    counts.push_back((run + 1 < starts.size() ? starts[run + 1] : n) - starts[run]);
  return index_tensor(counts);
}

Tensor nothing(Device device = {}) { return make_tensor(Dims{0}, DType::Int64, device); }

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

// ---- on a GPU ----

Tensor positions(int64_t n, Device device) {
  return arange(Scalar(n), DType::Int64, std::nullopt, device);
}

// The runs of a sequence of n slices: which of them begin one. Counting them is the only wait.
class GpuRuns {
 public:
  GpuRuns(const Tensor& slices, int64_t n, const Tensor& order)
      : n_(n), order_(order), marks_(make_tensor(Dims{n}, DType::Bool, slices.device())) {
    device_loops(DeviceType::CUDA).orders.mark_runs(slices, n, order, marks_);
    const NonzeroCounts counts(marks_);
    starts_ = make_tensor(Dims{counts.total()}, DType::Int64, slices.device());
    counts.write_positions(starts_);
  }
  const Tensor& starts() const { return starts_; }
  Tensor inverse(bool wanted, const Dims& shape) const {
    if (!wanted) return nothing(marks_.device());
    const Tensor run = cumsum(marks_, 0) - Scalar(1);
    const Tensor flat = order_.defined() ? scatter(empty_like(run), 0, order_, run) : run;
    return reshape(flat, shape);
  }
  Tensor counts(bool wanted) const {
    if (!wanted) return nothing(marks_.device());
    if (starts_.numel() == 0) return clone(starts_);
    const Tensor end = full(Dims{1}, Scalar(n_), DType::Int64, std::nullopt, marks_.device());
    const Tensor next[] = {slice(starts_, 0, 1, starts_.numel(), 1), end};
    return cat(next) - starts_;
  }

 private:
  int64_t n_;
  Tensor order_, marks_, starts_;
};

}  // namespace

struct Unique2 {
  static constexpr const char* name = "unique";
  static Distinct call(const Tensor& self, bool, bool return_inverse, bool return_counts) {
    check_has_values(name, self);
    const Device device = self.device();
    const Tensor flat = flattened(self), values = make_tensor(flat.sizes(), self.dtype(), device);
    const Tensor order =
        return_inverse ? make_tensor(flat.sizes(), DType::Int64, device) : Tensor();
    if (return_inverse || !sort_integers(flat, values)) sort_rows(name, flat, false, values, order);
    const int64_t n = flat.numel();
    if (self.is_cuda()) {
      NoGradGuard no_grad;
      const GpuRuns runs(values, n, Tensor());
      Tensor inverse = runs.inverse(return_inverse, Dims{n});
      if (return_inverse)
        inverse = reshape(scatter(empty_like(inverse), 0, order, inverse), self.sizes());
      return {index_select(values, 0, runs.starts()), inverse, runs.counts(return_counts)};
    }
    if (!return_inverse) {
      Tensor counts = nothing();
      const Tensor found =
          first_of_runs_cpu(name, values, Tensor(), return_counts ? &counts : nullptr);
      return {found, nothing(), counts};
    }
    const std::vector<int64_t> starts = run_starts_cpu(name, values, n);
    return {index_select(values, 0, index_tensor(starts)),
            return_inverse ? inverse_of(starts, n, order.data<int64_t>(), self.sizes()) : nothing(),
            return_counts ? counts_of(starts, n) : nothing()};
  }
};

struct UniqueDim {
  static constexpr const char* name = "unique";
  static Distinct call(const Tensor& self, int64_t dim, bool, bool return_inverse,
                       bool return_counts) {
    check_has_values(name, self);
    const int64_t d = wrap_dim(name, dim, self.dim());
    check(self.dim() > 0, ErrorKind::Index, name, "a 0-d tensor has no slices");
    const Tensor slices = slices_of(name, self, d);
    const int64_t n = self.sizes()[size_t(d)];
    if (self.is_cuda()) {
      NoGradGuard no_grad;
      check_dtype(!self.is_complex(), name, "complex numbers have no order");
      const Tensor order = positions(n, self.device());
      if (n > 0) device_loops(DeviceType::CUDA).orders.sort_slices(slices, n, order);
      const GpuRuns runs(slices, n, order);
      const Tensor picked = index_select(order, 0, runs.starts());
      return {index_select(detach(self), d, picked), runs.inverse(return_inverse, Dims{n}),
              runs.counts(return_counts)};
    }
    const std::vector<int64_t> order = slice_order_cpu(name, slices, n),
                               starts = run_starts_cpu(name, slices, n, order.data());
    std::vector<int64_t> picked;
    for (int64_t s : starts) picked.push_back(order[size_t(s)]);
    return {index_select(detach(self), d, index_tensor(picked)),
            return_inverse ? inverse_of(starts, n, order.data(), Dims{n}) : nothing(),
            return_counts ? counts_of(starts, n) : nothing()};
  }
};

struct UniqueConsecutive {
  static constexpr const char* name = "unique_consecutive";
  static Distinct call(const Tensor& self, bool return_inverse, bool return_counts,
                       std::optional<int64_t> dim) {
    check_has_values(name, self);
    const int64_t d = dim ? wrap_dim(name, *dim, self.dim()) : 0;
    check(!dim || self.dim() > 0, ErrorKind::Index, name, "a 0-d tensor has no slices");
    const Tensor slices = dim ? slices_of(name, self, d) : flattened(self);
    const int64_t n = dim ? self.sizes()[size_t(d)] : self.numel();
    if (self.is_cuda()) {
      NoGradGuard no_grad;
      const GpuRuns runs(slices, n, Tensor());
      return {index_select(dim ? detach(self) : slices, d, runs.starts()),
              runs.inverse(return_inverse, dim ? Dims{n} : self.sizes()),
              runs.counts(return_counts)};
    }
    if (!dim) {
      const Tensor inverse = return_inverse ? make_tensor(self.sizes(), DType::Int64) : Tensor();
      Tensor counts = nothing();
      const Tensor found =
          first_of_runs_cpu(name, slices, inverse, return_counts ? &counts : nullptr);
      return {found, return_inverse ? inverse : nothing(), counts};
    }
    const std::vector<int64_t> starts = run_starts_cpu(name, slices, n);
    return {
        index_select(dim ? detach(self) : slices, d, index_tensor(starts)),
        return_inverse ? inverse_of(starts, n, nullptr, dim ? Dims{n} : self.sizes()) : nothing(),
        return_counts ? counts_of(starts, n) : nothing()};
  }
};

}  // namespace rush

#include "ops/unique.inc"
