#include "core/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rush {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const uint8_t* p) {
  return uint32_t(p[0]) << 24 | uint32_t(p[1]) << 16 | uint32_t(p[2]) << 8 | p[3];
}

}  // namespace

void Sha256::block(const uint8_t* p) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = big_endian(p + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    const uint32_t x = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                       ((e & f) ^ (~e & g)) + kRounds[size_t(i)] + w[i];
    const uint32_t y =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + x, d = c, c = b, b = a, a = x + y;
  }
  const uint32_t sums[] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += sums[i];
}

void Sha256::add(std::string_view bytes) {
  auto* p = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t n = bytes.size(), held = length_ % 64;
  length_ += n;
  if (held) {
    const size_t part = std::min(n, 64 - held);
    std::memcpy(rest_.data() + held, p, part);
    p += part, n -= part;
    if (held + part < 64) return;
    block(rest_.data());
  }
  for (; n >= 64; p += 64, n -= 64) block(p);
  std::memcpy(rest_.data(), p, n);
}

std::array<uint8_t, 32> Sha256::finish() {
  const uint64_t bits = length_ * 8;
  std::string tail(1 + (119 - length_ % 64) % 64, '\0');
  tail[0] = char(0x80);
  for (int shift = 56; shift >= 0; shift -= 8) tail += char(bits >> shift & 0xff);
  add(tail);
  std::array<uint8_t, 32> out;
  for (size_t i = 0; i < 32; ++i) out[i] = uint8_t(state_[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

std::string Sha256::finish_hex() {
  std::string text;
  for (const uint8_t byte : finish()) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace rush
