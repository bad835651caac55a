// boxing.h: between typed calls and Values. Used by the generated forms only.
#pragma once

#include <array>
#include <tuple>

#include "core/modes.h"
#include "ops/framework/registry.h"

namespace rush {

// Typed arguments into borrowed Values.
inline void box(Value& v, const Tensor& t) {
  if (t.defined()) v.borrow(t.impl());
}
inline void box(Value& v, Generator* g) {
  if (g) v.borrow(g);
}
inline void box(Value& v, const Scalar& s) { v.set(s); }
inline void box(Value& v, int64_t x) { v.set(x); }
inline void box(Value& v, double x) { v.set(x); }
inline void box(Value& v, bool x) { v.set(x); }
inline void box(Value& v, TensorList x) { v.borrow(x); }
inline void box(Value& v, IntList x) { v.borrow(x); }
inline void box(Value& v, std::span<const double> x) { v.borrow(x); }
inline void box(Value& v, std::string_view x) { v.borrow(x); }
inline void box(Value& v, DType x) { v.set(x); }
inline void box(Value& v, Device x) { v.set(x); }
inline void box(Value& v, Layout x) { v.set(x); }
inline void box(Value& v, MemoryFormat x) { v.set(x); }
template <class T>
void box(Value& v, const std::optional<T>& x) {
  if (x) box(v, *x);
}

// Results into Values. A reference is the result of an in-place or out form: it is borrowed.
inline void store(Value* r, Tensor&& t) { r->own(std::move(t)); }
inline void store(Value* r, const Tensor& t) { r->borrow(t.impl()); }
inline void store(Value* r, std::vector<Tensor>&& v) { r->own(std::move(v)); }
inline void store(Value* r, const Scalar& s) { r->set(s); }
inline void store(Value* r, bool v) { r->set(v); }
inline void store(Value* r, int64_t v) { r->set(v); }
inline void store(Value* r, double v) { r->set(v); }
inline void store(Value* r, DType v) { r->set(v); }
template <class... T>
void store(Value* r, std::tuple<T...>&& t) {
  std::apply([&](T&... x) { (store(r++, std::move(x)), ...); }, t);
}

template <class T>
struct Unbox;
template <>
struct Unbox<Tensor> {
  static Tensor from(Value* r) { return r->tensor(); }
};
template <>
struct Unbox<std::vector<Tensor>> {
  static std::vector<Tensor> from(Value* r) { return {r->tensors().begin(), r->tensors().end()}; }
};
template <>
struct Unbox<Scalar> {
  static Scalar from(Value* r) { return r->scalar(); }
};
template <>
struct Unbox<bool> {
  static bool from(Value* r) { return r->boolean(); }
};
template <>
struct Unbox<int64_t> {
  static int64_t from(Value* r) { return r->integer(); }
};
template <>
struct Unbox<double> {
  static double from(Value* r) { return r->real(); }
};
template <>
struct Unbox<DType> {
  static DType from(Value* r) { return r->dtype(); }
};
template <class... T>
struct Unbox<std::tuple<T...>> {
  static std::tuple<T...> from(Value* r) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<T...>{Unbox<T>::from(r + I)...};
    }(std::index_sequence_for<T...>{});
  }
};

inline constexpr int kMaxResults = 8;

// The way of a call while a bit of kSlowPath is set.
template <class R, class... Args>
[[gnu::cold, gnu::noinline]] R intercept(const OpEntry& entry, const Args&... args) {
  std::array<Value, sizeof...(Args) + 1> in;
  std::array<Value, kMaxResults> out;
  size_t i = 0;
  (box(in[i++], args), ...);
  run_intercepted(entry, in.data(), out.data());
  if constexpr (!std::is_void_v<R>) return Unbox<R>::from(out.data());
}

}  // namespace rush
