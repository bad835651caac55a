// value.h: one argument or result of a boxed call: what the bindings parse into, what interceptors
// and the JIT see.
//
// A Value borrows by default, so that parsing neither counts references nor allocates: tensors,
// lists and strings stay owned by whoever made the call. Results own what they hold.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/generator.h"
#include "core/tensor.h"

namespace rush {

using TensorList = std::span<const Tensor>;
using ScalarList = std::span<const Scalar>;

class Value {
 public:
  enum class Tag : uint8_t {
    None,
    Tensor,
    Tensors,
    Scalar,
    Int,
    Ints,
    Float,
    Floats,
    Bool,
    String,
    DType,
    Device,
    Layout,
    MemoryFormat,
    Generator,
  };

  Value() = default;
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
  Value(Value&& o) noexcept { steal(o); }
  Value& operator=(Value&& o) noexcept {
    if (this != &o) {
      reset();
      steal(o);
    }
    return *this;
  }
  ~Value() {
    if (owned_) reset();
  }

  Tag tag() const { return tag_; }
  bool is_none() const { return tag_ == Tag::None; }
  bool owned() const { return owned_; }

  // Borrowing setters: the caller keeps the thing alive for the time of the call.
  void borrow(TensorImpl* t) { tag_ = Tag::Tensor, u_.tensor = t; }
  void borrow(TensorList v) { tag_ = Tag::Tensors, u_.list = {v.data(), v.size()}; }
  void borrow(IntList v) { tag_ = Tag::Ints, u_.list = {v.data(), v.size()}; }
  void borrow(std::span<const double> v) { tag_ = Tag::Floats, u_.list = {v.data(), v.size()}; }
  void borrow(std::string_view v) { tag_ = Tag::String, u_.list = {v.data(), v.size()}; }
  void borrow(Generator* g) { tag_ = Tag::Generator, u_.generator = g; }
  void set(const Scalar& s) { tag_ = Tag::Scalar, u_.scalar = s; }
  void set(int64_t v) { tag_ = Tag::Int, u_.i = v; }
  void set(double v) { tag_ = Tag::Float, u_.d = v; }
  void set(bool v) { tag_ = Tag::Bool, u_.i = v; }
  void set(rush::DType v) { tag_ = Tag::DType, u_.dtype = v; }
  void set(rush::Device v) { tag_ = Tag::Device, u_.device = v; }
  void set(rush::Layout v) { tag_ = Tag::Layout, u_.layout = v; }
  void set(rush::MemoryFormat v) { tag_ = Tag::MemoryFormat, u_.format = v; }
  void clear() { reset(), tag_ = Tag::None; }

  // Owning setters, for results and for numbers wrapped as tensors.
  void own(Tensor t) {
    reset();
    owned_ = t.defined();
    tag_ = owned_ ? Tag::Tensor : Tag::None;
    u_.tensor = std::move(t).detach_impl();
  }
  void own(std::vector<Tensor> v);

  // Gives the tensor away with its count; shares one that is only borrowed.
  Tensor take_tensor() {
    if (!owned_) return tensor();
    owned_ = false;
    return Tensor(Ref<TensorImpl>::adopt(u_.tensor));
  }

  // Readers: unboxing as the C++ signatures want it. None reads as undefined, empty or absent.
  const Tensor& tensor() const {
    return reinterpret_cast<const Tensor&>(tag_ == Tag::None ? kNull : u_.tensor);
  }
  TensorList tensors() const {
    return tag_ == Tag::None ? TensorList{}
                             : TensorList{static_cast<const Tensor*>(u_.list.data), u_.list.size};
  }
  IntList ints() const {
    return tag_ == Tag::None ? IntList{}
                             : IntList{static_cast<const int64_t*>(u_.list.data), u_.list.size};
  }
  std::optional<IntList> optional_ints() const {
    return tag_ == Tag::None ? std::nullopt : std::optional(ints());
  }
  std::span<const double> floats() const {
    return tag_ == Tag::None
               ? std::span<const double>{}
               : std::span<const double>{static_cast<const double*>(u_.list.data), u_.list.size};
  }
  std::string_view string() const { return {static_cast<const char*>(u_.list.data), u_.list.size}; }
  std::optional<std::string_view> optional_string() const {
    return is_none() ? std::nullopt : std::optional(string());
  }
  const Scalar& scalar() const { return u_.scalar; }
  std::optional<Scalar> optional_scalar() const {
    return is_none() ? std::nullopt : std::optional(u_.scalar);
  }
  int64_t integer() const { return u_.i; }
  std::optional<int64_t> optional_integer() const {
    return is_none() ? std::nullopt : std::optional(u_.i);
  }
  double real() const { return u_.d; }
  std::optional<double> optional_real() const {
    return is_none() ? std::nullopt : std::optional(u_.d);
  }
  bool boolean() const { return u_.i != 0; }
  std::optional<bool> optional_boolean() const {
    return is_none() ? std::nullopt : std::optional(boolean());
  }
  rush::DType dtype() const { return u_.dtype; }
  std::optional<rush::DType> optional_dtype() const {
    return is_none() ? std::nullopt : std::optional(u_.dtype);
  }
  std::optional<rush::Device> optional_device() const {
    return is_none() ? std::nullopt : std::optional(u_.device);
  }
  std::optional<rush::Layout> optional_layout() const {
    return is_none() ? std::nullopt : std::optional(u_.layout);
  }
  rush::MemoryFormat memory_format() const { return u_.format; }
  std::optional<rush::MemoryFormat> optional_memory_format() const {
    return is_none() ? std::nullopt : std::optional(u_.format);
  }
  rush::Device device() const { return u_.device; }
  rush::Layout layout() const { return u_.layout; }
  rush::Generator* generator() const { return tag_ == Tag::None ? nullptr : u_.generator; }

 private:
  struct List {
    const void* data;
    size_t size;
  };
  static constexpr TensorImpl* kNull = nullptr;

  void reset() {
    if (owned_) [[unlikely]]
      free_owned();
    tag_ = Tag::None;
  }
  RUSH_API void free_owned();
  void steal(Value& o) noexcept {
    tag_ = std::exchange(o.tag_, Tag::None);
    owned_ = std::exchange(o.owned_, false);
    u_ = o.u_;
  }

  union Payload {
    Payload() : i(0) {}
    TensorImpl* tensor;
    List list;
    rush::Scalar scalar;
    int64_t i;
    double d;
    rush::DType dtype;
    rush::Device device;
    rush::Layout layout;
    rush::MemoryFormat format;
    rush::Generator* generator;
  } u_;
  Tag tag_ = Tag::None;
  bool owned_ = false;
};

}  // namespace rush
