#include "cpu/kernels/ctc_tables.h"

#include "functors/math.h"

namespace rush {

namespace RUSH_ISA {
namespace {

template <class T>
struct Ctc {
  static T log_sum(T a, T b, T c) {
    T most = a > b ? a : b;
    most = most > c ? most : c;
    // Where all are -inf, their differences would be NaN.
    const T shift = most > -limits<T>::inf ? most : T(0);
    return math::log(math::exp(a - shift) + math::exp(b - shift) + math::exp(c - shift)) + shift;
  }

  static void forward(const T* before, const T* skip, const T* emit, T* next, int64_t n) {
#pragma omp simd
    for (int64_t s = 0; s < n; ++s)
      next[s] = emit[s] + log_sum(before[s], before[s - 1], before[s - 2] + skip[s]);
  }

  static void backward(const T* after, const T* skip, const T* emit, T* next, int64_t n) {
#pragma omp simd
    for (int64_t s = 0; s < n; ++s)
      next[s] = emit[s] + log_sum(after[s], after[s + 1], after[s + 2] + skip[s + 2]);
  }

  static void posterior(const T* alpha, const T* beta, const T* emit, T loss, T* out, int64_t n) {
#pragma omp simd
    for (int64_t s = 0; s < n; ++s) {
      // A label of probability zero is in no path; -inf - (-inf) would be NaN.
      const T shared = emit[s] > -limits<T>::inf ? emit[s] : T(0);
      out[s] = math::exp(alpha[s] + beta[s] - shared + loss);
    }
  }

  static void exponentials(const T* x, T* out, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = math::exp(x[i]);
  }

  static constexpr CtcTable<T> table = {forward, backward, posterior, exponentials};
};

}  // namespace
}  // namespace RUSH_ISA

template <>
const CtcTable<float>* ctc_table<Isa::RUSH_ISA, float>() {
  return &RUSH_ISA::Ctc<float>::table;
}
template <>
const CtcTable<double>* ctc_table<Isa::RUSH_ISA, double>() {
  return &RUSH_ISA::Ctc<double>::table;
}

}  // namespace rush
