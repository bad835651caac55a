#include "frontend/nn/module.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <typeinfo>
#include <unordered_set>

#include "autograd/exchange_data.h"
#include "autograd/meta.h"
#include "frontend/optim.h"
#include "frontend/serialize.h"
#include "ops/ops.h"

namespace rush::nn {
namespace {

void check_name(const char* what, const std::string& name) {
  check_argument(!name.empty(), what, "the name is empty");
  check_argument(name.find('.') == std::string::npos, what, "a name has no dots, got '", name, "'");
}

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

// Visits all modules below this one, each before those below it.
void visit(const Module& module, const std::string& path,
           const std::function<void(const std::string&, const Module&)>& f) {
  f(path, module);
  for (const auto& child : module.named_children())
    visit(*child.value(), joined(path, child.key()), f);
}

}  // namespace

Module::Module(std::string name) : name_(std::move(name)) {}

std::string Module::name() const {
  if (name_) return *name_;
  const std::type_info& type = typeid(*this);
  char* text = abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr);
  std::string name = text ? text : type.name();
  std::free(text);
  return name;
}

OrderedDict<std::string, Tensor> Module::collected(OrderedDict<std::string, Tensor> Module::* group,
                                                   bool recurse) const {
  OrderedDict<std::string, Tensor> all;
  visit(*this, "", [&](const std::string& path, const Module& module) {
    if (!recurse && &module != this) return;
    for (const auto& item : module.*group) {
      if (item->defined()) all.insert(joined(path, item.key()), *item);
    }
  });
  return all;
}

std::vector<Tensor> Module::parameters(bool recurse) const {
  return named_parameters(recurse).values();
}

OrderedDict<std::string, Tensor> Module::named_parameters(bool recurse) const {
  return collected(&Module::parameters_, recurse);
}

std::vector<Tensor> Module::buffers(bool recurse) const { return named_buffers(recurse).values(); }

OrderedDict<std::string, Tensor> Module::named_buffers(bool recurse) const {
  return collected(&Module::buffers_, recurse);
}

std::vector<std::shared_ptr<Module>> Module::modules(bool include_self) const {
  return named_modules("", include_self).values();
}

OrderedDict<std::string, std::shared_ptr<Module>> Module::named_modules(const std::string& prefix,
                                                                        bool include_self) const {
  OrderedDict<std::string, std::shared_ptr<Module>> all;
  if (include_self) {
    const auto self = std::const_pointer_cast<Module>(weak_from_this().lock());
    check(self != nullptr, ErrorKind::Runtime, "named_modules",
          "the module itself can only be listed where a shared_ptr or a holder owns it; make it "
          "so, or ask with include_self=false");
    all.insert(prefix, self);
  }
  for (const auto& child : children_) {
    const std::string path = joined(prefix, child.key());
    all.insert(path, *child);
    for (const auto& item : (*child)->named_modules(path, false)) all.insert(item.key(), *item);
  }
  return all;
}

void Module::train(bool on) {
  for (auto& child : children_) (*child)->train(on);
  training_ = on;
}

// Parameters stay the same tensors, so that optimisers and users who hold them see the change.
void Module::convert(const std::function<Tensor(const Tensor&)>& converted) {
  const NoGradGuard no_grad;
  for (auto& child : children_) (*child)->convert(converted);
  for (auto* group : {&parameters_, &buffers_}) {
    for (auto& item : *group) {
      if (!item->defined()) continue;
      if (const Tensor grad = grad_meta_or_null(*item) ? grad_of(*item) : Tensor(); grad.defined())
        exchange_grad(*item, converted(grad));
      const Tensor next = converted(*item);
      if (!next.is_same(*item)) exchange_data(*item, next);
    }
  }
}

void Module::to(Device device, DType dtype, bool non_blocking) {
  convert([=](const Tensor& t) {
    return rush::to(t, std::optional<Device>(device),
                    t.is_floating() ? std::optional<DType>(dtype) : std::nullopt, non_blocking);
  });
}

void Module::to(DType dtype, bool non_blocking) {
  convert([=](const Tensor& t) {
    return t.is_floating() ? rush::to(t, std::optional<DType>(dtype), non_blocking) : t;
  });
}

void Module::to(Device device, bool non_blocking) {
  convert([=](const Tensor& t) {
    return rush::to(t, std::optional<Device>(device), std::nullopt, non_blocking);
  });
}

void Module::zero_grad(bool set_to_none) { optim::zero_grad(parameters(), set_to_none); }

void Module::apply(const std::function<void(Module&)>& f) {
  for (auto& child : children_) (*child)->apply(f);
  f(*this);
}

void Module::apply(const std::function<void(const std::string&, Module&)>& f,
                   const std::string& prefix) {
  for (auto& child : children_) (*child)->apply(f, joined(prefix, child.key()));
  f(prefix, *this);
}

std::shared_ptr<Module> Module::clone(const std::optional<Device>&) const {
  fail(ErrorKind::NotImplemented, "clone", name(),
       " cannot be cloned: derive it from nn::Cloneable, and make its parameters in reset()");
}

void Module::copy_from(const Module& other, const std::optional<Device>& device) {
  const NoGradGuard no_grad;
  if (device) to(*device);
  const auto fill = [this](OrderedDict<std::string, Tensor>& mine,
                           const OrderedDict<std::string, Tensor>& theirs, const char* what) {
    for (auto& item : mine) {
      const Tensor* from = theirs.find(item.key());
      check(from && from->defined() == item->defined(), ErrorKind::Runtime, "clone", name(),
            "'s reset() makes another ", what, " '", item.key(), "' than the module has");
      if (item->defined()) copy_(*item, *from);
    }
  };
  fill(parameters_, other.parameters_, "parameter");
  fill(buffers_, other.buffers_, "buffer");
  for (auto& child : children_) {
    const std::shared_ptr<Module>* from = other.children_.find(child.key());
    check(from, ErrorKind::Runtime, "clone", name(), "'s reset() makes another module '",
          child.key(), "' than the module has");
    (*child)->copy_from(**from, device);
  }
}

void Module::save(serialize::OutputArchive& archive) const {
  for (const auto& item : named_parameters()) archive.write(item.key(), *item);
  for (const auto& item : named_buffers()) archive.write(item.key(), *item);
}

void Module::load(serialize::InputArchive& archive) {
  const NoGradGuard no_grad;
  for (const auto& part : {named_parameters(), named_buffers()}) {
    for (const auto& item : part) {
      const Tensor value = archive.read(item.key());
      check_shape(value.sizes() == item->sizes(), "load", "'", item.key(), "' has shape ",
                  value.sizes(), " in the file, and ", item->sizes(), " in the module");
      copy_(*item, value);
    }
  }
}

void Module::pretty_print(std::ostream& stream) const { stream << name(); }

void Module::print_tree(std::ostream& stream, const std::string& indentation) const {
  pretty_print(stream);
  if (children_.is_empty()) return;
  stream << "(\n";
  for (const auto& child : children_) {
    stream << indentation << "  (" << child.key() << "): ";
    (*child)->print_tree(stream, indentation + "  ");
    stream << '\n';
  }
  stream << indentation << ')';
}

std::ostream& operator<<(std::ostream& stream, const Module& module) {
  module.print_tree(stream, "");
  return stream;
}

Tensor& Module::register_parameter(std::string name, Tensor tensor, bool requires_grad) {
  check_name("register_parameter", name);
  if (tensor.defined()) set_requires_grad(tensor, requires_grad && tensor.is_floating());
  return parameters_.insert(std::move(name), std::move(tensor));
}

Tensor& Module::register_buffer(std::string name, Tensor tensor) {
  check_name("register_buffer", name);
  return buffers_.insert(std::move(name), std::move(tensor));
}

void Module::add_child(std::string name, std::shared_ptr<Module> module, bool replaces) {
  check_name("register_module", name);
  check_argument(module != nullptr, "register_module", "'", name, "' is null");
  if (replaces) {
    children_[name] = std::move(module);
  } else {
    children_.insert(std::move(name), std::move(module));
  }
}

void Module::unregister_module(const std::string& name) {
  check_argument(children_.contains(name), "unregister_module", "there is no module '", name, "'");
  children_.erase(name);
}

}  // namespace rush::nn
