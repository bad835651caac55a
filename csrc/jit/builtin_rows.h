// builtin_rows.h: how the rows of builtins are written; for the files that have some.
#pragma once

#include "jit/builtins.h"

namespace rush::jit {

// What a row's function sees: arguments by position, whose kinds were checked before.
struct Args {
  const IValue* const* v;
  size_t count;
  const IValue& operator[](size_t k) const { return *v[k]; }
  int64_t i(size_t k) const { return v[k]->integer(); }
  double d(size_t k) const { return v[k]->real(); }
  bool b(size_t k) const { return v[k]->boolean(); }
  const std::string& s(size_t k) const { return v[k]->string(); }
  const Tensor& t(size_t k) const { return v[k]->tensor(); }
  IValue::Items& list(size_t k) const { return v[k]->items(); }
  DictObject& dict(size_t k) const { return v[k]->dict(); }
  // Of an Optional.
  int64_t i_or(size_t k, int64_t other) const { return v[k]->isNone() ? other : v[k]->integer(); }
};

// A captureless lambda from Args to a value, as a row's function.
template <class F>
constexpr auto row_function(F) {
  return
      [](const IValue* const* v, size_t count, IValue& out) { out = IValue(F{}(Args{v, count})); };
}

[[noreturn, gnu::cold, gnu::noinline]] inline void raise(const char* class_name, ErrorKind kind,
                                                         std::string message) {
  throw ScriptError(class_name, std::move(message), kind);
}
[[noreturn]] inline void raise_value(std::string m) {
  raise("ValueError", ErrorKind::Value, std::move(m));
}
[[noreturn]] inline void raise_index(std::string m) {
  raise("IndexError", ErrorKind::Index, std::move(m));
}

// A place in something of n items, counted from the end where it is negative.
inline size_t place_in(int64_t index, size_t n, const char* what) {
  const auto size = int64_t(n);
  if (index < -size || index >= size)
    raise_index(concat(what, " index out of range: ", index, " of ", n));
  return size_t(index < 0 ? index + size : index);
}
// The places that Python's slice has.
std::vector<size_t> slice_places(const Args& a, size_t first, size_t n);

std::span<const Builtin> number_builtins();
std::span<const Builtin> text_builtins();
std::span<const Builtin> container_builtins();
std::span<const Builtin> tensor_builtins();

}  // namespace rush::jit

// A row: name, signature, and an expression over `a`, the arguments.
#define RUSH_ROW(name, signature, ...) \
  {name, signature, row_function([]([[maybe_unused]] const Args& a) { return __VA_ARGS__; })}
#define RUSH_QUICK(quick, name, signature, ...)                                               \
  {name, signature, row_function([]([[maybe_unused]] const Args& a) { return __VA_ARGS__; }), \
   Quick::quick}
