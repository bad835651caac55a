// macros.h: PyTorch's macros for checks and for code per dtype.
#pragma once

#include "core/warn.h"
#include "frontend/torch/tensor.h"

namespace rush::torch_api::detail {
template <class... Parts>
[[noreturn]] void check_failed(const char* condition, const Parts&... parts) {
  if constexpr (sizeof...(Parts) == 0)
    fail(ErrorKind::Runtime, "", "Expected ", condition, " to be true, but got false.");
  else
    fail(ErrorKind::Runtime, "", parts...);
}
template <class... Parts>
[[noreturn]] void check_failed_kind(ErrorKind kind, const char* condition, const Parts&... parts) {
  if constexpr (sizeof...(Parts) == 0)
    fail(kind, "", "Expected ", condition, " to be true, but got false.");
  else
    fail(kind, "", parts...);
}
}  // namespace rush::torch_api::detail

#define TORCH_CHECK(condition, ...)                                                   \
  do {                                                                                \
    if (!(condition)) [[unlikely]]                                                    \
      ::rush::torch_api::detail::check_failed(#condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)
#define RUSH_CHECK_KIND(kind, condition, ...)                                              \
  do {                                                                                     \
    if (!(condition)) [[unlikely]]                                                         \
      ::rush::torch_api::detail::check_failed_kind(::rush::ErrorKind::kind,                \
                                                   #condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)
#define TORCH_CHECK_VALUE(condition, ...) RUSH_CHECK_KIND(Value, condition, __VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) RUSH_CHECK_KIND(Type, condition, __VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...) RUSH_CHECK_KIND(Index, condition, __VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) \
  RUSH_CHECK_KIND(NotImplemented, condition, __VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(condition, ...) RUSH_CHECK_KIND(Internal, condition, __VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(condition, ...) static_cast<void>(0)
#define AT_ASSERT(condition) TORCH_INTERNAL_ASSERT(condition)
#define AT_ASSERTM(condition, ...) TORCH_CHECK(condition, __VA_ARGS__)
#define AT_ERROR(...) TORCH_CHECK(false, __VA_ARGS__)
#define TORCH_WARN(...) ::rush::warn(::rush::concat(__VA_ARGS__))

// AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "op", [&] { ... scalar_t ... });
#define RUSH_DISPATCH(types, dtype, name, ...)        \
  ::rush::dispatch<types>(name, ::rush::DType(dtype), \
                          [&]<typename scalar_t>() -> decltype(auto) { return __VA_ARGS__(); })
#define RUSH_FLOATING ::rush::DType::Float32, ::rush::DType::Float64
#define RUSH_INTEGRAL                                                                    \
  ::rush::DType::UInt8, ::rush::DType::Int8, ::rush::DType::Int16, ::rush::DType::Int32, \
      ::rush::DType::Int64
#define RUSH_COMPLEX ::rush::DType::Complex64, ::rush::DType::Complex128
#define RUSH_LISTED(...) __VA_ARGS__
#define AT_DISPATCH_FLOATING_TYPES(dtype, name, ...) \
  RUSH_DISPATCH(RUSH_LISTED(RUSH_FLOATING), dtype, name, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(dtype, name, ...) \
  RUSH_DISPATCH(RUSH_LISTED(RUSH_FLOATING, ::rush::DType::Float16), dtype, name, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND(extra, dtype, name, ...) \
  RUSH_DISPATCH(RUSH_LISTED(RUSH_FLOATING, ::rush::DType(extra)), dtype, name, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND2(extra1, extra2, dtype, name, ...)                        \
  RUSH_DISPATCH(RUSH_LISTED(RUSH_FLOATING, ::rush::DType(extra1), ::rush::DType(extra2)), dtype, \
                name, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES(dtype, name, ...) \
  RUSH_DISPATCH(RUSH_LISTED(RUSH_INTEGRAL), dtype, name, __VA_ARGS__)
#define AT_DISPATCH_COMPLEX_TYPES(dtype, name, ...) \
  RUSH_DISPATCH(RUSH_LISTED(RUSH_COMPLEX), dtype, name, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(dtype, name, ...) \
  RUSH_DISPATCH(RUSH_LISTED(RUSH_FLOATING, RUSH_COMPLEX), dtype, name, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES(dtype, name, ...) \
  RUSH_DISPATCH(RUSH_LISTED(RUSH_FLOATING, RUSH_INTEGRAL), dtype, name, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND(extra, dtype, name, ...)                                    \
  RUSH_DISPATCH(RUSH_LISTED(RUSH_FLOATING, RUSH_INTEGRAL, ::rush::DType(extra)), dtype, name, \
                __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND2(extra1, extra2, dtype, name, ...)                           \
  RUSH_DISPATCH(                                                                               \
      RUSH_LISTED(RUSH_FLOATING, RUSH_INTEGRAL, ::rush::DType(extra1), ::rush::DType(extra2)), \
      dtype, name, __VA_ARGS__)
