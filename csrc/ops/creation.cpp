// Fresh tensors: empty, zeros, ones, full, ranges.
#include "ops/creation.h"

#include <cmath>

#include "core/threads.h"
#include "functors/complex.h"
#include "ops/data.h"
#include "ops/operators.h"

namespace rush {

Tensor fresh(const char* op, IntList size, std::optional<DType> dtype, std::optional<Device> device, bool pin_memory) {
  checked_numel(op, size);
  check(!pin_memory, ErrorKind::Runtime, op, "pin_memory=True needs a CUDA device, and none is available");
  return make_tensor(size, dtype.value_or(default_dtype()), device.value_or(Device{}));
}

Tensor fresh_like(const char* op, const Tensor& self, std::optional<DType> dtype, std::optional<Device> device, bool pin_memory,
                  std::optional<MemoryFormat> format) {
  check(!pin_memory, ErrorKind::Runtime, op, "pin_memory=True needs a CUDA device, and none is available");
  Spec spec = like(self, dtype.value_or(self.dtype()));
  spec.device = device.value_or(self.device());
  const MemoryFormat f = format.value_or(MemoryFormat::Preserve);
  if (f == MemoryFormat::Contiguous) spec.strides = {};
  else if (f != MemoryFormat::Preserve) spec.strides = strides_for(self.sizes(), f);
  return spec.allocate();
}

struct Empty {
  static constexpr const char* name = "empty";
  static Tensor call(IntList size, std::optional<DType> dtype, std::optional<Layout>, std::optional<Device> device, bool requires_grad, bool pin_memory,
                     std::optional<MemoryFormat> format) {
    if (!format || *format == MemoryFormat::Contiguous) return finished(fresh(name, size, dtype, device, pin_memory), requires_grad);
    checked_numel(name, size);
    return finished(make_tensor(size, strides_for(size, *format), dtype.value_or(default_dtype()), device.value_or(Device{})), requires_grad);
  }
};

struct Zeros {
  static constexpr const char* name = "zeros";
  static Tensor call(IntList size, std::optional<DType> dtype, std::optional<Layout>, std::optional<Device> device, bool requires_grad, bool pin_memory) {
    Tensor t = fresh(name, size, dtype, device, pin_memory);
    fill_data(t, 0);
    return finished(std::move(t), requires_grad);
  }
};

struct Ones {
  static constexpr const char* name = "ones";
  static Tensor call(IntList size, std::optional<DType> dtype, std::optional<Layout>, std::optional<Device> device, bool requires_grad, bool pin_memory) {
    Tensor t = fresh(name, size, dtype, device, pin_memory);
    fill_data(t, 1);
    return finished(std::move(t), requires_grad);
  }
};

struct ZerosLike {
  static constexpr const char* name = "zeros_like";
  static Tensor call(const Tensor& self, std::optional<DType> dtype, std::optional<Layout>, std::optional<Device> device, bool requires_grad, bool pin_memory,
                     std::optional<MemoryFormat> format) {
    Tensor t = fresh_like(name, self, dtype, device, pin_memory, format);
    fill_data(t, 0);
    return finished(std::move(t), requires_grad);
  }
};

struct OnesLike {
  static constexpr const char* name = "ones_like";
  static Tensor call(const Tensor& self, std::optional<DType> dtype, std::optional<Layout>, std::optional<Device> device, bool requires_grad, bool pin_memory,
                     std::optional<MemoryFormat> format) {
    Tensor t = fresh_like(name, self, dtype, device, pin_memory, format);
    fill_data(t, 1);
    return finished(std::move(t), requires_grad);
  }
};

struct ArangeStart {
  static constexpr const char* name = "arange";
  static Tensor call(const Scalar& start, const Scalar& end, const Scalar& step, std::optional<DType> dtype, std::optional<Layout>, std::optional<Device> device,
                     bool requires_grad, bool pin_memory) {
    const bool exact = !start.is_floating() && !end.is_floating() && !step.is_floating();
    check(!start.is_complex() && !end.is_complex() && !step.is_complex(), ErrorKind::Runtime, name, "complex numbers have no order to count in");
    const double a = start.to_double(), b = end.to_double(), d = step.to_double();
    check(d != 0, ErrorKind::Runtime, name, "step must not be zero");
    check(std::isfinite(a) && std::isfinite(b), ErrorKind::Runtime, name, "the range from ", start, " to ", end, " is not finite");
    check((d > 0) == (b >= a) || a == b, ErrorKind::Runtime, name, "the step ", step, " leads away from ", end, ", starting at ", start);
    int64_t n;
    if (exact) {
      const __int128 distance = __int128(end.to_int()) - start.to_int(), s = step.to_int();
      n = int64_t((distance + s - (s > 0 ? 1 : -1)) / s);
    } else {
      const double count = std::ceil((b - a) / d);
      check(count < 9.2e18, ErrorKind::Runtime, name, "too many elements: ", count);
      n = int64_t(count);
    }
    Tensor t = fresh(name, Dims{n}, dtype.value_or(exact ? DType::Int64 : default_dtype()), device, pin_memory);
    if (!t.is_meta()) fill(t, start, step);
    return finished(std::move(t), requires_grad);
  }

 private:
  static void fill(const Tensor& t, const Scalar& start, const Scalar& step) {
    dispatch_all(name, t.dtype(), [&]<typename T>() {
      if constexpr (is_complex_v<T> || std::is_same_v<T, bool>) {
        fail(ErrorKind::NotImplemented, name, "not implemented for ", dtype_of<T>, " tensors");
      } else {
        // Counted in the widest type of its kind, so that no error adds up.
        using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
        const Wide first = start.to<Wide>(), each = step.to<Wide>();
        T* out = t.data<T>();
        parallel_for(t.numel(), 32768, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) out[i] = T(opmath<T>(first + Wide(i) * each));
        });
      }
    });
  }
};

struct Arange {
  static constexpr const char* name = "arange";
  static Tensor call(const Scalar& end, std::optional<DType> dtype, std::optional<Layout> layout, std::optional<Device> device, bool requires_grad, bool pin_memory) {
    return ArangeStart::call(0, end, 1, dtype, layout, device, requires_grad, pin_memory);
  }
};

}  // namespace rush

#include "ops/creation.inc"
