// convert_flat.cpp: the frequent conversions between operands that lie end to end, vectorised.
#include <utility>

#include "core/dtype.h"
#include "cpu/kernels/convert_tables.h"
#include "functors/convert.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace rush::RUSH_ISA {

namespace {

constexpr DType kFrequent[] = {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16,
                               DType::Int64,   DType::Int32,   DType::UInt8,   DType::Bool};
constexpr int kCount = 8;
constexpr DType kWide[] = {DType::Float32, DType::BFloat16, DType::Float16};

template <class From, class To>
void flat(char* dst, int64_t, const char* src, int64_t, int64_t n) {
  To* to = reinterpret_cast<To*>(dst);
  const From* from = reinterpret_cast<const From*>(src);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
}

// Bools become zeros and ones first, a piece at a time: g++ widens bytes by vectors, but not what it
// has just compared.
template <class To>
void flat_truth(char* dst, int64_t, const char* src, int64_t, int64_t n) {
  constexpr int64_t piece = 2048;
  alignas(64) uint8_t ones[piece];
  for (int64_t done = 0; done < n; done += piece) {
    const int64_t m = n - done < piece ? n - done : piece;
    const auto* from = reinterpret_cast<const uint8_t*>(src + done);
#pragma omp simd
    for (int64_t i = 0; i < m; ++i) ones[i] = from[i] != 0;
    flat<uint8_t, To>(dst + done * int64_t(sizeof(To)), 0, reinterpret_cast<const char*>(ones), 0,
                      m);
  }
}

#ifdef __F16C__
// The processor's own conversion, which g++ does not find in the bit operations of types.h.
template <>
void flat<half, float>(char* dst, int64_t, const char* src, int64_t, int64_t n) {
  float* to = reinterpret_cast<float*>(dst);
  const half* from = reinterpret_cast<const half*>(src);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(h));
  }
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}
template <>
void flat<float, half>(char* dst, int64_t, const char* src, int64_t, int64_t n) {
  half* to = reinterpret_cast<half*>(dst);
  const float* from = reinterpret_cast<const float*>(src);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), h);
  }
  for (; i < n; ++i) to[i] = half(from[i]);
}
#endif

template <class T>
void round_to(char* const* ptrs, int64_t n, const Number*) {
  float* to = reinterpret_cast<float*>(ptrs[0]);
  const float* from = reinterpret_cast<const float*>(ptrs[1]);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(T(from[i]));
}

#ifdef __F16C__
template <>
void round_to<half>(char* const* ptrs, int64_t n, const Number*) {
  float* to = reinterpret_cast<float*>(ptrs[0]);
  const float* from = reinterpret_cast<const float*>(ptrs[1]);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(h));
  }
  for (; i < n; ++i) to[i] = static_cast<float>(half(from[i]));
}
#endif

template <DType from, DType to>
constexpr void add_pair(ConvertTable& t) {
  using From = typename CppType<from>::type;
  using To = typename CppType<to>::type;
  if constexpr (from == DType::Bool)
    t.fn[static_cast<int>(from)][static_cast<int>(to)] = flat_truth<To>;
  else
    t.fn[static_cast<int>(from)][static_cast<int>(to)] = flat<From, To>;
}
// The float8 types of networks, from and to what those are computed in.
template <DType small, int... wide>
constexpr void add_float8(ConvertTable& t, std::integer_sequence<int, wide...>) {
  (add_pair<small, kWide[wide]>(t), ...);
  (add_pair<kWide[wide], small>(t), ...);
}

template <int... pair>
constexpr ConvertTable make(std::integer_sequence<int, pair...>) {
  ConvertTable t{};
  t.to_half = round_to<half>;
  t.to_bfloat16 = round_to<bfloat16>;
  (
      [&] {
        constexpr DType from = kFrequent[pair / kCount], to = kFrequent[pair % kCount];
        if constexpr (from != to) add_pair<from, to>(t);
      }(),
      ...);
  add_float8<DType::Float8E4M3FN>(t, std::make_integer_sequence<int, 3>{});
  add_float8<DType::Float8E5M2>(t, std::make_integer_sequence<int, 3>{});
  return t;
}

}  // namespace

constinit const ConvertTable flat_conversions =
    make(std::make_integer_sequence<int, kCount * kCount>{});

}  // namespace rush::RUSH_ISA
