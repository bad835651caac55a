// Random draws in batches: the words of many blocks first, side by side for the vector unit, then
// the distribution.
#include "cpu/kernels/random.h"

#include "functors/random.h"

namespace rush::RUSH_ISA {
namespace {

constexpr int kBlocks = 64;  // blocks per batch; each is four words

struct Words {
  alignas(64) u32 w[4][kBlocks];
};

void draw_words(Words& words, RandomCall call, u64 first_block) {
#pragma omp simd
  for (int j = 0; j < kBlocks; ++j) {
    const Philox4 p = philox(call.seed, call.call, first_block + u64(j));
    words.w[0][j] = p.v[0];
    words.w[1][j] = p.v[1];
    words.w[2][j] = p.v[2];
    words.w[3][j] = p.v[3];
  }
}

inline u64 pair_of(const Words& words, int pair, int j) {
  return (u64(words.w[2 * pair + 1][j]) << 32) | words.w[2 * pair][j];
}

// Calls fill(words, numbers) for each batch and hands out n numbers from number `first` on; both
// multiples of a batch.
template <class T, class Fill>
void in_batches(T* out, int64_t first, int64_t n, RandomCall call, Fill fill) {
  constexpr int per_block = sizeof(T) == 4 ? 4 : 2, per_batch = per_block * kBlocks;
  Words words;
  alignas(64) T numbers[per_batch];
  for (int64_t at = 0; at < n; at += per_batch) {
    draw_words(words, call, u64(first + at) / per_block);
    fill(words, numbers);
    const int64_t count = n - at < per_batch ? n - at : per_batch;
    for (int64_t i = 0; i < count; ++i) out[at + i] = numbers[i];
  }
}

template <class F>
void draw_f32(float* out, int64_t first, int64_t n, RandomCall call, double a, double b, u32 mask) {
  const float fa = float(a), fb = float(b);
  in_batches<float>(out, first, n, call, [&](const Words& words, float* numbers) {
    for (int k = 0; k < 4; ++k) {
#pragma omp simd
      for (int j = 0; j < kBlocks; ++j) numbers[4 * j + k] = F{}(u32(words.w[k][j] & mask), fa, fb);
    }
  });
}

template <class F>
void draw_f64(double* out, int64_t first, int64_t n, RandomCall call, double a, double b) {
  in_batches<double>(out, first, n, call, [&](const Words& words, double* numbers) {
    for (int k = 0; k < 2; ++k) {
#pragma omp simd
      for (int j = 0; j < kBlocks; ++j) numbers[2 * j + k] = F{}(pair_of(words, k, j), a, b);
    }
  });
}

void normal_f32(float* out, int64_t first, int64_t n, RandomCall call, double mean, double std,
                u32) {
  const float m = float(mean), s = float(std);
  in_batches<float>(out, first, n, call, [&](const Words& words, float* numbers) {
    for (int k = 0; k < 4; k += 2) {
#pragma omp simd
      for (int j = 0; j < kBlocks; ++j) {
        float x, y;
        functors::normal_pair(words.w[k][j], words.w[k + 1][j], x, y);
        numbers[4 * j + k] = math::fma_exact(x, s, m);
        numbers[4 * j + k + 1] = math::fma_exact(y, s, m);
      }
    }
  });
}

void normal_f64(double* out, int64_t first, int64_t n, RandomCall call, double mean, double std) {
  in_batches<double>(out, first, n, call, [&](const Words& words, double* numbers) {
    for (int j = 0; j < kBlocks; ++j) {
      double x, y;
      functors::normal_pair(pair_of(words, 0, j), pair_of(words, 1, j), x, y);
      numbers[2 * j] = x * std + mean;
      numbers[2 * j + 1] = y * std + mean;
    }
  });
}

void log_normal_f32(float* out, int64_t first, int64_t n, RandomCall call, double mean, double std,
                    u32 mask) {
  normal_f32(out, first, n, call, mean, std, mask);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = math::exp(out[i]);
}
void log_normal_f64(double* out, int64_t first, int64_t n, RandomCall call, double mean,
                    double std) {
  normal_f64(out, first, n, call, mean, std);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = math::exp(out[i]);
}

void integers(int64_t* out, int64_t first, int64_t n, RandomCall call, int64_t from,
              uint64_t range) {
  if (range != 0 && range <= (u64(1) << 32)) {
    in_batches<int64_t>(out, first, n, call, [&](const Words& words, int64_t* numbers) {
      for (int k = 0; k < 2; ++k) {
#pragma omp simd
        for (int j = 0; j < kBlocks; ++j)
          numbers[2 * j + k] = int64_t(u64(from) + uniform_below(range, pair_of(words, k, j)));
      }
    });
    return;
  }
  if (range == 0) {  // all 64 bits, one block a number as below
    Words words;
    for (int64_t at = 0; at < n; at += kBlocks) {
      draw_words(words, call, u64(first + at));
      const int count = n - at < kBlocks ? int(n - at) : kBlocks;
      for (int j = 0; j < count; ++j) out[at + j] = int64_t(u64(from) + pair_of(words, 1, j));
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    out[i] =
        int64_t(u64(from) + uniform_below(range, philox(call.seed, call.call, u64(first + i))));
}

}  // namespace

extern const RandomKernels random_kernels = {
    {draw_f32<functors::RandomUniform>, normal_f32, log_normal_f32,
     draw_f32<functors::RandomExponential>, draw_f32<functors::RandomCauchy>,
     draw_f32<functors::RandomGeometric>, draw_f32<functors::RandomBernoulli>},
    {draw_f64<functors::RandomUniform>, normal_f64, log_normal_f64,
     draw_f64<functors::RandomExponential>, draw_f64<functors::RandomCauchy>,
     draw_f64<functors::RandomGeometric>, draw_f64<functors::RandomBernoulli>},
    integers,
};

}  // namespace rush::RUSH_ISA
