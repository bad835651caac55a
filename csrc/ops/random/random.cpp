// Random numbers: in-place fills over device/random.h, and the functions made of them.
#include "device/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "device/index.h"
#include "ops/copy/creation.h"
#include "ops/framework/data.h"
#include "ops/framework/op_name.h"
#include "ops/framework/operators.h"

namespace rush {
namespace {

RandomCall next_call(Generator* generator) {
  return (generator ? *generator : default_generator()).next();
}

// Overwritten values do not matter: the gradient of the old ones is zero.
struct Overwrites {
  static constexpr bool any_device = true;
  template <class... A>
  static Grads grad(const Ctx&, const Tensor& g, const A&...) {
    return {zeros_like(g)};
  }
};

void check_floating(const char* op, const Tensor& self) {
  check(is_differentiable(self.dtype()), ErrorKind::DType, op, "not implemented for ", self.dtype(),
        " tensors");
}

void fill_floating(const char* op, RandomFn fn, const Tensor& self, Generator* generator, double a,
                   double b) {
  if (self.numel() == 0) return;
  if (!self.is_complex()) {
    random_loops(self).fill(fn, self, next_call(generator), a, b);
    return;
  }
  // The parts are independent; those of a normal number share its variance.
  check(fn == RandomFn::Normal || fn == RandomFn::Uniform, ErrorKind::DType, op,
        "not implemented for ", self.dtype(), " tensors");
  Dims sizes(self.sizes()), strides(self.strides());
  for (int64_t& s : strides) s *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  const Tensor parts =
      make_tensor(self.storage(), sizes, strides, self.offset() * 2, to_real(self.dtype()));
  random_loops(self).fill(fn, parts, next_call(generator), a,
                          fn == RandomFn::Normal ? b / std::sqrt(2.0) : b);
}

// The integers [0, limit] that a dtype counts without gaps.
int64_t exact_limit(DType t) {
  if (t == DType::Bool) return 1;
  if (is_integral(t)) {
    const int digits = int(8 * element_size(t)) - info(t).is_signed;
    return digits < 63 ? (int64_t(1) << digits) - 1 : std::numeric_limits<int64_t>::max();
  }
  const int digits = t == DType::Float16    ? 11
                     : t == DType::BFloat16 ? 8
                     : t == DType::Float32  ? 24
                                            : 53;
  return int64_t(1) << digits;
}

void check_integer_target(const char* op, const Tensor& self, int64_t from, int64_t last) {
  check(!self.is_complex(), ErrorKind::DType, op, "not implemented for ", self.dtype(), " tensors");
  const bool floating = self.is_floating();
  const int64_t high = exact_limit(self.dtype());
  const int64_t low = floating ? -high : info(self.dtype()).is_signed ? -high - 1 : 0;
  check(from >= low && from <= high, ErrorKind::Runtime, op, "from is out of bounds for ",
        self.dtype(), ": ", from);
  check(last >= low && last <= high, ErrorKind::Runtime, op, "to - 1 is out of bounds for ",
        self.dtype(), ": ", last);
}

void check_all_between(const char* op, const Tensor& x, double lo, double hi, const char* rule) {
  if (!x.is_meta()) index_loops(x).check_between(x, lo, hi, op, rule);
}

// What exponential_, cauchy_ and log_normal_ ask of self and of their parameter.
void check_positive(const char* op, const Tensor& self, const char* what, double value) {
  check_floating(op, self);
  check(value > 0, ErrorKind::Runtime, op, "expects ", what, " > 0, got ", what, "=", value);
}

void check_std(const char* op, double std) {
  check(std >= 0, ErrorKind::Runtime, op, "expects std >= 0, got std=", std);
}

}  // namespace

struct Uniform_ : Overwrites {
  static constexpr const char* name = "uniform_";
  static void check(const Tensor& self, double from, double to, Generator*) {
    check_floating(name, self);
    rush::check(from <= to, ErrorKind::Runtime, name, "expects from <= to, got from=", from,
                " and to=", to);
    rush::check(std::isfinite(to - from), ErrorKind::Runtime, name, "the width of [", from, ", ",
                to, ") is not finite");
  }
  static void run(const Tensor& self, double from, double to, Generator* g) {
    fill_floating(name, RandomFn::Uniform, self, g, from, to);
  }
};

struct Normal_ : Overwrites {
  static constexpr const char* name = "normal_";
  static void check(const Tensor& self, double, double std, Generator*) {
    check_floating(name, self), check_std(name, std);
  }
  static void run(const Tensor& self, double mean, double std, Generator* g) {
    fill_floating(name, RandomFn::Normal, self, g, mean, std);
  }
};

struct Exponential_ : Overwrites {
  static constexpr const char* name = "exponential_";
  static void check(const Tensor& self, double rate, Generator*) {
    check_positive(name, self, "lambd", rate);
  }
  static void run(const Tensor& self, double rate, Generator* g) {
    fill_floating(name, RandomFn::Exponential, self, g, rate, 0);
  }
};

namespace {

// A distribution with a place and a width; the width, `what`, must be positive.
template <OpName N, RandomFn fn, OpName what>
struct PlaceAndWidth : Overwrites {
  static constexpr const char* name = N.text;
  static void check(const Tensor& self, double, double width, Generator*) {
    check_positive(name, self, what.text, width);
  }
  static void run(const Tensor& self, double place, double width, Generator* g) {
    fill_floating(name, fn, self, g, place, width);
  }
};

}  // namespace

struct LogNormal_ : PlaceAndWidth<"log_normal_", RandomFn::LogNormal, "std"> {};
struct Cauchy_ : PlaceAndWidth<"cauchy_", RandomFn::Cauchy, "sigma"> {};

struct Geometric_ : Overwrites {
  static constexpr const char* name = "geometric_";
  static void check(const Tensor& self, double p, Generator*) {
    rush::check(!self.is_complex() && self.dtype() != DType::Bool, ErrorKind::DType, name,
                "not implemented for ", self.dtype(), " tensors");
    rush::check(p > 0 && p < 1, ErrorKind::Runtime, name, "expects p in (0, 1), got p=", p);
  }
  static void run(const Tensor& self, double p, Generator* g) {
    fill_floating(name, RandomFn::Geometric, self, g, p, std::log1p(-p));
  }
};

struct RandomRange_ : Overwrites {
  static constexpr const char* name = "random_";
  static int64_t last_of(const Tensor& self, std::optional<int64_t> to) {
    return to ? *to - 1 : exact_limit(self.dtype());
  }
  static void check(const Tensor& self, int64_t from, std::optional<int64_t> to, Generator*) {
    rush::check(!to || from < *to, ErrorKind::Runtime, name, "expects from < to, got from=", from,
                " and to=", to.value_or(0));
    check_integer_target(name, self, from, last_of(self, to));
  }
  static void run(const Tensor& self, int64_t from, std::optional<int64_t> to, Generator* g) {
    if (self.numel() > 0)
      random_loops(self).fill_int(self, next_call(g), from,
                                  uint64_t(last_of(self, to)) - uint64_t(from) + 1);
  }
};

struct RandomTo_ : Overwrites {
  static constexpr const char* name = "random_";
  static void check(const Tensor& self, int64_t to, Generator* g) {
    RandomRange_::check(self, 0, to, g);
  }
  static void run(const Tensor& self, int64_t to, Generator* g) {
    RandomRange_::run(self, 0, to, g);
  }
};

struct Random_ : Overwrites {
  static constexpr const char* name = "random_";
  static void check(const Tensor& self, Generator*) {
    rush::check(!self.is_complex(), ErrorKind::DType, name, "not implemented for ", self.dtype(),
                " tensors");
  }
  static void run(const Tensor& self, Generator* g) { RandomRange_::run(self, 0, std::nullopt, g); }
};

struct BernoulliP_ : Overwrites {
  static constexpr const char* name = "bernoulli_";
  static void check(const Tensor& self, double p, Generator*) {
    rush::check(!self.is_complex(), ErrorKind::DType, name, "not implemented for ", self.dtype(),
                " tensors");
    rush::check(p >= 0 && p <= 1, ErrorKind::Runtime, name, "expects p in [0, 1], got p=", p);
  }
  static void run(const Tensor& self, double p, Generator* g) {
    fill_floating(name, RandomFn::Bernoulli, self, g, p, 0);
  }
};

struct BernoulliTensor_ : Overwrites {
  static constexpr const char* name = "bernoulli_";
  static void check(const Tensor& self, const Tensor& p, Generator*) {
    rush::check(is_floating(p.dtype()), ErrorKind::DType, name,
                "the probabilities must be floating, got ", p.dtype());
    expand_strides(name, p.sizes(), p.strides(), self.sizes());
  }
  static void run(const Tensor& self, const Tensor& p, Generator* g) {
    NoGradGuard no_grad;
    check_all_between(name, p, 0, 1, "expects all probabilities in [0, 1]");
    const Tensor u = make_tensor(
        self.sizes(), p.dtype() == DType::Float64 ? DType::Float64 : DType::Float32, self.device());
    if (u.numel() > 0) random_loops(u).fill(RandomFn::Uniform, u, next_call(g), 0, 1);
    copy_data(self, lt(u, p));
  }
};

namespace {

// Draws with parameters in tensors: how often something happens moves with them, the drawn numbers
// do not, so gradients are zero rather than cut off.
template <class... A>
struct Draws {
  static constexpr bool any_device = true;
  static constexpr uint32_t needs[] = {0};
  static Grads grad(const Ctx& c, const Tensor& g, A...) {
    constexpr size_t count = (0 + ... + size_t(std::is_same_v<A, const Tensor&>));
    Grads zero;
    for (size_t i = 0; i < count; ++i) zero.push_back(c.wants(i) ? zeros_like(g) : Tensor());
    return zero;
  }
};

}  // namespace

struct Bernoulli : Draws<const Tensor&, Generator*> {
  static constexpr const char* name = "bernoulli";
  static Spec check(const Tensor& p, Generator* g) {
    BernoulliTensor_::check(p, p, g);
    return {p.sizes(), p.dtype(), p.device()};
  }
  static void run(const Tensor& p, Generator* g, const Tensor& out) {
    BernoulliTensor_::run(out, p, g);
  }
};

struct BernoulliP {
  static constexpr const char* name = "bernoulli";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;  // self gives the shape alone
  static Spec check(const Tensor& self, double p, Generator* g) {
    BernoulliP_::check(self, p, g);
    return like(self);
  }
  static void run(const Tensor&, double p, Generator* g, const Tensor& out) {
    BernoulliP_::run(out, p, g);
  }
};

namespace {

// Numbers between 0 and 1, or normal ones: `fill` is uniform_ or normal_.
using Fill = const Tensor& (*)(const Tensor&, double, double, Generator*);

template <OpName N, Fill fill>
struct RandomOf {
  static constexpr const char* name = N.text;
  static Tensor call(IntList size, Generator* g, std::optional<DType> dtype, std::optional<Layout>,
                     std::optional<Device> device, bool requires_grad, bool pin) {
    Tensor t = fresh(name, size, dtype, device, pin);
    fill(t, 0, 1, g);
    return finished(std::move(t), requires_grad);
  }
};
template <OpName N, Fill fill>
struct RandomLike {
  static constexpr const char* name = N.text;
  static Tensor call(const Tensor& self, std::optional<DType> dtype, std::optional<Layout>,
                     std::optional<Device> device, bool requires_grad, bool pin,
                     std::optional<MemoryFormat> format, Generator* g) {
    Tensor t = fresh_like(name, self, dtype, device, pin, format);
    fill(t, 0, 1, g);
    return finished(std::move(t), requires_grad);
  }
};

}  // namespace

struct Rand : RandomOf<"rand", uniform_> {};
struct Randn : RandomOf<"randn", normal_> {};
struct RandLike : RandomLike<"rand_like", uniform_> {};
struct RandnLike : RandomLike<"randn_like", normal_> {};

struct RandintLow {
  static constexpr const char* name = "randint";
  static Tensor call(int64_t low, int64_t high, IntList size, Generator* g,
                     std::optional<DType> dtype, std::optional<Layout>,
                     std::optional<Device> device, bool requires_grad, bool pin) {
    check(low < high, ErrorKind::Runtime, name, "expects low < high, got low=", low,
          " and high=", high);
    Tensor t = fresh(name, size, dtype.value_or(DType::Int64), device, pin);
    random_(t, low, high, g);
    return finished(std::move(t), requires_grad);
  }
};

struct Randint {
  static constexpr const char* name = "randint";
  static Tensor call(int64_t high, IntList size, Generator* g, std::optional<DType> dtype,
                     std::optional<Layout> layout, std::optional<Device> device, bool requires_grad,
                     bool pin) {
    return RandintLow::call(0, high, size, g, dtype, layout, device, requires_grad, pin);
  }
};

struct RandintLikeLow {
  static constexpr const char* name = "randint_like";
  static Tensor call(const Tensor& self, int64_t low, int64_t high, std::optional<DType> dtype,
                     std::optional<Layout>, std::optional<Device> device, bool requires_grad,
                     bool pin, std::optional<MemoryFormat> format, Generator* g) {
    check(low < high, ErrorKind::Runtime, name, "expects low < high, got low=", low,
          " and high=", high);
    Tensor t = fresh_like(name, self, dtype, device, pin, format);
    random_(t, low, high, g);
    return finished(std::move(t), requires_grad);
  }
};

struct RandintLike {
  static constexpr const char* name = "randint_like";
  static Tensor call(const Tensor& self, int64_t high, std::optional<DType> dtype,
                     std::optional<Layout> layout, std::optional<Device> device, bool requires_grad,
                     bool pin, std::optional<MemoryFormat> format, Generator* g) {
    return RandintLikeLow::call(self, 0, high, dtype, layout, device, requires_grad, pin, format,
                                g);
  }
};

struct Randperm {
  static constexpr const char* name = "randperm";
  static Tensor call(int64_t n, Generator* g, std::optional<DType> dtype, std::optional<Layout>,
                     std::optional<Device> device, bool requires_grad, bool pin) {
    check(n >= 0, ErrorKind::Runtime, name, "n must not be negative, got ", n);
    const DType t = dtype.value_or(DType::Int64);
    check_dtype(t != DType::Bool && !is_complex(t), name, "not implemented for ", t, " tensors");
    check(n <= exact_limit(t), ErrorKind::Runtime, name, "n = ", n, " does not fit ", t);
    // Sorting random keys, rather than swapping in place, gives every device the same order. The
    // lowest bits of a key are its place, so that sorting the keys alone will do.
    Tensor keys = fresh(name, Dims{n}, DType::Int64, device, pin);
    random_(keys, std::numeric_limits<int64_t>::min(), std::nullopt, g);
    if (const RandomLoops& loops = random_loops(keys); loops.permutation) {
      loops.permutation(keys);
    } else {
      NoGradGuard no_grad;
      const int64_t mask = int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(n, 1)))) - 1;
      const Tensor places = arange(n, DType::Int64, std::nullopt, keys.device());
      keys = bitwise_or(bitwise_and(keys, wrap_number(~mask)), places);
      keys = bitwise_and(std::get<0>(sort(keys, 0, false)), wrap_number(mask));
    }
    return finished(t == DType::Int64 ? keys : cast(keys, t), requires_grad);
  }
};

struct NormalTensors : Draws<const Tensor&, const Tensor&, Generator*> {
  static constexpr const char* name = "normal";
  static Spec check(const Tensor& mean, const Tensor& std, Generator*) {
    rush::check(is_floating(std.dtype()) && is_differentiable(mean.dtype()), ErrorKind::Runtime,
                name, "mean and std must be floating, got ", mean.dtype(), " and ", std.dtype());
    NoGradGuard no_grad;
    // A NaN passes here: it makes NaNs.
    check_all_between(name, nan_to_num(std, 0.0), 0, limits<double>::inf,
                      "expects all elements of std >= 0");
    return {broadcast_shapes(name, mean.sizes(), std.sizes()), result_type(mean, std),
            common_device(name, {&mean, &std})};
  }
  static void run(const Tensor& mean, const Tensor& std, Generator* g, const Tensor& out) {
    NoGradGuard no_grad;
    const Tensor z = make_tensor(out.sizes(), out.dtype(), out.device());
    Normal_::run(z, 0, 1, g);
    copy_data(out, mean + std * z);
  }
};

struct NormalMean : Draws<const Tensor&, double, Generator*> {
  static constexpr const char* name = "normal";
  static Spec check(const Tensor& mean, double std, Generator* g) {
    Normal_::check(mean, 0, std, g);
    return like(mean);
  }
  static void run(const Tensor& mean, double std, Generator* g, const Tensor& out) {
    NoGradGuard no_grad;
    const Tensor z = make_tensor(out.sizes(), out.dtype(), out.device());
    Normal_::run(z, 0, std, g);
    copy_data(out, mean + z);
  }
};

struct NormalStd {
  static constexpr const char* name = "normal";
  static Tensor call(double mean, const Tensor& std, Generator* g) {
    return normal(scalar_tensor(mean, std.dtype(), std.device()), std, g);
  }
};

struct Normal {
  static constexpr const char* name = "normal";
  static Tensor call(double mean, double std, IntList size, Generator* g,
                     std::optional<DType> dtype, std::optional<Layout>,
                     std::optional<Device> device, bool requires_grad, bool pin) {
    Tensor t = fresh(name, size, dtype, device, pin);
    normal_(t, mean, std, g);
    return finished(std::move(t), requires_grad);
  }
};

struct Multinomial {
  static constexpr const char* name = "multinomial";
  static Tensor call(const Tensor& self, int64_t num_samples, bool replacement, Generator* g) {
    NoGradGuard no_grad;
    check(self.dim() == 1 || self.dim() == 2, ErrorKind::Runtime, name,
          "weights must have 1 or 2 dimensions, got shape ", self.sizes());
    check(is_floating(self.dtype()), ErrorKind::Runtime, name, "weights must be floating, got ",
          self.dtype());
    const int64_t categories = self.sizes().back();
    check(num_samples > 0, ErrorKind::Runtime, name, "cannot sample ", num_samples, " times");
    check(replacement || num_samples <= categories, ErrorKind::Runtime, name, "cannot draw ",
          num_samples, " of ", categories, " categories without replacement");
    if (self.is_meta()) {
      Dims sizes(self.sizes());
      sizes[sizes.size() - 1] = num_samples;
      return make_tensor(sizes, DType::Int64, self.device());
    }
    if (self.numel() == 0 && self.dim() == 2 && self.size(0) == 0)
      return make_tensor(Dims{0, num_samples}, DType::Int64, self.device());
    const Tensor p = cast(self, self.dtype() == DType::Float64 ? DType::Float64 : DType::Float32);
    check_all_between(name, p, 0, limits<double>::max, "weights must be finite and not negative");
    const Tensor total = sum(p, Dims{-1}, true);
    check_all_between(name, total, std::numeric_limits<double>::denorm_min(), limits<double>::inf,
                      "each row needs a positive weight");
    if (!replacement) {
      // The k smallest of exponential times with these rates: a draw without replacement.
      const Tensor possible = cast(sum(gt(p, wrap_number(0)), Dims{-1}), DType::Float64);
      check_all_between(name, possible, double(num_samples), limits<double>::inf,
                        "as many categories must have a positive weight as are drawn");
      const Tensor times = like(p).allocate();
      exponential_(times, 1, g);
      return std::get<1>(topk(p / times, num_samples, -1));
    }
    Dims sizes(self.sizes());
    sizes[sizes.size() - 1] = num_samples;
    const Tensor u = make_tensor(sizes, p.dtype(), p.device());
    uniform_(u, 0, 1, g);
    const Tensor edges = cumsum(p, -1);
    const Tensor found =
        searchsorted(edges, u * narrow(edges, -1, wrap_number(categories - 1), 1), false, true);
    return clamp(found, std::nullopt, Scalar(categories - 1));
  }
};

}  // namespace rush

#include "ops/random.inc"
