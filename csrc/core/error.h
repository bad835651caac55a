// error.h: the two kinds of failure. `check` blames the input and becomes a Python exception;
// `internal_assert` admits a bug of ours.
//
// A message reads "op: what must hold, the facts": check(ok, "matmul", "inner sizes differ: ",
// ...).
#pragma once

#include <cstdint>
#include <exception>
#include <source_location>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
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

template <class T>
void put(std::ostream& os, const T& part) {
  os << part;
}
inline void put(std::ostream& os, std::span<const int64_t> list) {  // "[2, 3]"
  os << '[';
  for (size_t i = 0; i < list.size(); ++i) os << (i ? ", " : "") << list[i];
  os << ']';
}
inline void put(std::ostream& os, bool part) { os << (part ? "True" : "False"); }
inline void put(std::ostream& os, signed char part) { os << int(part); }
inline void put(std::ostream& os, unsigned char part) { os << int(part); }

}  // namespace detail

// Joins its parts into one string; used only on the way to an exception.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream os;
  (detail::put(os, parts), ...);
  return std::move(os).str();
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
