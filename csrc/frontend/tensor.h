// tensor.h: tensors as C++ programs use them.
//
// Note [Methods of tensors]
// Programs write x.view({-1, 784}).relu(); the library writes relu(x). The methods follow from the op
// table, so if class Tensor always declared them, each new row would compile the whole library
// again, and core/ would know ops/. Therefore core/tensor.h includes them only where
// RUSH_TENSOR_METHODS names their file, which frontend/rushlight.h does. They are inline and not virtual:
// a tensor is laid out the same with and without them.
#pragma once

#ifndef RUSH_TENSOR_METHODS
#error "include <rushlight/rushlight.h> before any other header of rushlight"
#endif

#include <ostream>

#include "autograd/engine.h"
#include "frontend/accessor.h"
#include "frontend/functions.h"
#include "frontend/indexing.h"
#include "frontend/tensor_methods.h"

namespace rush {

// As matrices of numbers, with type and sizes below them.
RUSH_API std::ostream& operator<<(std::ostream& os, const Tensor& t);
RUSH_API void print(const Tensor& t);  // to standard output
inline Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& options) {
  return rush::arange(start, end, Scalar(1), options);
}
RUSH_API Tensor norm(const Tensor& self, const Scalar& p = 2);
RUSH_API Tensor norm(const Tensor& self, const Scalar& p, IntList dim, bool keepdim);

inline bool Tensor::requires_grad() const { return rush::requires_grad(*this); }
inline const Tensor& Tensor::set_requires_grad(bool on) const {
  rush::set_requires_grad(*this, on);
  return *this;
}
inline const Tensor& Tensor::requires_grad_(bool on) const { return set_requires_grad(on); }
inline bool Tensor::is_leaf() const { return rush::is_leaf(*this); }
inline Tensor Tensor::grad() const { return grad_meta_or_null(*this) ? grad_of(*this) : Tensor(); }
inline void Tensor::set_grad(const Tensor& grad) const { exchange_grad(*this, grad); }
inline void Tensor::backward(const Tensor& gradient, std::optional<bool> retain_graph,
                             bool create_graph, std::span<const Tensor> inputs) const {
  BackwardOptions options;
  options.create_graph = create_graph;
  options.retain_graph = retain_graph.value_or(create_graph);
  rush::backward({this, 1}, {&gradient, 1}, options, inputs);
}

inline TensorOptions Tensor::options() const {
  return TensorOptions(dtype()).device(device()).layout(Layout::Strided);
}

template <class T>
T Tensor::item() const {
  return item().to<T>();
}
inline void* Tensor::data_ptr() const { return data(); }
template <class T>
T* Tensor::data_ptr() const {
  check_dtype(dtype() == dtype_of<T>, "data_ptr", "the tensor's dtype is ", dtype(),
              ", asked for are elements of ", dtype_of<T>);
  return data<T>();
}
template <class T, size_t N>
TensorAccessor<T, N> Tensor::accessor() const {
  check_shape(dim() == int64_t(N), "accessor", "the tensor has ", dim(),
              " dimensions, asked for are ", N);
  check(is_cpu(), ErrorKind::Device, "accessor", "the tensor is on ", device(),
        "; use x.cpu() first");
  return {data_ptr<T>(), sizes().data(), strides().data()};
}

inline Tensor Tensor::to(DType dtype, bool non_blocking, bool copy) const {
  return rush::to(*this, std::optional<DType>(dtype), non_blocking, copy);
}
inline Tensor Tensor::to(Device device, bool non_blocking, bool copy) const {
  return rush::to(*this, std::optional<Device>(device), std::nullopt, non_blocking, copy);
}
inline Tensor Tensor::to(DeviceType type, bool non_blocking, bool copy) const {
  return to(Device{type}, non_blocking, copy);
}
inline Tensor Tensor::to(Device device, DType dtype, bool non_blocking, bool copy) const {
  return rush::to(*this, std::optional<Device>(device), std::optional<DType>(dtype), non_blocking,
                  copy);
}
inline Tensor Tensor::to(DeviceType type, DType dtype, bool non_blocking, bool copy) const {
  return to(Device{type}, dtype, non_blocking, copy);
}
inline Tensor Tensor::to(const TensorOptions& options, bool non_blocking, bool copy) const {
  return rush::to(*this, options.device(), options.dtype(), non_blocking, copy);
}
inline Tensor Tensor::cuda() const { return to(DeviceType::CUDA); }
inline Tensor Tensor::nonzero() const { return rush::nonzero(*this); }
inline Tensor Tensor::norm(const Scalar& p) const { return rush::norm(*this, p); }
inline Tensor Tensor::norm(const Scalar& p, const IntArrayRef& dim, bool keepdim) const {
  return rush::norm(*this, p, dim.list(), keepdim);
}

inline Tensor Tensor::index(std::initializer_list<indexing::TensorIndex> indices) const {
  return indexing::get(*this, {indices.begin(), indices.size()});
}
inline Tensor Tensor::index(const std::vector<indexing::TensorIndex>& indices) const {
  return indexing::get(*this, indices);
}
inline const Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices,
                                        const Operand& value) const {
  indexing::put(*this, {indices.begin(), indices.size()}, value.tensor());
  return *this;
}
inline const Tensor& Tensor::index_put_(const std::vector<indexing::TensorIndex>& indices,
                                        const Operand& value) const {
  indexing::put(*this, indices, value.tensor());
  return *this;
}
inline Tensor Tensor::slice(int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end,
                            int64_t step) const {
  return rush::slice(*this, dim, start, end, step);
}
inline Tensor Tensor::operator[](int64_t i) const { return rush::select(*this, 0, i); }
inline Tensor Tensor::operator[](const Tensor& i) const { return index({i}); }

inline const Tensor& Tensor::operator+=(const Operand& other) const { return add_(other); }
inline const Tensor& Tensor::operator-=(const Operand& other) const { return sub_(other); }
inline const Tensor& Tensor::operator*=(const Operand& other) const { return mul_(other); }
inline const Tensor& Tensor::operator/=(const Operand& other) const { return div_(other); }

inline void Tensor::print() const { rush::print(*this); }

// Comparisons and logic give tensors of bools.
inline Tensor operator==(const Tensor& a, const Operand& b) { return a.eq(b); }
inline Tensor operator!=(const Tensor& a, const Operand& b) { return a.ne(b); }
inline Tensor operator<(const Tensor& a, const Operand& b) { return a.lt(b); }
inline Tensor operator<=(const Tensor& a, const Operand& b) { return a.le(b); }
inline Tensor operator>(const Tensor& a, const Operand& b) { return a.gt(b); }
inline Tensor operator>=(const Tensor& a, const Operand& b) { return a.ge(b); }
inline Tensor operator&(const Tensor& a, const Operand& b) { return a.bitwise_and(b); }
inline Tensor operator|(const Tensor& a, const Operand& b) { return a.bitwise_or(b); }
inline Tensor operator^(const Tensor& a, const Operand& b) { return a.bitwise_xor(b); }
inline Tensor operator~(const Tensor& a) { return a.bitwise_not(); }
inline Tensor operator%(const Tensor& a, const Operand& b) { return a.remainder(b); }

}  // namespace rush
