// types.h: PyTorch's C++ names for dtypes, devices, lists and options. They stand in the namespace
// rush::torch_api, which torch/extension.h calls torch, at and c10; see docs/custom_ops.md.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "frontend/tensor_options.h"
#include "frontend/torch/host_device.h"
#include "ops/framework/value.h"

namespace rush::torch_api {
struct Half;
struct BFloat16;
}  // namespace rush::torch_api
template <>
struct rush::DTypeOf<rush::torch_api::Half> {
  static constexpr DType value = DType::Float16;
};
template <>
struct rush::DTypeOf<rush::torch_api::BFloat16> {
  static constexpr DType value = DType::BFloat16;
};

namespace rush::torch_api {

using rush::MemoryFormat;

// A number, which says what it is by PyTorch's names as well.
class Scalar : public rush::Scalar {
 public:
  using rush::Scalar::Scalar;
  constexpr Scalar(const rush::Scalar& s) : rush::Scalar(s) {}
  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int toInt() const { return to<int>(); }
  int64_t toLong() const { return to<int64_t>(); }
  bool toBool() const { return to<bool>(); }
  bool isFloatingPoint() const { return is_floating(); }
  bool isComplex() const { return is_complex(); }
  bool isBoolean() const { return is_bool(); }
  bool isIntegral(bool includeBool) const { return is_integer() || (includeBool && is_bool()); }
};

// A dtype by PyTorch's names; it is a rush::DType otherwise.
class ScalarType {
 public:
  constexpr ScalarType(DType dtype) : dtype_(dtype) {}
  constexpr operator DType() const { return dtype_; }
  constexpr ScalarType toScalarType() const { return *this; }
  int64_t itemsize() const { return element_size(dtype_); }
  friend std::ostream& operator<<(std::ostream& os, ScalarType t) { return os << t.dtype_; }

  static const ScalarType Byte, Char, Short, Int, Long, Half, Float, Double, ComplexFloat,
      ComplexDouble, ComplexHalf, Bool, BFloat16, UInt16, UInt32, UInt64;

 private:
  DType dtype_;
};
inline constexpr ScalarType ScalarType::Byte{DType::UInt8};
inline constexpr ScalarType ScalarType::Char{DType::Int8};
inline constexpr ScalarType ScalarType::Short{DType::Int16};
inline constexpr ScalarType ScalarType::Int{DType::Int32};
inline constexpr ScalarType ScalarType::Long{DType::Int64};
inline constexpr ScalarType ScalarType::Half{DType::Float16};
inline constexpr ScalarType ScalarType::Float{DType::Float32};
inline constexpr ScalarType ScalarType::Double{DType::Float64};
inline constexpr ScalarType ScalarType::ComplexFloat{DType::Complex64};
inline constexpr ScalarType ScalarType::ComplexDouble{DType::Complex128};
inline constexpr ScalarType ScalarType::ComplexHalf{DType::Complex32};
inline constexpr ScalarType ScalarType::Bool{DType::Bool};
inline constexpr ScalarType ScalarType::BFloat16{DType::BFloat16};
inline constexpr ScalarType ScalarType::UInt16{DType::UInt16};
inline constexpr ScalarType ScalarType::UInt32{DType::UInt32};
inline constexpr ScalarType ScalarType::UInt64{DType::UInt64};
using Dtype = ScalarType;

inline constexpr ScalarType kByte = ScalarType::Byte, kUInt8 = ScalarType::Byte,
                            kChar = ScalarType::Char, kInt8 = ScalarType::Char,
                            kShort = ScalarType::Short, kInt16 = ScalarType::Short,
                            kInt = ScalarType::Int, kInt32 = ScalarType::Int,
                            kLong = ScalarType::Long, kInt64 = ScalarType::Long,
                            kHalf = ScalarType::Half, kFloat16 = ScalarType::Half,
                            kFloat = ScalarType::Float, kFloat32 = ScalarType::Float,
                            kDouble = ScalarType::Double, kFloat64 = ScalarType::Double,
                            kComplexFloat = ScalarType::ComplexFloat,
                            kComplexDouble = ScalarType::ComplexDouble, kBool = ScalarType::Bool,
                            kBFloat16 = ScalarType::BFloat16;
// (rush::half is also the function that converts to it.)
// Types of their own: rush::half is the name of an operator as well, which the host code that nvcc
// makes of a kernel's launch cannot tell apart; and kernels of extensions compute with these.
struct Half {
  uint16_t x;
  Half() = default;
  RUSH_HOST_DEVICE Half(float value) {
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x) : "f"(value));
#else
    x = CppType<DType::Float16>::type(value).bits;
#endif
  }
  RUSH_HOST_DEVICE operator float() const {
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x));
    return value;
#else
    return CppType<DType::Float16>::type::from_bits(x);
#endif
  }
};
struct BFloat16 {
  uint16_t x;
  BFloat16() = default;
  RUSH_HOST_DEVICE BFloat16(float value) {
#ifdef __CUDA_ARCH__
    // Rounds to the nearest even, as cvt.rn.bf16 of newer GPUs does; NaN stays NaN.
    const uint32_t bits = __float_as_uint(value);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    x = uint16_t(nan ? 0x7fc0u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#else
    x = CppType<DType::BFloat16>::type(value).bits;
#endif
  }
  RUSH_HOST_DEVICE operator float() const {
#ifdef __CUDA_ARCH__
    return __uint_as_float(uint32_t(x) << 16);
#else
    return CppType<DType::BFloat16>::type::from_bits(x);
#endif
  }
};
// Sums and products are floats; these round them again, as `sum += x[i]` over scalar_t wants.
template <class T>
concept NarrowFloat = std::same_as<T, Half> || std::same_as<T, BFloat16>;
template <NarrowFloat T>
RUSH_HOST_DEVICE T& operator+=(T& a, float b) {
  return a = T(float(a) + b);
}
template <NarrowFloat T>
RUSH_HOST_DEVICE T& operator-=(T& a, float b) {
  return a = T(float(a) - b);
}
template <NarrowFloat T>
RUSH_HOST_DEVICE T& operator*=(T& a, float b) {
  return a = T(float(a) * b);
}
template <NarrowFloat T>
RUSH_HOST_DEVICE T& operator/=(T& a, float b) {
  return a = T(float(a) / b);
}

using DeviceType = rush::DeviceType;
inline constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA,
                            kMeta = DeviceType::Meta;

class Device {
 public:
  Device(rush::Device device) : device_(device) {}
  Device(DeviceType type, int8_t index = -1) : device_{type, index} {}
  Device(const std::string& text) : device_(parse_device(text)) {}
  Device(const char* text) : device_(parse_device(text)) {}
  operator rush::Device() const { return device_; }
  DeviceType type() const { return device_.type; }
  int8_t index() const { return device_.index; }
  bool has_index() const { return device_.index >= 0; }
  bool is_cpu() const { return device_.is_cpu(); }
  bool is_cuda() const { return device_.is_cuda(); }
  bool is_meta() const { return device_.is_meta(); }
  std::string str() const { return concat(device_); }
  bool operator==(const Device& o) const { return device_ == o.device_; }
  friend std::ostream& operator<<(std::ostream& os, const Device& d) { return os << d.device_; }

 private:
  rush::Device device_;
};

// A list that somebody else owns.
template <class T>
class ArrayRef {
 public:
  ArrayRef() = default;
  ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  ArrayRef(const T& one) : data_(&one), size_(1) {}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"  // it is an argument of the call
  ArrayRef(std::initializer_list<T> list) : data_(list.begin()), size_(list.size()) {}
#pragma GCC diagnostic pop
  template <class C>
    requires requires(const C& c) {
      { c.data() } -> std::convertible_to<const T*>;
      c.size();
    }
  ArrayRef(const C& container) : data_(container.data()), size_(size_t(container.size())) {}

  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T& front() const { return data_[0]; }
  const T& back() const { return data_[size_ - 1]; }
  const T& operator[](size_t i) const { return data_[i]; }
  const T& at(size_t i) const {
    check_index(i < size_, "ArrayRef", "index ", i, " of ", size_, " items");
    return data_[i];
  }
  ArrayRef slice(size_t from, size_t n) const { return {data_ + from, n}; }
  std::vector<T> vec() const { return {begin(), end()}; }
  bool equals(ArrayRef o) const {
    return size_ == o.size_ && std::equal(begin(), end(), o.begin());
  }
  friend bool operator==(ArrayRef a, ArrayRef b) { return a.equals(b); }
  operator std::span<const T>() const { return {data_, size_}; }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};
using IntArrayRef = ArrayRef<int64_t>;
inline std::ostream& operator<<(std::ostream& os, IntArrayRef list) {
  return os << concat(IntList(list));
}

class OptionalIntArrayRef {
 public:
  OptionalIntArrayRef() = default;
  OptionalIntArrayRef(std::nullopt_t) {}
  OptionalIntArrayRef(IntArrayRef list) : list_(list) {}
  OptionalIntArrayRef(const int64_t& one) : list_(IntArrayRef(one)) {}
  OptionalIntArrayRef(std::initializer_list<int64_t> list) : list_(IntArrayRef(list)) {}
  OptionalIntArrayRef(const std::vector<int64_t>& list) : list_(IntArrayRef(list)) {}
  bool has_value() const { return list_.has_value(); }
  IntArrayRef value() const { return list_.value(); }
  operator std::optional<IntList>() const {
    return list_ ? std::optional<IntList>(IntList(*list_)) : std::nullopt;
  }

 private:
  std::optional<IntArrayRef> list_;
};

class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(ScalarType dtype) : dtype_(DType(dtype)) {}
  TensorOptions(DType dtype) : dtype_(dtype) {}
  TensorOptions(Device device) : device_(rush::Device(device)) {}
  TensorOptions(DeviceType type) : device_(rush::Device{type}) {}

  TensorOptions dtype(ScalarType d) const {
    return with([&](auto& o) { o.dtype_ = DType(d); });
  }
  TensorOptions device(Device d) const {
    return with([&](auto& o) { o.device_ = rush::Device(d); });
  }
  TensorOptions device(DeviceType type, int8_t index) const { return device(Device(type, index)); }
  TensorOptions requires_grad(bool on) const {
    return with([&](auto& o) { o.requires_grad_ = on; });
  }
  TensorOptions pinned_memory(bool on) const {
    return with([&](auto& o) { o.pinned_ = on; });
  }
  TensorOptions memory_format(MemoryFormat f) const {
    return with([&](auto& o) { o.format_ = f; });
  }

  // The same for the functions of rush.
  rush::TensorOptions core() const {
    return rush::TensorOptions()
        .dtype(dtype_)
        .device(device_)
        .requires_grad(requires_grad_)
        .pinned_memory(pinned_);
  }
  std::optional<DType> dtype_opt() const { return dtype_; }
  std::optional<rush::Device> device_opt() const { return device_; }
  std::optional<MemoryFormat> memory_format_opt() const { return format_; }
  ScalarType dtype() const { return dtype_.value_or(default_dtype()); }
  Device device() const { return device_.value_or(default_device()); }
  bool requires_grad() const { return requires_grad_; }
  bool pinned_memory() const { return pinned_; }

 private:
  template <class F>
  TensorOptions with(F&& change) const {
    TensorOptions o = *this;
    change(o);
    return o;
  }
  std::optional<DType> dtype_;
  std::optional<rush::Device> device_;
  std::optional<MemoryFormat> format_;
  bool requires_grad_ = false, pinned_ = false;
};
inline TensorOptions dtype(ScalarType d) { return TensorOptions(d); }
inline TensorOptions device(Device d) { return TensorOptions(d); }
inline TensorOptions requires_grad(bool on = true) { return TensorOptions().requires_grad(on); }

}  // namespace rush::torch_api
