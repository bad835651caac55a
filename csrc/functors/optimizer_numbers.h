// optimizer_numbers.h: the numbers of one parameter's step, from a group's options and the
// parameter's scalars (its step count and the like), which move on by one step.
//
// - They become the fields of the functors in optimizer.h, in their order.
// - The host works them out once per parameter; the device does where the scalars are there, as in a
//   captured graph, whose replays know nothing of the host.
// - `single`: the scalars are float32, as the arithmetic on them must be.
#pragma once

#include "math.h"

namespace rush {

inline constexpr int kMaxOptimizerScalars = 3, kMaxOptimizerOptions = 8;

// Whose formula below makes numbers of options and scalars.
enum class OptimizerNumbers : u8 {
  Sgd,
  Adam,
  NAdam,
  RAdam,
  Adamax,
  Adagrad,
  Adadelta,
  RmsProp,
  Rprop,
  Asgd,
};

}  // namespace rush

namespace rush::optimizers {

// The first two fields of most functors: the gradient's sign, and the weight decay added to it.
RUSH_FN double* put_pull(double* out, bool maximize, double decay) {
  out[0] = maximize ? -1 : 1;
  out[1] = decay;
  return out + 2;
}
// The same, where decay may act on the parameter itself instead; then the third field is its
// factor.
RUSH_FN double* put_pull_or_shrink(double* out, bool maximize, double lr, double decay,
                                   bool decoupled) {
  out = put_pull(out, maximize, decoupled ? 0 : decay);
  *out = decoupled ? 1 - lr * decay : 1;
  return out + 1;
}
template <class... Fields>
RUSH_FN void put_fields(double* out, Fields... fields) {
  ((*out++ = double(fields)), ...);
}

// lr, momentum, dampening, weight_decay, nesterov, maximize, first
struct SgdNumbers {
  static constexpr int kOptions = 7, kScalars = 0;
  static RUSH_FN void prepare(const double* o, double*, bool, double* out) {
    out = put_pull(out, o[5] != 0, o[3]);
    if (o[1] == 0) return put_fields(out, o[0]);
    put_fields(out, o[0], o[1], 1 - o[2], o[6], o[4]);
  }
};

// lr, beta1, beta2, eps, weight_decay, amsgrad, maximize, decoupled; step
struct AdamNumbers {
  static constexpr int kOptions = 8, kScalars = 1;
  static RUSH_FN void prepare(const double* o, double* s, bool, double* out) {
    const double step = s[0] += 1;
    const double correction1 = 1 - math::pow(o[1], step), correction2 = 1 - math::pow(o[2], step);
    out = put_pull_or_shrink(out, o[6] != 0, o[0], o[4], o[7] != 0);
    put_fields(out, 1 - o[1], o[2], 1 - o[2], o[0] / correction1, 1 / math::sqrt(correction2),
               o[3]);
  }
};

// lr, beta1, beta2, eps, weight_decay, momentum_decay, decoupled, maximize; step, mu_product
struct NAdamNumbers {
  static constexpr int kOptions = 8, kScalars = 2;
  static RUSH_FN void prepare(const double* o, double* s, bool single, double* out) {
    const double step = s[0] += 1;
    const double mu = o[1] * (1 - 0.5 * math::pow(0.96, step * o[5]));
    const double next = o[1] * (1 - 0.5 * math::pow(0.96, (step + 1) * o[5]));
    s[1] = single ? double(float(s[1]) * float(mu)) : s[1] * mu;
    out = put_pull_or_shrink(out, o[7] != 0, o[0], o[4], o[6] != 0);
    put_fields(out, 1 - o[1], o[2], 1 - o[2], 1 - math::pow(o[2], step), o[3],
               o[0] * (1 - mu) / (1 - s[1]), o[0] * next / (1 - s[1] * next));
  }
};

// lr, beta1, beta2, eps, weight_decay, decoupled, maximize; step
struct RAdamNumbers {
  static constexpr int kOptions = 7, kScalars = 1;
  static RUSH_FN void prepare(const double* o, double* s, bool, double* out) {
    const double step = s[0] += 1;
    const double power2 = math::pow(o[2], step), correction2 = 1 - power2;
    const double most = 2 / (1 - o[2]) - 1, length = most - 2 * step * power2 / correction2;
    double rectified = 0;  // the variance of the adaptive rate is not tractable yet
    if (length > 5) {
      rectified =
          math::sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) *
          math::sqrt(correction2);
    }
    out = put_pull_or_shrink(out, o[6] != 0, o[0], o[4], o[5] != 0);
    put_fields(out, 1 - o[1], o[2], 1 - o[2], o[0] / (1 - math::pow(o[1], step)), rectified, o[3]);
  }
};

// lr, beta1, beta2, eps, weight_decay, maximize; step
struct AdamaxNumbers {
  static constexpr int kOptions = 6, kScalars = 1;
  static RUSH_FN void prepare(const double* o, double* s, bool, double* out) {
    const double step = s[0] += 1;
    out = put_pull(out, o[5] != 0, o[4]);
    put_fields(out, 1 - o[1], o[2], o[0] / (1 - math::pow(o[1], step)), o[3]);
  }
};

// lr, lr_decay, weight_decay, eps, maximize; step
struct AdagradNumbers {
  static constexpr int kOptions = 5, kScalars = 1;
  static RUSH_FN void prepare(const double* o, double* s, bool, double* out) {
    const double step = s[0] += 1;
    out = put_pull(out, o[4] != 0, o[2]);
    put_fields(out, o[0] / (1 + (step - 1) * o[1]), o[3]);
  }
};

// lr, rho, eps, weight_decay, maximize; step
struct AdadeltaNumbers {
  static constexpr int kOptions = 5, kScalars = 1;
  static RUSH_FN void prepare(const double* o, double* s, bool, double* out) {
    s[0] += 1;
    out = put_pull(out, o[4] != 0, o[3]);
    put_fields(out, o[0], o[1], 1 - o[1], o[2]);
  }
};

// lr, alpha, eps, weight_decay, momentum, centered, maximize; step
struct RmsPropNumbers {
  static constexpr int kOptions = 7, kScalars = 1;
  static RUSH_FN void prepare(const double* o, double* s, bool, double* out) {
    s[0] += 1;
    out = put_pull(out, o[6] != 0, o[3]);
    put_fields(out, o[0], o[1], 1 - o[1], o[2], o[4]);
  }
};

// etaminus, etaplus, least, most, maximize; step
struct RpropNumbers {
  static constexpr int kOptions = 5, kScalars = 1;
  static RUSH_FN void prepare(const double* o, double* s, bool, double* out) {
    s[0] += 1;
    put_fields(out, o[4] != 0 ? -1.0 : 1.0, o[0], o[1], o[2], o[3]);
  }
};

// lr, lambd, alpha, t0, weight_decay, maximize; step, eta, mu
struct AsgdNumbers {
  static constexpr int kOptions = 6, kScalars = 3;
  static RUSH_FN void prepare(const double* o, double* s, bool, double* out) {
    const double step = s[0] += 1;
    out = put_pull(out, o[5] != 0, o[4]);
    put_fields(out, 1 - o[1] * s[1], s[1], s[2], s[2] == 1 ? 1.0 : 0.0);
    s[1] = o[0] / math::pow(1 + o[1] * o[0] * step, o[2]);
    const double since = step - o[3];
    s[2] = 1 / (since > 1 ? since : 1);
  }
};

}  // namespace rush::optimizers
