// optimizer.h: one step of every optimiser for one element: the parameter, its gradient, its
// states.
//
// - A functor's fields are the numbers of one parameter's step, all of type T, in the order in
//   which ops/optim/optimizer_rules.cpp fills them: what depends on the step count (bias corrections,
//   decayed rates) is worked out there, once per parameter.
// - The states come in the order in which the rule names them there.
// - As for all functors: no std, no branches on data, so that g++ vectorises and NVRTC compiles it.
#pragma once

#include "math.h"

namespace rush {

// The functors below, in their order.
enum class OptimizerRule : u8 {
  Sgd,
  SgdMomentum,
  Adam,
  AdamMax,
  NAdam,
  RAdam,
  Adamax,
  Adagrad,
  Adadelta,
  RmsProp,
  RmsPropMomentum,
  RmsPropCentered,
  RmsPropCenteredMomentum,
  Rprop,
  Asgd,
};
inline constexpr int kOptimizerRules = 15;
inline constexpr int kMaxOptimizerStates = 3;
inline constexpr int kMaxOptimizerNumbers = 10;

}  // namespace rush

namespace rush::optimizers {

// The gradient that a rule works on: negated to maximise, with weight decay added. Decay that
// is off adds nothing at all: 0 * inf would be nan.
template <class T>
struct Pull {
  T sign, decay;
  RUSH_FN T operator()(T p, T g) const {
    const T signed_grad = g * sign;
    return decay != T(0) ? signed_grad + decay * p : signed_grad;
  }
};

// From a towards b. The second form is exact at b.
template <class T>
RUSH_FN T towards(T a, T b, T weight) {
  const T d = b - a;
  return weight < T(0.5) ? a + weight * d : b - d * (T(1) - weight);
}
template <class T>
RUSH_FN T larger(T a, T b) {  // nan wins
  return (a > b) | (a != a) ? a : b;
}
template <class T>
RUSH_FN T sign_of(T x) {
  return T(x > T(0)) - T(x < T(0));
}

template <class T>
struct Sgd {
  static constexpr int kStates = 0, kNumbers = 3;
  Pull<T> pull;
  T lr;
  RUSH_FN void operator()(T& p, T g) const { p -= lr * pull(p, g); }
};

template <class T>
struct SgdMomentum {
  static constexpr int kStates = 1, kNumbers = 7;
  Pull<T> pull;
  T lr, momentum, fresh, first, nesterov;  // fresh: the new gradient's weight; the last two: flags
  RUSH_FN void operator()(T& p, T gradient, T& buffer) const {
    const T g = pull(p, gradient);
    const T kept = momentum * buffer + fresh * g;
    buffer = first != T(0) ? g : kept;
    const T ahead = g + momentum * buffer;
    p -= lr * (nesterov != T(0) ? ahead : buffer);
  }
};

template <class T>
struct Adam {
  static constexpr int kStates = 2, kNumbers = 9;
  Pull<T> pull;
  T shrink, weight1, beta2, weight2, step, scale, eps;  // scale: 1 / sqrt(bias correction 2)
  RUSH_FN void operator()(T& p, T gradient, T& mean, T& square) const {
    const T g = pull(p, gradient);
    mean = towards(mean, g, weight1);
    square = beta2 * square + weight2 * (g * g);
    p = p * shrink - step * (mean / (math::sqrt(square) * scale + eps));
  }
};

template <class T>
struct AdamMax {  // AMSGrad
  static constexpr int kStates = 3, kNumbers = 9;
  Pull<T> pull;
  T shrink, weight1, beta2, weight2, step, scale, eps;
  RUSH_FN void operator()(T& p, T gradient, T& mean, T& square, T& largest) const {
    const T g = pull(p, gradient);
    mean = towards(mean, g, weight1);
    square = beta2 * square + weight2 * (g * g);
    largest = larger(largest, square);
    p = p * shrink - step * (mean / (math::sqrt(largest) * scale + eps));
  }
};

template <class T>
struct NAdam {
  static constexpr int kStates = 2, kNumbers = 10;
  Pull<T> pull;
  T shrink, weight1, beta2, weight2, correction2, eps, gradient_step, mean_step;
  RUSH_FN void operator()(T& p, T gradient, T& mean, T& square) const {
    const T g = pull(p, gradient);
    mean = towards(mean, g, weight1);
    square = beta2 * square + weight2 * (g * g);
    const T denominator = math::sqrt(square / correction2) + eps;
    p = p * shrink - gradient_step * (g / denominator) - mean_step * (mean / denominator);
  }
};

template <class T>
struct RAdam {
  static constexpr int kStates = 2, kNumbers = 9;
  Pull<T> pull;
  T shrink, weight1, beta2, weight2, step, rectified,
      eps;  // rectified: 0 while there is too little
  RUSH_FN void operator()(T& p, T gradient, T& mean, T& square) const {
    const T g = pull(p, gradient);
    mean = towards(mean, g, weight1);
    square = beta2 * square + weight2 * (g * g);
    const T adaptive = rectified / (math::sqrt(square) + eps);
    p = p * shrink - step * mean * (rectified != T(0) ? adaptive : T(1));
  }
};

template <class T>
struct Adamax {
  static constexpr int kStates = 2, kNumbers = 6;
  Pull<T> pull;
  T weight1, beta2, step, eps;
  RUSH_FN void operator()(T& p, T gradient, T& mean, T& norm) const {
    const T g = pull(p, gradient);
    mean = towards(mean, g, weight1);
    norm = larger(beta2 * norm, math::fabs(g) + eps);
    p -= step * (mean / norm);
  }
};

template <class T>
struct Adagrad {
  static constexpr int kStates = 1, kNumbers = 4;
  Pull<T> pull;
  T step, eps;
  RUSH_FN void operator()(T& p, T gradient, T& sum) const {
    const T g = pull(p, gradient);
    sum += g * g;
    p -= step * (g / (math::sqrt(sum) + eps));
  }
};

template <class T>
struct Adadelta {
  static constexpr int kStates = 2, kNumbers = 6;
  Pull<T> pull;
  T lr, rho, weight, eps;
  RUSH_FN void operator()(T& p, T gradient, T& square, T& moved) const {
    const T g = pull(p, gradient);
    square = rho * square + weight * (g * g);
    const T delta = math::sqrt(moved + eps) / math::sqrt(square + eps) * g;
    moved = rho * moved + weight * (delta * delta);
    p -= lr * delta;
  }
};

template <class T>
struct RmsProp {
  static constexpr int kStates = 1, kNumbers = 7;
  Pull<T> pull;
  T lr, alpha, weight, eps, momentum;
  RUSH_FN T averaged(T g, T& square) const {
    square = alpha * square + weight * (g * g);
    return math::sqrt(square) + eps;
  }
  RUSH_FN T centered(T g, T& square, T& mean) const {
    square = alpha * square + weight * (g * g);
    mean = towards(mean, g, weight);
    return math::sqrt(square - mean * mean) + eps;
  }
  RUSH_FN void operator()(T& p, T gradient, T& square) const {
    const T g = pull(p, gradient);
    p -= lr * (g / averaged(g, square));
  }
};
template <class T>
struct RmsPropMomentum : RmsProp<T> {
  static constexpr int kStates = 2;
  RUSH_FN void operator()(T& p, T gradient, T& square, T& buffer) const {
    const T g = this->pull(p, gradient);
    buffer = this->momentum * buffer + g / this->averaged(g, square);
    p -= this->lr * buffer;
  }
};
template <class T>
struct RmsPropCentered : RmsProp<T> {
  static constexpr int kStates = 2;
  RUSH_FN void operator()(T& p, T gradient, T& square, T& mean) const {
    const T g = this->pull(p, gradient);
    p -= this->lr * (g / this->centered(g, square, mean));
  }
};
template <class T>
struct RmsPropCenteredMomentum : RmsProp<T> {
  static constexpr int kStates = 3;
  RUSH_FN void operator()(T& p, T gradient, T& square, T& buffer, T& mean) const {
    const T g = this->pull(p, gradient);
    buffer = this->momentum * buffer + g / this->centered(g, square, mean);
    p -= this->lr * buffer;
  }
};

template <class T>
struct Rprop {
  static constexpr int kStates = 2, kNumbers = 5;
  T sign, shrink, grow, least, most;
  RUSH_FN void operator()(T& p, T gradient, T& previous, T& size) const {
    const T g = gradient * sign;
    const T agreement = g * previous;
    const T factor = agreement > T(0) ? grow : (agreement < T(0) ? shrink : T(1));
    const T scaled = size * factor;
    const T bounded = scaled < least ? least : scaled;
    size = bounded > most ? most : bounded;
    previous = agreement < T(0) ? T(0) : g;  // after a turn, the next step starts afresh
    p -= sign_of(previous) * size;
  }
};

template <class T>
struct Asgd {
  static constexpr int kStates = 1, kNumbers = 6;
  Pull<T> pull;
  T shrink, eta, mu, copies;  // copies: a flag, the average is the parameter itself so far
  RUSH_FN void operator()(T& p, T gradient, T& average) const {
    const T g = pull(p, gradient);
    p = p * shrink - eta * g;
    const T moved = average + (p - average) * mu;
    average = copies != T(0) ? p : moved;
  }
};

}  // namespace rush::optimizers

namespace rush {

// How many states a rule keeps for each parameter.
RUSH_FN constexpr int optimizer_states(OptimizerRule rule) {
  using namespace optimizers;
  constexpr int states[kOptimizerRules] = {Sgd<float>::kStates,
                                           SgdMomentum<float>::kStates,
                                           Adam<float>::kStates,
                                           AdamMax<float>::kStates,
                                           NAdam<float>::kStates,
                                           RAdam<float>::kStates,
                                           Adamax<float>::kStates,
                                           Adagrad<float>::kStates,
                                           Adadelta<float>::kStates,
                                           RmsProp<float>::kStates,
                                           RmsPropMomentum<float>::kStates,
                                           RmsPropCentered<float>::kStates,
                                           RmsPropCenteredMomentum<float>::kStates,
                                           Rprop<float>::kStates,
                                           Asgd<float>::kStates};
  return states[int(rule)];
}

}  // namespace rush
