// philox.h: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
//
// Counter-based: the numbers are a pure function of (seed, call, index), so an element has the same
// value on CPU and GPU and for any number of threads. `call` is the generator's call number,
// `index` counts blocks of four words inside the call. Compiled by g++ and NVRTC: no std, no system
// header.
#pragma once

#ifndef RUSH_FN
#ifdef __CUDACC_RTC__
#define RUSH_FN __device__ __forceinline__
#else
#define RUSH_FN inline __attribute__((always_inline))
#endif
#endif

namespace rush {

#ifdef __INT64_TYPE__  // as functors/types.h spells them: one type, whichever comes first
using u32 = __UINT32_TYPE__;
using u64 = __UINT64_TYPE__;
#else
using u32 = unsigned int;
using u64 = unsigned long;
#endif
static_assert(sizeof(u32) == 4 && sizeof(u64) == 8);

struct Philox4 {
  u32 v[4];
};

namespace philox_detail {

RUSH_FN u32 high(u64 x) { return u32(x >> 32); }

// The upper half of a 64 by 64 bit product, from 32 bit pieces: vectorises, and needs no __int128.
RUSH_FN u64 multiply_high(u64 a, u64 b) {
  const u64 a0 = u32(a), a1 = a >> 32, b0 = u32(b), b1 = b >> 32;
  const u64 middle = a1 * b0 + (a0 * b0 >> 32);
  const u64 other = a0 * b1 + u32(middle);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

}  // namespace philox_detail

// The raw function: four counter words, two key words, ten rounds unless told otherwise.
template <int rounds = 10>
RUSH_FN Philox4 philox_raw(Philox4 counter, u32 key0, u32 key1) {
  using philox_detail::high;
  u32 c0 = counter.v[0], c1 = counter.v[1], c2 = counter.v[2], c3 = counter.v[3];
  for (int round = 0; round < rounds; ++round) {
    const u64 a = u64(0xD2511F53u) * c0, b = u64(0xCD9E8D57u) * c2;
    c0 = high(b) ^ c1 ^ key0;
    c2 = high(a) ^ c3 ^ key1;
    c1 = u32(b);
    c3 = u32(a);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return Philox4{{c0, c1, c2, c3}};
}

// Block `index` of call `call` under `seed`.
RUSH_FN Philox4 philox(u64 seed, u64 call, u64 index) {
  using philox_detail::high;
  const Philox4 counter{{u32(index), high(index), u32(call), high(call)}};
  return philox_raw(counter, u32(seed), high(seed));
}

// Two words of a block as one, the even one low.
RUSH_FN u64 philox_pair(const Philox4& block, int pair) {
  return (u64(block.v[2 * pair + 1]) << 32) | block.v[2 * pair];
}

// Uniform in [0, 1): 24 bits are all a float holds evenly there, 53 for a double. Never rounds
// to 1.
RUSH_FN float uniform_float(u32 bits) { return float(int(bits >> 8)) * (1.0f / 16777216.0f); }
RUSH_FN double uniform_double(u64 bits) {
  return double((long long)(bits >> 11)) * (1.0 / 9007199254740992.0);
}

// Uniform integer in [0, range), range at most 2^32, from 64 bits. The product's upper half takes
// each value floor or ceil(2^64 / range) times: off by at most 2^-32 of its probability, where a
// test would need some 2^64 draws to notice. No division, unlike the remainder.
RUSH_FN u64 uniform_below(u64 range, u64 bits) { return philox_detail::multiply_high(range, bits); }

// The same for any 64 bit range, from a whole block: with 64 bits alone, range = 3 * 2^62 would
// draw some values twice as often as others. range = 0 stands for 2^64.
RUSH_FN u64 uniform_below(u64 range, const Philox4& block) {
  const u64 low = philox_pair(block, 0), top = philox_pair(block, 1);
  if (range == 0) return top;
  const u64 sum = range * top + philox_detail::multiply_high(range, low);
  return philox_detail::multiply_high(range, top) + (sum < range * top ? 1 : 0);
}

}  // namespace rush
