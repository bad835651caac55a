// Fresh tensors: empty, zeros, ones, full, ranges.
#include "ops/copy/creation.h"

#include <cmath>

#include "core/device_memory.h"
#include "device/copy.h"
#include "functors/complex.h"
#include "ops/framework/data.h"
#include "ops/framework/fits.h"
#include "ops/framework/op_name.h"
#include "ops/framework/operators.h"

namespace rush {

namespace {

// Memory that a GPU can read by itself.
Tensor pinned(const char* op, const Spec& spec) {
  check(spec.device.is_cpu(), ErrorKind::Runtime, op, "only CPU tensors can be pinned, not ",
        spec.device);
  const Dims strides = spec.strides.empty() ? contiguous_strides(spec.sizes) : spec.strides;
  const int64_t count = spec.sizes.empty() ? 1 : numel(spec.sizes);
  return make_tensor(cuda_memory().pinned(size_t(count * element_size(spec.dtype))), spec.sizes,
                     strides, 0, spec.dtype);
}

}  // namespace

Tensor fresh(const char* op, IntList size, std::optional<DType> dtype, std::optional<Device> device,
             bool pin_memory) {
  checked_numel(op, size);
  if (pin_memory)
    return pinned(op, {size, dtype.value_or(default_dtype()), device.value_or(Device{})});
  return make_tensor(size, dtype.value_or(default_dtype()), device.value_or(Device{}));
}

Tensor fresh_like(const char* op, const Tensor& self, std::optional<DType> dtype,
                  std::optional<Device> device, bool pin_memory,
                  std::optional<MemoryFormat> format) {
  Spec spec = like(self, dtype.value_or(self.dtype()));
  spec.device = device.value_or(self.device());
  const MemoryFormat f = format.value_or(MemoryFormat::Preserve);
  if (f == MemoryFormat::Contiguous)
    spec.strides = {};
  else if (f != MemoryFormat::Preserve)
    spec.strides = strides_for(self.sizes(), f);
  return pin_memory ? pinned(op, spec) : spec.allocate();
}

struct Empty {
  static constexpr const char* name = "empty";
  static Tensor call(IntList size, std::optional<DType> dtype, std::optional<Layout>,
                     std::optional<Device> device, bool requires_grad, bool pin_memory,
                     std::optional<MemoryFormat> format) {
    if (!format || *format == MemoryFormat::Contiguous)
      return finished(fresh(name, size, dtype, device, pin_memory), requires_grad);
    checked_numel(name, size);
    return finished(make_tensor(size, strides_for(size, *format), dtype.value_or(default_dtype()),
                                device.value_or(Device{})),
                    requires_grad);
  }
};

namespace {

template <OpName N, int value>
struct Filled {
  static constexpr const char* name = N.text;
  static Tensor call(IntList size, std::optional<DType> dtype, std::optional<Layout>,
                     std::optional<Device> device, bool requires_grad, bool pin_memory) {
    Tensor t = fresh(name, size, dtype, device, pin_memory);
    fill_data(t, value);
    return finished(std::move(t), requires_grad);
  }
};
template <OpName N, int value>
struct FilledLike {
  static constexpr const char* name = N.text;
  static Tensor call(const Tensor& self, std::optional<DType> dtype, std::optional<Layout>,
                     std::optional<Device> device, bool requires_grad, bool pin_memory,
                     std::optional<MemoryFormat> format) {
    Tensor t = fresh_like(name, self, dtype, device, pin_memory, format);
    fill_data(t, value);
    return finished(std::move(t), requires_grad);
  }
};

}  // namespace

struct Zeros : Filled<"zeros", 0> {};
struct Ones : Filled<"ones", 1> {};
struct ZerosLike : FilledLike<"zeros_like", 0> {};
struct OnesLike : FilledLike<"ones_like", 1> {};

namespace {

// One cannot count in bools, nor in complex numbers.
void check_countable(const char* op, std::optional<DType> t) {
  check_dtype(!t || !(*t == DType::Bool || is_complex(*t) || is_float8(*t)), op,
              "not implemented for ", *t, " tensors");
}

// Numbers that counting in int64 cuts before it begins, as PyTorch does, and no other dtype.
bool can_be_cut(const Scalar& start, const Scalar& end, const Scalar& step) {
  for (const Scalar* s : {&start, &end, &step})
    if (s->is_complex() || !(std::abs(s->to_double()) < 9.2e18)) return false;
  return true;
}

}  // namespace

struct ArangeStart {
  static constexpr const char* name = "arange";
  static Tensor call(const Scalar& start, const Scalar& end, const Scalar& step,
                     std::optional<DType> dtype, std::optional<Layout>,
                     std::optional<Device> device, bool requires_grad, bool pin_memory) {
    const bool exact = !start.is_floating() && !end.is_floating() && !step.is_floating();
    if (!exact && dtype == DType::Int64 && can_be_cut(start, end, step))
      return call(start.to_int(), end.to_int(), step.to_int(), dtype, std::nullopt, device,
                  requires_grad, pin_memory);
    check_countable(name, dtype);
    check(!start.is_complex() && !end.is_complex() && !step.is_complex(), ErrorKind::Runtime, name,
          "complex numbers have no order to count in");
    const double a = start.to_double(), b = end.to_double(), d = step.to_double();
    check(d != 0, ErrorKind::Argument, name, "step must not be zero");
    check(std::isfinite(a) && std::isfinite(b), ErrorKind::Runtime, name, "the range from ", start,
          " to ", end, " is not finite");
    check((d > 0) == (b >= a) || a == b, ErrorKind::Runtime, name, "the step ", step,
          " leads away from ", end, ", starting at ", start);
    int64_t n;
    if (exact) {
      const __int128 distance = __int128(end.to_int()) - start.to_int(), s = step.to_int();
      n = int64_t((distance + s - (s > 0 ? 1 : -1)) / s);
    } else {
      const double count = std::ceil((b - a) / d);
      check(count < 9.2e18, ErrorKind::Runtime, name, "too many elements: ", count);
      n = int64_t(count);
    }
    Tensor t = fresh(name, Dims{n}, dtype.value_or(exact ? DType::Int64 : default_dtype()), device,
                     pin_memory);
    if (!t.is_meta()) copy_loops(t).arange(t, start, step);
    return finished(std::move(t), requires_grad);
  }
};

struct Arange {
  static constexpr const char* name = "arange";
  static Tensor call(const Scalar& end, std::optional<DType> dtype, std::optional<Layout> layout,
                     std::optional<Device> device, bool requires_grad, bool pin_memory) {
    return ArangeStart::call(0, end, 1, dtype, layout, device, requires_grad, pin_memory);
  }
};

struct Full {
  static constexpr const char* name = "full";
  static Tensor call(IntList size, const Scalar& value, std::optional<DType> dtype,
                     std::optional<Layout>, std::optional<Device> device, bool requires_grad,
                     bool pin_memory) {
    Tensor t = fresh(name, size, dtype.value_or(value.default_type()), device, pin_memory);
    check_fill(name, t.dtype(), value);
    fill_data(t, value);
    return finished(std::move(t), requires_grad);
  }
};

struct EmptyLike {
  static constexpr const char* name = "empty_like";
  static Tensor call(const Tensor& self, std::optional<DType> dtype, std::optional<Layout>,
                     std::optional<Device> device, bool requires_grad, bool pin_memory,
                     std::optional<MemoryFormat> format) {
    return finished(fresh_like(name, self, dtype, device, pin_memory, format), requires_grad);
  }
};

struct FullLike {
  static constexpr const char* name = "full_like";
  static Tensor call(const Tensor& self, const Scalar& value, std::optional<DType> dtype,
                     std::optional<Layout>, std::optional<Device> device, bool requires_grad,
                     bool pin_memory, std::optional<MemoryFormat> format) {
    Tensor t = fresh_like(name, self, dtype, device, pin_memory, format);
    check_fill(name, t.dtype(), value);
    fill_data(t, value);
    return finished(std::move(t), requires_grad);
  }
};

struct EmptyStrided {
  static constexpr const char* name = "empty_strided";
  static Tensor call(IntList size, IntList stride, std::optional<DType> dtype,
                     std::optional<Layout>, std::optional<Device> device, bool requires_grad,
                     bool pin_memory) {
    check(size.size() == stride.size(), ErrorKind::Runtime, name, "size ", size, " and stride ",
          stride, " must have the same length");
    checked_numel(name, size);
    for (int64_t s : stride)
      check(s >= 0, ErrorKind::Runtime, name, "strides must not be negative, got ", stride);
    check(!pin_memory, ErrorKind::NotImplemented, name,
          "pin_memory=True is not supported here: use .pin_memory() on the result");
    return finished(
        make_tensor(size, stride, dtype.value_or(default_dtype()), device.value_or(Device{})),
        requires_grad);
  }
};

namespace {

DType spaced_type(const char* op, std::optional<DType> dtype, const Scalar& start,
                  const Scalar& end) {
  check_dtype(!dtype || !is_float8(*dtype), op, "not implemented for ", *dtype, " tensors");
  check_dtype(!dtype || is_complex(*dtype) || !(start.is_complex() || end.is_complex()), op,
              "complex ends do not fit the dtype ", *dtype);
  return dtype.value_or(start.is_complex() || end.is_complex() ? to_complex(default_dtype())
                                                               : default_dtype());
}

// Whole numbers lie between ends that are whole numbers.
complex<double> end_for(DType t, const Scalar& s) {
  const auto z = s.to<complex<double>>();
  return is_integral(t) ? complex<double>{std::trunc(z.re), 0} : z;
}

}  // namespace

struct Linspace {
  static constexpr const char* name = "linspace";
  static Tensor call(const Scalar& start, const Scalar& end, int64_t steps,
                     std::optional<DType> dtype, std::optional<Layout>,
                     std::optional<Device> device, bool requires_grad, bool pin_memory) {
    check(steps >= 0, ErrorKind::Runtime, name, "steps must not be negative, got ", steps);
    Tensor t = fresh(name, Dims{steps}, spaced_type(name, dtype, start, end), device, pin_memory);
    if (!t.is_meta()) copy_loops(t).linspace(t, end_for(t.dtype(), start), end_for(t.dtype(), end));
    return finished(std::move(t), requires_grad);
  }
};

struct Logspace {
  static constexpr const char* name = "logspace";
  static Tensor call(const Scalar& start, const Scalar& end, int64_t steps, double base,
                     std::optional<DType> dtype, std::optional<Layout>,
                     std::optional<Device> device, bool requires_grad, bool pin_memory) {
    check(steps >= 0, ErrorKind::Runtime, name, "steps must not be negative, got ", steps);
    Tensor t = fresh(name, Dims{steps}, spaced_type(name, dtype, start, end), device, pin_memory);
    if (!t.is_meta())
      copy_loops(t).logspace(t, end_for(t.dtype(), start), end_for(t.dtype(), end), base);
    return finished(std::move(t), requires_grad);
  }
};

struct Range {
  static constexpr const char* name = "range";
  static Tensor call(const Scalar& start, std::optional<Scalar> end, const Scalar& step,
                     std::optional<DType> dtype, std::optional<Layout>,
                     std::optional<Device> device, bool requires_grad, bool pin_memory) {
    check(end.has_value(), ErrorKind::Type, name, "missing argument 'end'");
    check_countable(name, dtype);
    check(!start.is_complex() && !end->is_complex() && !step.is_complex(), ErrorKind::Runtime, name,
          "complex numbers have no order to count in");
    const bool cut = dtype && is_integral(*dtype) && can_be_cut(start, *end, step);
    const auto number = [&](const Scalar& s) { return cut ? double(s.to_int()) : s.to_double(); };
    const double a = number(start), b = number(*end), d = number(step);
    check(d != 0, ErrorKind::Argument, name, "step must not be zero");
    check(std::isfinite(a) && std::isfinite(b), ErrorKind::Runtime, name, "the range from ", start,
          " to ", *end, " is not finite");
    check((d > 0) == (b >= a) || a == b, ErrorKind::Runtime, name, "the step ", step,
          " leads away from ", *end, ", starting at ", start);
    Tensor t = fresh(name, Dims{int64_t(std::floor((b - a) / d)) + 1}, dtype, device, pin_memory);
    if (!t.is_meta()) copy_loops(t).range(t, a, d);
    return finished(std::move(t), requires_grad);
  }
};

struct Eye {
  static constexpr const char* name = "eye";
  static Tensor call(int64_t n, std::optional<int64_t> m, std::optional<DType> dtype,
                     std::optional<Layout>, std::optional<Device> device, bool requires_grad,
                     bool pin_memory) {
    check(n >= 0 && m.value_or(n) >= 0, ErrorKind::Runtime, name,
          "sizes must not be negative, got ", n, " and ", m.value_or(n));
    Tensor t = fresh(name, Dims{n, m.value_or(n)}, dtype, device, pin_memory);
    fill_data(t, 0);
    const int64_t length = std::min(n, m.value_or(n));
    fill_data(t.alias(Dims{length}, Dims{m.value_or(n) + 1}, t.offset()), 1);
    return finished(std::move(t), requires_grad);
  }
};

struct ScalarTensor {
  static constexpr const char* name = "scalar_tensor";
  static Tensor call(const Scalar& s, std::optional<DType> dtype, std::optional<Layout>,
                     std::optional<Device> device, bool requires_grad, bool pin_memory) {
    Tensor t = fresh(name, Dims{}, dtype, device, pin_memory);
    check_fill(name, t.dtype(), s);
    fill_data(t, s);
    return finished(std::move(t), requires_grad);
  }
};

struct NewEmpty {
  static constexpr const char* name = "new_empty";
  static Tensor call(const Tensor& self, IntList size, std::optional<DType> dtype,
                     std::optional<Layout>, std::optional<Device> device, bool requires_grad,
                     bool pin_memory) {
    return finished(
        fresh(name, size, dtype.value_or(self.dtype()), device.value_or(self.device()), pin_memory),
        requires_grad);
  }
};

struct NewFull {
  static constexpr const char* name = "new_full";
  static Tensor call(const Tensor& self, IntList size, const Scalar& value,
                     std::optional<DType> dtype, std::optional<Layout>,
                     std::optional<Device> device, bool requires_grad, bool pin_memory) {
    Tensor t =
        fresh(name, size, dtype.value_or(self.dtype()), device.value_or(self.device()), pin_memory);
    check_fill(name, t.dtype(), value);
    fill_data(t, value);
    return finished(std::move(t), requires_grad);
  }
};

namespace {

template <OpName N, int value>
struct NewFilled {
  static constexpr const char* name = N.text;
  static Tensor call(const Tensor& self, IntList size, std::optional<DType> dtype,
                     std::optional<Layout> layout, std::optional<Device> device, bool requires_grad,
                     bool pin_memory) {
    return NewFull::call(self, size, value, dtype, layout, device, requires_grad, pin_memory);
  }
};

}  // namespace

struct NewZeros : NewFilled<"new_zeros", 0> {};
struct NewOnes : NewFilled<"new_ones", 1> {};

struct NewEmptyStrided {
  static constexpr const char* name = "new_empty_strided";
  static Tensor call(const Tensor& self, IntList size, IntList stride, std::optional<DType> dtype,
                     std::optional<Layout> layout, std::optional<Device> device, bool requires_grad,
                     bool pin_memory) {
    return EmptyStrided::call(size, stride, dtype.value_or(self.dtype()), layout,
                              device.value_or(self.device()), requires_grad, pin_memory);
  }
};

struct Vander {
  static constexpr const char* name = "vander";
  static Tensor call(const Tensor& x, std::optional<int64_t> N, bool increasing) {
    check(x.dim() == 1, ErrorKind::Runtime, name, "expects a vector, got shape ", x.sizes());
    const int64_t n = N.value_or(x.numel());
    check(n >= 0, ErrorKind::Runtime, name, "N must not be negative, got ", n);
    if (n == 0)
      return zeros(Dims{x.numel(), 0}, promote(x.dtype(), DType::Int64), std::nullopt, x.device());
    const Tensor first =
        ones(Dims{x.numel(), 1}, promote(x.dtype(), DType::Int64), std::nullopt, x.device());
    if (n == 1) return first;
    const Tensor columns[] = {
        first, cumprod(cast(expand(unsqueeze(x, 1), Dims{x.numel(), n - 1}), first.dtype()), 1)};
    const Tensor powers = cat(columns, 1);
    return increasing ? powers : flip(powers, Dims{1});
  }
};

}  // namespace rush

#include "ops/creation.inc"
