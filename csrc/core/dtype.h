// dtype.h: the element types, their properties (one table) and the dispatch from a run-time type to
// a C++ one.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "core/export.h"
#include "functors/float8.h"
#include "functors/types.h"

namespace rush {

enum class DType : uint8_t {
  Bool,
  UInt8,
  Int8,
  Int16,
  Int32,
  Int64,
  UInt16,
  UInt32,
  UInt64,
  Float16,
  BFloat16,
  Float32,
  Float64,
  Complex64,
  Complex128,
  // Elements that are stored, moved and converted, and not computed in.
  Float8E4M3FN,
  Float8E5M2,
  Float8E4M3FNUZ,
  Float8E5M2FNUZ,
  Float8E8M0FNU,
  Complex32,  // two halves, computed in as complex64
};
inline constexpr int kDTypeCount = 21;

enum class Category : uint8_t { Bool, Integer, Floating, Complex };

struct DTypeInfo {
  std::string_view name;  // as Python spells it: "float32"
  uint8_t size;
  Category category;
  bool is_signed;
};

inline constexpr DTypeInfo kDTypes[kDTypeCount] = {
    {"bool", 1, Category::Bool, false},
    {"uint8", 1, Category::Integer, false},
    {"int8", 1, Category::Integer, true},
    {"int16", 2, Category::Integer, true},
    {"int32", 4, Category::Integer, true},
    {"int64", 8, Category::Integer, true},
    {"uint16", 2, Category::Integer, false},
    {"uint32", 4, Category::Integer, false},
    {"uint64", 8, Category::Integer, false},
    {"float16", 2, Category::Floating, true},
    {"bfloat16", 2, Category::Floating, true},
    {"float32", 4, Category::Floating, true},
    {"float64", 8, Category::Floating, true},
    {"complex64", 8, Category::Complex, true},
    {"complex128", 16, Category::Complex, true},
    {"float8_e4m3fn", 1, Category::Floating, true},
    {"float8_e5m2", 1, Category::Floating, true},
    {"float8_e4m3fnuz", 1, Category::Floating, true},
    {"float8_e5m2fnuz", 1, Category::Floating, true},
    {"float8_e8m0fnu", 1, Category::Floating, false},
    {"complex32", 4, Category::Complex, true},
};

constexpr const DTypeInfo& info(DType t) { return kDTypes[static_cast<int>(t)]; }
constexpr std::string_view name(DType t) { return info(t).name; }
constexpr int64_t element_size(DType t) { return info(t).size; }
constexpr Category category(DType t) { return info(t).category; }
constexpr bool is_complex(DType t) { return category(t) == Category::Complex; }
constexpr bool is_floating(DType t) { return category(t) == Category::Floating; }
constexpr bool is_integral(DType t) { return category(t) == Category::Integer; }  // without bool
constexpr bool is_reduced_float(DType t) { return t == DType::Float16 || t == DType::BFloat16; }
constexpr bool is_float8(DType t) { return t >= DType::Float8E4M3FN && t <= DType::Float8E8M0FNU; }
// What elements of this type are computed in; float8 only where an op says `takes_float8`.
constexpr DType compute_type(DType t) {
  return is_reduced_float(t) || is_float8(t) ? DType::Float32
         : t == DType::Complex32             ? DType::Complex64
                                             : t;
}
constexpr bool is_differentiable(DType t) { return is_floating(t) || is_complex(t); }
inline std::ostream& operator<<(std::ostream& os, DType t) { return os << name(t); }

// The real type of a complex one; the complex type of a real floating one.
constexpr DType to_real(DType t) {
  return t == DType::Complex64    ? DType::Float32
         : t == DType::Complex128 ? DType::Float64
         : t == DType::Complex32  ? DType::Float16
                                  : t;
}
constexpr DType to_complex(DType t) {
  return t == DType::Float64 || t == DType::Complex128  ? DType::Complex128
         : t == DType::Float16 || t == DType::Complex32 ? DType::Complex32
                                                        : DType::Complex64;
}

template <DType>
struct CppType;
template <class T>
struct DTypeOf;
template <>
struct CppType<DType::Bool> {
  using type = bool;
};
template <>
struct CppType<DType::UInt8> {
  using type = uint8_t;
};
template <>
struct CppType<DType::Int8> {
  using type = int8_t;
};
template <>
struct CppType<DType::Int16> {
  using type = int16_t;
};
template <>
struct CppType<DType::Int32> {
  using type = int32_t;
};
template <>
struct CppType<DType::Int64> {
  using type = int64_t;
};
template <>
struct CppType<DType::UInt16> {
  using type = uint16_t;
};
template <>
struct CppType<DType::UInt32> {
  using type = uint32_t;
};
template <>
struct CppType<DType::UInt64> {
  using type = uint64_t;
};
template <>
struct CppType<DType::Float16> {
  using type = half;
};
template <>
struct CppType<DType::BFloat16> {
  using type = bfloat16;
};
template <>
struct CppType<DType::Float32> {
  using type = float;
};
template <>
struct CppType<DType::Float64> {
  using type = double;
};
template <>
struct CppType<DType::Complex64> {
  using type = complex<float>;
};
template <>
struct CppType<DType::Complex128> {
  using type = complex<double>;
};
template <>
struct CppType<DType::Float8E4M3FN> {
  using type = float8_e4m3fn;
};
template <>
struct CppType<DType::Float8E5M2> {
  using type = float8_e5m2;
};
template <>
struct CppType<DType::Float8E4M3FNUZ> {
  using type = float8_e4m3fnuz;
};
template <>
struct CppType<DType::Float8E5M2FNUZ> {
  using type = float8_e5m2fnuz;
};
template <>
struct CppType<DType::Float8E8M0FNU> {
  using type = float8_e8m0fnu;
};
template <>
struct CppType<DType::Complex32> {
  using type = complex<half>;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::Bool;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::UInt8;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::Int8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::Int16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::Int32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::Int64;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::UInt16;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::UInt32;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::UInt64;
};
template <>
struct DTypeOf<half> {
  static constexpr DType value = DType::Float16;
};
template <>
struct DTypeOf<bfloat16> {
  static constexpr DType value = DType::BFloat16;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::Float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::Float64;
};
template <>
struct DTypeOf<complex<float>> {
  static constexpr DType value = DType::Complex64;
};
template <>
struct DTypeOf<complex<double>> {
  static constexpr DType value = DType::Complex128;
};
template <>
struct DTypeOf<float8_e4m3fn> {
  static constexpr DType value = DType::Float8E4M3FN;
};
template <>
struct DTypeOf<float8_e5m2> {
  static constexpr DType value = DType::Float8E5M2;
};
template <>
struct DTypeOf<float8_e4m3fnuz> {
  static constexpr DType value = DType::Float8E4M3FNUZ;
};
template <>
struct DTypeOf<float8_e5m2fnuz> {
  static constexpr DType value = DType::Float8E5M2FNUZ;
};
template <>
struct DTypeOf<float8_e8m0fnu> {
  static constexpr DType value = DType::Float8E8M0FNU;
};
template <>
struct DTypeOf<complex<half>> {
  static constexpr DType value = DType::Complex32;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

// dispatch<DType...>("op", t, [&]<typename T>() {...}): calls the lambda for the one listed type
// that equals t.
template <DType... Types, class F>
decltype(auto) dispatch(std::string_view op, DType t, F&& f) {
  constexpr DType kListed[] = {Types...};  // std::get of a std::tuple is too much for nvcc
  using First = typename CppType<kListed[0]>::type;
  using R = decltype(f.template operator()<First>());
  if constexpr (std::is_void_v<R>) {
    const bool done =
        ((t == Types ? (f.template operator()<typename CppType<Types>::type>(), true) : false) ||
         ...);
    if (!done) [[unlikely]]
      fail(ErrorKind::DType, op, "not implemented for ", t, " tensors");
  } else {
    std::optional<R> result;
    const bool done =
        ((t == Types
              ? (result.emplace(f.template operator()<typename CppType<Types>::type>()), true)
              : false) ||
         ...);
    if (!done) [[unlikely]]
      fail(ErrorKind::DType, op, "not implemented for ", t, " tensors");
    return R(std::move(*result));
  }
}

// The usual groups.
template <class F>
decltype(auto) dispatch_floating(std::string_view op, DType t, F&& f) {
  return dispatch<DType::Float32, DType::Float64, DType::Float16, DType::BFloat16>(
      op, t, std::forward<F>(f));
}
template <class F>
decltype(auto) dispatch_real(std::string_view op, DType t, F&& f) {  // integers and floats, no bool
  return dispatch<DType::Float32, DType::Float64, DType::Int64, DType::Int32, DType::Float16,
                  DType::BFloat16, DType::UInt8, DType::Int8, DType::Int16>(op, t,
                                                                            std::forward<F>(f));
}
template <class F>
decltype(auto) dispatch_all(std::string_view op, DType t, F&& f) {  // every type with arithmetic
  return dispatch<DType::Float32, DType::Float64, DType::Int64, DType::Int32, DType::Float16,
                  DType::BFloat16, DType::Bool, DType::UInt8, DType::Int8, DType::Int16,
                  DType::Complex64, DType::Complex128, DType::Complex32>(op, t, std::forward<F>(f));
}
template <class F>
decltype(auto) dispatch_storage(std::string_view op, DType t, F&& f) {  // every type there is
  return dispatch<DType::Float32, DType::Float64, DType::Int64, DType::Int32, DType::Float16,
                  DType::BFloat16, DType::Bool, DType::UInt8, DType::Int8, DType::Int16,
                  DType::Complex64, DType::Complex128, DType::UInt16, DType::UInt32, DType::UInt64,
                  DType::Float8E4M3FN, DType::Float8E5M2, DType::Float8E4M3FNUZ,
                  DType::Float8E5M2FNUZ, DType::Float8E8M0FNU, DType::Complex32>(
      op, t, std::forward<F>(f));
}
// For kernels that only move bytes: one instance a width.
template <class F>
decltype(auto) dispatch_width(DType t, F&& f) {
  switch (element_size(t)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    default:
      return f.template operator()<complex<double>>();
  }
}

// Type promotion as PyTorch defines it (the lattice over pairs of types).
RUSH_API DType promote(DType a, DType b);
// May a result of type `from` be written into a tensor of type `to`? Never down a category.
RUSH_API bool can_cast(DType from, DType to);

RUSH_API DType default_dtype();
RUSH_API void set_default_dtype(DType t);  // float16, bfloat16, float32 or float64

}  // namespace rush
