// random_exact.cu: random numbers. The host compiles *_exact.cu with --fmad=false.
//
// - Number i of call c under seed s is a pure function of (s, c, i), with the mapping of
//   csrc/cpu/kernels/random_exact.cpp: a Philox block of four words gives float32 numbers 4 j to
//   4 j + 3, a word each, or float64 and int64 numbers 2 j and 2 j + 1, two words each; an integer
//   range above 2^32 takes a block per number. Normals come in pairs from neighbouring words.
// - A thread computes one block and writes its numbers, which lie end to end in the output; any
//   other layout goes through a contiguous copy and copy.cu.
// - All numbers equal the CPU's to the last bit: both sides use our own maths, with multiply-adds
//   that are fused, or not, by name (RUSH_EXACT_MATH; Note [Same normals everywhere]).
// - Everything but float64 and complex128 is drawn in float32 and converted.
#include "cuda/kernels/element.h"
#include "functors/random.h"

namespace rush {

template <class C>
inline constexpr int kPerBlock = sizeof(C) == 4 ? 4 : 2;

// The words of number k of a block: 32 bits for float, 64 for double.
template <class C>
RUSH_FN auto word_of(const Philox4& block, int k, u32 mask) {
  if constexpr (sizeof(C) == 4)
    return u32(block.v[k] & mask);
  else
    return philox_pair(block, k);
}

template <class Out, class C>
RUSH_FN void write_block(const RandomArgs& args, i64 block, const C* numbers) {
#pragma unroll
  for (int k = 0; k < kPerBlock<C>; ++k) {
    const i64 i = block * kPerBlock<C> + k;
    if (i < args.n) typed<Out>(args.out)[i] = convert<Out>(numbers[k]);
  }
}

// Calls draw(words, numbers) for the blocks that are this thread's, and writes the numbers.
template <class C, class Out, class F>
RUSH_FN void each_block(const RandomArgs& args, F draw) {
  const i64 blocks = (args.n + kPerBlock<C> - 1) / kPerBlock<C>;
  const RandomKey key = random_key(args.seed, args.call, args.state);
  for (i64 j = thread_number(); j < blocks; j += thread_count()) {
    C numbers[kPerBlock<C>];
    draw(philox(key.seed, key.call, u64(j)), numbers);
    write_block<Out>(args, j, numbers);
  }
}

// F: RandomUniform, RandomBernoulli, ... C: float, or double for float64 and complex128.
template <class F, class C, class Out>
__global__ void __launch_bounds__(kThreads) random_fill(RandomArgs args) {
  after_earlier();
  const C a = C(args.a), b = C(args.b);
  each_block<C, Out>(args, [&](const Philox4& block, C* numbers) {
#pragma unroll
    for (int k = 0; k < kPerBlock<C>; ++k) numbers[k] = F{}(word_of<C>(block, k, args.mask), a, b);
  });
}

template <class C>
RUSH_FN void draw_normals(const Philox4& block, C mean, C std, C* numbers) {
#pragma unroll
  for (int k = 0; k < kPerBlock<C>; k += 2) {
    C x, y;
    functors::normal_pair(word_of<C>(block, k, ~0u), word_of<C>(block, k + 1, ~0u), x, y);
    if constexpr (sizeof(C) == 4) {
      numbers[k] = math::fma_exact(x, std, mean);
      numbers[k + 1] = math::fma_exact(y, std, mean);
    } else {
      numbers[k] = x * std + mean;
      numbers[k + 1] = y * std + mean;
    }
  }
}

template <class C, class Out, bool exponentiate>
__global__ void __launch_bounds__(kThreads) random_normal(RandomArgs args) {
  after_earlier();
  const C mean = C(args.a), std = C(args.b);
  each_block<C, Out>(args, [&](const Philox4& block, C* numbers) {
    draw_normals(block, mean, std, numbers);
    if constexpr (exponentiate)
      for (int k = 0; k < kPerBlock<C>; ++k) numbers[k] = math::exp(numbers[k]);
  });
}

template <class Out>
__global__ void __launch_bounds__(kThreads) random_int(RandomIntArgs args) {
  after_earlier();
  const RandomKey key = random_key(args.seed, args.call, args.state);
  const bool narrow = args.range != 0 && args.range <= (u64(1) << 32);
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    u64 x;
    if (narrow) {
      const Philox4 block = philox(key.seed, key.call, u64(i) / 2);
      x = uniform_below(args.range, philox_pair(block, int(i % 2)));
    } else {
      x = uniform_below(args.range, philox(key.seed, key.call, u64(i)));
    }
    typed<Out>(args.out)[i] = convert<Out>(i64(u64(args.from) + x));
  }
}

}  // namespace rush
