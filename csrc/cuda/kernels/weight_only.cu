// weight_only.cu: a few rows by weights of 8 or 4 bits, as a model that writes its text has them.
//
// Nothing but reading the weights counts. A block has eight columns of the result, its warps share
// the depth among themselves, and tensor cores multiply: so up to 16 rows cost what one does, and
// the threads have time to turn integers into T, by bits that make a number of known exponent.
// Sums are float, joined in the order of the warps: always the same.
//
// - 8 bits: thread 4g + t reads 16 bytes of column g, and the numbers of x that belong to them. In
//   which order the depth is added up does not matter as long as x has the same one.
// - 4 bits: tiles as PyTorch packs them for tensor cores: the words of a warp lie side by side, and
//   one has what its thread needs of 32 numbers of a column (Note [Fragments] in tensor_core.h):
//   rows 0, 1, 8 and 9 of the first 16 and of the second, even ones in the lower half. Scale and
//   zero of a group are applied to the sums: the zero to the sum of x, which is one more product.
#include "cuda/kernels/element.h"
#include "cuda/kernels/tensor_core.h"
#include "cuda/kernels/weight_only_args.h"

namespace rush {

constexpr int kWarps = kThreads / 32;
struct alignas(16) Words4 {
  u32 v[4];
};

// a * b + c of two numbers each.
RUSH_FN u32 pair_fma(bfloat16, u32 a, u32 b, u32 c) {
  u32 r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
RUSH_FN u32 pair_fma(half, u32 a, u32 b, u32 c) {
  u32 r;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}

// Two signed bytes that stand in the lower halves of each half word.
RUSH_FN u32 pair_of_bytes(bfloat16 type, u32 p) {
  // 128 plus seven bits, less 128, or 256 where the sign is set.
  const u32 low = (p & 0x007f007fu) | 0x43004300u, less = (p & 0x00800080u) | 0x43004300u;
  return pair_fma(type, less, 0xbf80bf80u, low);
}
RUSH_FN u32 pair_of_bytes(half type, u32 p) {
  // 1024 + 128 + the number, less 1152.
  return pair_fma(type, (p ^ 0x00800080u) | 0x64006400u, 0x3c003c00u, 0xe480e480u);
}
// Two numbers of four bits, less 8.
RUSH_FN u32 pair_of_nibbles(bfloat16 type, u32 p) {
  return pair_fma(type, (p & 0x000f000fu) | 0x43004300u, 0x3f803f80u, 0xc308c308u);
}
RUSH_FN u32 pair_of_nibbles(half type, u32 p) {
  return pair_fma(type, (p & 0x000f000fu) | 0x64006400u, 0x3c003c00u, 0xe408e408u);
}
RUSH_FN u32 pair_of_ones(bfloat16) { return 0x3f803f80u; }
RUSH_FN u32 pair_of_ones(half) { return 0x3c003c00u; }

// The sums of all warps, joined and handed on: write(row, column, sum).
template <int Tiles, class Write>
RUSH_FN void join_warps(const float (&sums)[Tiles][4], Write write) {
  constexpr int kSums = Tiles * kRowsOfTile * kColumnsEach;
  __shared__ float all[kWarps][kSums];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = tile * kRowsOfTile + g + 8 * (i / 2), column = 2 * t + i % 2;
      all[warp][row * kColumnsEach + column] = sums[tile][i];
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kSums; i += kThreads) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += all[w][i];
    write(i / kColumnsEach, i % kColumnsEach, sum);
  }
}

template <class T, int Tiles>
__global__ void __launch_bounds__(kThreads) int8_rows(WeightOnlyArgs args) {
  after_earlier();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const i64 first = i64(blockIdx.x) * kColumnsEach, column = first + g;
  const i8* w = typed<i8>(args.w) + column * args.k;
  const T* x = typed<T>(args.x);
  float sums[Tiles][4] = {};
#pragma unroll 4
  for (i64 k = warp * 64 + t * 16; k - t * 16 < args.k; k += kWarps * 64) {
    const bool inside = k < args.k;
    Words4 bytes = {};
    if (inside && column < args.n) bytes = *reinterpret_cast<const Words4*>(w + k);
    u32 pairs[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[2 * i] = pair_of_bytes(T(), __byte_perm(bytes.v[i], 0, 0x4140));
      pairs[2 * i + 1] = pair_of_bytes(T(), __byte_perm(bytes.v[i], 0, 0x4342));
    }
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
      Words4 rows[2][2] = {};
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const i64 row = tile * kRowsOfTile + g + 8 * h;
        if (!inside || row >= args.m) continue;
        const auto* at = reinterpret_cast<const Words4*>(x + row * args.k + k);
        rows[h][0] = at[0], rows[h][1] = at[1];
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int which = i / 2, at = i % 2 * 2;
        const u32 a[4] = {rows[0][which].v[at], rows[1][which].v[at], rows[0][which].v[at + 1],
                          rows[1][which].v[at + 1]};
        multiply_add(T(), sums[tile], a, pairs[2 * i], pairs[2 * i + 1]);
      }
    }
  }
  join_warps<Tiles>(sums, [&](i64 row, i64 at, float sum) {
    if (row >= args.m || first + at >= args.n) return;
    const float scale = float(typed<T>(args.scales)[first + at]);
    typed<T>(args.out)[row * args.n + first + at] = T(sum * scale);
  });
}

// I: tiles of 16 numbers that a thread finds side by side, 2, 4 or 8.
template <class T, int Tiles, int I>
__global__ void __launch_bounds__(kThreads) int4_tiles(WeightOnlyArgs args) {
  after_earlier();
  struct alignas(I * 2) Packed {
    u32 v[I / 2];
  };
  constexpr int kStep = I * 16;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const i64 first = i64(blockIdx.x) * kColumnsEach, steps = args.k / kStep;
  const Packed* w = typed<Packed>(args.w) + i64(blockIdx.x) * steps * 32 + lane;
  const T *x = typed<T>(args.x), *scales = typed<T>(args.scales);
  float sums[Tiles][4] = {};
#pragma unroll 2
  for (i64 step = warp; step < steps; step += kWarps) {
    const Packed packed = w[step * 32];
    float of_group[Tiles][4] = {}, of_x[Tiles][4] = {};
#pragma unroll
    for (int i = 0; i < I / 2; ++i) {  // 32 numbers of each column
      const i64 k = step * kStep + i * 32;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const u32 b0 = pair_of_nibbles(T(), packed.v[i] >> (8 * h));
        const u32 b1 = pair_of_nibbles(T(), packed.v[i] >> (8 * h + 4));
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile) {
          u32 a[4] = {};
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const i64 row = tile * kRowsOfTile + g + 8 * r;
            if (row >= args.m) continue;
            const T* at = x + row * args.k + k + h * 16 + t * 2;
            a[r] = *reinterpret_cast<const u32*>(at);
            a[r + 2] = *reinterpret_cast<const u32*>(at + 8);
          }
          multiply_add(T(), of_group[tile], a, b0, b1);
          multiply_add(T(), of_x[tile], a, pair_of_ones(T()), pair_of_ones(T()));
        }
      }
      if (i + 1 < I / 2 && (k + 32) % args.group != 0) continue;
      // Scale and zero of the columns 2t and 2t + 1.
      const T* own = scales + ((k / args.group) * args.n + first + t * 2) * 2;
      const Pack<T, 4> both = load_pack<4>(own);
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          sums[tile][c] += float(both.v[c % 2 * 2]) * of_group[tile][c] +
                           float(both.v[c % 2 * 2 + 1]) * of_x[tile][c];
          of_group[tile][c] = of_x[tile][c] = 0;
        }
      }
    }
  }
  join_warps<Tiles>(sums, [&](i64 row, i64 at, float sum) {
    if (row < args.m) typed<T>(args.out)[row * args.n + first + at] = T(sum);
  });
}

}  // namespace rush
