// dispatch.h: PyTorch's macros for code per dtype.
//
//   AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "op", [&] { ... scalar_t ... });
//
// A switch with a block per type, not a template: nvcc launches kernels by the type that scalar_t is
// written as.
#pragma once

#include "frontend/torch/tensor.h"

namespace rush::torch_api::detail {
// What scalar_t is.
template <DType dtype>
struct ScalarOf {
  using type = typename CppType<dtype>::type;
};
template <>
struct ScalarOf<DType::Float16> {
  using type = Half;
};
template <>
struct ScalarOf<DType::BFloat16> {
  using type = BFloat16;
};
}  // namespace rush::torch_api::detail

#define AT_DISPATCH_SWITCH(dtype, name, ...)                                             \
  [&] {                                                                                  \
    const ::rush::DType rush_dtype = ::rush::DType(dtype);                               \
    switch (rush_dtype) {                                                                \
      __VA_ARGS__                                                                        \
      default:                                                                           \
        ::rush::fail(::rush::ErrorKind::DType, name, "not implemented for ", rush_dtype, \
                     " tensors");                                                        \
    }                                                                                    \
  }()
#define AT_DISPATCH_CASE(dtype, ...)                                     \
  case ::rush::DType(dtype): {                                           \
    using scalar_t [[maybe_unused]] =                                    \
        ::rush::torch_api::detail::ScalarOf<::rush::DType(dtype)>::type; \
    return __VA_ARGS__();                                                \
  }

#define AT_DISPATCH_CASE_FLOATING_TYPES(...)                          \
  AT_DISPATCH_CASE(::rush::torch_api::ScalarType::Float, __VA_ARGS__) \
  AT_DISPATCH_CASE(::rush::torch_api::ScalarType::Double, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...)                          \
  AT_DISPATCH_CASE(::rush::torch_api::ScalarType::Byte, __VA_ARGS__)  \
  AT_DISPATCH_CASE(::rush::torch_api::ScalarType::Char, __VA_ARGS__)  \
  AT_DISPATCH_CASE(::rush::torch_api::ScalarType::Short, __VA_ARGS__) \
  AT_DISPATCH_CASE(::rush::torch_api::ScalarType::Int, __VA_ARGS__)   \
  AT_DISPATCH_CASE(::rush::torch_api::ScalarType::Long, __VA_ARGS__)
#define AT_DISPATCH_CASE_COMPLEX_TYPES(...)                                  \
  AT_DISPATCH_CASE(::rush::torch_api::ScalarType::ComplexFloat, __VA_ARGS__) \
  AT_DISPATCH_CASE(::rush::torch_api::ScalarType::ComplexDouble, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)      \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)

// The cases of a family of types and of the types that a macro names besides.
#define RUSH_DISPATCH(types, dtype, name, ...) \
  AT_DISPATCH_SWITCH(dtype, name, AT_DISPATCH_CASE_##types(__VA_ARGS__))
#define RUSH_DISPATCH_AND1(types, extra1, dtype, name, ...) \
  AT_DISPATCH_SWITCH(dtype, name,                           \
                     AT_DISPATCH_CASE_##types(__VA_ARGS__) AT_DISPATCH_CASE(extra1, __VA_ARGS__))
#define RUSH_DISPATCH_AND2(types, extra1, extra2, dtype, name, ...)                              \
  AT_DISPATCH_SWITCH(dtype, name,                                                                \
                     AT_DISPATCH_CASE_##types(__VA_ARGS__) AT_DISPATCH_CASE(extra1, __VA_ARGS__) \
                         AT_DISPATCH_CASE(extra2, __VA_ARGS__))
#define RUSH_DISPATCH_AND3(types, extra1, extra2, extra3, dtype, name, ...)                      \
  AT_DISPATCH_SWITCH(dtype, name,                                                                \
                     AT_DISPATCH_CASE_##types(__VA_ARGS__) AT_DISPATCH_CASE(extra1, __VA_ARGS__) \
                         AT_DISPATCH_CASE(extra2, __VA_ARGS__)                                   \
                             AT_DISPATCH_CASE(extra3, __VA_ARGS__))
#define RUSH_DISPATCH_AND4(types, extra1, extra2, extra3, extra4, dtype, name, ...)              \
  AT_DISPATCH_SWITCH(dtype, name,                                                                \
                     AT_DISPATCH_CASE_##types(__VA_ARGS__) AT_DISPATCH_CASE(extra1, __VA_ARGS__) \
                         AT_DISPATCH_CASE(extra2, __VA_ARGS__) AT_DISPATCH_CASE(                 \
                             extra3, __VA_ARGS__) AT_DISPATCH_CASE(extra4, __VA_ARGS__))

// Their arguments are those of RUSH_DISPATCH_AND<n> without the family.
#define AT_DISPATCH_FLOATING_TYPES(...) RUSH_DISPATCH(FLOATING_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND(...) RUSH_DISPATCH_AND1(FLOATING_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND2(...) RUSH_DISPATCH_AND2(FLOATING_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND3(...) RUSH_DISPATCH_AND3(FLOATING_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND4(...) RUSH_DISPATCH_AND4(FLOATING_TYPES, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES(...) RUSH_DISPATCH(INTEGRAL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES_AND(...) RUSH_DISPATCH_AND1(INTEGRAL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES_AND2(...) RUSH_DISPATCH_AND2(INTEGRAL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES_AND3(...) RUSH_DISPATCH_AND3(INTEGRAL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES_AND4(...) RUSH_DISPATCH_AND4(INTEGRAL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_COMPLEX_TYPES(...) RUSH_DISPATCH(COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_COMPLEX_TYPES_AND(...) RUSH_DISPATCH_AND1(COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES(...) RUSH_DISPATCH(ALL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND(...) RUSH_DISPATCH_AND1(ALL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND2(...) RUSH_DISPATCH_AND2(ALL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND3(...) RUSH_DISPATCH_AND3(ALL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND4(...) RUSH_DISPATCH_AND4(ALL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(...) \
  RUSH_DISPATCH(FLOATING_AND_COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND(...) \
  RUSH_DISPATCH_AND1(FLOATING_AND_COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2(...) \
  RUSH_DISPATCH_AND2(FLOATING_AND_COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND3(...) \
  RUSH_DISPATCH_AND3(FLOATING_AND_COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND4(...) \
  RUSH_DISPATCH_AND4(FLOATING_AND_COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX(...) RUSH_DISPATCH(ALL_TYPES_AND_COMPLEX, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND(...) \
  RUSH_DISPATCH_AND1(ALL_TYPES_AND_COMPLEX, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND2(...) \
  RUSH_DISPATCH_AND2(ALL_TYPES_AND_COMPLEX, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND3(...) \
  RUSH_DISPATCH_AND3(ALL_TYPES_AND_COMPLEX, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND4(...) \
  RUSH_DISPATCH_AND4(ALL_TYPES_AND_COMPLEX, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(dtype, name, ...) \
  AT_DISPATCH_FLOATING_TYPES_AND(::rush::torch_api::ScalarType::Half, dtype, name, __VA_ARGS__)
