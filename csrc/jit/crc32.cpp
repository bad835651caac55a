// The sum of zip files: the remainder of the bytes, taken as a polynomial over bits whose lowest bit
// comes first, by kPolynomial. Loading a program is mostly this sum, so that long runs of bytes are
// folded by carry-less products where the processor has them: 64 bytes that stand before 64 others
// count as what they give times x^512, and only 16 bytes are left for the tables.
#include <array>
#include <bit>
#include <cstring>

#include "jit/archive.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rush::jit {
namespace {

constexpr uint32_t kPolynomial = 0xEDB88320u;  // x^31 is the lowest bit; x^32 is left out

// Times x.
constexpr uint32_t shifted(uint32_t c) { return c & 1 ? kPolynomial ^ (c >> 1) : c >> 1; }

// Eight tables, so that eight bytes are taken at a time.
using Tables = std::array<std::array<uint32_t, 256>, 8>;
constexpr Tables kTables = [] {
  Tables t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = shifted(c);
    t[0][i] = c;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t i = 0; i < 256; ++i) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xFF];
  }
  return t;
}();

uint32_t word(const char* p) {
  uint32_t w;
  std::memcpy(&w, p, sizeof w);
  static_assert(std::endian::native == std::endian::little);
  return w;
}

// `c` is the sum so far, without the inversions at both ends.
uint32_t by_tables(uint32_t c, const char* p, size_t n) {
  for (; n >= 8; n -= 8, p += 8) {
    const uint32_t low = c ^ word(p), high = word(p + 4);
    c = kTables[7][low & 0xFF] ^ kTables[6][low >> 8 & 0xFF] ^ kTables[5][low >> 16 & 0xFF] ^
        kTables[4][low >> 24] ^ kTables[3][high & 0xFF] ^ kTables[2][high >> 8 & 0xFF] ^
        kTables[1][high >> 16 & 0xFF] ^ kTables[0][high >> 24];
  }
  for (; n > 0; --n, ++p) c = kTables[0][(c ^ static_cast<unsigned char>(*p)) & 0xFF] ^ (c >> 8);
  return c;
}

#if defined(__x86_64__)

// x^n as a factor: 33 bits, because the product of two numbers with reversed bits is one bit short.
constexpr int64_t power(int n) {
  uint32_t c = uint32_t{1} << 31;  // 1
  for (int k = 0; k < n; ++k) c = shifted(c);
  return int64_t(uint64_t{c} << 1);
}
constexpr size_t kBlock = 64;

// What 16 bytes count as, `bits` further to the front. The half that comes first has 64 more; a
// product has its lowest bit at x^95 of the 128, hence 32.
template <int bits>
__attribute__((target("pclmul,sse4.1"))) inline __m128i moved(__m128i bytes) {
  const __m128i factors = _mm_set_epi64x(power(bits - 32), power(bits + 32));
  return _mm_xor_si128(_mm_clmulepi64_si128(bytes, factors, 0x00),
                       _mm_clmulepi64_si128(bytes, factors, 0x11));
}
__attribute__((target("pclmul,sse4.1"))) inline __m128i loaded(const char* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

// For at least one block; n is a multiple of 16.
__attribute__((target("pclmul,sse4.1"))) uint32_t by_products(uint32_t c, const char* p, size_t n) {
  __m128i a = _mm_xor_si128(loaded(p), _mm_cvtsi32_si128(int(c))), b = loaded(p + 16),
          d = loaded(p + 32), e = loaded(p + 48);
  for (n -= kBlock, p += kBlock; n >= kBlock; n -= kBlock, p += kBlock) {
    a = _mm_xor_si128(moved<512>(a), loaded(p));
    b = _mm_xor_si128(moved<512>(b), loaded(p + 16));
    d = _mm_xor_si128(moved<512>(d), loaded(p + 32));
    e = _mm_xor_si128(moved<512>(e), loaded(p + 48));
  }
  a = _mm_xor_si128(moved<128>(a), b);
  a = _mm_xor_si128(moved<128>(a), d);
  a = _mm_xor_si128(moved<128>(a), e);
  for (; n >= 16; n -= 16, p += 16) a = _mm_xor_si128(moved<128>(a), loaded(p));
  char left[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(left), a);
  return by_tables(0, left, sizeof left);
}

bool has_products() {
  static const bool has = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return has;
}

#endif

}  // namespace

uint32_t crc32(std::span<const char> bytes, uint32_t before) {
  uint32_t c = ~before;
  const char* p = bytes.data();
  size_t n = bytes.size();
#if defined(__x86_64__)
  if (n >= kBlock && has_products()) {
    const size_t folded = n / 16 * 16;
    c = by_products(c, p, folded);
    p += folded;
    n -= folded;
  }
#endif
  return ~by_tables(c, p, n);
}

}  // namespace rush::jit
