// from_data.h: tensors from a program's own numbers and memory.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <vector>

#include "frontend/arguments.h"
#include "frontend/tensor_options.h"

namespace rush {

// Numbers in nested braces: {{1, 2}, {3, 4}}; or one number; or a vector.
class RUSH_API NestedNumbers {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  NestedNumbers(T v) : numbers_{number(v)} {}
  NestedNumbers(std::initializer_list<NestedNumbers> items);
  template <class T>
    requires std::is_arithmetic_v<T>
  NestedNumbers(const std::vector<T>& v) : sizes_({int64_t(v.size())}) {
    if (v.empty()) kind_ = number(T()).category();
    numbers_.reserve(v.size());
    for (const T x : v) numbers_.push_back(number(x));
  }

  const Dims& sizes() const { return sizes_; }
  const std::vector<Scalar>& numbers() const { return numbers_; }
  DType dtype() const;  // as Python's tensor() would choose

 private:
  Dims sizes_;
  std::vector<Scalar> numbers_;         // row by row
  Category kind_ = Category::Floating;  // where there is no number
};

RUSH_API Tensor tensor(const NestedNumbers& numbers, const TensorOptions& options = {});
template <class T>
  requires std::is_arithmetic_v<T>
Tensor tensor(std::initializer_list<T> numbers, const TensorOptions& options = {}) {
  return tensor(NestedNumbers(std::vector<T>(numbers)), options);
}

// A tensor over memory of the program, on the CPU unless options name a device. Without a deleter
// the memory must outlive the tensor and all its views; a deleter is called once when it is let go.
RUSH_API Tensor from_blob(void* data, const IntArrayRef& sizes, const TensorOptions& options = {});
RUSH_API Tensor from_blob(void* data, const IntArrayRef& sizes, const IntArrayRef& strides,
                          const TensorOptions& options = {});
RUSH_API Tensor from_blob(void* data, const IntArrayRef& sizes, std::function<void(void*)> deleter,
                          const TensorOptions& options = {});

}  // namespace rush
