// Copies, fills and conversions: the ops that only move values.
#include "core/device_memory.h"
#include "device/deferred.h"
#include "device/nn/convolution.h"
#include "device/runtime.h"
#include "ops/framework/data.h"
#include "ops/framework/fits.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {

struct Copy {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "copy_";
  static constexpr bool any_layout = true;
  static constexpr bool any_device = true;
  static constexpr bool in_place_safe = true;
  static constexpr bool refuses_overlap = false;  // x[1:] = x[:-1] means what it says, as in NumPy
  static Spec check(const Tensor& self, const Tensor& src, bool) {
    expand_strides(name, src.sizes(), src.strides(), self.sizes());
    return like(self);
  }
  static void run(const Tensor&, const Tensor& src, bool non_blocking, const Tensor& out) {
    copy_data(out, src, non_blocking);
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor&, bool) {
    // The engine sums over broadcast dims and casts back to src's dtype.
    return {c.wants(0) ? zeros_like(g) : Tensor(), g};
  }
  static Tensor jvp(const Jvp& j, const Tensor& self, const Tensor&, bool) {
    return j.tangent(1).defined() ? clone(expand(j.tangent(1), self.sizes())) : Tensor();
  }
};

struct Fill {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "fill";
  static constexpr bool any_layout = true;
  static constexpr bool any_device = true;
  static constexpr bool in_place_safe = true;
  static constexpr bool repeats_are_fine = true;
  static Spec check(const Tensor& self, const Tensor& value) {
    check_shape(value.dim() == 0, name, "the value must be a number or a 0-d tensor, got shape ",
                value.sizes());
    if (value.is_wrapped_number()) check_fill(name, self.dtype(), value.item());
    return like(self);
  }
  static void run(const Tensor&, const Tensor& value, const Tensor& out) {
    rush::check(!value.is_meta(), ErrorKind::Runtime, name, "a meta tensor has no value");
    if (device_traits(value).asynchronous)  // without waiting for it
      copy_data(out, value);
    else
      fill_data(out, value.item());
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor&) {
    return {c.wants(0) ? zeros_like(g) : Tensor(), c.wants(1) ? sum(g) : Tensor()};
  }
};

struct Zero {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "zero_";
  static constexpr bool any_device = true;
  static constexpr bool repeats_are_fine = true;
  static void check(const Tensor&) {}
  static void run(const Tensor& self) { fill_data(self, 0); }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&) { return {zeros_like(g)}; }
};

struct Clone {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "clone";
  static constexpr bool any_layout = true;
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, std::optional<MemoryFormat> format) {
    Spec spec = like(x);
    const MemoryFormat f = format.value_or(MemoryFormat::Preserve);
    if (f == MemoryFormat::Contiguous)
      spec.strides = {};
    else if (f != MemoryFormat::Preserve)
      spec.strides = strides_for(x.sizes(), f);
    return spec;
  }
  static void run(const Tensor& x, std::optional<MemoryFormat>, const Tensor& out) {
    copy_data(out, x);
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, std::optional<MemoryFormat>) {
    return {g};
  }
};

struct Contiguous {
  static constexpr const char* name = "contiguous";
  static Tensor call(const Tensor& x, MemoryFormat format) {
    check(format != MemoryFormat::Preserve, ErrorKind::Runtime, name,
          "preserve_format is not a format to make contiguous in");
    return x.is_contiguous(format) ? x : clone(x, format);
  }
};

namespace {

// In a compiled function: are these the weights of a convolution that will want them with the channels
// last, of a half type? (Other parameters of so many dims are rare, and right all the same.)
bool is_cast_for_images(const Tensor& x, DType to) {
  if (!(t_modes & kDefer) || !automatic_layout() || (x.dim() != 4 && x.dim() != 5) ||
      x.dtype() != DType::Float32 || !is_reduced_float(to) || !x.is_contiguous() ||
      !requires_grad(x) || !is_leaf(x) || !device_traits(x).asynchronous || x.numel() == 0)
    return false;
  const auto prefers = convolution_loops(x).prefers_channels_last;
  return prefers && prefers(x.sizes()) && x.sizes()[1] > 1 &&
         x.numel() > x.sizes()[0] * x.sizes()[1];
}

}  // namespace

struct Cast {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "cast";
  static constexpr bool any_layout = true;
  static constexpr bool any_device = true;
  static constexpr bool deferrable = true;
  static Spec check(const Tensor& x, DType dtype) { return like(x, dtype); }
  static Dims arranged_strides(const Spec& spec, const Tensor& x, DType) {
    return is_cast_for_images(x, spec.dtype) ? channels_last_strides(x.sizes())
                                             : like(x, spec.dtype).strides;
  }
  static void run(const Tensor& x, DType, const Tensor& out) {
    const Tensor* from[] = {&x};
    if (is_unborn(out) && deferred::queue_step(FusedStep::Kind::Convert, 0, from, out, {}, {}))
      return;
    copy_data(out, x);
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, DType) {
    return {cast(g, c.dtype(0))};
  }
  static Tensor jvp(const Jvp& j, const Tensor&, DType dtype) {
    return is_differentiable(dtype) ? cast(j.tangent(0), dtype) : Tensor();
  }
};

struct Transfer {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "to";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, Device device, bool) {
    rush::check(!x.is_meta(), ErrorKind::NotImplemented, name,
                "a meta tensor has no values to copy to ", device);
    Spec spec = like(x);
    spec.device = resolved(device);
    return spec;
  }
  static void run(const Tensor& x, Device, bool non_blocking, const Tensor& out) {
    copy_data(out, x, non_blocking);
  }
  static constexpr uint32_t needs[] = {0};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, Device, bool) {
    return {transfer(g, c.device(0))};
  }
  static Tensor jvp(const Jvp& j, const Tensor&, Device device, bool) {
    return transfer(j.tangent(0), device);
  }
};

namespace {

// The one road of all conversions: another device, another dtype, another layout, or self when
// nothing changes.
Tensor converted(const char* op, const Tensor& x, std::optional<Device> device,
                 std::optional<DType> dtype, bool non_blocking, bool copy,
                 std::optional<MemoryFormat> format) {
  const MemoryFormat f = format.value_or(MemoryFormat::Preserve);
  const DType target = dtype.value_or(x.dtype());
  if (device && !is_at(x.device(), *device)) {
    check(!x.is_meta(), ErrorKind::NotImplemented, op,
          "a meta tensor has no values to copy: ", *device);
    if (!device->is_meta()) {
      // What is smaller travels: a conversion runs on the side that has fewer bytes to send.
      const bool first = element_size(target) < x.element_size();
      const Tensor moved = transfer(first ? cast(x, target) : x, *device, non_blocking);
      return converted(op, moved, std::nullopt, target, false, false, format);
    }
    Spec spec = like(x, target);
    spec.device = *device;
    if (f != MemoryFormat::Preserve) spec.strides = strides_for(x.sizes(), f);
    return spec.allocate();
  }
  const bool laid_out = f == MemoryFormat::Preserve || x.is_contiguous(f);
  if (target == x.dtype()) return laid_out && !copy ? x : clone(x, f);
  const Tensor t = cast(x, target);
  return f == MemoryFormat::Preserve || t.is_contiguous(f) ? t : clone(t, f);
}

}  // namespace

struct To {
  static constexpr const char* name = "to";
  static Tensor call(const Tensor& x, std::optional<DType> dtype, bool non_blocking, bool copy,
                     std::optional<MemoryFormat> format) {
    return converted(name, x, std::nullopt, dtype, non_blocking, copy, format);
  }
};
struct ToDevice {
  static constexpr const char* name = "to";
  static Tensor call(const Tensor& x, std::optional<Device> device, std::optional<DType> dtype,
                     bool non_blocking, bool copy, std::optional<MemoryFormat> format) {
    return converted(name, x, device, dtype, non_blocking, copy, format);
  }
};
struct ToOther {
  static constexpr const char* name = "to";
  static Tensor call(const Tensor& x, const Tensor& other, bool non_blocking, bool copy,
                     std::optional<MemoryFormat> format) {
    return converted(name, x, other.device(), other.dtype(), non_blocking, copy, format);
  }
};
struct TypeAs {
  static constexpr const char* name = "type_as";
  static Tensor call(const Tensor& x, const Tensor& other) {
    return converted(name, x, other.device(), other.dtype(), false, false, std::nullopt);
  }
};
struct Cpu {
  static constexpr const char* name = "cpu";
  static Tensor call(const Tensor& x, std::optional<MemoryFormat> format) {
    return converted(name, x, Device{}, std::nullopt, false, false, format);
  }
};

// float(), long(), ...
template <DType dtype>
struct ToDtype {
  static constexpr const char* name = "to";
  static Tensor call(const Tensor& x, std::optional<MemoryFormat> format) {
    return converted(name, x, std::nullopt, dtype, false, false, format);
  }
};
struct ToFloat32 : ToDtype<DType::Float32> {};
struct ToFloat64 : ToDtype<DType::Float64> {};
struct ToFloat16 : ToDtype<DType::Float16> {};
struct ToBfloat16 : ToDtype<DType::BFloat16> {};
struct ToInt32 : ToDtype<DType::Int32> {};
struct ToInt64 : ToDtype<DType::Int64> {};
struct ToInt16 : ToDtype<DType::Int16> {};
struct ToInt8 : ToDtype<DType::Int8> {};
struct ToUint8 : ToDtype<DType::UInt8> {};
struct ToBool : ToDtype<DType::Bool> {};
struct ToComplex32 : ToDtype<DType::Complex32> {};
struct ToComplex64 : ToDtype<DType::Complex64> {};
struct ToComplex128 : ToDtype<DType::Complex128> {};

struct WriteOut {
  static constexpr const char* name = "_write_out";
  static std::vector<Tensor> call(TensorList results, TensorList outs, std::string_view op) {
    const std::string named(op);
    check(results.size() == outs.size(), ErrorKind::ArgumentType, named, "out must hold ",
          results.size(), " tensors, got ", outs.size());
    bool batched = false;
    for (TensorList list : {results, outs})
      for (const Tensor& t : list) batched = batched || t.is_batched();
    check(!batched, ErrorKind::Runtime, named, "out= is not supported inside vmap; use the result");
    op::check_no_grad_for_out(named.c_str(), grad_enabled() && (op::any_requires_grad(results) ||
                                                                op::any_requires_grad(outs)));
    std::vector<Tensor> own(results.begin(), results.end());
    op::write_outs(named.c_str(), "copy_", outs, own);
    return {outs.begin(), outs.end()};
  }
};

}  // namespace rush

#include "ops/memory.inc"
