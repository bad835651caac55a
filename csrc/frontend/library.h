// library.h: operators that are defined in C++. docs/custom_ops.md is the guide.
//
//   Tensor muladd(const Tensor& a, const Tensor& b, double c) { ... }
//
//   RUSH_LIBRARY(mylib, m) { m.def("muladd(Tensor a, Tensor b, float c) -> Tensor"); }
//   RUSH_LIBRARY_IMPL(mylib, CPU, m) { m.impl("muladd", &muladd); }
//
// The blocks run as the shared library or the program is loaded. Python then has
// rushlight.ops.mylib.muladd; C++ calls it by Dispatcher, or by call_by_name.
#pragma once

#include "frontend/typed_kernel.h"

namespace rush {

class RUSH_API Library {
 public:
  enum class Kind : uint8_t { Def, Fragment, Impl };
  Library(Kind kind, std::string space, std::string key);

  // Names an operator; with a function, one that is written over ops that know their gradients.
  Library& def(std::string_view schema) &;
  template <class F>
  Library& def(std::string_view schema, F f) & {
    using S = kernel::Signature<std::remove_cvref_t<F>>;
    if (schema.find('(') == std::string_view::npos) {
      define(kernel::schema_of(schema, S::kinds(), S::optional(),
                               kernel::Results<typename S::Result>::kinds()));
    } else {
      define(CustomSchema::parse(schema));
    }
    const std::string_view name = schema.substr(0, schema.find('('));
    add(name, "CompositeImplicitAutograd", std::make_unique<kernel::TypedKernel<F>>(std::move(f)));
    return *this;
  }
  // The operator's function under the library's key. The operator may be defined later.
  template <class F>
  Library& impl(std::string_view name, F f) & {
    add(name, key_, std::make_unique<kernel::TypedKernel<F>>(std::move(f)));
    return *this;
  }
  void set_python_module(const char*, const char* = "") {}
  void impl_abstract_pystub(const char*, const char* = "") {}

 private:
  void define(CustomSchema schema);
  void add(std::string_view name, std::string_view key, std::unique_ptr<CustomKernel> kernel);

  Kind kind_;
  std::string space_, key_;
};

// Runs one block. What it throws is kept for whoever loads the library (take_library_errors), since
// nobody could catch it.
class RUSH_API LibraryInit {
 public:
  LibraryInit(Library::Kind kind, const char* space, const char* key, void (*block)(Library&),
              const char* file, int line);
};
// The errors of blocks that ran since the last time, one per line; empty when there were none.
RUSH_API std::string take_library_errors();

// An operator by name, with the types that the caller says.
template <class F>
class TypedOperator;
template <class R, class... A>
class TypedOperator<R(A...)> {
 public:
  explicit TypedOperator(const OpEntry& entry) : entry_(&entry) {}
  R call(A... args) const {
    std::array<Value, sizeof...(A) + 1> in;
    std::array<Value, 8> out;
    size_t i = 0;
    (kernel::Argument<std::remove_cvref_t<A>>::to(in[i++], args), ...);
    entry_->boxed(in.data(), out.data());
    return take(out.data(), std::get<0>(std::forward_as_tuple(args..., nullptr)));
  }

 private:
  template <class First>
  static R take(Value* out, First& first) {
    if constexpr (std::is_reference_v<R>)  // an op that gives its first argument back
      return const_cast<R>(static_cast<const std::remove_cvref_t<R>&>(first));
    else
      return kernel::Results<R>::take(out);
  }
  const OpEntry* entry_;
};

class RUSH_API OperatorHandle {
 public:
  explicit OperatorHandle(const OpEntry& entry) : entry_(&entry) {}
  template <class F>
  auto typed() const {
    using S = kernel::Signature<F>;
    if (const CustomOp* op = custom_op_of(*entry_))
      kernel::check_signature(op->schema(), S::kinds(), S::none(),
                              kernel::Results<typename S::Result>::kinds());
    return TypedOperator<typename S::Function>(*entry_);
  }
  const OpEntry& entry() const { return *entry_; }

 private:
  const OpEntry* entry_;
};

class RUSH_API Dispatcher {
 public:
  static Dispatcher& singleton();
  // "mylib::muladd", ""; raises where there is no such operator.
  OperatorHandle findSchemaOrThrow(const char* name, const char* overload) const;
};

}  // namespace rush

#define RUSH_CONCAT_(a, b) a##b
#define RUSH_CONCAT(a, b) RUSH_CONCAT_(a, b)
#define RUSH_LIBRARY_BLOCK_(kind, space, key, m, id)                                              \
  static void RUSH_CONCAT(rush_library_block_, id)(::rush::Library&);                             \
  static const ::rush::LibraryInit RUSH_CONCAT(rush_library_init_, id)(                           \
      ::rush::Library::Kind::kind, #space, #key, &RUSH_CONCAT(rush_library_block_, id), __FILE__, \
      __LINE__);                                                                                  \
  static void RUSH_CONCAT(rush_library_block_, id)(::rush::Library & m)
#define RUSH_LIBRARY(space, m) RUSH_LIBRARY_BLOCK_(Def, space, , m, __COUNTER__)
#define RUSH_LIBRARY_FRAGMENT(space, m) RUSH_LIBRARY_BLOCK_(Fragment, space, , m, __COUNTER__)
#define RUSH_LIBRARY_IMPL(space, key, m) RUSH_LIBRARY_BLOCK_(Impl, space, key, m, __COUNTER__)
