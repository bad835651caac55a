// any_module.h: a module whose class is not known where it is called, as in Sequential.
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <tuple>
#include <typeinfo>
#include <vector>

#include "frontend/nn/module.h"

namespace rush::nn {
namespace detail {

template <class F>
struct ForwardOf;
template <class M, class R, class... A>
struct ForwardOf<R (M::*)(A...)> {
  using Result = R;
  using Arguments = std::tuple<std::decay_t<A>...>;
};
template <class M, class R, class... A>
struct ForwardOf<R (M::*)(A...) const> : ForwardOf<R (M::*)(A...)> {};

}  // namespace detail

class AnyModule {
 public:
  AnyModule() = default;
  template <class M>
    requires std::derived_from<M, Module>
  explicit AnyModule(std::shared_ptr<M> module) : module_(module), forward_(caller(module.get())) {}
  template <class M>
  explicit AnyModule(const ModuleHolder<M>& holder) : AnyModule(holder.ptr()) {}
  template <class M>
    requires std::derived_from<std::remove_cvref_t<M>, Module>
  explicit AnyModule(M&& module)
      : AnyModule(std::make_shared<std::remove_cvref_t<M>>(std::forward<M>(module))) {}

  template <class Result = Tensor, class... Args>
  Result forward(Args&&... args) const {
    std::vector<std::any> values;
    (values.emplace_back(std::decay_t<Args>(std::forward<Args>(args))), ...);
    return value_as<Result>(any_forward(std::move(values)));
  }
  std::any any_forward(std::vector<std::any> arguments) const {
    check(module_ != nullptr, ErrorKind::Runtime, "AnyModule", "there is no module");
    return forward_(arguments);
  }
  template <class Result>
  Result value_as(const std::any& value) const {
    const Result* found = std::any_cast<Result>(&value);
    check(found, ErrorKind::Type, "forward", module_->name(), " returns ", value.type().name(),
          ", asked for is ", typeid(Result).name(), "; call forward<T>() with the right type");
    return *found;
  }

  const std::shared_ptr<Module>& ptr() const { return module_; }
  template <class M>
  M& get() const {
    auto* found = dynamic_cast<M*>(module_.get());
    check(found, ErrorKind::Type, "AnyModule", "the module is a ", module_->name());
    return *found;
  }
  bool is_empty() const { return module_ == nullptr; }

 private:
  using Caller = std::function<std::any(std::vector<std::any>&)>;

  template <class M, class... A, size_t... I>
  static std::any call(M* module, std::vector<std::any>& given, std::tuple<A...>*,
                       std::index_sequence<I...>) {
    const auto take = [&]<class T>(size_t i, T*) {
      T* found = std::any_cast<T>(&given[i]);
      check(found, ErrorKind::Type, "forward", "argument ", i, " of ", module->name(), " is a ",
            given[i].type().name(), ", expected is ", typeid(T).name());
      return std::move(*found);
    };
    return std::any(module->forward(take(I, static_cast<A*>(nullptr))...));
  }

  template <class M>
  static Caller caller(M* module) {
    using Forward = detail::ForwardOf<decltype(&M::forward)>;
    using Arguments = typename Forward::Arguments;
    static constexpr size_t count = std::tuple_size_v<Arguments>;
    return [module](std::vector<std::any>& given) -> std::any {
      // Arguments after the first may have defaults, which a pointer to a function does not know.
      if constexpr (count > 1 && requires(Tensor& t) { module->forward(t); }) {
        if (given.size() == 1) {
          Tensor* first = std::any_cast<Tensor>(&given[0]);
          check(first, ErrorKind::Type, "forward", module->name(), " takes a tensor");
          return std::any(module->forward(*first));
        }
      }
      check(given.size() == count, ErrorKind::Type, "forward", module->name(), " takes ", count,
            " arguments, got ", given.size());
      return call(module, given, static_cast<Arguments*>(nullptr),
                  std::make_index_sequence<count>());
    };
  }

  std::shared_ptr<Module> module_;
  Caller forward_;
};

}  // namespace rush::nn
