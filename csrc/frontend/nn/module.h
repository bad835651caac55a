// module.h: a part of a net: parameters, buffers and other modules, each under a name.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "frontend/ordered_dict.h"
#include "frontend/tensor_options.h"

namespace rush::serialize {
class OutputArchive;
class InputArchive;
}  // namespace rush::serialize

namespace rush::nn {

template <class Contained>
class ModuleHolder;

// Can options be made from these, which are no options yet?
template <class Options, class... Args>
concept MakesOptions = std::constructible_from<Options, Args...> &&
                       !(std::same_as<std::remove_cvref_t<Args>, Options> && ...);

inline const char* truth(bool v) { return v ? "true" : "false"; }  // for pretty_print

class RUSH_API Module : public std::enable_shared_from_this<Module> {
 public:
  explicit Module(std::string name);
  Module() = default;  // its name is that of its class
  virtual ~Module() = default;
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;

  std::string name() const;

  // Of this module and, unless recurse is false, of all modules below it: "conv1.weight".
  std::vector<Tensor> parameters(bool recurse = true) const;
  OrderedDict<std::string, Tensor> named_parameters(bool recurse = true) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  OrderedDict<std::string, Tensor> named_buffers(bool recurse = true) const;
  std::vector<std::shared_ptr<Module>> modules(bool include_self = true) const;
  OrderedDict<std::string, std::shared_ptr<Module>> named_modules(const std::string& prefix = "",
                                                                  bool include_self = true) const;
  std::vector<std::shared_ptr<Module>> children() const { return children_.values(); }
  OrderedDict<std::string, std::shared_ptr<Module>> named_children() const { return children_; }

  virtual void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }

  virtual void to(Device device, DType dtype, bool non_blocking = false);
  virtual void to(DType dtype, bool non_blocking = false);
  virtual void to(Device device, bool non_blocking = false);
  void to(DeviceType type, bool non_blocking = false) { to(Device{type}, non_blocking); }

  virtual void zero_grad(bool set_to_none = true);
  void apply(const std::function<void(Module&)>& f);
  void apply(const std::function<void(const std::string&, Module&)>& f,
             const std::string& prefix = "");

  // A module with parameters and buffers of its own; those of Cloneable do that.
  virtual std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const;

  virtual void save(serialize::OutputArchive& archive) const;
  virtual void load(serialize::InputArchive& archive);

  virtual void pretty_print(std::ostream& stream) const;
  virtual bool is_serializable() const { return true; }

  Tensor& register_parameter(std::string name, Tensor tensor, bool requires_grad = true);
  Tensor& register_buffer(std::string name, Tensor tensor);
  // Modules are given as pointers, or by their holders.
  template <class M>
  auto register_module(std::string name, const M& module) {
    add_child(std::move(name), pointer_of(module), false);
    return pointer_of(module);
  }
  template <class M>
  auto replace_module(std::string name, const M& module) {
    add_child(std::move(name), pointer_of(module), true);
    return pointer_of(module);
  }
  void unregister_module(const std::string& name);

  // This module as one of class M; null where it is none. Holders' classes (nn::Linear) will do.
  template <class M>
  auto* as() {
    if constexpr (requires { typename M::Impl; }) {
      return dynamic_cast<typename M::Impl*>(this);
    } else {
      return dynamic_cast<M*>(this);
    }
  }

 protected:
  OrderedDict<std::string, Tensor> parameters_, buffers_;
  OrderedDict<std::string, std::shared_ptr<Module>> children_;

 private:
  template <class M>
  static std::shared_ptr<M> pointer_of(const std::shared_ptr<M>& module) {
    return module;
  }
  template <class M>
  static std::shared_ptr<M> pointer_of(const ModuleHolder<M>& holder) {
    return holder.ptr();
  }
  template <class Derived>
  friend class Cloneable;
  // Of one of the two groups.
  OrderedDict<std::string, Tensor> collected(OrderedDict<std::string, Tensor> Module::* group,
                                             bool recurse) const;
  void add_child(std::string name, std::shared_ptr<Module> module, bool replaces);
  void convert(const std::function<Tensor(const Tensor&)>& converted);
  void copy_from(const Module& other, const std::optional<Device>& device);
  void print_tree(std::ostream& stream, const std::string& indentation) const;
  friend RUSH_API std::ostream& operator<<(std::ostream& stream, const Module& module);

  std::optional<std::string> name_;
  bool training_ = true;
};

RUSH_API std::ostream& operator<<(std::ostream& stream, const Module& module);

// For modules whose reset() makes their parameters: a clone is a copy whose parameters are new.
template <class Derived>
class Cloneable : public Module {
 public:
  using Module::Module;
  virtual void reset() = 0;

  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override {
    auto copy = std::make_shared<Derived>(static_cast<const Derived&>(*this));
    copy->parameters_.clear();
    copy->buffers_.clear();
    copy->children_.clear();
    copy->reset();
    copy->copy_from(*this, device);
    return copy;
  }
};

// Holds a module by reference, as Python's variables do: copies are the same module.
template <class Contained>
class ModuleHolder {
 public:
  using ContainedType = Contained;

  ModuleHolder() : impl_(make_default()) {}
  ModuleHolder(std::nullptr_t) {}
  ModuleHolder(std::shared_ptr<Contained> module) : impl_(std::move(module)) {}
  template <class Head, class... Tail>
    requires(!std::derived_from<std::remove_cvref_t<Head>, ModuleHolder> &&
             !std::same_as<std::remove_cvref_t<Head>, std::shared_ptr<Contained>> &&
             !std::same_as<std::remove_cvref_t<Head>, std::nullptr_t>)
  explicit ModuleHolder(Head&& head, Tail&&... tail)
      : impl_(std::make_shared<Contained>(std::forward<Head>(head), std::forward<Tail>(tail)...)) {}

  explicit operator bool() const { return impl_ != nullptr; }
  bool is_empty() const { return impl_ == nullptr; }
  Contained* get() const {
    check(impl_ != nullptr, ErrorKind::Runtime, "ModuleHolder",
          "holds no module: it was made from nullptr, or by default from a module that needs "
          "arguments");
    return impl_.get();
  }
  Contained* operator->() const { return get(); }
  Contained& operator*() const { return *get(); }
  const std::shared_ptr<Contained>& ptr() const {
    get();
    return impl_;
  }
  operator std::shared_ptr<Module>() const { return ptr(); }

  template <class... Args, class C = Contained>  // C: some modules cannot be called
  auto operator()(Args&&... args) const
      -> decltype(std::declval<C&>().forward(std::forward<Args>(args)...)) {
    return get()->forward(std::forward<Args>(args)...);
  }

 private:
  static std::shared_ptr<Contained> make_default() {
    if constexpr (std::default_initializable<Contained>) {
      return std::make_shared<Contained>();
    } else {
      return nullptr;
    }
  }
  std::shared_ptr<Contained> impl_;
};

template <class M>
std::ostream& operator<<(std::ostream& stream, const ModuleHolder<M>& holder) {
  return stream << *holder;
}

}  // namespace rush::nn

// Names a class that holds a NameImpl.
#define RUSH_MODULE_IMPL(Name, ImplType)                    \
  class Name : public ::rush::nn::ModuleHolder<ImplType> {  \
   public:                                                  \
    using ::rush::nn::ModuleHolder<ImplType>::ModuleHolder; \
    using Impl = ImplType;                                  \
  }
#define RUSH_MODULE(Name) RUSH_MODULE_IMPL(Name, Name##Impl)

// What modules with NameOptions have in common, inside of NameImpl: they are made from the options, or
// from what makes these: Linear(4, 3).
#define RUSH_MODULE_MEMBERS(Name)                                                                 \
 public:                                                                                          \
  explicit Name##Impl(const Name##Options& options);                                              \
  template <class... Args>                                                                        \
    requires ::rush::nn::MakesOptions<Name##Options, Args...>                                     \
  explicit Name##Impl(Args&&... args) : Name##Impl(Name##Options(std::forward<Args>(args)...)) {} \
  void reset() override;                                                                          \
  void pretty_print(std::ostream& stream) const override;                                         \
  Name##Options options
