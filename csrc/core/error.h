// error.h: the two kinds of failure. `check` blames the input and becomes a Python exception;
// `internal_assert` admits a bug of ours.
//
// A message reads "op: what must hold, the facts": check(ok, "matmul", "inner sizes differ: ",
// ...).
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <source_location>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/export.h"

namespace rush {

// What went wrong decides the Python class; the bindings hold the one table that maps them.
enum class ErrorKind : unsigned char {
  Runtime,         // RuntimeError
  Shape,           // ShapeError(ValueError, RuntimeError)
  DType,           // DTypeError(TypeError, NotImplementedError), and so RuntimeError too
  Argument,        // ArgumentError(ValueError, RuntimeError)
  Device,          // DeviceError(ValueError, RuntimeError)
  Index,           // IndexError
  Range,           // RangeError(IndexError, RuntimeError): an index held by a tensor
  Value,           // ValueError
  Type,            // TypeError
  NotImplemented,  // NotImplementedError
  OutOfMemory,     // OutOfMemoryError(MemoryError, RuntimeError)
  Internal,        // InternalError(RuntimeError)
  ArgumentType,    // ArgumentTypeError(TypeError, RuntimeError)
  Overflow,        // IntOverflowError(OverflowError, ValueError, TypeError, RuntimeError)
};

class RUSH_API Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  ErrorKind kind() const noexcept { return kind_; }
  const std::string& message() const noexcept { return message_; }

 private:
  ErrorKind kind_;
  std::string message_;
};

namespace detail {

// Texts and numbers go without a stream: an extension that was linked with a C++ library of its own
// (libstdc++.a, where there is nothing else) has other locales than ours, and a number in a stream
// would end the process.
[[gnu::cold, gnu::noinline]] inline void put_text(std::string& to, std::string_view text) {
  to.append(text.data(), text.size());
}
[[gnu::cold, gnu::noinline]] inline void put_list(std::string& to, std::span<const int64_t> list) {
  put_text(to, "[");  // "[2, 3]"
  for (size_t i = 0; i < list.size(); ++i) {
    if (i) put_text(to, ", ");
    put_text(to, std::to_string(list[i]));
  }
  put_text(to, "]");
}
template <class T>
void put(std::string& to, const T& part) {
  if constexpr (std::is_convertible_v<const T&, std::span<const int64_t>>) {
    put_list(to, part);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    put_text(to, part);
  } else if constexpr (std::is_same_v<T, bool>) {
    put_text(to, part ? "True" : "False");
  } else if constexpr (std::is_same_v<T, char>) {
    put_text(to, {&part, 1});
  } else if constexpr (std::is_integral_v<T>) {
    put_text(to, std::to_string(part));
  } else if constexpr (std::is_floating_point_v<T>) {
    char text[32];
    put_text(to, {text, size_t(std::snprintf(text, sizeof text, "%g", double(part)))});
  } else {
    std::ostringstream os;
    os << part;
    put_text(to, std::move(os).str());
  }
}

}  // namespace detail

// Joins its parts into one string; used only on the way to an exception.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string all;
  (detail::put(all, parts), ...);
  return all;
}

template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(ErrorKind kind, std::string_view op,
                                                 const Parts&... parts) {
  throw Error(kind, op.empty() ? concat(parts...) : concat(op, ": ", parts...));
}

// The common kinds by name: check_shape(ok, "op", "facts", ...).
template <class... Parts>
inline void check(bool ok, ErrorKind kind, std::string_view op, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(kind, op, parts...);
}
template <class... Parts>
inline void check_shape(bool ok, std::string_view op, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(ErrorKind::Shape, op, parts...);
}
template <class... Parts>
inline void check_dtype(bool ok, std::string_view op, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(ErrorKind::DType, op, parts...);
}
template <class... Parts>
inline void check_argument(bool ok, std::string_view op, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(ErrorKind::Argument, op, parts...);
}
template <class... Parts>
inline void check_index(bool ok, std::string_view op, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(ErrorKind::Index, op, parts...);
}

[[noreturn, gnu::cold, gnu::noinline]] RUSH_API void internal_failure(std::string_view what,
                                                                      std::source_location where);

inline void internal_assert(bool ok, std::string_view what,
                            std::source_location where = std::source_location::current()) {
  if (!ok) [[unlikely]]
    internal_failure(what, where);
}

}  // namespace rush
