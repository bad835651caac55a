// bytes.cpp: moves that look at widths only: stores past the caches, and transposed blocks.
#include <cstring>

#include "cpu/kernels/convert_tables.h"
#include "functors/types.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace rush::RUSH_ISA {

namespace {

#if defined(__AVX512F__)
constexpr int64_t kVector = 64;
inline void store_past(char* dst, const char* src) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(dst), _mm512_loadu_si512(src));
}
#elif defined(__AVX__)
constexpr int64_t kVector = 32;
inline void store_past(char* dst, const char* src) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(dst),
                      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src)));
}
#elif defined(__SSE2__)
constexpr int64_t kVector = 16;
inline void store_past(char* dst, const char* src) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(dst),
                   _mm_loadu_si128(reinterpret_cast<const __m128i*>(src)));
}
#else
constexpr int64_t kVector = 16;
inline void store_past(char* dst, const char* src) { std::memcpy(dst, src, 16); }
#endif

void stream(char* dst, const char* src, int64_t nbytes) {
  const int64_t head = -reinterpret_cast<intptr_t>(dst) & (kVector - 1);
  if (nbytes < head + 4 * kVector) {
    std::memcpy(dst, src, size_t(nbytes));
    return;
  }
  std::memcpy(dst, src, size_t(head));
  int64_t i = head;
  for (; i + 4 * kVector <= nbytes; i += 4 * kVector) {
    for (int64_t k = 0; k < 4 * kVector; k += kVector) store_past(dst + i + k, src + i + k);
  }
  std::memcpy(dst + i, src + i, size_t(nbytes - i));
}

template <class T>
void fill(char* dst, const char* value, int64_t n) {
  T* to = reinterpret_cast<T*>(dst);
  const T v = *reinterpret_cast<const T*>(value);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] = v;
}

template <class T>
void reverse(char* dst, const char* src, int64_t n) {
  T* to = reinterpret_cast<T*>(dst);
  const T* from = reinterpret_cast<const T*>(src);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] = from[-i];
}

// A tile of this many rows and columns; a micro block fills whole cache lines of the destination.
template <class T>
void block_scalar(char* dst, int64_t dst_row, const char* src, int64_t src_row, int64_t rows,
                  int64_t cols) {
  for (int64_t i = 0; i < rows; ++i) {
    T* to = reinterpret_cast<T*>(dst + i * dst_row);
    const char* from = src + i * int64_t(sizeof(T));
    for (int64_t j = 0; j < cols; ++j) to[j] = *reinterpret_cast<const T*>(from + j * src_row);
  }
}

template <class T>
inline constexpr int64_t kBlock = 0;  // no vector block for this width

#ifdef __AVX2__
template <>
inline constexpr int64_t kBlock<uint32_t> = 8;
template <>
inline constexpr int64_t kBlock<uint64_t> = 4;

inline void block_vector(uint32_t, char* dst, int64_t dst_row, const char* src, int64_t src_row) {
  __m256 r[8], t[8];
  for (int k = 0; k < 8; ++k)
    r[k] = _mm256_loadu_ps(reinterpret_cast<const float*>(src + k * src_row));
  for (int k = 0; k < 8; k += 2) {
    t[k] = _mm256_unpacklo_ps(r[k], r[k + 1]);
    t[k + 1] = _mm256_unpackhi_ps(r[k], r[k + 1]);
  }
  for (int k = 0; k < 8; k += 4) {
    r[k] = _mm256_shuffle_ps(t[k], t[k + 2], 0x44);
    r[k + 1] = _mm256_shuffle_ps(t[k], t[k + 2], 0xee);
    r[k + 2] = _mm256_shuffle_ps(t[k + 1], t[k + 3], 0x44);
    r[k + 3] = _mm256_shuffle_ps(t[k + 1], t[k + 3], 0xee);
  }
  for (int k = 0; k < 4; ++k) {
    const __m256 low = _mm256_permute2f128_ps(r[k], r[k + 4], 0x20);
    const __m256 high = _mm256_permute2f128_ps(r[k], r[k + 4], 0x31);
    _mm256_storeu_ps(reinterpret_cast<float*>(dst + k * dst_row), low);
    _mm256_storeu_ps(reinterpret_cast<float*>(dst + (k + 4) * dst_row), high);
  }
}

inline void block_vector(uint64_t, char* dst, int64_t dst_row, const char* src, int64_t src_row) {
  __m256d r[4], t[4];
  for (int k = 0; k < 4; ++k)
    r[k] = _mm256_loadu_pd(reinterpret_cast<const double*>(src + k * src_row));
  for (int k = 0; k < 4; k += 2) {
    t[k] = _mm256_unpacklo_pd(r[k], r[k + 1]);
    t[k + 1] = _mm256_unpackhi_pd(r[k], r[k + 1]);
  }
  for (int k = 0; k < 2; ++k) {
    _mm256_storeu_pd(reinterpret_cast<double*>(dst + k * dst_row),
                     _mm256_permute2f128_pd(t[k], t[k + 2], 0x20));
    _mm256_storeu_pd(reinterpret_cast<double*>(dst + (k + 2) * dst_row),
                     _mm256_permute2f128_pd(t[k], t[k + 2], 0x31));
  }
}
#endif

template <class T>
void transpose(char* dst, int64_t dst_row, const char* src, int64_t src_row, int64_t rows,
               int64_t cols) {
  constexpr int64_t size = sizeof(T), block = kBlock<T>;
  if constexpr (block == 0) {
    block_scalar<T>(dst, dst_row, src, src_row, rows, cols);
  } else {
    const int64_t full_rows = rows / block * block, full_cols = cols / block * block;
    for (int64_t i = 0; i < full_rows; i += block) {
      for (int64_t j = 0; j < full_cols; j += block)
        block_vector(T(), dst + i * dst_row + j * size, dst_row, src + j * src_row + i * size,
                     src_row);
      block_scalar<T>(dst + i * dst_row + full_cols * size, dst_row,
                      src + full_cols * src_row + i * size, src_row, block, cols - full_cols);
    }
    block_scalar<T>(dst + full_rows * dst_row, dst_row, src + full_rows * size, src_row,
                    rows - full_rows, cols);
  }
}

}  // namespace

constinit const ByteKernels byte_kernels = {
    stream,
    {fill<uint8_t>, fill<uint16_t>, fill<uint32_t>, fill<uint64_t>, fill<complex<double>>},
    {reverse<uint8_t>, reverse<uint16_t>, reverse<uint32_t>, reverse<uint64_t>,
     reverse<complex<double>>},
    {transpose<uint8_t>, transpose<uint16_t>, transpose<uint32_t>, transpose<uint64_t>,
     transpose<complex<double>>}};

}  // namespace rush::RUSH_ISA
