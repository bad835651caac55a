// macros.h: PyTorch's macros for checks and modules; those for code per dtype are in dispatch.h.
#pragma once

#include "core/error.h"
#include "core/warn.h"
#include "frontend/nn/module.h"

// Programs that say `namespace torch = rush;` have these names, too.
#define TORCH_MODULE(Name) RUSH_MODULE(Name)
#define TORCH_MODULE_IMPL(Name, ImplType) RUSH_MODULE_IMPL(Name, ImplType)

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
