// extension.h: all that a C++ extension needs: tensors with PyTorch's methods and functions,
// gradients, operators, and with TORCH_EXTENSION_NAME defined (cpp_extension defines it) Python by
// pybind11. PyTorch's names stand in namespaces torch, at and c10. docs/custom_ops.md is the guide.
#pragma once

// First: it gives tensors their methods.
#include "frontend/rushlight.h"
//
#include "frontend/custom_function.h"
#include "frontend/library.h"
#include "frontend/torch/dispatch.h"
#include "frontend/torch/functions.h"
#include "frontend/torch/macros.h"

namespace rush::torch_api {
using rush::Dispatcher;
using rush::Library;
// Modules, optimisers and files are those of programs: their tensors are rush::Tensor, which stands
// where a tensor of these namespaces does, and the other way round.
namespace nn = rush::nn;
namespace optim = rush::optim;
namespace data = rush::data;
using rush::load;
using rush::manual_seed;
using rush::save;
using string_view = std::string_view;
template <class T>
using optional = std::optional<T>;
inline constexpr auto nullopt = std::nullopt;
template <class T>
class irange {
 public:
  struct iterator {
    T i;
    T operator*() const { return i; }
    iterator& operator++() {
      ++i;
      return *this;
    }
    bool operator!=(const iterator& o) const { return i < o.i; }
  };
  explicit irange(T end) : begin_(0), end_(end) {}
  irange(T begin, T end) : begin_(begin), end_(end) {}
  iterator begin() const { return {begin_}; }
  iterator end() const { return {end_}; }

 private:
  T begin_, end_;
};
}  // namespace rush::torch_api

namespace torch = rush::torch_api;
namespace at = rush::torch_api;
namespace c10 = rush::torch_api;

#define TORCH_LIBRARY(space, m) RUSH_LIBRARY(space, m)
#define TORCH_LIBRARY_FRAGMENT(space, m) RUSH_LIBRARY_FRAGMENT(space, m)
#define TORCH_LIBRARY_IMPL(space, key, m) RUSH_LIBRARY_IMPL(space, key, m)
#define TORCH_FN(f) &f
#define TORCH_API

#if defined(TORCH_EXTENSION_NAME) && __has_include(<pybind11/pybind11.h>)
#include "bindings/extension_pybind.h"
#endif
