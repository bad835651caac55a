// weight_only.cpp: rows by weights of 8 or 4 bits. The weights are read once and turned into floats
// in registers; sums run in fixed lanes.
#include "cpu/kernels/weight_only_tables.h"

#include "functors/types.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace rush {
namespace RUSH_ISA {
namespace {

constexpr int kLanes = 32;

template <int R>
void dots(const float* x, const int8_t* w, int64_t k, float* out) {
  float lanes[R][kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes) {
    float numbers[kLanes];
#pragma omp simd
    for (int j = 0; j < kLanes; ++j) numbers[j] = float(w[i + j]);
    for (int r = 0; r < R; ++r) {
#pragma omp simd
      for (int j = 0; j < kLanes; ++j) lanes[r][j] += x[r * k + i + j] * numbers[j];
    }
  }
  for (int r = 0; r < R; ++r) {
    float rest = 0;
    for (int64_t e = i; e < k; ++e) rest += x[r * k + e] * float(w[e]);
    for (int width = kLanes / 2; width > 0; width /= 2)
      for (int j = 0; j < width; ++j) lanes[r][j] += lanes[r][j + width];
    out[r] = lanes[r][0] + rest;
  }
}

void int8_dots(const float* x, int64_t rows, const int8_t* w, int64_t k, float* out) {
  int64_t r = 0;
  for (; r + 2 <= rows; r += 2) dots<2>(x + r * k, w, k, out + r);
  if (r < rows) dots<1>(x + r * k, w, k, out + r);
}

// sums[j] = the sum of x[i] * w[i][j] over one group of a block of 32.
void group_sums(const float* x, const uint8_t* w, int64_t group, float* sums) {
#ifdef __AVX2__
  __m256 all[4] = {};
  const __m128i mask = _mm_set1_epi8(15);
  for (int64_t i = 0; i < group; ++i) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(w + i * 16));
    const __m128i halves[2] = {_mm_and_si128(bytes, mask),
                               _mm_and_si128(_mm_srli_epi16(bytes, 4), mask)};
    const __m256 v = _mm256_broadcast_ss(x + i);
    for (int h = 0; h < 2; ++h) {
      const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(halves[h]));
      const __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(halves[h], 8)));
      all[2 * h] = _mm256_fmadd_ps(v, low, all[2 * h]);
      all[2 * h + 1] = _mm256_fmadd_ps(v, high, all[2 * h + 1]);
    }
  }
  for (int v = 0; v < 4; ++v) _mm256_storeu_ps(sums + 8 * v, all[v]);
#else
  for (int j = 0; j < kInt4Block; ++j) sums[j] = 0;
  for (int64_t i = 0; i < group; ++i) {
    for (int j = 0; j < 16; ++j) {
      sums[j] += x[i] * float(w[i * 16 + j] & 15);
      sums[j + 16] += x[i] * float(w[i * 16 + j] >> 4);
    }
  }
#endif
}
void short_group_sums(const float* x, const uint8_t* w, int64_t group, float* sums) {
  for (int j = 0; j < 16; ++j) sums[j] = 0;
  for (int64_t i = 0; i < group; ++i) {
    for (int j = 0; j < 8; ++j) {
      sums[2 * j] += x[i] * float(w[i * 8 + j] & 15);
      sums[2 * j + 1] += x[i] * float(w[i * 8 + j] >> 4);
    }
  }
}

void int4_block(const float* x, int64_t rows, const uint8_t* w, int64_t columns, int64_t k,
                int64_t group, const float* scales, int64_t scale_step, float* out,
                int64_t out_step) {
  for (int64_t r = 0; r < rows; ++r) {
    float totals[kInt4Block] = {}, sums[kInt4Block];
    for (int64_t g = 0; g < k / group; ++g) {
      const float* part = x + r * k + g * group;
      const uint8_t* own = w + g * group * columns / 2;
      if (columns == kInt4Block)
        group_sums(part, own, group, sums);
      else
        short_group_sums(part, own, group, sums);
      float of_x = 0;
      for (int64_t i = 0; i < group; ++i) of_x += part[i];
      const float* pairs = scales + g * scale_step;
      for (int64_t j = 0; j < columns; ++j)
        totals[j] += pairs[2 * j] * (sums[j] - 8 * of_x) + pairs[2 * j + 1] * of_x;
    }
    for (int64_t j = 0; j < columns; ++j) out[r * out_step + j] = totals[j];
  }
}

constexpr WeightOnlyTable table = {int8_dots, int4_block};

}  // namespace
}  // namespace RUSH_ISA

template <>
const WeightOnlyTable* weight_only_table<Isa::RUSH_ISA>() {
  return &RUSH_ISA::table;
}

}  // namespace rush
