// optimizer.cpp: the optimisers' functors as loops over elements that lie end to end.
#include "functors/optimizer.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cpu/kernels/optimizer_tables.h"

namespace rush::RUSH_ISA {

namespace {

template <class F, class T, size_t... N>
F with_numbers(const double* numbers, std::index_sequence<N...>) {
  return F{T(numbers[N])...};
}

template <class F, class T, class... State>
void elements(const F f, T* p, const T* g, int64_t n, State*... states) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) f(p[i], g[i], states[i]...);
}

template <template <class> class F, class T>
void step_loop(char* const* ptrs, int64_t n, const double* numbers) {
  using Rule = F<T>;
  const Rule f = with_numbers<Rule, T>(numbers, std::make_index_sequence<Rule::kNumbers>{});
  [&]<size_t... S>(std::index_sequence<S...>) {
    elements(f, reinterpret_cast<T*>(ptrs[0]), reinterpret_cast<const T*>(ptrs[1]), n,
             reinterpret_cast<T*>(ptrs[2 + S])...);
  }(std::make_index_sequence<Rule::kStates>{});
}

template <template <class> class F, class T>
constexpr OptimizerEntry entry() {
  static_assert(F<T>::kStates <= kMaxOptimizerStates && F<T>::kNumbers <= kMaxOptimizerNumbers);
  return {step_loop<F, T>, F<T>::kStates, F<T>::kNumbers};
}

template <class T>
constexpr OptimizerTable kTable = {{
    entry<optimizers::Sgd, T>(),
    entry<optimizers::SgdMomentum, T>(),
    entry<optimizers::Adam, T>(),
    entry<optimizers::AdamMax, T>(),
    entry<optimizers::NAdam, T>(),
    entry<optimizers::RAdam, T>(),
    entry<optimizers::Adamax, T>(),
    entry<optimizers::Adagrad, T>(),
    entry<optimizers::Adadelta, T>(),
    entry<optimizers::RmsProp, T>(),
    entry<optimizers::RmsPropMomentum, T>(),
    entry<optimizers::RmsPropCentered, T>(),
    entry<optimizers::RmsPropCenteredMomentum, T>(),
    entry<optimizers::Rprop, T>(),
    entry<optimizers::Asgd, T>(),
}};

template <class T>
T power_of(T a, double p) {
  return p == 0 ? T(a != T(0)) : math::pow(a, T(p));
}

// Eight lanes of partial sums, in double: the result does not depend on the instruction set's width
// by more than the rounding of doubles.
template <class T>
double sum_of_powers(const char* data, int64_t n, double p) {
  const T* x = reinterpret_cast<const T*>(data);
  double sum = 0;
  if (p == 2) {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += double(x[i]) * double(x[i]);
  } else if (p == 1) {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += double(math::fabs(x[i]));
  } else if (p == limits<double>::inf || p == -limits<double>::inf) {
    T most = math::fabs(x[0]);
    for (int64_t i = 1; i < n; ++i) {
      const T a = math::fabs(x[i]);
      const bool better = p > 0 ? a > most : a < most;
      most = (better || math::isnan(a)) && !math::isnan(most) ? a : most;
    }
    sum = double(most);
  } else {
    for (int64_t i = 0; i < n; ++i) sum += power_of(double(math::fabs(x[i])), p);
  }
  return sum;
}

template <class T>
void scale(char* data, int64_t n, double factor) {
  T* x = reinterpret_cast<T*>(data);
  const T f = T(factor);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) x[i] *= f;
}

template <class T>
bool unscale(char* data, int64_t n, double factor) {
  T* x = reinterpret_cast<T*>(data);
  const T f = T(factor);
  T bad = 0;
#pragma omp simd reduction(+ : bad)
  for (int64_t i = 0; i < n; ++i) {
    bad += x[i] - x[i];  // nan and inf leave nan behind, everything else 0
    x[i] *= f;
  }
  return bad == T(0);
}

template <class T>
constexpr ListKernels kLists = {sum_of_powers<T>, scale<T>, unscale<T>};

}  // namespace

}  // namespace rush::RUSH_ISA

namespace rush {

template <>
const OptimizerTable* optimizer_table<Isa::RUSH_ISA, float>() {
  return &RUSH_ISA::kTable<float>;
}
template <>
const OptimizerTable* optimizer_table<Isa::RUSH_ISA, double>() {
  return &RUSH_ISA::kTable<double>;
}
template <>
const ListKernels* list_kernels<Isa::RUSH_ISA, float>() {
  return &RUSH_ISA::kLists<float>;
}
template <>
const ListKernels* list_kernels<Isa::RUSH_ISA, double>() {
  return &RUSH_ISA::kLists<double>;
}

}  // namespace rush
