#include "frontend/optim.h"

#include "autograd/meta.h"
#include "frontend/serialize.h"
#include "ops/ops.h"
#include "ops/optim/optimizer_rules.h"

namespace rush::optim {
namespace {

void check_option(const char* op, bool ok, const char* what, double value) {
  check(ok, ErrorKind::Value, op, what, ", got ", value);
}

template <class Options>
void check_common(const char* op, const Options& o) {
  check_option(op, o.lr() >= 0, "lr must be at least 0", o.lr());
  check_option(op, o.weight_decay() >= 0, "weight_decay must be at least 0", o.weight_decay());
  if constexpr (requires { o.eps(); })
    check_option(op, o.eps() >= 0, "eps must be at least 0", o.eps());
  if constexpr (requires { o.momentum(); })
    check_option(op, o.momentum() >= 0, "momentum must be at least 0", o.momentum());
}

template <class Options>
void check_adam(const char* op, const Options& o) {
  const auto [beta1, beta2] = o.betas();
  check_common(op, o);
  check_option(op, beta1 >= 0 && beta1 < 1, "beta1 must be in [0, 1)", beta1);
  check_option(op, beta2 >= 0 && beta2 < 1, "beta2 must be in [0, 1)", beta2);
}

template <class Options>
std::array<double, 8> adam_numbers(const Options& o, bool decoupled_weight_decay) {
  const auto [beta1, beta2] = o.betas();
  return {o.lr(),
          beta1,
          beta2,
          o.eps(),
          o.weight_decay(),
          double(o.amsgrad()),
          double(o.maximize()),
          double(decoupled_weight_decay)};
}

// "state.0.1.step": group 0, parameter 1.
std::string state_name(size_t group, size_t param, const std::string& what) {
  return concat("state.", group, ".", param, ".", what);
}

}  // namespace

void zero_grad(const std::vector<Tensor>& params, bool set_to_none) {
  for (const Tensor& p : params) {
    if (!grad_meta_or_null(p)) continue;
    if (set_to_none) {
      exchange_grad(p, {});
    } else if (const Tensor grad = grad_of(p); grad.defined()) {
      zero_(detach(grad));
    }
  }
}

Optimizer::Optimizer(std::vector<OptimizerParamGroup> groups,
                     std::unique_ptr<OptimizerOptions> defaults)
    : defaults_(std::move(defaults)) {
  for (OptimizerParamGroup& group : groups) add_param_group(std::move(group));
  check(!parameters().empty(), ErrorKind::Value, "optimizer", "there are no parameters");
}

void Optimizer::add_param_group(OptimizerParamGroup group) {
  for (const Tensor& p : group.params()) {
    check(p.defined() && is_leaf(p), ErrorKind::Value, "optimizer",
          "parameters must be leaves of the graph");
    for (const Tensor& other : parameters()) {
      check(!other.is_same(p), ErrorKind::Value, "optimizer",
            "a parameter is in more than one group");
    }
  }
  if (!group.has_options()) group.set_options(defaults_->clone());
  states_.emplace_back(group.params().size());
  groups_.push_back(std::move(group));
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> all;
  for (const OptimizerParamGroup& group : groups_)
    all.insert(all.end(), group.params().begin(), group.params().end());
  return all;
}

Tensor Optimizer::step(const LossClosure& closure) {
  Tensor loss;
  if (closure) {
    const ModeGuard grad(kNoGrad, false);
    loss = closure();
  }
  for (size_t i = 0; i < groups_.size(); ++i) step_group(groups_[i], states_[i]);
  return loss;
}

void Optimizer::zero_grad(bool set_to_none) { optim::zero_grad(parameters(), set_to_none); }

void Optimizer::step_by_rule(std::string_view rule, const std::vector<Tensor>& params,
                             std::vector<State>& states, size_t tensors, double start,
                             std::span<const double> numbers) {
  const bool counts = optimizer_rule(rule).scalars > 0;
  std::vector<Tensor> stepped, grads, steps, buffers;
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& p = params[i];
    Tensor grad = grad_meta_or_null(p) ? grad_of(p) : Tensor();
    if (!grad.defined()) continue;
    State& state = states[i];
    const NoGradGuard no_grad;
    if (!state.step.defined()) {
      const bool wide = default_dtype() == DType::Float64;
      state.step = scalar_tensor(Scalar(0.0), wide ? DType::Float64 : DType::Float32);
    }
    while (state.tensors.size() < tensors) {
      state.tensors.push_back(full_like(p, Scalar(start), std::nullopt, std::nullopt, std::nullopt,
                                        false, false, MemoryFormat::Preserve));
    }
    stepped.push_back(p);
    grads.push_back(std::move(grad));
    if (counts) steps.push_back(state.step);
    buffers.insert(buffers.end(), state.tensors.begin(),
                   state.tensors.begin() + ptrdiff_t(tensors));
  }
  if (!stepped.empty()) optimizer_step_with(rule, stepped, grads, steps, buffers, numbers, {});
}

void Optimizer::save(serialize::OutputArchive& archive) const {
  for (size_t g = 0; g < states_.size(); ++g) {
    for (size_t i = 0; i < states_[g].size(); ++i) {
      const State& state = states_[g][i];
      if (state.step.defined()) archive.write(state_name(g, i, "step"), state.step);
      for (size_t k = 0; k < state.tensors.size(); ++k)
        archive.write(state_name(g, i, std::to_string(k)), state.tensors[k]);
    }
    archive.write(concat("group.", g, ".lr"),
                  scalar_tensor(Scalar(groups_[g].options().get_lr()), DType::Float64));
  }
}

void Optimizer::load(serialize::InputArchive& archive) {
  const NoGradGuard no_grad;
  std::vector<std::vector<State>> states;
  for (size_t g = 0; g < groups_.size(); ++g) {
    states.emplace_back(groups_[g].params().size());
    for (size_t i = 0; i < states[g].size(); ++i) {
      const Tensor& p = groups_[g].params()[i];
      Tensor found;
      if (archive.try_read(state_name(g, i, "step"), found)) states[g][i].step = found;
      while (
          archive.try_read(state_name(g, i, std::to_string(states[g][i].tensors.size())), found)) {
        check_shape(found.sizes() == p.sizes(), "load", "parameter ", i, " of group ", g,
                    " has shape ", p.sizes(), ", its state in the file ", found.sizes());
        states[g][i].tensors.push_back(rush::to(found, p.device(), p.dtype()));
      }
    }
  }
  for (size_t g = 0; g < groups_.size(); ++g)
    groups_[g].options().set_lr(archive.read(concat("group.", g, ".lr")).item().to_double());
  states_ = std::move(states);
}

void SGD::check_options(const SGDOptions& o) {
  check_common("SGD", o);
  check_option("SGD", !o.nesterov() || (o.momentum() > 0 && o.dampening() == 0),
               "nesterov needs a momentum above 0 and no dampening", o.momentum());
}

void SGD::step_group(const OptimizerParamGroup& group, std::vector<State>& states) {
  const SGDOptions& o = options_of(group);
  const size_t buffers = o.momentum() != 0 ? 1 : 0;
  // Those without a buffer take their first step by a rule of its own.
  std::vector<Tensor> first, later;
  std::vector<size_t> first_places, later_places;
  for (size_t i = 0; i < states.size(); ++i) {
    const bool starts = buffers && states[i].tensors.empty();
    (starts ? first : later).push_back(group.params()[i]);
    (starts ? first_places : later_places).push_back(i);
  }
  const auto step = [&](const std::vector<Tensor>& params, const std::vector<size_t>& places,
                        bool starts) {
    const double numbers[] = {o.lr(),           o.momentum(),         o.dampening(),
                              o.weight_decay(), double(o.nesterov()), double(o.maximize()),
                              double(starts)};
    std::vector<State> own;
    for (const size_t i : places) own.push_back(states[i]);
    step_by_rule("sgd", params, own, buffers, 0, numbers);
    for (size_t k = 0; k < places.size(); ++k) states[places[k]] = std::move(own[k]);
  };
  step(first, first_places, true);
  step(later, later_places, false);
}

void Adam::check_options(const AdamOptions& options) { check_adam("Adam", options); }

void Adam::step_group(const OptimizerParamGroup& group, std::vector<State>& states) {
  const AdamOptions& o = options_of(group);
  step_by_rule("adam", group.params(), states, o.amsgrad() ? 3 : 2, 0, adam_numbers(o, false));
}

void AdamW::check_options(const AdamWOptions& options) { check_adam("AdamW", options); }

void AdamW::step_group(const OptimizerParamGroup& group, std::vector<State>& states) {
  const AdamWOptions& o = options_of(group);
  step_by_rule("adam", group.params(), states, o.amsgrad() ? 3 : 2, 0, adam_numbers(o, true));
}

void RMSprop::check_options(const RMSpropOptions& o) {
  check_common("RMSprop", o);
  check_option("RMSprop", o.alpha() >= 0, "alpha must be at least 0", o.alpha());
}

void RMSprop::step_group(const OptimizerParamGroup& group, std::vector<State>& states) {
  const RMSpropOptions& o = options_of(group);
  const double numbers[] = {
      o.lr(), o.alpha(), o.eps(), o.weight_decay(), o.momentum(), double(o.centered()), 0};
  const size_t buffers = 1 + size_t(o.momentum() > 0) + size_t(o.centered());
  step_by_rule("rmsprop", group.params(), states, buffers, 0, numbers);
}

void Adagrad::check_options(const AdagradOptions& o) {
  check_common("Adagrad", o);
  check_option("Adagrad", o.lr_decay() >= 0, "lr_decay must be at least 0", o.lr_decay());
}

void Adagrad::step_group(const OptimizerParamGroup& group, std::vector<State>& states) {
  const AdagradOptions& o = options_of(group);
  const double numbers[] = {o.lr(), o.lr_decay(), o.weight_decay(), o.eps(), 0};
  step_by_rule("adagrad", group.params(), states, 1, o.initial_accumulator_value(), numbers);
}

}  // namespace rush::optim
