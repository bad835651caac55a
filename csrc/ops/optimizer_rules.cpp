#include "ops/optimizer_rules.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace rush {

namespace {

// The first two fields of most functors: the gradient's sign, and the weight decay added to it.
double* pull(double* out, bool maximize, double decay) {
  *out++ = maximize ? -1 : 1;
  *out++ = decay;
  return out;
}
// The same, where decay may act on the parameter itself instead; then the third field is its
// factor.
double* pull_or_shrink(double* out, bool maximize, double lr, double decay, bool decoupled) {
  out = pull(out, maximize, decoupled ? 0 : decay);
  *out++ = decoupled ? 1 - lr * decay : 1;
  return out;
}
void put(double* out, std::initializer_list<double> fields) {
  std::copy(fields.begin(), fields.end(), out);
}

// lr, momentum, dampening, weight_decay, nesterov, maximize, first
OptimizerRule sgd_kernel(const double* o) {
  return o[1] != 0 ? OptimizerRule::SgdMomentum : OptimizerRule::Sgd;
}
void sgd(const double* o, double*, bool, double* out) {
  out = pull(out, o[5] != 0, o[3]);
  if (o[1] == 0) return put(out, {o[0]});
  put(out, {o[0], o[1], 1 - o[2], o[6], o[4]});
}

// lr, beta1, beta2, eps, weight_decay, amsgrad, maximize, decoupled; step
OptimizerRule adam_kernel(const double* o) {
  return o[5] != 0 ? OptimizerRule::AdamMax : OptimizerRule::Adam;
}
void adam(const double* o, double* s, bool, double* out) {
  const double step = s[0] += 1;
  const double correction1 = 1 - std::pow(o[1], step), correction2 = 1 - std::pow(o[2], step);
  out = pull_or_shrink(out, o[6] != 0, o[0], o[4], o[7] != 0);
  put(out, {1 - o[1], o[2], 1 - o[2], o[0] / correction1, 1 / std::sqrt(correction2), o[3]});
}

// lr, beta1, beta2, eps, weight_decay, momentum_decay, decoupled, maximize; step, mu_product
void nadam(const double* o, double* s, bool single, double* out) {
  const double step = s[0] += 1;
  const double mu = o[1] * (1 - 0.5 * std::pow(0.96, step * o[5]));
  const double next = o[1] * (1 - 0.5 * std::pow(0.96, (step + 1) * o[5]));
  s[1] = single ? double(float(s[1]) * float(mu)) : s[1] * mu;
  out = pull_or_shrink(out, o[7] != 0, o[0], o[4], o[6] != 0);
  put(out, {1 - o[1], o[2], 1 - o[2], 1 - std::pow(o[2], step), o[3], o[0] * (1 - mu) / (1 - s[1]),
            o[0] * next / (1 - s[1] * next)});
}

// lr, beta1, beta2, eps, weight_decay, decoupled, maximize; step
void radam(const double* o, double* s, bool, double* out) {
  const double step = s[0] += 1;
  const double power2 = std::pow(o[2], step), correction2 = 1 - power2;
  const double most = 2 / (1 - o[2]) - 1, length = most - 2 * step * power2 / correction2;
  double rectified = 0;  // the variance of the adaptive rate is not tractable yet
  if (length > 5) {
    rectified = std::sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) *
                std::sqrt(correction2);
  }
  out = pull_or_shrink(out, o[6] != 0, o[0], o[4], o[5] != 0);
  put(out, {1 - o[1], o[2], 1 - o[2], o[0] / (1 - std::pow(o[1], step)), rectified, o[3]});
}

// lr, beta1, beta2, eps, weight_decay, maximize; step
void adamax(const double* o, double* s, bool, double* out) {
  const double step = s[0] += 1;
  out = pull(out, o[5] != 0, o[4]);
  put(out, {1 - o[1], o[2], o[0] / (1 - std::pow(o[1], step)), o[3]});
}

// lr, lr_decay, weight_decay, eps, maximize; step
void adagrad(const double* o, double* s, bool, double* out) {
  const double step = s[0] += 1;
  out = pull(out, o[4] != 0, o[2]);
  put(out, {o[0] / (1 + (step - 1) * o[1]), o[3]});
}

// lr, rho, eps, weight_decay, maximize; step
void adadelta(const double* o, double* s, bool, double* out) {
  s[0] += 1;
  out = pull(out, o[4] != 0, o[3]);
  put(out, {o[0], o[1], 1 - o[1], o[2]});
}

// lr, alpha, eps, weight_decay, momentum, centered, maximize; step
OptimizerRule rmsprop_kernel(const double* o) {
  if (o[5] != 0)
    return o[4] > 0 ? OptimizerRule::RmsPropCenteredMomentum : OptimizerRule::RmsPropCentered;
  return o[4] > 0 ? OptimizerRule::RmsPropMomentum : OptimizerRule::RmsProp;
}
void rmsprop(const double* o, double* s, bool, double* out) {
  s[0] += 1;
  out = pull(out, o[6] != 0, o[3]);
  put(out, {o[0], o[1], 1 - o[1], o[2], o[4]});
}

// etaminus, etaplus, least, most, maximize; step
void rprop(const double* o, double* s, bool, double* out) {
  s[0] += 1;
  put(out, {o[4] != 0 ? -1.0 : 1.0, o[0], o[1], o[2], o[3]});
}

// lr, lambd, alpha, t0, weight_decay, maximize; step, eta, mu
void asgd(const double* o, double* s, bool, double* out) {
  const double step = s[0] += 1;
  out = pull(out, o[5] != 0, o[4]);
  put(out, {1 - o[1] * s[1], s[1], s[2], s[2] == 1 ? 1.0 : 0.0});
  s[1] = o[0] / std::pow(1 + o[1] * o[0] * step, o[2]);
  s[2] = 1 / std::max(1.0, step - o[3]);
}

template <OptimizerRule rule>
OptimizerRule always(const double*) {
  return rule;
}

constexpr OptimizerRuleInfo kRules[] = {
    {"sgd", "SGD.step", 7, 0, sgd_kernel, sgd},
    {"adam", "Adam.step", 8, 1, adam_kernel, adam},
    {"nadam", "NAdam.step", 8, 2, always<OptimizerRule::NAdam>, nadam},
    {"radam", "RAdam.step", 7, 1, always<OptimizerRule::RAdam>, radam},
    {"adamax", "Adamax.step", 6, 1, always<OptimizerRule::Adamax>, adamax},
    {"adagrad", "Adagrad.step", 5, 1, always<OptimizerRule::Adagrad>, adagrad},
    {"adadelta", "Adadelta.step", 5, 1, always<OptimizerRule::Adadelta>, adadelta},
    {"rmsprop", "RMSprop.step", 7, 1, rmsprop_kernel, rmsprop},
    {"rprop", "Rprop.step", 5, 1, always<OptimizerRule::Rprop>, rprop},
    {"asgd", "ASGD.step", 6, 3, always<OptimizerRule::Asgd>, asgd},
};

}  // namespace

const OptimizerRuleInfo& optimizer_rule(std::string_view name) {
  for (const OptimizerRuleInfo& rule : kRules) {
    if (name == rule.name) return rule;
  }
  fail(ErrorKind::Argument, "optimizer_step", "there is no rule of the name '", name, "'");
}

}  // namespace rush
