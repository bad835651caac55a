// float8.h: 8-bit floats, for g++ and NVRTC alike. They are storage only: nothing is computed in
// them, and every conversion goes through float.
//
// - e4m3fn: no infinity, one NaN of either sign (0x7f, 0xff). e5m2: the upper byte of a half.
// - fnuz: no infinity, no negative zero; its place, 0x80, is the one NaN.
// - Rounds to nearest even. What is too large (infinities, too) becomes the largest number of
//   e4m3fn, infinity in e5m2 and NaN in the fnuz types, as in PyTorch.
// - e8m0fnu: the exponent of a float alone, for the scales of blocks of numbers: powers of two from
//   2^-127 to 2^127, and NaN (0xff). No sign, no zero, no infinity.
#pragma once

#include "types.h"

namespace rush {

// How many bits of exponent and mantissa, and the exponent's bias.
template <int ExponentBits, int Bias, bool Fnuz>
struct float8 {
  static constexpr int kMantissa = 7 - ExponentBits;
  static constexpr bool kHasInfinity = ExponentBits == 5 && !Fnuz;
  static constexpr float max = ExponentBits == 5 ? 57344.0f : Fnuz ? 240.0f : 448.0f;
  static constexpr float lowest = -max;

  u8 bits;
  float8() = default;
  RUSH_FN explicit float8(float x);
  template <class T>
  RUSH_FN explicit float8(T x) : float8(static_cast<float>(x)) {}
  RUSH_FN operator float() const;
  RUSH_FN static float8 from_bits(u8 b) {
    float8 f;
    f.bits = b;
    return f;
  }
};

using float8_e4m3fn = float8<4, 7, false>;
using float8_e5m2 = float8<5, 15, false>;
using float8_e4m3fnuz = float8<4, 8, true>;
using float8_e5m2fnuz = float8<5, 16, true>;

struct float8_e8m0fnu {
  static constexpr bool kHasInfinity = false;
  static constexpr float max = 0x1p127f, lowest = 0x1p-127f;

  u8 bits;
  float8_e8m0fnu() = default;
  // To the nearest power of two, up from halfway. Below 2^-126: down to 2^-127 as far as that goes,
  // else up, as PyTorch reads the mantissa there. Signs are dropped, zeros become 2^-127.
  RUSH_FN explicit float8_e8m0fnu(float x) {
    const u32 a = bit_cast<u32>(x) & 0x7fffffffu;
    const u32 code = (a + 0x003fffffu + (a >= 0x00800000u ? 1u : 0u)) >> 23;
    bits = static_cast<u8>(code > 255u ? 255u : code);  // a NaN may be rounded beyond the last code
  }
  template <class T>
  RUSH_FN explicit float8_e8m0fnu(T x) : float8_e8m0fnu(static_cast<float>(x)) {}
  RUSH_FN operator float() const {
    const u32 b = bits;
    return bit_cast<float>(b == 0 ? 0x00400000u : b == 255u ? 0x7f800001u : b << 23);
  }
  RUSH_FN static float8_e8m0fnu from_bits(u8 b) {
    float8_e8m0fnu f;
    f.bits = b;
    return f;
  }
};

template <class T>
inline constexpr bool is_float8_v = false;
template <int ExponentBits, int Bias, bool Fnuz>
inline constexpr bool is_float8_v<float8<ExponentBits, Bias, Fnuz>> = true;
template <>
inline constexpr bool is_float8_v<float8_e8m0fnu> = true;

template <int ExponentBits, int Bias, bool Fnuz>
struct opmath_t<float8<ExponentBits, Bias, Fnuz>> {
  using type = float;
};
template <>
struct opmath_t<float8_e8m0fnu> {
  using type = float;
};

// Branch-free, as half's conversions in types.h are.
template <int ExponentBits, int Bias, bool Fnuz>
RUSH_FN float8<ExponentBits, Bias, Fnuz>::float8(float x) {
  constexpr int shift = 23 - kMantissa;
  constexpr u32 rebias = u32(127 - Bias) << 23;
  constexpr u32 smallest_normal = u32(128 - Bias) << 23;
  // The float whose last place is the spacing of the denormals: adding it rounds to them.
  constexpr u32 rounder = u32(127 + 23 + 1 - Bias - kMantissa) << 23;
  // From here on there is no room: in e4m3fn above 448, elsewhere where the exponent is too large
  // (a number that is rounded up to that gets the right code by itself).
  constexpr u32 beyond = Fnuz           ? u32(127 + (1 << ExponentBits) - Bias) << 23
                         : kHasInfinity ? u32(127 + 16) << 23
                                        : 0x43e00001u;
  const u32 b = bit_cast<u32>(x);
  const u32 sign = (b >> 24) & 0x80u;
  const u32 a = b & 0x7fffffffu;
  const u32 normal = (a - rebias + (1u << (shift - 1)) - 1u + ((a >> shift) & 1u)) >> shift;
  const u32 denormal = bit_cast<u32>(bit_cast<float>(a) + bit_cast<float>(rounder)) - rounder;
  const u32 finite = a < smallest_normal ? denormal : normal;
  if constexpr (Fnuz) {
    const u32 code = a >= beyond ? 0x80u : finite;
    bits = static_cast<u8>(code == 0 ? 0 : code | sign);
  } else {
    const u32 special = a > 0x7f800000u ? 0x7fu : kHasInfinity ? 0x7cu : 0x7eu;
    bits = static_cast<u8>(sign | (a >= beyond ? special : finite));
  }
}

template <int ExponentBits, int Bias, bool Fnuz>
RUSH_FN float8<ExponentBits, Bias, Fnuz>::operator float() const {
  constexpr u32 smallest_normal = u32(128 - Bias) << 23;
  const u32 b = bits;
  const u32 sign = (b & 0x80u) << 24;
  const u32 m = (b & 0x7fu) << (23 - kMantissa);
  const u32 normal = m + (u32(127 - Bias) << 23);
  const float denormal = bit_cast<float>(m + smallest_normal) - bit_cast<float>(smallest_normal);
  const u32 finite = m < 0x00800000u ? bit_cast<u32>(denormal) : normal;
  if constexpr (Fnuz) {
    return bit_cast<float>(b == 0x80u ? 0x7f800001u : sign | finite);
  } else if constexpr (kHasInfinity) {
    const u32 special = 0x7f800000u | ((b & 3u) << 21) | ((b & 3u) ? 0x00400000u : 0u);
    return bit_cast<float>(sign | ((b & 0x7cu) == 0x7cu ? special : finite));
  } else {
    return bit_cast<float>(sign | ((b & 0x7fu) == 0x7fu ? 0x7ff00000u : finite));
  }
}

}  // namespace rush
