// typed_kernel.h: plain C++ functions as kernels of operators: arguments come out of Values by the
// function's signature, which must be the one that the schema says.
#pragma once

#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "frontend/torch/types.h"
#include "ops/framework/custom_op.h"

namespace rush::kernel {

template <class T>
concept TensorLike = std::derived_from<T, Tensor>;

// How an argument of type T is read from a Value, what the schema calls it, and the way back.
template <class T>
struct Argument {
  static_assert(!std::is_same_v<T, T>,
                "kernels of operators take Tensor, int64_t, double, bool, std::string, Scalar, "
                "DType, Device, MemoryFormat, lists of the first four, and std::optional of these "
                "(for numbers: int64_t and double, not int and float)");
};
template <TensorLike T>
struct Argument<T> {
  static constexpr ArgKind kind = ArgKind::Tensor;
  static constexpr bool takes_none = true;  // as an undefined tensor
  static T from(const Value& v) { return T(v.tensor()); }
  static void to(Value& v, const T& t) {
    if (t.defined()) v.borrow(t.impl());
  }
};
template <class T>
struct Argument<std::optional<T>> {
  static constexpr ArgKind kind = Argument<T>::kind;
  static constexpr bool takes_none = true;
  static std::optional<T> from(const Value& v) {
    return v.is_none() ? std::nullopt : std::optional<T>(Argument<T>::from(v));
  }
  static void to(Value& v, const std::optional<T>& x) {
    if (x) Argument<T>::to(v, *x);
  }
};
template <TensorLike T>
struct Argument<std::vector<T>> {
  static constexpr ArgKind kind = ArgKind::Tensors;
  static constexpr bool takes_none = false;
  static std::vector<T> from(const Value& v) { return {v.tensors().begin(), v.tensors().end()}; }
  static void to(Value& v, const std::vector<T>& x) {
    v.borrow(TensorList(static_cast<const Tensor*>(x.data()), x.size()));
  }
};
// What borrows from the Value: spans, and PyTorch's ArrayRef.
template <class L, ArgKind K>
struct ListArgument {
  static constexpr ArgKind kind = K;
  static constexpr bool takes_none = false;
  static L from(const Value& v) {
    if constexpr (K == ArgKind::Tensors) {
      using T = std::remove_cvref_t<decltype(*std::declval<L>().data())>;
      return L(static_cast<const T*>(v.tensors().data()), v.tensors().size());
    } else if constexpr (K == ArgKind::Ints) {
      return L(v.ints().data(), v.ints().size());
    } else {
      return L(v.floats().data(), v.floats().size());
    }
  }
  static void to(Value& v, const L& x) {
    if constexpr (K == ArgKind::Tensors)
      v.borrow(TensorList(static_cast<const Tensor*>(x.data()), x.size()));
    else
      v.borrow(std::span(x.data(), x.size()));
  }
};
template <>
struct Argument<IntList> : ListArgument<IntList, ArgKind::Ints> {};
template <>
struct Argument<torch_api::IntArrayRef> : ListArgument<torch_api::IntArrayRef, ArgKind::Ints> {};
template <>
struct Argument<std::span<const double>> : ListArgument<std::span<const double>, ArgKind::Floats> {
};
template <>
struct Argument<torch_api::ArrayRef<double>>
    : ListArgument<torch_api::ArrayRef<double>, ArgKind::Floats> {};
template <TensorLike T>
struct Argument<std::span<const T>> : ListArgument<std::span<const T>, ArgKind::Tensors> {};
template <TensorLike T>
struct Argument<torch_api::ArrayRef<T>> : ListArgument<torch_api::ArrayRef<T>, ArgKind::Tensors> {};
template <class E, ArgKind K>
struct VectorArgument {
  static constexpr ArgKind kind = K;
  static constexpr bool takes_none = false;
  static std::vector<E> from(const Value& v) {
    const auto list = ListArgument<std::span<const E>, K>::from(v);
    return {list.begin(), list.end()};
  }
  static void to(Value& v, const std::vector<E>& x) { v.borrow(std::span<const E>(x)); }
};
template <>
struct Argument<std::vector<int64_t>> : VectorArgument<int64_t, ArgKind::Ints> {};
template <>
struct Argument<std::vector<double>> : VectorArgument<double, ArgKind::Floats> {};

// One value: the kind, the reader of Value, the type.
template <class T, ArgKind K, auto Read, class Stored = T>
struct PlainArgument {
  static constexpr ArgKind kind = K;
  static constexpr bool takes_none = false;
  static T from(const Value& v) { return T((v.*Read)()); }
  static void to(Value& v, const T& x) {
    if constexpr (K == ArgKind::String)
      v.borrow(std::string_view(x));
    else
      v.set(Stored(x));
  }
};
template <>
struct Argument<int64_t> : PlainArgument<int64_t, ArgKind::Int, &Value::integer> {};
template <>
struct Argument<double> : PlainArgument<double, ArgKind::Float, &Value::real> {};
template <>
struct Argument<bool> : PlainArgument<bool, ArgKind::Bool, &Value::boolean> {};
template <>
struct Argument<std::string> : PlainArgument<std::string, ArgKind::String, &Value::string> {};
template <>
struct Argument<std::string_view>
    : PlainArgument<std::string_view, ArgKind::String, &Value::string> {};
template <>
struct Argument<Scalar> : PlainArgument<Scalar, ArgKind::Scalar, &Value::scalar> {};
template <>
struct Argument<torch_api::Scalar>
    : PlainArgument<torch_api::Scalar, ArgKind::Scalar, &Value::scalar, Scalar> {};
template <>
struct Argument<DType> : PlainArgument<DType, ArgKind::DType, &Value::dtype> {};
template <>
struct Argument<torch_api::ScalarType>
    : PlainArgument<torch_api::ScalarType, ArgKind::DType, &Value::dtype, DType> {};
template <>
struct Argument<Device> : PlainArgument<Device, ArgKind::Device, &Value::device> {};
template <>
struct Argument<torch_api::Device>
    : PlainArgument<torch_api::Device, ArgKind::Device, &Value::device, Device> {};
template <>
struct Argument<MemoryFormat>
    : PlainArgument<MemoryFormat, ArgKind::MemoryFormat, &Value::memory_format> {};

// Results: each as an argument of its type, but owned.
template <class T>
void store_one(Value& v, T&& x) {
  using D = std::remove_cvref_t<T>;
  if constexpr (TensorLike<D>) {
    v.own(Tensor(x));
  } else if constexpr (requires { typename D::value_type; } &&
                       Argument<D>::kind == ArgKind::Tensors) {
    own_list(v, std::vector<Tensor>(x.begin(), x.end()));
  } else {
    Argument<D>::to(v, x);
  }
}

template <class R>
struct Results {
  static constexpr size_t count = 1;
  static std::vector<ArgKind> kinds() { return {Argument<std::remove_cvref_t<R>>::kind}; }
  static void store(Value* out, R&& r) { store_one(out[0], std::forward<R>(r)); }
  static std::remove_cvref_t<R> take(Value* out) {
    return Argument<std::remove_cvref_t<R>>::from(out[0]);
  }
};
template <class... T>
struct Results<std::tuple<T...>> {
  static constexpr size_t count = sizeof...(T);
  static std::vector<ArgKind> kinds() { return {Argument<std::remove_cvref_t<T>>::kind...}; }
  static void store(Value* out, std::tuple<T...>&& r) {
    std::apply([&](auto&&... x) { (store_one(*out++, std::forward<decltype(x)>(x)), ...); },
               std::move(r));
  }
  static std::tuple<T...> take(Value* out) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<T...>{Argument<std::remove_cvref_t<T>>::from(out[I])...};
    }(std::index_sequence_for<T...>());
  }
};
template <>
struct Results<void> {
  static constexpr size_t count = 0;
  static std::vector<ArgKind> kinds() { return {}; }
  static void take(Value*) {}
};

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class... A>
struct Signature<R(A...)> {
  using Result = R;
  using Function = R(A...);
  static std::vector<ArgKind> kinds() { return {Argument<std::remove_cvref_t<A>>::kind...}; }
  static std::vector<bool> optional() { return {is_optional<std::remove_cvref_t<A>>...}; }
  static std::vector<bool> none() { return {Argument<std::remove_cvref_t<A>>::takes_none...}; }

  template <class F>
  static void call(F& f, Value* args, Value* results) {
    call(f, args, results, std::index_sequence_for<A...>());
  }
  template <class F, size_t... I>
  static void call(F& f, Value* args, Value* results, std::index_sequence<I...>) {
    static_cast<void>(args);
    static_cast<void>(results);
    std::tuple<std::remove_cvref_t<A>...> held{Argument<std::remove_cvref_t<A>>::from(args[I])...};
    if constexpr (std::is_void_v<R>)
      f(static_cast<A&&>(std::get<I>(held))...);
    else
      Results<R>::store(results, f(static_cast<A&&>(std::get<I>(held))...));
  }
};
template <class R, class... A>
struct Signature<R (*)(A...)> : Signature<R(A...)> {};
template <class R, class... A>
struct Signature<R (&)(A...)> : Signature<R(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> : Signature<R(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> : Signature<R(A...)> {};

// Does a C++ function fit a schema? Raises with both where it does not.
RUSH_API void check_signature(const CustomSchema& schema, const std::vector<ArgKind>& arguments,
                              const std::vector<bool>& take_none,
                              const std::vector<ArgKind>& results);
// The schema of a function that is given none: "name(Tensor _0, int _1) -> Tensor".
RUSH_API CustomSchema schema_of(std::string_view name, const std::vector<ArgKind>& arguments,
                                const std::vector<bool>& optional,
                                const std::vector<ArgKind>& results);

template <class F>
class TypedKernel final : public CustomKernel {
 public:
  explicit TypedKernel(F f) : f_(std::move(f)) {}
  void check_schema(const CustomSchema& schema) const override {
    using S = Signature<std::remove_cvref_t<F>>;
    check_signature(schema, S::kinds(), S::none(), Results<typename S::Result>::kinds());
  }
  void call(Value* args, Value* results) override {
    Signature<std::remove_cvref_t<F>>::call(f_, args, results);
  }

 private:
  F f_;
};

}  // namespace rush::kernel
