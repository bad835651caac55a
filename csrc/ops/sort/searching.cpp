// Finding and counting values.
#include <cmath>
#include <tuple>

#include "core/interrupt.h"
#include "device/index.h"
#include "device/runtime.h"
#include "device/sort.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {

namespace {

constexpr int64_t kPerLook = 1 << 18;  // elements between looks for an interrupt

bool wants_right(const char* op, bool right, std::optional<std::string_view> side) {
  if (!side) return right;
  check(*side == "left" || *side == "right", ErrorKind::Runtime, op,
        "side must be 'left' or 'right', got '", *side, "'");
  check(!right || *side == "right", ErrorKind::Runtime, op, "side='left' contradicts right=True");
  return *side == "right";
}

// The type in which boundaries and values are compared.
DType compared_type(const Tensor& sorted, const Tensor& values) {
  const DType t = result_type(sorted, values);
  return t == DType::Bool ? DType::UInt8 : t;
}

Tensor converted(const Tensor& x, DType t) {
  return contiguous_data(x.dtype() == t ? x : convert_data(x, t));
}

Tensor flattened(const Tensor& x) {
  const Tensor c = contiguous_data(x);
  return make_tensor(c.storage(), Dims{c.numel()}, Dims{1}, c.offset(), c.dtype());
}

}  // namespace

struct Searchsorted {
  static constexpr const char* name = "searchsorted";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& sorted, const Tensor& values, bool out_int32, bool right,
                    std::optional<std::string_view> side, const Tensor& sorter) {
    wants_right(name, right, side);
    check_dtype(!sorted.is_complex() && !values.is_complex(), name,
                "complex numbers have no order");
    rush::check(sorted.device() == values.device() || values.is_wrapped_number(), ErrorKind::Device,
                name, "the boundaries are on ", sorted.device(), ", the values are on ",
                values.device());
    check_shape(sorted.dim() > 0, name, "the boundaries must have at least 1 dimension");
    bool fits = sorted.dim() == 1 || sorted.dim() == values.dim();
    for (int64_t d = 0; fits && sorted.dim() > 1 && d + 1 < sorted.dim(); ++d)
      fits = sorted.sizes()[size_t(d)] == values.sizes()[size_t(d)];
    check_shape(fits, name,
                "the boundaries must be a vector, or match the values in all dimensions but the "
                "last: shapes ",
                sorted.sizes(), " and ", values.sizes());
    if (sorter.defined()) {
      check_shape(sorter.sizes() == sorted.sizes(), name,
                  "sorter must have the shape of the boundaries: ", sorter.sizes(), " and ",
                  sorted.sizes());
      check_dtype(sorter.dtype() == DType::Int64, name, "sorter must be int64, got ",
                  sorter.dtype());
    }
    return {values.sizes(), out_int32 ? DType::Int32 : DType::Int64, sorted.device()};
  }
  static void run(const Tensor& sorted, const Tensor& values, bool, bool right,
                  std::optional<std::string_view> side, const Tensor& sorter, const Tensor& out) {
    const DType t = compared_type(sorted, values);
    const Tensor order = sorter.defined() ? contiguous_data(sorter) : Tensor();
    if (order.defined()) check_sorter(order);
    const Tensor to =
        out.is_contiguous() ? out : make_tensor(out.sizes(), out.dtype(), out.device());
    sort_loops(to).search_sorted(name, converted(sorted, t),
                                 placed(converted(values, t), out.device()), order,
                                 wants_right(name, right, side), to);
    if (!to.is_same(out)) copy_data(out, to);
  }

 private:
  static void check_sorter(const Tensor& order) {
    const int64_t n = order.sizes().back();
    if (device_traits(order).asynchronous)
      return check_indices(order, {name, n, 1, order.dim() - 1});
    const int64_t* p = order.data<int64_t>();
    in_steps(order.numel(), kPerLook, [&](int64_t i, int64_t end) {
      for (; i < end; ++i)
        rush::check(p[i] >= 0 && p[i] < n, ErrorKind::Range, name, "sorter holds ", p[i],
                    ", which is out of bounds for a last dimension of size ", n);
    });
  }
};

struct Bucketize {
  static constexpr const char* name = "bucketize";
  static Tensor call(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right) {
    check_shape(boundaries.dim() == 1, name, "the boundaries must be a vector, got shape ",
                boundaries.sizes());
    return searchsorted(boundaries, self, out_int32, right);
  }
};

namespace {

// Is the value at each place the one that was looked for?
Tensor found_at(const Tensor& x, const Tensor& sorted, const Tensor& places, bool invert) {
  NoGradGuard no_grad;
  if (sorted.numel() == 0) return full(x.sizes(), invert, DType::Bool, std::nullopt, x.device());
  const Tensor there = take(sorted, clamp(places, std::nullopt, Scalar(sorted.numel() - 1)));
  return invert ? ne(there, x) : eq(there, x);
}

}  // namespace

struct Isin {
  static constexpr const char* name = "isin";
  static Tensor call(const Tensor& elements, const Tensor& test_elements, bool, bool invert) {
    check_dtype(!elements.is_complex() && !test_elements.is_complex(), name,
                "complex numbers have no order to search in");
    op::refuse_float8(name, elements, test_elements);
    check(elements.device() == test_elements.device() || elements.is_wrapped_number() ||
              test_elements.is_wrapped_number(),
          ErrorKind::Device, name, "the elements are on ", elements.device(),
          ", the test elements are on ", test_elements.device());
    const Tensor out = make_tensor(elements.sizes(), DType::Bool, elements.device());
    if (out.is_meta()) return out;
    DType t = result_type(elements, test_elements);
    if (t == DType::Bool) t = DType::UInt8;
    // A number may be on the host: then what it meets decides.
    const Device device = (elements.is_wrapped_number() ? test_elements : elements).device();
    const Tensor x = placed(converted(elements, t), device),
                 tests = placed(flattened(converted(test_elements, t)), device);
    const Tensor sorted = make_tensor(tests.sizes(), t, device),
                 places = make_tensor(x.sizes(), DType::Int64, device);
    const SortLoops& loops = sort_loops(device);
    loops.sort(name, tests, false, sorted, Tensor());
    loops.search_sorted(name, sorted, x, Tensor(), false, places);
    if (!loops.stands_at) return placed(found_at(x, sorted, places, invert), out.device());
    loops.stands_at(name, x, sorted, places, invert, out);
    return out;
  }
};

namespace {

// The least and the largest element, read from wherever they are at once.
std::pair<double, double> extremes_of(const Tensor& x) {
  NoGradGuard no_grad;
  const Tensor ends[] = {amin(x, IntList()), amax(x, IntList())};
  const Tensor host = host_data(convert_data(stack(ends), DType::Float64));
  return {host.data<double>()[0], host.data<double>()[1]};
}

}  // namespace

struct Bincount {
  static constexpr const char* name = "bincount";
  static Tensor call(const Tensor& self, const Tensor& weights, int64_t minlength) {
    check(!self.is_meta(), ErrorKind::NotImplemented, name,
          "the result's shape depends on the values, and a meta tensor has none");
    check(minlength >= 0, ErrorKind::Runtime, name, "minlength must not be negative, got ",
          minlength);
    check_dtype(is_integral(self.dtype()), name, "needs integers, got ", self.dtype());
    check_shape(self.dim() == 1, name, "needs a vector, got shape ", self.sizes());
    check_shape(!weights.defined() || weights.sizes() == self.sizes(), name,
                "weights must have the shape of the input: ",
                weights.defined() ? weights.sizes() : Dims(), " and ", self.sizes());
    const Tensor x = converted(self, DType::Int64);
    const auto [low, high] = range_of(x);
    check(low >= 0, ErrorKind::Runtime, name, "values must not be negative, got ", low);
    check(high < INT64_MAX, ErrorKind::Runtime, name, "the value ", high, " needs too many bins");
    const int64_t n = std::max(minlength, high + 1);
    const DType t = !weights.defined()                  ? DType::Int64
                    : weights.dtype() == DType::Float32 ? DType::Float32
                                                        : DType::Float64;
    const Tensor out = make_tensor(Dims{n}, t, self.device());
    fill_data(out, 0);
    const Tensor w = weights.defined() ? placed(converted(weights, t), self.device()) : Tensor();
    sort_loops(out).bincount(x, w, out);
    return out;
  }

 private:
  static std::pair<int64_t, int64_t> range_of(const Tensor& x) {
    int64_t low = 0, high = -1;
    if (x.numel() == 0) return {low, high};
    Tensor ends = x;
    if (device_traits(x).asynchronous) {  // the result's size has to be waited for
      const Tensor both[] = {amin(x, IntList()), amax(x, IntList())};
      ends = host_data(stack(both));
    }
    const int64_t* p = ends.data<int64_t>();
    in_steps(ends.numel(), kPerLook, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        low = std::min(low, p[i]);
        high = std::max(high, p[i]);
      }
    });
    return {low, high};
  }
};

namespace {

// The range to count in: as asked for, else from the smallest to the largest element; widened where
// it is empty.
std::pair<double, double> counted_range(const char* op, const Tensor& x, double lo, double hi,
                                        bool from_data) {
  if (from_data && x.numel() > 0) std::tie(lo, hi) = extremes_of(x);
  check(std::isfinite(lo) && std::isfinite(hi), ErrorKind::Runtime, op, "the range from ", lo,
        " to ", hi, " is not finite");
  check(lo <= hi, ErrorKind::Runtime, op, "max must not be smaller than min, got ", lo, " and ",
        hi);
  return lo == hi ? std::pair(lo - (op == std::string_view("histc") ? 1 : 0.5),
                              hi + (op == std::string_view("histc") ? 1 : 0.5))
                  : std::pair(lo, hi);
}

Tensor even_edges(double lo, double hi, int64_t bins, Device device) {
  const Tensor edges = make_tensor(Dims{bins + 1}, DType::Float64);
  for (int64_t i = 0; i <= bins; ++i)
    edges.data<double>()[i] = i == bins ? hi : lo + (hi - lo) * double(i) / double(bins);
  return placed(edges, device);
}

void check_histogram(const char* op, const Tensor& x, const Tensor& weight) {
  check_dtype(x.is_floating(), op, "needs a floating point tensor, got ", x.dtype());
  if (!weight.defined()) return;
  check_shape(weight.sizes() == x.sizes(), op,
              "weight must have the shape of the input: ", weight.sizes(), " and ", x.sizes());
  check_dtype(weight.dtype() == x.dtype(), op,
              "weight must have the dtype of the input: ", weight.dtype(), " and ", x.dtype());
}

// edges: float64.
void run_histogram(const char* op, const Tensor& x, const Tensor& edges, bool even,
                   const Tensor& weight, bool density, const Tensor& hist) {
  rush::op::refuse_float8(op, x);
  NoGradGuard no_grad;
  Tensor counts = make_tensor(hist.sizes(), DType::Float64, hist.device());
  fill_data(counts, 0);
  sort_loops(counts).histogram(op, contiguous_data(x),
                               weight.defined() ? contiguous_data(weight) : Tensor(), edges, even,
                               counts);
  if (density)
    counts = counts / (sum(counts) * (slice(edges, 0, 1, edges.numel(), 1) -
                                      slice(edges, 0, 0, edges.numel() - 1, 1)));
  copy_data(hist, counts);
}

}  // namespace

struct Histc {
  static constexpr bool any_device = true;
  static constexpr const char* name = "histc";
  static constexpr bool differentiable = false;
  static constexpr bool may_fail = true;
  static Spec check(const Tensor& self, int64_t bins, const Scalar&, const Scalar&) {
    check_histogram(name, self, Tensor());
    rush::check(bins > 0, ErrorKind::Runtime, name, "bins must be positive, got ", bins);
    return {Dims{bins}, self.dtype(), self.device()};
  }
  static void run(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max,
                  const Tensor& out) {
    const double a = min.to_double(), b = max.to_double();
    const auto [lo, hi] = counted_range(name, self, a, b, a == b);
    run_histogram(name, self, even_edges(lo, hi, bins, self.device()), true, Tensor(), false, out);
  }
};

struct Histogram {
  static constexpr bool any_device = true;
  static constexpr const char* name = "histogram";
  static constexpr bool differentiable = false;
  static constexpr bool may_fail = true;
  static std::array<Spec, 2> check(const Tensor& self, int64_t bins, std::span<const double> range,
                                   const Tensor& weight, bool) {
    check_histogram(name, self, weight);
    rush::check(bins > 0, ErrorKind::Runtime, name, "bins must be positive, got ", bins);
    rush::check(range.empty() || range.size() == 2, ErrorKind::Runtime, name,
                "range must hold 2 numbers, got ", int64_t(range.size()));
    return {Spec{Dims{bins}, self.dtype(), self.device()},
            Spec{Dims{bins + 1}, self.dtype(), self.device()}};
  }
  static void run(const Tensor& self, int64_t bins, std::span<const double> range,
                  const Tensor& weight, bool density, const Tensor& hist, const Tensor& edges) {
    const auto [lo, hi] = counted_range(name, self, range.empty() ? 0 : range[0],
                                        range.empty() ? 1 : range[1], range.empty());
    const Tensor steps = even_edges(lo, hi, bins, self.device());
    run_histogram(name, self, steps, true, weight, density, hist);
    copy_data(edges, steps);
  }
};

struct HistogramEdges {
  static constexpr bool any_device = true;
  static constexpr const char* name = "histogram";
  static constexpr bool differentiable = false;
  static std::array<Spec, 2> check(const Tensor& self, const Tensor& bins, const Tensor& weight,
                                   bool) {
    check_histogram(name, self, weight);
    check_shape(bins.dim() == 1 && bins.numel() > 0, name,
                "bins must be a vector of edges, got shape ", bins.sizes());
    check_dtype(bins.dtype() == self.dtype(), name,
                "bins must have the dtype of the input: ", bins.dtype(), " and ", self.dtype());
    return {Spec{Dims{bins.numel() - 1}, self.dtype(), self.device()},
            Spec{bins.sizes(), self.dtype(), self.device()}};
  }
  static void run(const Tensor& self, const Tensor& bins, const Tensor& weight, bool density,
                  const Tensor& hist, const Tensor& edges) {
    run_histogram(name, self, converted(bins, DType::Float64), false, weight, density, hist);
    copy_data(edges, bins);
  }
};

}  // namespace rush

#include "ops/searching.inc"
