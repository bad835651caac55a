// tensor_options.h: what a new tensor shall be like, as programs say it:
// `zeros({2, 3}, dtype(kFloat64).device(kCUDA))`.
#pragma once

#include <optional>

#include "core/device.h"
#include "core/dtype.h"

namespace rush {

inline constexpr DType kBool = DType::Bool, kUInt8 = DType::UInt8, kInt8 = DType::Int8,
                       kInt16 = DType::Int16, kInt32 = DType::Int32, kInt64 = DType::Int64,
                       kUInt16 = DType::UInt16, kUInt32 = DType::UInt32, kUInt64 = DType::UInt64,
                       kFloat16 = DType::Float16, kBFloat16 = DType::BFloat16,
                       kFloat32 = DType::Float32, kFloat64 = DType::Float64,
                       kComplexHalf = DType::Complex32, kComplexFloat = DType::Complex64,
                       kComplexDouble = DType::Complex128;
inline constexpr DType kByte = kUInt8, kChar = kInt8, kShort = kInt16, kInt = kInt32,
                       kLong = kInt64, kHalf = kFloat16, kFloat = kFloat32, kDouble = kFloat64;
inline constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA,
                            kMeta = DeviceType::Meta;
inline constexpr Layout kStrided = Layout::Strided;
using ScalarType = DType;

class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(DType dtype) : dtype_(dtype) {}
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(DeviceType type) : device_(Device{type}) {}

  [[nodiscard]] TensorOptions dtype(std::optional<DType> v) const {
    return with(&TensorOptions::dtype_, v);
  }
  [[nodiscard]] TensorOptions device(std::optional<Device> v) const {
    return with(&TensorOptions::device_, v);
  }
  [[nodiscard]] TensorOptions device(DeviceType type, int8_t index = -1) const {
    return device(Device{type, index});
  }
  [[nodiscard]] TensorOptions layout(std::optional<Layout> v) const {
    return with(&TensorOptions::layout_, v);
  }
  [[nodiscard]] TensorOptions requires_grad(bool v) const {
    return with(&TensorOptions::requires_grad_, v);
  }
  [[nodiscard]] TensorOptions pinned_memory(bool v) const {
    return with(&TensorOptions::pin_memory_, v);
  }

  std::optional<DType> dtype() const { return dtype_; }
  std::optional<Device> device() const { return device_; }
  std::optional<Layout> layout() const { return layout_; }
  bool requires_grad() const { return requires_grad_; }
  bool pin_memory() const { return pin_memory_; }

 private:
  template <class T, class V>
  TensorOptions with(T TensorOptions::* member, V value) const {
    TensorOptions changed = *this;
    changed.*member = value;
    return changed;
  }

  std::optional<DType> dtype_;
  std::optional<Device> device_;
  std::optional<Layout> layout_;
  bool requires_grad_ = false, pin_memory_ = false;
};

inline TensorOptions dtype(DType v) { return TensorOptions(v); }
inline TensorOptions device(Device v) { return TensorOptions(v); }
inline TensorOptions device(DeviceType v) { return TensorOptions(v); }
inline TensorOptions requires_grad(bool v = true) { return TensorOptions().requires_grad(v); }

}  // namespace rush
