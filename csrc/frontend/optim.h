// optim.h: optimisers for C++ programs, with the names, defaults and bits of Python's.
#pragma once

#include <utility>
#include <vector>

#include "core/tensor.h"

namespace rush::optim {

class RUSH_API Optimizer {
 public:
  explicit Optimizer(std::vector<Tensor> params);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates the parameters that have a gradient.
  virtual void step() = 0;
  void zero_grad();  // drops the gradients
  const std::vector<Tensor>& parameters() const { return params_; }

 protected:
  // A parameter's tensors as large as itself, and its step count; undefined before its first step.
  struct State {
    std::vector<Tensor> tensors;
    Tensor step;
  };
  std::vector<Tensor> params_;
  std::vector<State> state_;  // one per parameter
};

template <class Options>
class OptimizerWith : public Optimizer {
 public:
  OptimizerWith(std::vector<Tensor> params, const Options& options)
      : Optimizer(std::move(params)), options_(options) {}
  Options& options() { return options_; }  // what is changed counts from the next step on

 protected:
  Options options_;
};

struct SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false;
};

class RUSH_API SGD final : public OptimizerWith<SGDOptions> {
 public:
  SGD(std::vector<Tensor> params, const SGDOptions& options);
  void step() override;
};

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool amsgrad = false, maximize = false;
  bool decoupled_weight_decay = false;  // AdamW
};

class RUSH_API Adam final : public OptimizerWith<AdamOptions> {
 public:
  Adam(std::vector<Tensor> params, const AdamOptions& options);
  void step() override;
};

}  // namespace rush::optim
