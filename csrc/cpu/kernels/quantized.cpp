// quantized.cpp: between numbers and the integers of 8 bits that stand for them.
//
// The order of operations is that of PyTorch's kernels for x86, so that ties fall to the same side:
// the scale's inverse, and one rounding of product and zero (which the compiler joins where the
// processor has FMA).
#include "cpu/kernels/quantized_tables.h"

#include <cmath>
#include <limits>

namespace rush {
namespace RUSH_ISA {
namespace {

template <class T>
struct Loops {
  static constexpr float kLeast = float(std::numeric_limits<T>::min());

  // NaN fails the first comparison, and is the largest.
  static T rounded(float steps, float most) {
    float v = steps < most ? steps : most;
    v = v > kLeast ? v : kLeast;
    return T(int32_t(__builtin_nearbyintf(v)));
  }

  static void quantize(const float* x, int64_t n, FloatSteps steps, float most, bool zero_last,
                       T* out) {
    const float inverse = 1.0f / steps.scale, zero = steps.zero;
    if (zero_last) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i)
        out[i] = rounded(__builtin_nearbyintf(x[i] * inverse) + zero, most);
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] = rounded(x[i] * inverse + zero, most);
    }
  }

  static void dequantize(const T* x, int64_t n, FloatSteps steps, float* out) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = (float(int32_t(x[i])) - steps.zero) * steps.scale;
  }

  template <class F>
  static void combine(const T* a, FloatSteps of_a, const T* b, FloatSteps of_b, int64_t n,
                      bool relu, FloatSteps of_out, T* out, F f) {
    const float inverse = 1.0f / of_out.scale, most = float(std::numeric_limits<T>::max());
    const float floor = relu ? 0.0f : -std::numeric_limits<float>::infinity();
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const float x = (float(int32_t(a[i])) - of_a.zero) * of_a.scale;
      const float y = (float(int32_t(b[i])) - of_b.zero) * of_b.scale;
      const float z = f(x, y);
      out[i] = rounded((z > floor ? z : floor) * inverse + of_out.zero, most);
    }
  }
  static void add(const T* a, FloatSteps of_a, const T* b, FloatSteps of_b, int64_t n, bool relu,
                  FloatSteps of_out, T* out) {
    combine(a, of_a, b, of_b, n, relu, of_out, out, [](float x, float y) { return x + y; });
  }
  static void multiply(const T* a, FloatSteps of_a, const T* b, FloatSteps of_b, int64_t n,
                       bool relu, FloatSteps of_out, T* out) {
    combine(a, of_a, b, of_b, n, relu, of_out, out, [](float x, float y) { return x * y; });
  }

  static constexpr QuantizedTable<T> table = {quantize, dequantize, add, multiply};
};

Range range(const float* x, int64_t n) {
  constexpr float kMost = std::numeric_limits<float>::infinity();
  constexpr int kLanes = 32;
  float low[kLanes], high[kLanes];
  int32_t odd[kLanes];  // a NaN was there
  for (int j = 0; j < kLanes; ++j) low[j] = kMost, high[j] = -kMost, odd[j] = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int j = 0; j < kLanes; ++j) {
      const float v = x[i + j];
      low[j] = v < low[j] ? v : low[j];
      high[j] = v > high[j] ? v : high[j];
      odd[j] |= v != v;
    }
  }
  Range all{kMost, -kMost};
  for (; i < n; ++i) {
    low[0] = x[i] < low[0] ? x[i] : low[0];
    high[0] = x[i] > high[0] ? x[i] : high[0];
    odd[0] |= x[i] != x[i];
  }
  for (int j = 0; j < kLanes; ++j) {
    all.low = low[j] < all.low ? low[j] : all.low;
    all.high = high[j] > all.high ? high[j] : all.high;
    odd[0] |= odd[j];
  }
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  return odd[0] ? Range{kNan, kNan} : all;
}

uint8_t bits(const uint8_t* x, int64_t n) {
  uint8_t all = 0;
#pragma omp simd reduction(| : all)
  for (int64_t i = 0; i < n; ++i) all |= x[i];
  return all;
}

constexpr QuantizedTables tables = {Loops<uint8_t>::table, Loops<int8_t>::table, range, bits};

}  // namespace
}  // namespace RUSH_ISA

template <>
const QuantizedTables* quantized_tables<Isa::RUSH_ISA>() {
  return &RUSH_ISA::tables;
}

}  // namespace rush
