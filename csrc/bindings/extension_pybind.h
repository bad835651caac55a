// extension_pybind.h: pybind11's casters for tensors, dtypes, devices and numbers. For extension modules; the
// library itself never includes it.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/extension_api.h"
#include "frontend/torch/tensor.h"

namespace py = pybind11;

namespace rush::torch_api::detail {

// The table, with the errors of Rushlight known to pybind11: an exception that began in Python
// arrives there as it was, the others as the classes that the package raises.
RUSH_OF_THIS_MODULE inline const ExtensionApi& python() {
  const ExtensionApi* api = extension_api();
  if (!api) throw pybind11::error_already_set();
  static const bool registered = [] {
    pybind11::register_local_exception_translator([](std::exception_ptr p) {
      if (p && !extension_api()->raise(p)) std::rethrow_exception(p);
    });
    return true;
  }();
  static_cast<void>(registered);
  return *api;
}

}  // namespace rush::torch_api::detail

namespace pybind11::detail {

#define RUSH_CASTER(text)                        \
  static constexpr auto name = const_name(text); \
  template <class>                               \
  using cast_op_type = Type&;                    \
  operator Type&() { return value; }             \
  Type value

template <class Type>
  requires std::derived_from<Type, rush::Tensor>
struct type_caster<Type> {
  RUSH_CASTER("rushlight.Tensor");
  bool load(handle source, bool) {
    if (source.is_none()) {
      value = Type();
      return true;
    }
    const rush::Tensor* t = rush::torch_api::detail::python().unwrap(source.ptr());
    if (t) value = Type(*t);
    return t != nullptr;
  }
  static handle cast(const rush::Tensor& t, return_value_policy, handle) {
    PyObject* o = rush::torch_api::detail::python().wrap(t);
    if (!o) throw error_already_set();
    return o;
  }
};

// A small value that the core has a Python object for.
template <class T, class Core, bool (*rush::ExtensionApi::*Unwrap)(PyObject*, Core&),
          PyObject* (*rush::ExtensionApi::*Wrap)(Core)>
struct rush_value_caster {
  using Type = T;
  RUSH_CASTER("rushlight value") { Core() };
  bool load(handle source, bool) {
    Core core;
    if (!(rush::torch_api::detail::python().*Unwrap)(source.ptr(), core)) return false;
    value = core;
    return true;
  }
  static handle cast(const Type& t, return_value_policy, handle) {
    return (rush::torch_api::detail::python().*Wrap)(t);
  }
};
template <>
struct type_caster<rush::torch_api::ScalarType>
    : rush_value_caster<rush::torch_api::ScalarType, rush::DType, &rush::ExtensionApi::unwrap_dtype,
                        &rush::ExtensionApi::wrap_dtype> {};
template <>
struct type_caster<rush::torch_api::Device>
    : rush_value_caster<rush::torch_api::Device, rush::Device, &rush::ExtensionApi::unwrap_device,
                        &rush::ExtensionApi::wrap_device> {};

template <class Type>
  requires std::derived_from<Type, rush::Scalar>
struct type_caster<Type> {
  RUSH_CASTER("Number");
  bool load(handle source, bool) {
    return rush::torch_api::detail::python().unwrap_scalar(source.ptr(), value);
  }
  static handle cast(const rush::Scalar& s, return_value_policy, handle) {
    return rush::torch_api::detail::python().wrap_scalar(s);
  }
};
#undef RUSH_CASTER

}  // namespace pybind11::detail
