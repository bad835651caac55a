// functions.h: the functions of the table under PyTorch's C++ names, and those that make tensors.
#pragma once

#include "core/threads.h"
#include "frontend/autograd.h"
#include "frontend/from_data.h"
#include "frontend/torch/tensor.h"

namespace rush::torch_api {

#include "frontend/torch_functions.inc"

namespace detail {
// Calls a function of the table that makes a tensor.
template <class F, class... A>
Tensor make(F&& f, const TensorOptions& o, A&&... args) {
  return f(std::forward<A>(args)..., o.dtype_opt(), std::nullopt, o.device_opt(), o.requires_grad(),
           o.pinned_memory());
}
}  // namespace detail

// clang-format off
#define RUSH_MAKE(name, ...) \
  detail::make([](auto&&... a) { return rush::name(std::forward<decltype(a)>(a)...); }, o, __VA_ARGS__)
// clang-format on
inline Tensor empty(IntArrayRef size, const TensorOptions& o = {}) {
  return RUSH_MAKE(empty, IntList(size));
}
inline Tensor zeros(IntArrayRef size, const TensorOptions& o = {}) {
  return RUSH_MAKE(zeros, IntList(size));
}
inline Tensor ones(IntArrayRef size, const TensorOptions& o = {}) {
  return RUSH_MAKE(ones, IntList(size));
}
inline Tensor full(IntArrayRef size, const Scalar& value, const TensorOptions& o = {}) {
  return RUSH_MAKE(full, IntList(size), value);
}
inline Tensor arange(const Scalar& end, const TensorOptions& o = {}) {
  return RUSH_MAKE(arange, end);
}
inline Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& o = {}) {
  return RUSH_MAKE(arange, start, end, Scalar(1));
}
inline Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step,
                     const TensorOptions& o = {}) {
  return RUSH_MAKE(arange, start, end, step);
}
inline Tensor linspace(const Scalar& start, const Scalar& end, int64_t steps,
                       const TensorOptions& o = {}) {
  return RUSH_MAKE(linspace, start, end, steps);
}
inline Tensor eye(int64_t n, const TensorOptions& o = {}) {
  return RUSH_MAKE(eye, n, std::optional<int64_t>());
}
inline Tensor rand(IntArrayRef size, const TensorOptions& o = {}) {
  return RUSH_MAKE(rand, IntList(size), static_cast<Generator*>(nullptr));
}
inline Tensor randn(IntArrayRef size, const TensorOptions& o = {}) {
  return RUSH_MAKE(randn, IntList(size), static_cast<Generator*>(nullptr));
}
inline Tensor randint(int64_t low, int64_t high, IntArrayRef size, const TensorOptions& o = {}) {
  return RUSH_MAKE(randint, low, high, IntList(size), static_cast<Generator*>(nullptr));
}
inline Tensor randint(int64_t high, IntArrayRef size, const TensorOptions& o = {}) {
  return randint(0, high, size, o);
}
inline Tensor randperm(int64_t n, const TensorOptions& o = {}) {
  return RUSH_MAKE(randperm, n, static_cast<Generator*>(nullptr));
}
inline Tensor empty_like(const rush::Tensor& t, const TensorOptions& o = {}) {
  return RUSH_MAKE(empty_like, t);
}
inline Tensor zeros_like(const rush::Tensor& t, const TensorOptions& o = {}) {
  return RUSH_MAKE(zeros_like, t);
}
inline Tensor ones_like(const rush::Tensor& t, const TensorOptions& o = {}) {
  return RUSH_MAKE(ones_like, t);
}
inline Tensor full_like(const rush::Tensor& t, const Scalar& value, const TensorOptions& o = {}) {
  return RUSH_MAKE(full_like, t, value);
}
inline Tensor rand_like(const rush::Tensor& t, const TensorOptions& o = {}) {
  return RUSH_MAKE(rand_like, t);
}
inline Tensor randn_like(const rush::Tensor& t, const TensorOptions& o = {}) {
  return RUSH_MAKE(randn_like, t);
}
inline Tensor scalar_tensor(const Scalar& s, const TensorOptions& o = {}) {
  return RUSH_MAKE(scalar_tensor, s);
}
#undef RUSH_MAKE

// A tensor of numbers: tensor(1.5), tensor({1, 2, 3}). Floating numbers have the default dtype.
template <class T>
  requires std::is_arithmetic_v<T>
Tensor tensor(ArrayRef<T> values, const TensorOptions& o = {}) {
  const DType natural = std::is_floating_point_v<T> ? default_dtype()
                        : std::is_same_v<T, bool>   ? DType::Bool
                                                    : DType::Int64;
  const rush::Tensor out = make_tensor(IntList(std::array{int64_t(values.size())}), natural);
  for (size_t i = 0; i < values.size(); ++i) {
    store_scalar(static_cast<char*>(out.data()) + int64_t(i) * element_size(natural), natural,
                 Scalar(values[i]));
  }
  Tensor made = Tensor(out).to(o);
  if (o.requires_grad()) made.set_requires_grad(true);
  return made;
}
template <class T>
  requires std::is_arithmetic_v<T>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& o = {}) {
  return tensor(ArrayRef<T>(values), o);
}
template <class T>
  requires std::is_arithmetic_v<T>
Tensor tensor(const std::vector<T>& values, const TensorOptions& o = {}) {
  return tensor(ArrayRef<T>(values), o);
}
template <class T>
  requires std::is_arithmetic_v<T>
Tensor tensor(T value, const TensorOptions& o = {}) {
  return tensor(ArrayRef<T>(&value, 1), o).reshape(IntArrayRef());
}

// A tensor over memory of the program; see frontend/from_data.h.
inline Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& o = {}) {
  return rush::from_blob(data, IntList(sizes), o.core());
}
inline Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides,
                        const TensorOptions& o = {}) {
  return rush::from_blob(data, IntList(sizes), IntList(strides), o.core());
}
inline Tensor from_blob(void* data, IntArrayRef sizes, std::function<void(void*)> deleter,
                        const TensorOptions& o = {}) {
  return rush::from_blob(data, IntList(sizes), std::move(deleter), o.core());
}

// Calls f(begin, end) over pieces of [begin, end), perhaps by several threads.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain_size, const F& f) {
  rush::parallel_for(end - begin, std::max<int64_t>(grain_size, 1),
                     [&](int64_t b, int64_t e) { f(begin + b, begin + e); });
}

using NoGradGuard = rush::NoGradGuard;
using AutoDispatchBelowADInplaceOrView = rush::NoGradGuard;
using AutoDispatchBelowAutograd = rush::NoGradGuard;
using AutoNonVariableTypeMode = rush::NoGradGuard;
using AutoGradMode = rush::AutoGradMode;
using InferenceMode = rush::InferenceMode;
using Error = rush::Error;

}  // namespace rush::torch_api
