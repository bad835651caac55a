// tensor.h: a rush::Tensor with PyTorch's methods. It is nothing more: either may stand where the
// other is expected. It is a class of its own because extensions write x.device().type(),
// ScalarType::Float and x.sizes().vec(), where the core has fields, other names and its own lists.
#pragma once

#include <array>
#include <tuple>

#include "autograd/engine.h"
#include "autograd/meta.h"
#include "frontend/accessor.h"
#include "frontend/arguments.h"
#include "frontend/indexing.h"
#include "frontend/torch/packed_accessor.h"
#include "frontend/torch/types.h"
#include "ops/ops.h"

namespace rush::torch_api {

using rush::TensorAccessor;
using rush::Text;
namespace indexing = rush::indexing;

class Tensor;
using TensorList = ArrayRef<Tensor>;

// A tensor or a number, where ops take either.
class Operand {
 public:
  Operand(const rush::Tensor& t) : tensor_(t) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Operand(T number) : tensor_(wrap_number(Scalar(number))) {}
  Operand(const Scalar& number) : tensor_(wrap_number(number)) {}
  const rush::Tensor& tensor() const { return tensor_; }
  operator const rush::Tensor&() const { return tensor_; }

 private:
  rush::Tensor tensor_;
};

namespace detail {
inline rush::TensorList list(TensorList list);
inline std::vector<Tensor> list(std::vector<rush::Tensor> list);
}  // namespace detail

class Tensor : public rush::Tensor {
 public:
  Tensor() = default;
  Tensor(rush::Tensor t) : rush::Tensor(std::move(t)) {}

  IntArrayRef sizes() const { return rush::Tensor::sizes(); }
  IntArrayRef strides() const { return rush::Tensor::strides(); }
  int64_t ndimension() const { return dim(); }
  int64_t storage_offset() const { return offset(); }
  ScalarType scalar_type() const { return rush::Tensor::dtype(); }
  ScalarType dtype() const { return rush::Tensor::dtype(); }
  Device device() const { return rush::Tensor::device(); }
  int64_t get_device() const { return device().index(); }
  bool is_floating_point() const { return is_floating(); }
  int64_t itemsize() const { return element_size(); }
  TensorOptions options() const { return TensorOptions(scalar_type()).device(device()); }
  void reset() { *this = Tensor(); }

  // The address of the first element. What writes there through it tells nobody.
  void* data_ptr() const { return data(); }
  template <class T>
  T* data_ptr() const {
    check_dtype(dtype_of<std::remove_const_t<T>> == DType(dtype()), "data_ptr",
                "expected a tensor of ", dtype_of<std::remove_const_t<T>>, ", this one has ",
                DType(dtype()));
    return static_cast<T*>(data());
  }
  template <class T>
  const T* const_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const {
    check_argument(is_cpu(), "accessor", "the tensor is on ", device(), ", not on the CPU");
    check_shape(dim() == int64_t(N), "accessor", "expected ", N, " dimensions, got ", dim());
    return {data_ptr<T>(), rush::Tensor::sizes().data(), rush::Tensor::strides().data()};
  }
  // For kernels; 32: the indices' bits.
  template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, PtrTraits> packed_accessor32() const {
    check_argument(numel() < int64_t(1) << 31, "packed_accessor32", "the tensor has ", numel(),
                   " elements, which 32 bits do not count; use packed_accessor64");
    return packed<T, N, PtrTraits, int32_t>();
  }
  template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, PtrTraits> packed_accessor64() const {
    return packed<T, N, PtrTraits, int64_t>();
  }
  template <class T, size_t N, template <class> class PtrTraits, class index_t>
  PackedTensorAccessor<T, N, PtrTraits, index_t> packed() const {
    check_shape(dim() == int64_t(N), "packed_accessor", "expected ", N, " dimensions, got ", dim());
    return {data_ptr<T>(), rush::Tensor::sizes().data(), rush::Tensor::strides().data()};
  }
  Scalar item() const { return rush::Tensor::item(); }
  template <class T>
  T item() const {
    return rush::Tensor::item().template to<T>();
  }

  Tensor to(ScalarType dtype, bool non_blocking = false, bool copy = false) const {
    return rush::to(*this, std::optional<DType>(dtype), non_blocking, copy);
  }
  Tensor to(Device device, bool non_blocking = false, bool copy = false) const {
    return rush::to(*this, std::optional<rush::Device>(device), std::nullopt, non_blocking, copy);
  }
  Tensor to(DeviceType type) const { return to(Device(type)); }
  Tensor to(Device device, ScalarType dtype, bool non_blocking = false, bool copy = false) const {
    return rush::to(*this, std::optional<rush::Device>(device), std::optional<DType>(dtype),
                    non_blocking, copy);
  }
  Tensor to(const TensorOptions& o, bool non_blocking = false, bool copy = false) const {
    return rush::to(*this, o.device_opt(), o.dtype_opt(), non_blocking, copy,
                    o.memory_format_opt());
  }
  Tensor toType(ScalarType dtype) const { return to(dtype); }
  Tensor type_as(const rush::Tensor& other) const { return rush::to(*this, other); }
  Tensor to_dtype(ScalarType dtype) const { return to(dtype); }
  Tensor cpu() const { return to(kCPU); }
  Tensor cuda() const { return to(kCUDA); }
  Tensor slice(int64_t dim = 0, std::optional<int64_t> start = std::nullopt,
               std::optional<int64_t> end = std::nullopt, int64_t step = 1) const {
    return rush::slice(*this, dim, start, end, step);
  }
  Tensor operator[](int64_t i) const { return rush::select(*this, 0, i); }
  Tensor operator[](const Tensor& i) const { return index({i}); }
  Tensor nonzero() const { return rush::nonzero(*this); }

  // Parts of it: x.index({Slice(1, None), 0}), x.index_put_({mask}, 0).
  Tensor index(std::initializer_list<indexing::TensorIndex> indices) const {
    return indexing::get(*this, {indices.begin(), indices.size()});
  }
  Tensor index(ArrayRef<indexing::TensorIndex> indices) const {
    return indexing::get(*this, indices);
  }
  const Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices,
                           const Operand& value) const {
    return index_put_(ArrayRef<indexing::TensorIndex>(indices), value);
  }
  const Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Operand& value) const {
    indexing::put(*this, indices, value.tensor());
    return *this;
  }

  Tensor new_empty(IntArrayRef size, const TensorOptions& o = {}) const {
    return rush::new_empty(*this, size, o.dtype_opt(), std::nullopt, o.device_opt());
  }
  Tensor new_zeros(IntArrayRef size, const TensorOptions& o = {}) const {
    return rush::new_zeros(*this, size, o.dtype_opt(), std::nullopt, o.device_opt());
  }
  Tensor new_ones(IntArrayRef size, const TensorOptions& o = {}) const {
    return rush::new_ones(*this, size, o.dtype_opt(), std::nullopt, o.device_opt());
  }
  Tensor new_full(IntArrayRef size, const Scalar& value, const TensorOptions& o = {}) const {
    return rush::new_full(*this, size, value, o.dtype_opt(), std::nullopt, o.device_opt());
  }

  bool requires_grad() const { return rush::requires_grad(*this); }
  const Tensor& set_requires_grad(bool on) const {
    rush::set_requires_grad(*this, on);
    return *this;
  }
  const Tensor& requires_grad_(bool on = true) const { return set_requires_grad(on); }
  bool is_leaf() const { return rush::is_leaf(*this); }
  Tensor grad() const { return grad_of(*this); }
  Tensor& mutable_grad() = delete;  // exchange_grad sets it
  void backward(const Tensor& gradient = {}, bool retain_graph = false,
                bool create_graph = false) const {
    const rush::Tensor roots[] = {*this}, grads[] = {gradient};
    BackwardOptions options;
    options.retain_graph = retain_graph || create_graph;
    options.create_graph = create_graph;
    rush::backward(roots, grads, options);
  }
  Tensor tensor_data() const { return detached(*this); }
  Tensor variable_data() const { return detached(*this); }

  // The methods of the table: mul, sum, view, add_ and so on.
#include "frontend/torch_methods.inc"
};
static_assert(sizeof(Tensor) == sizeof(rush::Tensor));

namespace detail {
inline rush::TensorList list(TensorList list) {
  return {static_cast<const rush::Tensor*>(list.data()), list.size()};
}
inline std::vector<Tensor> list(std::vector<rush::Tensor> list) {
  return {std::make_move_iterator(list.begin()), std::make_move_iterator(list.end())};
}
}  // namespace detail

// Templates, so that they fit this class exactly: the operators of rush::Tensor, which it derives
// from, are found as well.
template <class T>
concept NumberLike = std::is_arithmetic_v<T> || std::same_as<T, Scalar>;
template <class T>
concept OperandLike = NumberLike<T> || std::derived_from<T, rush::Tensor>;

template <OperandLike B>
Tensor operator+(const Tensor& a, const B& b) {
  return rush::add(a, Operand(b).tensor());
}
template <OperandLike B>
Tensor operator-(const Tensor& a, const B& b) {
  return rush::sub(a, Operand(b).tensor());
}
template <OperandLike B>
Tensor operator*(const Tensor& a, const B& b) {
  return rush::mul(a, Operand(b).tensor());
}
template <OperandLike B>
Tensor operator/(const Tensor& a, const B& b) {
  return rush::div(a, Operand(b).tensor());
}
template <OperandLike B>
Tensor operator&(const Tensor& a, const B& b) {
  return rush::bitwise_and(a, Operand(b).tensor());
}
template <OperandLike B>
Tensor operator|(const Tensor& a, const B& b) {
  return rush::bitwise_or(a, Operand(b).tensor());
}
template <OperandLike B>
Tensor operator^(const Tensor& a, const B& b) {
  return rush::bitwise_xor(a, Operand(b).tensor());
}
template <OperandLike B>
Tensor operator==(const Tensor& a, const B& b) {
  return rush::eq(a, Operand(b).tensor());
}
template <OperandLike B>
Tensor operator!=(const Tensor& a, const B& b) {
  return rush::ne(a, Operand(b).tensor());
}
template <OperandLike B>
Tensor operator<(const Tensor& a, const B& b) {
  return rush::lt(a, Operand(b).tensor());
}
template <OperandLike B>
Tensor operator<=(const Tensor& a, const B& b) {
  return rush::le(a, Operand(b).tensor());
}
template <OperandLike B>
Tensor operator>(const Tensor& a, const B& b) {
  return rush::gt(a, Operand(b).tensor());
}
template <OperandLike B>
Tensor operator>=(const Tensor& a, const B& b) {
  return rush::ge(a, Operand(b).tensor());
}
template <NumberLike A>
Tensor operator+(const A& a, const Tensor& b) {
  return rush::add(Operand(a).tensor(), b);
}
template <NumberLike A>
Tensor operator-(const A& a, const Tensor& b) {
  return rush::sub(Operand(a).tensor(), b);
}
template <NumberLike A>
Tensor operator*(const A& a, const Tensor& b) {
  return rush::mul(Operand(a).tensor(), b);
}
template <NumberLike A>
Tensor operator/(const A& a, const Tensor& b) {
  return rush::div(Operand(a).tensor(), b);
}
inline Tensor operator-(const Tensor& a) { return rush::neg(a); }
inline Tensor operator~(const Tensor& a) { return rush::bitwise_not(a); }
template <OperandLike B>
const Tensor& operator+=(const Tensor& a, const B& b) {
  rush::add_(a, Operand(b).tensor());
  return a;
}
template <OperandLike B>
const Tensor& operator-=(const Tensor& a, const B& b) {
  rush::sub_(a, Operand(b).tensor());
  return a;
}
template <OperandLike B>
const Tensor& operator*=(const Tensor& a, const B& b) {
  rush::mul_(a, Operand(b).tensor());
  return a;
}
template <OperandLike B>
const Tensor& operator/=(const Tensor& a, const B& b) {
  rush::div_(a, Operand(b).tensor());
  return a;
}

}  // namespace rush::torch_api
