// custom_function.h: gradients that are written in C++.
//
//   struct Scale : rush::autograd::Function<Scale> {
//     static Tensor forward(AutogradContext* ctx, const Tensor& x, double k) {
//       ctx->saved_data["k"] = k;
//       return x * k;
//     }
//     static variable_list backward(AutogradContext* ctx, variable_list grads) {
//       return {grads[0] * ctx->saved_data["k"].toDouble(), Tensor()};
//     }
//   };
//   Tensor y = Scale::apply(x, 2.0);
//
// backward returns one gradient per argument of forward (a list of tensors counts as its items);
// those of arguments that are no tensors are undefined.
#pragma once

#include <cxxabi.h>

#include <map>
#include <string>
#include <typeinfo>
#include <variant>
#include <vector>

#include "autograd/meta.h"
#include "autograd/saved_tensor.h"
#include "core/modes.h"
#include "frontend/torch/functions.h"

namespace rush::autograd {

// A small value that backward needs, with the names of PyTorch's IValue.
class SavedValue {
 public:
  SavedValue() = default;
  SavedValue(bool v) : value_(v) {}
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  SavedValue(T v) : value_(int64_t(v)) {}
  SavedValue(double v) : value_(v) {}
  SavedValue(const char* v) : value_(std::string(v)) {}
  SavedValue(std::string v) : value_(std::move(v)) {}
  SavedValue(Tensor v) : value_(std::move(v)) {}
  SavedValue(std::vector<int64_t> v) : value_(std::move(v)) {}
  SavedValue(torch_api::IntArrayRef v) : value_(v.vec()) {}

  bool isNone() const { return std::holds_alternative<std::monostate>(value_); }
  bool toBool() const { return get<bool>("a bool"); }
  int64_t toInt() const { return get<int64_t>("an int"); }
  double toDouble() const {
    if (const auto* i = std::get_if<int64_t>(&value_)) return double(*i);
    return get<double>("a float");
  }
  const std::string& toStringRef() const { return get<std::string>("a string"); }
  torch_api::Tensor toTensor() const { return get<Tensor>("a tensor"); }
  const std::vector<int64_t>& toIntVector() const {
    return get<std::vector<int64_t>>("a list of ints");
  }

 private:
  template <class T>
  const T& get(const char* what) const {
    const T* found = std::get_if<T>(&value_);
    check(found, ErrorKind::Type, "saved_data", "this value is not ", what);
    return *found;
  }
  std::variant<std::monostate, bool, int64_t, double, std::string, Tensor, std::vector<int64_t>>
      value_;
};

class AutogradContext {
 public:
  std::map<std::string, SavedValue> saved_data;

  void save_for_backward(std::vector<torch_api::Tensor> tensors) { to_save_ = std::move(tensors); }
  std::vector<torch_api::Tensor> get_saved_variables() const {
    check(!released_, ErrorKind::Runtime, node_ ? node_->name() : "Function",
          "the saved tensors are gone: an earlier backward freed them. Pass retain_graph=true to "
          "the earlier call");
    std::vector<torch_api::Tensor> out;
    for (const SavedTensor& s : saved_) out.emplace_back(s.unpack(node_));
    return out;
  }
  void mark_dirty(const std::vector<torch_api::Tensor>& tensors) { note(tensors, dirty_); }
  void mark_non_differentiable(const std::vector<torch_api::Tensor>& tensors) {
    note(tensors, fixed_);
  }
  void set_materialize_grads(bool on) { materialize_ = on; }
  bool needs_input_grad(size_t i) const { return i < needs_.size() && needs_[i]; }

 private:
  template <class>
  friend class Function;
  template <class>
  friend class FunctionNode;
  static void note(const std::vector<torch_api::Tensor>& tensors, std::vector<Tensor>& to) {
    to.assign(tensors.begin(), tensors.end());
  }
  static bool holds(const std::vector<Tensor>& list, const Tensor& t) {
    return std::any_of(list.begin(), list.end(), [&](const Tensor& o) { return o.is_same(t); });
  }

  std::vector<torch_api::Tensor> to_save_;
  std::vector<SavedTensor> saved_;
  std::vector<Tensor> dirty_, fixed_;
  std::vector<bool> needs_;
  const Node* node_ = nullptr;
  bool materialize_ = true, released_ = false;
};

using variable_list = std::vector<torch_api::Tensor>;
using tensor_list = variable_list;
using Variable = torch_api::Tensor;

template <class T>
class FunctionNode final : public Node {
 public:
  FunctionNode() {
    set_trait(kRunsUserCode);
    set_trait(kTakesUndefined);
    int status = 0;
    char* text = abi::__cxa_demangle(typeid(T).name(), nullptr, nullptr, &status);
    name_ = status == 0 ? text : typeid(T).name();
    std::free(text);
    name_ += "Backward";
    ctx.node_ = this;
  }
  const char* name() const override { return name_.c_str(); }

  Grads apply(GradSpan grads, std::span<const bool>) override {
    variable_list given(grads.begin(), grads.end());
    for (size_t i = 0; ctx.materialize_ && i < given.size(); ++i) {
      const ResultMeta& meta = results()[i];
      if (!given[i].defined())
        given[i] = rush::zeros(meta.sizes, meta.dtype, std::nullopt, meta.device);
    }
    const variable_list out = T::backward(&ctx, std::move(given));
    check(out.size() == is_tensor.size(), ErrorKind::Runtime, name(),
          "backward must return one gradient per argument of forward: ", is_tensor.size(),
          " expected, ", out.size(), " given");
    Grads result;
    for (size_t i = 0; i < out.size(); ++i) {
      check(is_tensor[i] || !out[i].defined(), ErrorKind::Runtime, name(),
            "backward returned a gradient for argument ", i, ", which is no tensor");
      if (is_tensor[i]) result.push_back(out[i]);
    }
    return result;
  }

  AutogradContext ctx;
  std::vector<bool> is_tensor;

 private:
  void release_saved() override {
    ctx.saved_.clear();
    ctx.released_ = true;
  }
  std::string name_;
};

template <class T>
class Function {
 public:
  template <class... A>
  static auto apply(A&&... args) {
    auto* raw = new FunctionNode<T>;
    const Ref<Node> node = Ref<Node>::adopt(raw);
    std::vector<Tensor> inputs;
    bool records = false;
    const auto note = [&](const Tensor& t) {
      raw->is_tensor.push_back(true);
      const bool needs = t.defined() && requires_grad(t);
      raw->ctx.needs_.push_back(needs);
      records |= needs;
      inputs.push_back(t);
    };
    const auto look = [&]<class X>(const X& x) {
      if constexpr (std::derived_from<X, Tensor>) {
        note(x);
      } else if constexpr (requires { note(*x.begin()); }) {
        for (const auto& t : x) note(t);
      } else if constexpr (requires { note(*x); }) {
        note(x ? Tensor(*x) : Tensor());
      } else {
        raw->is_tensor.push_back(false);
        raw->ctx.needs_.push_back(false);
      }
    };
    (look(std::as_const(args)), ...);
    records = records && grad_enabled();
    if (records) {
      for (const Tensor& t : inputs) raw->add_edge(t.defined() ? gradient_edge(t) : Edge());
    }
    auto result = [&] {
      const NoGradGuard below;
      return T::forward(&raw->ctx, std::forward<A>(args)...);
    }();
    finish(result, raw, node, inputs, records);
    raw->ctx.to_save_.clear();
    raw->ctx.dirty_.clear();
    raw->ctx.fixed_.clear();
    return result;
  }

 private:
  template <class R>
  static void finish(R& result, FunctionNode<T>* raw, const Ref<Node>& node,
                     const std::vector<Tensor>& inputs, bool records) {
    const auto connect = [&](auto& out) { connect_one(out, raw, node, inputs, records); };
    if constexpr (std::derived_from<R, Tensor>) {
      connect(result);
    } else if constexpr (requires { result.begin(); }) {
      for (auto& t : result) connect(t);
    } else {
      std::apply([&](auto&... t) { (connect(t), ...); }, result);
    }
    if (!records) return;
    for (const Tensor& t : raw->ctx.to_save_) {
      const GradMeta* meta = t.defined() ? grad_meta_or_null(t) : nullptr;
      if (meta && meta->grad_fn.get() == raw)
        raw->ctx.saved_.push_back(SavedTensor::output(t, meta->slot));
      else
        raw->ctx.saved_.emplace_back(t);
    }
  }
  template <class X>
  static void connect_one(X& out, FunctionNode<T>* raw, const Ref<Node>& node,
                          const std::vector<Tensor>& inputs, bool records) {
    if (!out.defined()) return;
    const bool dirty = AutogradContext::holds(raw->ctx.dirty_, out);
    if (dirty) out.bump_version(raw->name());
    if (!records) return;
    if (AutogradContext::holds(raw->ctx.fixed_, out) || !is_differentiable(Tensor(out).dtype())) {
      raw->add_result(out);
      return;
    }
    if (dirty) {
      check(!(requires_grad(out) && is_leaf(out)), ErrorKind::Runtime, raw->name(),
            "a leaf tensor that requires grad was modified in place");
      if (out.impl()->base) return rebase_history(out, node);
    } else if (AutogradContext::holds(inputs, out)) {
      const NoGradGuard below;  // a view of its own, so that it can have another history
      out = rush::alias(out);
    }
    set_history(out, node, raw->add_result(out));
  }
};

}  // namespace rush::autograd

namespace rush::torch_api::autograd {
using rush::autograd::AutogradContext;
using rush::autograd::Function;
using rush::autograd::tensor_list;
using rush::autograd::Variable;
using rush::autograd::variable_list;
inline variable_list grad(const variable_list& outputs, const variable_list& inputs,
                          const variable_list& grad_outputs = {}, bool retain_graph = false,
                          bool create_graph = false, bool allow_unused = false) {
  BackwardOptions options;
  options.retain_graph = retain_graph || create_graph;
  options.create_graph = create_graph;
  options.allow_unused = allow_unused;
  variable_list seeds = grad_outputs;
  seeds.resize(outputs.size());
  return detail::list(rush::grad(detail::list(TensorList(outputs)), detail::list(TensorList(seeds)),
                                 detail::list(TensorList(inputs)), options));
}
}  // namespace rush::torch_api::autograd
