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
//   zero are applied in T, as PyTorch does.
// - Weights of several steps are asked for before the first is used. Rows and columns beyond the end
//   are read as the last one, and not written.
#include "cuda/kernels/element.h"
#include "cuda/kernels/tensor_core.h"
#include "cuda/kernels/weight_only_args.h"

namespace rush {

constexpr int kWarps = kThreads / 32;
struct alignas(16) Words4 {
  u32 v[4];
};

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
// Where the thread reads x: rows g and g + 8 of each tile.
template <class T, int Tiles>
struct RowsOfX {
  const T* at[Tiles][2];
  bool has_second[Tiles];  // the same for all threads

  RUSH_FN RowsOfX(const WeightOnlyArgs& args, int g) {
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
      has_second[tile] = args.m > tile * kRowsOfTile + 8;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const i64 row = tile * kRowsOfTile + g + 8 * h;
        at[tile][h] = typed<T>(args.x) + (row < args.m ? row : args.m - 1) * args.k;
      }
    }
  }
};

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
  constexpr int kAhead = 4;
  constexpr i64 kStep = kWarps * 64;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const i64 first = i64(blockIdx.x) * kColumnsEach;
  const i64 column = first + g < args.n ? first + g : args.n - 1;
  const i8* w = typed<i8>(args.w) + column * args.k;
  const RowsOfX<T, Tiles> x(args, g);
  float sums[Tiles][4] = {};
  for (i64 base = warp * 64; base < args.k; base += kAhead * kStep) {
    Words4 bytes[kAhead];
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const i64 k = base + ahead * kStep + t * 16;
      bytes[ahead] = k < args.k ? *reinterpret_cast<const Words4*>(w + k) : Words4{};
    }
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      if (base + ahead * kStep >= args.k) break;
      const i64 k = base + ahead * kStep + t * 16;
      const bool inside = k < args.k;
      u32 pairs[8];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        pairs[2 * i] = pair_of_bytes(T(), __byte_perm(bytes[ahead].v[i], 0, 0x4140));
        pairs[2 * i + 1] = pair_of_bytes(T(), __byte_perm(bytes[ahead].v[i], 0, 0x4342));
      }
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
        Words4 rows[2][2] = {};
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          if (h == 1 && !x.has_second[tile]) break;
          const auto* at = reinterpret_cast<const Words4*>(x.at[tile][h] + k);
          if (inside) rows[h][0] = at[0], rows[h][1] = at[1];
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
  constexpr int kDepth = I * 16, kAhead = 4;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const i64 first = i64(blockIdx.x) * kColumnsEach, steps = args.k / kDepth;
  const Packed* w = typed<Packed>(args.w) + i64(blockIdx.x) * steps * 32 + lane;
  const u32* scales = typed<u32>(args.scales) + first + g;  // scale and zero of the column
  const RowsOfX<T, Tiles> x(args, g);
  float sums[Tiles][4] = {};
  for (i64 base = warp; base < steps; base += kAhead * kWarps) {
    Packed packed[kAhead];
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const i64 step = base + ahead * kWarps;
      packed[ahead] = step < steps ? w[step * 32] : Packed{};
    }
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const i64 step = base + ahead * kWarps;
      if (step >= steps) break;
#pragma unroll
      for (int i = 0; i < I / 2; ++i) {  // 32 numbers of each column
        const i64 k = step * kDepth + i * 32;
        const u32 both = scales[k / args.group * args.n];
        const u32 scale = __byte_perm(both, 0, 0x1010), zero = __byte_perm(both, 0, 0x3232);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const u32 word = packed[ahead].v[i] >> (8 * h);
          const u32 b0 = pair_fma(T(), pair_of_nibbles(T(), word), scale, zero);
          const u32 b1 = pair_fma(T(), pair_of_nibbles(T(), word >> 4), scale, zero);
#pragma unroll
          for (int tile = 0; tile < Tiles; ++tile) {
            u32 a[4] = {};
#pragma unroll
            for (int r = 0; r < 2; ++r) {
              if (r == 1 && !x.has_second[tile]) break;
              const T* at = x.at[tile][r] + k + h * 16 + t * 2;
              a[r] = *reinterpret_cast<const u32*>(at);
              a[r + 2] = *reinterpret_cast<const u32*>(at + 8);
            }
            multiply_add(T(), sums[tile], a, b0, b1);
          }
        }
      }
    }
  }
  join_warps<Tiles>(sums, [&](i64 row, i64 at, float sum) {
    if (row < args.m) typed<T>(args.out)[row * args.n + first + at] = T(sum);
  });
}

}  // namespace rush
