#include "cpu/kernels/ctc_tables.h"

#include "functors/math.h"

namespace rush {

namespace RUSH_ISA {
namespace {

template <class T>
struct Ctc {
  // Where all are -inf, their differences would be NaN: then the largest finite number stands in.
  [[gnu::always_inline]] static inline T log_sum(T a, T b, T c) {
    T most = a > b ? a : b;
    most = most > c ? most : c;
    most = most > limits<T>::lowest ? most : limits<T>::lowest;
    return math::log(math::exp(a - most) + math::exp(b - most) + math::exp(c - most)) + most;
  }

  static void forward(const T* before, const T* skip, const T* emit, T* next, int64_t n) {
    const T *one = before - 1, *two = before - 2;
#pragma omp simd
    for (int64_t s = 0; s < n; ++s)
      next[s] = emit[s] + log_sum(before[s], one[s], two[s] + skip[s]);
  }

  static void backward(const T* after, const T* skip, const T* emit, T* next, int64_t n) {
    const T *one = after + 1, *two = after + 2, *leap = skip + 2;
#pragma omp simd
    for (int64_t s = 0; s < n; ++s) next[s] = emit[s] + log_sum(after[s], one[s], two[s] + leap[s]);
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
