// optim.h: optimisers for C++ programs, with the names, defaults and bits of Python's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "frontend/arg.h"

namespace rush::serialize {
class OutputArchive;
class InputArchive;
}  // namespace rush::serialize

namespace rush::optim {

// Lets go of gradients, or fills them with zeros.
RUSH_API void zero_grad(const std::vector<Tensor>& params, bool set_to_none);

// The numbers of a group of parameters. What is changed counts from the next step on.
class RUSH_API OptimizerOptions {
 public:
  virtual ~OptimizerOptions() = default;
  virtual std::unique_ptr<OptimizerOptions> clone() const = 0;
  virtual double get_lr() const = 0;
  virtual void set_lr(double lr) = 0;
};

template <class Derived>
class OptionsOf : public OptimizerOptions {
 public:
  std::unique_ptr<OptimizerOptions> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
  double get_lr() const override { return static_cast<const Derived&>(*this).lr(); }
  void set_lr(double lr) override { static_cast<Derived&>(*this).lr(lr); }
};

// Parameters that share their numbers; those without numbers of their own have the optimiser's.
class RUSH_API OptimizerParamGroup {
 public:
  OptimizerParamGroup(std::vector<Tensor> params) : params_(std::move(params)) {}
  OptimizerParamGroup(std::vector<Tensor> params, std::unique_ptr<OptimizerOptions> options)
      : params_(std::move(params)), options_(std::move(options)) {}
  OptimizerParamGroup(const OptimizerParamGroup& other)
      : params_(other.params_), options_(other.options_ ? other.options_->clone() : nullptr) {}
  OptimizerParamGroup& operator=(const OptimizerParamGroup&) = delete;
  OptimizerParamGroup(OptimizerParamGroup&&) = default;

  bool has_options() const { return options_ != nullptr; }
  OptimizerOptions& options() { return *options_; }
  const OptimizerOptions& options() const { return *options_; }
  void set_options(std::unique_ptr<OptimizerOptions> options) { options_ = std::move(options); }
  std::vector<Tensor>& params() { return params_; }
  const std::vector<Tensor>& params() const { return params_; }

 private:
  std::vector<Tensor> params_;
  std::unique_ptr<OptimizerOptions> options_;
};

class RUSH_API Optimizer {
 public:
  using LossClosure = std::function<Tensor()>;

  Optimizer(std::vector<OptimizerParamGroup> groups, std::unique_ptr<OptimizerOptions> defaults);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates the parameters that have a gradient. With a closure, it is called first, with gradients
  // recorded, and what it gives is returned.
  Tensor step(const LossClosure& closure = {});
  void zero_grad(bool set_to_none = true);

  std::vector<OptimizerParamGroup>& param_groups() { return groups_; }
  const std::vector<OptimizerParamGroup>& param_groups() const { return groups_; }
  void add_param_group(OptimizerParamGroup group);
  std::vector<Tensor> parameters() const;  // of all groups
  OptimizerOptions& defaults() { return *defaults_; }

  // The states of all parameters, in the order of the groups.
  void save(serialize::OutputArchive& archive) const;
  void load(serialize::InputArchive& archive);

 protected:
  // A parameter's tensors as large as itself, and its step count; undefined before its first step.
  struct State {
    std::vector<Tensor> tensors;
    Tensor step;
  };
  virtual void step_group(const OptimizerParamGroup& group, std::vector<State>& states) = 0;
  // One call of a rule (ops/optim): makes what is missing of the states, then steps.
  static void step_by_rule(std::string_view rule, const std::vector<Tensor>& params,
                           std::vector<State>& states, size_t tensors, double start,
                           std::span<const double> numbers);

 private:
  std::vector<OptimizerParamGroup> groups_;
  std::vector<std::vector<State>> states_;  // per group, per parameter
  std::unique_ptr<OptimizerOptions> defaults_;
};

template <class Derived, class Options>
class OptimizerWith : public Optimizer {
 public:
  OptimizerWith(std::vector<OptimizerParamGroup> groups, const Options& defaults = {})
      : Optimizer(std::move(groups), defaults.clone()) {
    for (OptimizerParamGroup& group : param_groups()) Derived::check_options(options_of(group));
  }
  OptimizerWith(std::vector<Tensor> params, const Options& defaults = {})
      : OptimizerWith(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(params))},
                      defaults) {}
  // Of the first group.
  Options& options() { return static_cast<Options&>(param_groups()[0].options()); }

 protected:
  static const Options& options_of(const OptimizerParamGroup& group) {
    const auto* found = dynamic_cast<const Options*>(&group.options());
    check(found, ErrorKind::Type, "optimizer", "a group has the options of another optimiser");
    return *found;
  }
};

#define RUSH_OPTIMIZER(Name)                                                                \
  class RUSH_API Name final : public OptimizerWith<Name, Name##Options> {                   \
   public:                                                                                  \
    using OptimizerWith::OptimizerWith;                                                     \
    static void check_options(const Name##Options& options);                                \
                                                                                            \
   private:                                                                                 \
    void step_group(const OptimizerParamGroup& group, std::vector<State>& states) override; \
  }

struct SGDOptions : OptionsOf<SGDOptions> {
  SGDOptions(double lr = 1e-3) : lr_(lr) {}
  RUSH_ARG(double, lr);
  RUSH_ARG(double, momentum) = 0;
  RUSH_ARG(double, dampening) = 0;
  RUSH_ARG(double, weight_decay) = 0;
  RUSH_ARG(bool, nesterov) = false;
  RUSH_ARG(bool, maximize) = false;
};

RUSH_OPTIMIZER(SGD);

template <class Derived>
struct AdamOptionsOf : OptionsOf<Derived> {
  AdamOptionsOf(double lr, double weight_decay) : lr_(lr), weight_decay_(weight_decay) {}
  using Betas = std::tuple<double, double>;
  // Setters return the class that they were called on.
#define RUSH_ADAM_ARG(T, name)              \
 public:                                    \
  Derived& name(const T& value) {           \
    name##_ = value;                        \
    return static_cast<Derived&>(*this);    \
  }                                         \
  const T& name() const { return name##_; } \
                                            \
 private:                                   \
  T name##_
  RUSH_ADAM_ARG(double, lr);
  RUSH_ADAM_ARG(Betas, betas) = { 0.9, 0.999 };
  RUSH_ADAM_ARG(double, eps) = 1e-8;
  RUSH_ADAM_ARG(double, weight_decay);
  RUSH_ADAM_ARG(bool, amsgrad) = false;
  RUSH_ADAM_ARG(bool, maximize) = false;
#undef RUSH_ADAM_ARG
};

struct AdamOptions : AdamOptionsOf<AdamOptions> {
  AdamOptions(double lr = 1e-3) : AdamOptionsOf(lr, 0) {}
};
struct AdamWOptions : AdamOptionsOf<AdamWOptions> {
  AdamWOptions(double lr = 1e-3) : AdamOptionsOf(lr, 1e-2) {}
};

RUSH_OPTIMIZER(Adam);

RUSH_OPTIMIZER(AdamW);

struct RMSpropOptions : OptionsOf<RMSpropOptions> {
  RMSpropOptions(double lr = 1e-2) : lr_(lr) {}
  RUSH_ARG(double, lr);
  RUSH_ARG(double, alpha) = 0.99;
  RUSH_ARG(double, eps) = 1e-8;
  RUSH_ARG(double, weight_decay) = 0;
  RUSH_ARG(double, momentum) = 0;
  RUSH_ARG(bool, centered) = false;
};

RUSH_OPTIMIZER(RMSprop);

struct AdagradOptions : OptionsOf<AdagradOptions> {
  AdagradOptions(double lr = 1e-2) : lr_(lr) {}
  RUSH_ARG(double, lr);
  RUSH_ARG(double, lr_decay) = 0;
  RUSH_ARG(double, weight_decay) = 0;
  RUSH_ARG(double, initial_accumulator_value) = 0;
  RUSH_ARG(double, eps) = 1e-10;
};

RUSH_OPTIMIZER(Adagrad);
#undef RUSH_OPTIMIZER

// Learning rates that follow a plan; step() once per epoch.
class RUSH_API LRScheduler {
 public:
  explicit LRScheduler(Optimizer& optimizer);
  virtual ~LRScheduler() = default;
  void step();

 protected:
  // The learning rate of a group at `epoch`, which counts from 1; `base` is what it began with.
  virtual double next_lr(double base, double current, int64_t epoch) const = 0;

 private:
  Optimizer& optimizer_;
  std::vector<double> base_;
  int64_t epoch_ = 0;
};

// Multiplied by gamma every step_size epochs.
class RUSH_API StepLR final : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, unsigned step_size, double gamma = 0.1);

 private:
  double next_lr(double base, double current, int64_t epoch) const override;
  int64_t step_size_;
  double gamma_;
};

// Multiplied by gamma every epoch.
class RUSH_API ExponentialLR final : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma) : LRScheduler(optimizer), gamma_(gamma) {}

 private:
  double next_lr(double base, double current, int64_t epoch) const override;
  double gamma_;
};

// Half a wave from the first rate down to eta_min in t_max epochs.
class RUSH_API CosineAnnealingLR final : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min = 0)
      : LRScheduler(optimizer), t_max_(t_max), eta_min_(eta_min) {}

 private:
  double next_lr(double base, double current, int64_t epoch) const override;
  int64_t t_max_;
  double eta_min_;
};

}  // namespace rush::optim
