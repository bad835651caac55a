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
  // Some vectors of the result at a time stay in registers while all rows go by. They are as wide as
  // the registers: wider ones are kept in memory by the compiler, and each sum waits for it.
#if defined(__AVX512F__)
  static constexpr int64_t kBytes = 64;
#elif defined(__AVX2__)
  static constexpr int64_t kBytes = 32;
#else
  static constexpr int64_t kBytes = 16;
#endif
  typedef T Vector __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
  static constexpr int64_t kVector = kBytes / int64_t(sizeof(T));
  template <int Vectors, bool Weighted>
  static void sum_part(T* y, const T* table, const int64_t* index, const T* weight, int64_t n,
                       int64_t width) {
    Vector sum[Vectors] = {};
    for (int64_t i = 0; i < n; ++i) {
      const auto* row = reinterpret_cast<const Vector*>(table + index[i] * width);
      const T w = Weighted ? weight[i] : T(1);
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) {
        if constexpr (Weighted)
          sum[v] += w * row[v];
        else
          sum[v] += row[v];
      }
    }
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v) reinterpret_cast<Vector*>(y)[v] = sum[v];
  }
  // As many parts of `Vectors` vectors as there are; then the rest by smaller ones.
  template <int Vectors, bool Weighted>
  static int64_t sum_parts(T* y, const T* table, const int64_t* index, const T* weight, int64_t n,
                           int64_t width, int64_t at = 0) {
    for (; at + Vectors * kVector <= width; at += Vectors * kVector)
      sum_part<Vectors, Weighted>(y + at, table + at, index, weight, n, width);
    if constexpr (Vectors > 1)
      return sum_parts<Vectors / 2, Weighted>(y, table, index, weight, n, width, at);
    return at;
  }
  static void sum_rows(T* y, const T* table, const int64_t* index, const T* weight, int64_t n,
                       int64_t width) {
    const int64_t at = weight ? sum_parts<8, true>(y, table, index, weight, n, width)
                              : sum_parts<8, false>(y, table, index, weight, n, width);
    for (int64_t k = at; k < width; ++k) y[k] = 0;
    for (int64_t i = 0; i < n && at < width; ++i) {
      const T* row = table + index[i] * width;
      const T w = weight ? weight[i] : T(1);
      for (int64_t k = at; k < width; ++k) y[k] += w * row[k];
    }
  }
  static void masked_scale(T* y, const T* x, const uint8_t* keep, T scale, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * (T(keep[i] != 0) * scale);
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
  // Outside counts as zero, whatever its weight is and the image holds. The load is not
  // conditional: only so does it become one gather instruction.
  static T times_found(T w, const T* x, int32_t place) {
    const T product = w * x[place < 0 ? 0 : place];
    return place < 0 ? T(0) : product;
  }
  template <bool Inside>
  static T weighted(T w, const T* x, int32_t place) {
    if constexpr (Inside)
      return w * x[place];
    else
      return times_found(w, x, place);
  }
  template <int Taps, bool Inside>
  static void gather_fixed(T* y, const T* x, const int32_t* place, const T* weight, int64_t step,
                           int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      T sum = 0;
      for (int64_t k = 0; k < Taps; ++k)
        sum += weighted<Inside>(weight[k * step + i], x, place[k * step + i]);
      y[i] = sum;
    }
  }
  template <bool Inside>
  static void gather_any(T* y, const T* x, const int32_t* place, const T* weight, int64_t taps,
                         int64_t step, int64_t n) {
    if (taps == 1) return gather_fixed<1, Inside>(y, x, place, weight, step, n);
    if (taps == 2) return gather_fixed<2, Inside>(y, x, place, weight, step, n);
    if (taps == 4) return gather_fixed<4, Inside>(y, x, place, weight, step, n);
    for (int64_t i = 0; i < n; ++i) y[i] = 0;
    for (int64_t k = 0; k < taps; ++k) {
      const int32_t* at = place + k * step;
      const T* w = weight + k * step;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] += weighted<Inside>(w[i], x, at[i]);
    }
  }
  static void gather_products(T* y, const T* g, const T* x, const int32_t* place, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] += times_found(g[i], x, place[i]);
  }
  static constexpr LinesTable<T> table = {scale,
                                          add,
                                          sum_rows,
                                          masked_scale,
                                          dot,
                                          largest,
                                          gather_any<false>,
                                          gather_any<true>,
                                          gather_products};
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
