#include "frontend/optim.h"

#include "autograd/meta.h"
#include "ops/ops.h"
#include "ops/optim/optimizer_rules.h"

namespace rush::optim {
namespace {

void check_option(const char* op, bool ok, const char* what, double value) {
  check(ok, ErrorKind::Value, op, what, ", got ", value);
}

// The tensors of one call of a rule.
struct Operands {
  std::vector<Tensor> params, grads, scalars, states;
  void step(std::string_view rule, std::span<const double> options) const {
    if (!params.empty()) optimizer_step_with(rule, params, grads, scalars, states, options, {});
  }
};

}  // namespace

Optimizer::Optimizer(std::vector<Tensor> params) : params_(std::move(params)) {
  check(!params_.empty(), ErrorKind::Value, "optimizer", "there are no parameters");
  for (const Tensor& p : params_) {
    check(p.defined() && is_leaf(p), ErrorKind::Value, "optimizer",
          "parameters must be leaves of the graph");
  }
  state_.resize(params_.size());
}

void Optimizer::zero_grad() {
  for (const Tensor& p : params_) {
    if (grad_meta_or_null(p)) exchange_grad(p, {});
  }
}

SGD::SGD(std::vector<Tensor> params, const SGDOptions& options)
    : OptimizerWith(std::move(params), options) {
  check_option("SGD", options.lr >= 0, "lr must be at least 0", options.lr);
  check_option("SGD", options.momentum >= 0, "momentum must be at least 0", options.momentum);
  check_option("SGD", options.weight_decay >= 0, "weight_decay must be at least 0",
               options.weight_decay);
  check_option("SGD", !options.nesterov || (options.momentum > 0 && options.dampening == 0),
               "nesterov needs a momentum above 0 and no dampening", options.momentum);
}

void SGD::step() {
  const SGDOptions& o = options_;
  Operands first, later;  // those without a buffer take their first step by a rule of its own
  for (size_t i = 0; i < params_.size(); ++i) {
    Tensor grad = grad_of(params_[i]);
    if (!grad.defined()) continue;
    std::vector<Tensor>& buffers = state_[i].tensors;
    const bool starts = o.momentum != 0 && buffers.empty();
    if (starts) {
      const NoGradGuard no_grad;
      buffers.push_back(empty_like(params_[i], std::nullopt, std::nullopt, std::nullopt, false,
                                   false, MemoryFormat::Preserve));
    }
    Operands& to = starts ? first : later;
    to.params.push_back(params_[i]);
    to.grads.push_back(std::move(grad));
    if (o.momentum != 0) to.states.push_back(buffers[0]);
  }
  double options[] = {
      o.lr, o.momentum, o.dampening, o.weight_decay, double(o.nesterov), double(o.maximize), 1};
  first.step("sgd", options);
  options[6] = 0;
  later.step("sgd", options);
}

Adam::Adam(std::vector<Tensor> params, const AdamOptions& options)
    : OptimizerWith(std::move(params), options) {
  const AdamOptions& o = options;
  check_option("Adam", o.lr >= 0, "lr must be at least 0", o.lr);
  check_option("Adam", o.eps >= 0, "eps must be at least 0", o.eps);
  check_option("Adam", o.weight_decay >= 0, "weight_decay must be at least 0", o.weight_decay);
  check_option("Adam", o.beta1 >= 0 && o.beta1 < 1, "beta1 must be in [0, 1)", o.beta1);
  check_option("Adam", o.beta2 >= 0 && o.beta2 < 1, "beta2 must be in [0, 1)", o.beta2);
}

void Adam::step() {
  const AdamOptions& o = options_;
  const size_t wanted = o.amsgrad ? 3 : 2;
  Operands operands;
  for (size_t i = 0; i < params_.size(); ++i) {
    Tensor grad = grad_of(params_[i]);
    if (!grad.defined()) continue;
    State& state = state_[i];
    {
      const NoGradGuard no_grad;
      if (!state.step.defined()) {
        const bool wide = default_dtype() == DType::Float64;
        state.step = scalar_tensor(Scalar(0.0), wide ? DType::Float64 : DType::Float32);
      }
      while (state.tensors.size() < wanted)
        state.tensors.push_back(zeros_like(params_[i], std::nullopt, std::nullopt, std::nullopt,
                                           false, false, MemoryFormat::Preserve));
    }
    operands.params.push_back(params_[i]);
    operands.grads.push_back(std::move(grad));
    operands.scalars.push_back(state.step);
    for (size_t k = 0; k < wanted; ++k) operands.states.push_back(state.tensors[k]);
  }
  const double options[] = {o.lr,
                            o.beta1,
                            o.beta2,
                            o.eps,
                            o.weight_decay,
                            double(o.amsgrad),
                            double(o.maximize),
                            double(o.decoupled_weight_decay)};
  operands.step("adam", options);
}

}  // namespace rush::optim
