// arguments.h: operands and lists of tensors as programs write them.
#pragma once

#include <concepts>
#include <initializer_list>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "frontend/int_array_ref.h"
#include "frontend/text.h"

namespace rush {

// Any number of C++.
template <class T>
Scalar number(T v) {
  if constexpr (std::same_as<T, bool> || std::floating_point<T>) {
    return Scalar(v);
  } else {
    return Scalar(int64_t(v));
  }
}

// A tensor, or a number that stands for one and is weak in promotion.
class Operand {
 public:
  Operand() = default;
  Operand(const Tensor& tensor) : tensor_(tensor) {}
  Operand(const Scalar& v) : tensor_(wrap_number(v)) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Operand(T v) : Operand(number(v)) {}

  const Tensor& tensor() const { return tensor_; }

 private:
  Tensor tensor_;
};

// {a, b}, or a list.
class TensorListRef {
 public:
  TensorListRef(std::initializer_list<Tensor> v) : owned_(v), list_(owned_) {}
  TensorListRef(std::vector<Tensor>&& v) : owned_(std::move(v)), list_(owned_) {}
  TensorListRef(const std::vector<Tensor>& v) : list_(v) {}
  TensorListRef(std::span<const Tensor> v) : list_(v) {}
  TensorListRef(const TensorListRef&) = delete;
  TensorListRef& operator=(const TensorListRef&) = delete;

  std::span<const Tensor> list() const { return list_; }

 private:
  std::vector<Tensor> owned_;
  std::span<const Tensor> list_;
};

}  // namespace rush
