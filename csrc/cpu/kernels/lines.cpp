#include "cpu/kernels/lines_tables.h"

namespace rush {

namespace RUSH_ISA {
namespace {

template <class T>
struct Lines {
  static void scale(T* y, const T* x, T a, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = a * x[i];
  }
  static void add(T* y, const T* x, T a, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] += a * x[i];
  }
  static void masked_scale(T* y, const T* x, const uint8_t* keep, T scale, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * (T(keep[i]) * scale);
  }
  static T dot(const T* x, const T* y, int64_t n) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
    return sum;
  }
  static void largest(T* y, int64_t* place, const T* x, int64_t index, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const bool better = x[i] > y[i] || x[i] != x[i];
      y[i] = better ? x[i] : y[i];
      place[i] = better ? index : place[i];
    }
  }
  static void gather(T* y, const T* x, const int32_t* place, const T* weight, int64_t taps,
                     int64_t step, int64_t n) {
    for (int64_t k = 0; k < taps; ++k) {
      const int32_t* at = place + k * step;
      const T* w = weight + k * step;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        // Outside counts as zero, whatever its weight is and the image holds.
        const bool inside = at[i] >= 0;
        const T part = inside ? w[i] * x[inside ? at[i] : 0] : T(0);
        y[i] = k == 0 ? part : y[i] + part;
      }
    }
  }
  static void gather_products(T* y, const T* g, const T* x, const int32_t* place, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const bool inside = place[i] >= 0;
      y[i] += inside ? g[i] * x[inside ? place[i] : 0] : T(0);
    }
  }
  static constexpr LinesTable<T> table = {scale,   add,    masked_scale,   dot,
                                          largest, gather, gather_products};
};

}  // namespace
}  // namespace RUSH_ISA

template <>
const LinesTable<float>* lines_table<Isa::RUSH_ISA, float>() {
  return &RUSH_ISA::Lines<float>::table;
}
template <>
const LinesTable<double>* lines_table<Isa::RUSH_ISA, double>() {
  return &RUSH_ISA::Lines<double>::table;
}

}  // namespace rush
