// containers.h: modules that hold modules.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "frontend/nn/any_module.h"

namespace rush::nn {

// A module under a name of its own, for Sequential.
class NamedAnyModule {
 public:
  template <class M>
  NamedAnyModule(std::string name, M&& module)
      : name_(std::move(name)), module_(std::forward<M>(module)) {}
  const std::string& name() const { return name_; }
  const AnyModule& module() const { return module_; }

 private:
  std::string name_;
  AnyModule module_;
};

// Each module gets what the one before it has given.
class SequentialImpl : public Cloneable<SequentialImpl> {
 public:
  SequentialImpl() = default;
  template <class... Modules>
    requires(sizeof...(Modules) > 0 &&
             (!std::same_as<std::remove_cvref_t<Modules>, SequentialImpl> && ...))
  explicit SequentialImpl(Modules&&... modules) {
    (push_back(std::forward<Modules>(modules)), ...);
  }
  explicit SequentialImpl(std::initializer_list<NamedAnyModule> modules) {
    for (const NamedAnyModule& m : modules) push_back(m.name(), m.module());
  }

  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override {
    auto copy = std::make_shared<SequentialImpl>();
    for (const auto& make : makers_) make(*copy, device);
    copy->train(is_training());
    return copy;
  }
  void reset() override {}  // has no parameters of its own
  void pretty_print(std::ostream& stream) const override { stream << "rush::nn::Sequential"; }

  template <class Result = Tensor, class... Args>
  Result forward(Args&&... args) {
    check(!modules_.empty(), ErrorKind::Runtime, "Sequential", "there are no modules to call");
    std::vector<std::any> values;
    (values.emplace_back(std::decay_t<Args>(std::forward<Args>(args))), ...);
    for (const AnyModule& module : modules_) {
      std::any next = module.any_forward(std::move(values));
      values.clear();
      values.push_back(std::move(next));
    }
    return modules_.back().template value_as<Result>(values[0]);
  }

  template <class M>
  void push_back(M&& module) {
    push_back(std::to_string(modules_.size()), std::forward<M>(module));
  }
  void push_back(const NamedAnyModule& named) { push_back(named.name(), named.module()); }
  template <class M>
  void push_back(std::string name, M&& module) {
    using T = std::remove_cvref_t<M>;
    if constexpr (std::same_as<T, AnyModule>) {
      add(std::move(name), module,
          [](SequentialImpl&, const std::string&, const std::optional<Device>&) {
            fail(ErrorKind::NotImplemented, "clone",
                 "a module given as AnyModule cannot be cloned");
          });
    } else {
      AnyModule any(std::forward<M>(module));
      using Class = typename ClassOf<T>::type;
      auto own = std::dynamic_pointer_cast<Class>(any.ptr());
      add(std::move(name), std::move(any),
          [own](SequentialImpl& to, const std::string& key, const std::optional<Device>& device) {
            to.push_back(key, std::dynamic_pointer_cast<Class>(own->clone(device)));
          });
    }
  }

  size_t size() const { return modules_.size(); }
  bool is_empty() const { return modules_.empty(); }
  std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
  std::shared_ptr<Module> ptr(size_t i) const {
    check_index(i < modules_.size(), "Sequential", "index ", i, " is beyond its ", modules_.size(),
                " modules");
    return modules_[i].ptr();
  }
  template <class M>
  M& at(size_t i) const {
    ptr(i);
    return modules_[i].template get<M>();
  }
  auto begin() { return modules_.begin(); }
  auto end() { return modules_.end(); }

 private:
  template <class T>
  struct ClassOf {
    using type = T;
  };
  template <class T>
  struct ClassOf<std::shared_ptr<T>> {
    using type = T;
  };
  template <class T>
    requires requires { typename T::ContainedType; }
  struct ClassOf<T> {
    using type = typename T::ContainedType;
  };
  using Maker = std::function<void(SequentialImpl&, const std::optional<Device>&)>;

  template <class Make>
  void add(std::string name, AnyModule module, Make make) {
    register_module(name, module.ptr());
    modules_.push_back(std::move(module));
    makers_.push_back([make, name](SequentialImpl& to, const std::optional<Device>& device) {
      make(to, name, device);
    });
  }

  std::vector<AnyModule> modules_;
  std::vector<Maker> makers_;  // each adds a clone of its module to another Sequential
};

class Sequential : public ModuleHolder<SequentialImpl> {
 public:
  using ModuleHolder<SequentialImpl>::ModuleHolder;
  using Impl = SequentialImpl;
  Sequential() = default;
  Sequential(std::initializer_list<NamedAnyModule> modules)
      : ModuleHolder(std::make_shared<SequentialImpl>(modules)) {}
};

// Modules by number; calls none of them.
class ModuleListImpl : public Module {
 public:
  ModuleListImpl() = default;
  template <class... Modules>
    requires(sizeof...(Modules) > 0 &&
             (!std::same_as<std::remove_cvref_t<Modules>, ModuleListImpl> && ...))
  explicit ModuleListImpl(Modules&&... modules) {
    (push_back(std::forward<Modules>(modules)), ...);
  }
  void pretty_print(std::ostream& stream) const override { stream << "rush::nn::ModuleList"; }
  void push_back(std::shared_ptr<Module> module) {
    register_module(std::to_string(modules_.size()), module);
    modules_.push_back(std::move(module));
  }
  template <class M>
  void push_back(const ModuleHolder<M>& holder) {
    push_back(std::shared_ptr<Module>(holder.ptr()));
  }
  size_t size() const { return modules_.size(); }
  bool is_empty() const { return modules_.empty(); }
  std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
  std::shared_ptr<Module> ptr(size_t i) const {
    check_index(i < size(), "ModuleList", "index ", i, " is beyond its ", size(), " modules");
    return modules_[i];
  }
  template <class M>
  M& at(size_t i) const {
    auto* found = dynamic_cast<M*>(ptr(i).get());
    check(found, ErrorKind::Type, "ModuleList", "module ", i, " is a ", ptr(i)->name());
    return *found;
  }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};
RUSH_MODULE(ModuleList);

// A function as a module: Functional(relu), or a lambda.
class FunctionalImpl : public Cloneable<FunctionalImpl> {
 public:
  using Function = std::function<Tensor(Tensor)>;
  explicit FunctionalImpl(Function function) : function_(std::move(function)) {}
  // A function with more arguments: those after the first are kept.
  template <class F, class... Args>
    requires(sizeof...(Args) > 0)
  explicit FunctionalImpl(F function, Args... args)
      : function_([=](const Tensor& input) { return function(input, args...); }) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "rush::nn::Functional()"; }
  Tensor forward(Tensor input) { return function_(std::move(input)); }
  bool is_serializable() const override { return false; }

 private:
  Function function_;
};
RUSH_MODULE(Functional);

}  // namespace rush::nn
