#include <cmath>
#include <numbers>

#include "frontend/optim.h"

namespace rush::optim {

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {
  for (const OptimizerParamGroup& group : optimizer.param_groups())
    base_.push_back(group.options().get_lr());
}

void LRScheduler::step() {
  ++epoch_;
  auto& groups = optimizer_.param_groups();
  for (size_t i = base_.size(); i < groups.size(); ++i)
    base_.push_back(groups[i].options().get_lr());
  for (size_t i = 0; i < groups.size(); ++i) {
    OptimizerOptions& options = groups[i].options();
    options.set_lr(next_lr(base_[i], options.get_lr(), epoch_));
  }
}

StepLR::StepLR(Optimizer& optimizer, unsigned step_size, double gamma)
    : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {
  check_argument(step_size > 0, "StepLR", "step_size must be at least 1");
}

double StepLR::next_lr(double, double current, int64_t epoch) const {
  return epoch % step_size_ == 0 ? current * gamma_ : current;
}

double ExponentialLR::next_lr(double, double current, int64_t) const { return current * gamma_; }

double CosineAnnealingLR::next_lr(double base, double, int64_t epoch) const {
  const double phase = std::numbers::pi * double(epoch) / double(t_max_);
  return eta_min_ + (base - eta_min_) * (1 + std::cos(phase)) / 2;
}

}  // namespace rush::optim
