// tiles.h (NVRTC): tiles of rows in shared memory, and a warp's products with them.
//
// A tile has rows of D elements in chunks of 16 bytes; chunk c of row r lies at place c ^ (r % 8),
// so that the eight rows of a matrix are read from different banks. With RUSH_WARPGROUPS, four warps
// multiply together by one tile, whose columns then lie in halves of 64 (see Note [Warpgroups]).
//
// Note [Parts of a float]
// Tensor cores multiply numbers of 16 bits. A float32 is taken apart into bfloat16 numbers, each
// the rounded rest of those before, and the products of the larger parts are added up: three parts
// (six products) keep float32's 24 bits, two parts (three products) keep 16, more than the 11 of
// TF32. A tile then has one plane for each part.
#pragma once

#include "cuda/kernels/element.h"
#include "cuda/kernels/tensor_core.h"
#include "cuda/kernels/warpgroup.h"

namespace rush {

#ifdef RUSH_WARPGROUPS
inline constexpr bool kWarpgroups = true;
#else
inline constexpr bool kWarpgroups = false;
#endif
inline constexpr int kTileAlignment = kWarpgroups ? 1024 : 16;

// Shared memory whose size the launch says, as one object.
#ifdef RUSH_DEVICE
#define RUSH_DYNAMIC_SHARED(name, ...)                      \
  extern __shared__ __align__(1024) char name##_of_block[]; \
  auto& name = *reinterpret_cast<__VA_ARGS__*>(name##_of_block)
#else
#define RUSH_DYNAMIC_SHARED(name, ...) alignas(1024) static __VA_ARGS__ name
#endif

inline constexpr int kTileThreads = 128, kTileWarps = kTileThreads / 32, kTileRows = 16;
inline constexpr int kChunk = 8;  // elements of a tile

template <class T, bool exact>
struct Parts {
  using Element = T;
  static constexpr int kCount = 1;
};
template <bool exact>
struct Parts<float, exact> {
  using Element = bfloat16;
  static constexpr int kCount = exact ? 3 : 2;
};

// Two neighbours, in parts.
template <class E, int Count>
RUSH_FN void take_apart(float x, float y, u32 (&word)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    word[i] = pair_of(E(0.0f), x, y);
    if (i + 1 == Count) break;
    x -= float(E::from_bits(u16(word[i])));
    y -= float(E::from_bits(u16(word[i] >> 16)));
  }
}

template <int D, int Rows>
RUSH_FN int tile_place(int row, int chunk) {
  constexpr int chunks = D / kChunk, half_of = kTileColumns / kChunk;
  if constexpr (kWarpgroups)
    return (chunk / half_of * Rows + row) * kTileColumns + (chunk % half_of ^ (row & 7)) * kChunk;
  return row * D + (chunk ^ (row & (chunks < 8 ? chunks - 1 : 7))) * kChunk;
}

// ---- from global memory ----

// Rows of a matrix in global memory; elements outside of it are zero. `aligned`: every row starts
// at a multiple of 16 bytes, and has a multiple of them.
template <class T>
struct GlobalRows {
  const T* data;
  i64 step;
  int rows, width;
  bool aligned;

  RUSH_FN T at(int row, int col) const {
    return row < rows && col < width ? data[row * step + col] : T(0.0f);
  }
  // Elements col and col + 1, col even.
  RUSH_FN Pack<T, 2> pair(int row, int col) const {
    if (aligned && row < rows && col < width) return load_pack<2>(data + row * step + col);
    return {{at(row, col), at(row, col + 1)}};
  }
  // The same of aligned rows that are not empty, without a branch, so that a thread's pairs are on
  // their way together: what is outside is read from the beginning, and dropped.
  RUSH_FN Pack<T, 2> aligned_pair(int row, int col) const {
    const bool inside = row < rows && col < width;
    const Pack<T, 2> found = load_pack<2>(data + (inside ? row * step + col : 0));
    return {{inside ? found.v[0] : T(0.0f), inside ? found.v[1] : T(0.0f)}};
  }
};

// Rows first .. first + Rows as a tile, by a block, or by fewer threads, of which this is a number.
template <class T, bool exact, int D, int Rows, int Threads = kTileThreads>
RUSH_FN void load_tile(typename Parts<T, exact>::Element* tile, const GlobalRows<T>& from,
                       int first, int thread = threadIdx.x) {
  constexpr int count = Parts<T, exact>::kCount;
  constexpr int chunks = D / kChunk;
  // The usual case, where a thread's chunks are evenly spaced on both sides.
  constexpr int pass = Threads / chunks;  // rows
  if constexpr (sizeof(T) == 2 && pass % 8 == 0 && Rows % pass == 0) {
    const int row = thread / chunks, chunk = thread % chunks;
    if (from.aligned && first + Rows <= from.rows && chunk * kChunk < from.width) {
      auto* to = tile + tile_place<D, Rows>(row, chunk);
      const T* at = from.data + (first + row) * from.step + chunk * kChunk;
#pragma unroll
      for (int r = 0; r < Rows; r += pass, at += pass * from.step)
        copy_async(to + r * (kWarpgroups ? kTileColumns : D), at);
      return;
    }
  }
#pragma unroll 1
  for (int i = thread; i < Rows * chunks; i += Threads) {
    const int row = i / chunks, chunk = i % chunks, col = chunk * kChunk;
    auto* to = tile + tile_place<D, Rows>(row, chunk);
    const bool whole = from.aligned && first + row < from.rows && col < from.width;
    const T* at = from.data + (first + row) * from.step + col;
    if constexpr (sizeof(T) == 2) {
      if (whole) {
        copy_async(to, at);
      } else {
        Pack<T, kChunk> values;
        for (int k = 0; k < kChunk; ++k) values.v[k] = from.at(first + row, col + k);
        store_pack<kChunk>(to, values);
      }
    } else {
      Pack<float, 4> halves[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        // A row may end between the two: its width is a multiple of four.
        if (whole && col + 4 * h < from.width)
          halves[h] = load_pack<4>(at + 4 * h);
        else
          for (int k = 0; k < 4; ++k) halves[h].v[k] = from.at(first + row, col + 4 * h + k);
      }
      Pack<u32, 4> planes[count];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        u32 words[count];
        const float (&v)[4] = halves[k / 2].v;
        take_apart<bfloat16, count>(v[k % 2 * 2], v[k % 2 * 2 + 1], words);
#pragma unroll
        for (int p = 0; p < count; ++p) planes[p].v[k] = words[p];
      }
#pragma unroll
      for (int p = 0; p < count; ++p)
        store_pack<4>(reinterpret_cast<u32*>(to + p * Rows * D), planes[p]);
    }
  }
}

// A tile that the block's threads have asked for is there after the next barrier.
RUSH_FN void wait_for_tiles() {
  wait_for_copies();
  if constexpr (kWarpgroups) show_to_products();
}

// A zero in shared memory, which no compiler knows to be one. Written before the first barrier.
RUSH_FN u32* zero_word() {
  __shared__ u32 word;
  return &word;
}

// ---- factors ----

// A warp's sixteen rows, all columns, as left factors; see Note [Fragments].
template <class T, bool exact, int D>
struct RowFragments {
  using E = typename Parts<T, exact>::Element;
  static constexpr int kCount = Parts<T, exact>::kCount;
  u32 v[D / 16][kCount][4];

  RUSH_FN void load(const GlobalRows<T>& from, int first) {
    if (kWarpgroups && threadIdx.x == 0) *zero_word() = 0;
    if (from.aligned && from.rows > 0 && from.width > 0)
      load_pairs(first, [&](int row, int col) { return from.aligned_pair(row, col); });
    else
      load_pairs(first, [&](int row, int col) { return from.pair(row, col); });
  }

 private:
  template <class Pair>
  RUSH_FN void load_pairs(int first, Pair pair) {
    const int lane = threadIdx.x % 32, row = first + lane / 4, col = lane % 4 * 2;
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Pack<T, 2> both = pair(row + i % 2 * 8, 16 * k + i / 2 * 8 + col);
        u32 words[kCount];
        take_apart<E, kCount>(float(both.v[0]), float(both.v[1]), words);
#pragma unroll
        for (int p = 0; p < kCount; ++p) v[k][p][i] = words[p];
      }
    }
  }
};

// c += the product of two factors in parts; the smallest products first.
template <class E, int Count>
RUSH_FN void multiply_parts(float (&c)[4], const u32 (&a)[Count][4], const u32 (&b)[Count][4],
                            int first) {
#pragma unroll
  for (int order = Count - 1; order >= 0; --order)
#pragma unroll
    for (int i = 0; i <= order; ++i)
      multiply_add(E(0.0f), c, a[i], b[order - i][first], b[order - i][first + 1]);
}

// ---- products ----

struct Nothing {
  RUSH_FN void operator()() const {}
};

// c (16 x N) = a @ tile^T, for N rows of the tile. `meanwhile` is done while products run by themselves.
template <int N, class T, bool exact, int D, class Meanwhile = Nothing>
RUSH_FN void multiply_by_rows(float (&c)[N / 8][4], const RowFragments<T, exact, D>& a,
                              const typename Parts<T, exact>::Element* tile,
                              const Meanwhile& meanwhile = {}) {
  using E = typename Parts<T, exact>::Element;
  if constexpr (kWarpgroups) {
    // Copies, made anew by every product: NVRTC 13.0 takes registers that a product reads for free
    // after it, in loops too, and lets others have them. So the copies must not be a loop's constants.
    const u32 none = read_again(zero_word());
    u32 used[D / 16][4];
#pragma unroll
    for (int k = 0; k < D / 16; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) used[k][i] = a.v[k][0][i] | none;
    const TilePlaces by(tile);
    begin_products();
#pragma unroll
    for (int k = 0; k < D / 16; ++k)
      multiply_tile<false>(E(0.0f), c, used[k], by.at(k / 4 * N * kTileColumns + k % 4 * 16),
                           k > 0);
    commit_products();
    meanwhile();
    return wait_for_products();
  }
  meanwhile();
  constexpr int count = Parts<T, exact>::kCount;
  const int lane = threadIdx.x % 32, m = lane / 8, row = m / 2 * 8 + lane % 8;
#pragma unroll
  for (int n = 0; n < N / 8; ++n) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
#pragma unroll
    for (int n = 0; n < N / 16; ++n) {
      u32 b[count][4];
      const E* at = tile + tile_place<D, N>(n * 16 + row, 2 * k + (m & 1));
#pragma unroll
      for (int p = 0; p < count; ++p) load_matrices(b[p], at + p * N * D);
      multiply_parts<E, count>(c[2 * n], a.v[k], b, 0);
      multiply_parts<E, count>(c[2 * n + 1], a.v[k], b, 2);
    }
  }
}

// p as products leave it, as a left factor.
template <class E, int N>
RUSH_FN void narrow_fragments(u32 (&to)[N / 16][4], const float (&p)[N / 8][4]) {
#pragma unroll
  for (int k = 0; k < N / 16; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      to[k][i] = pair_of(E(0.0f), p[2 * k + i / 2][i % 2 * 2], p[2 * k + i / 2][i % 2 * 2 + 1]);
}
template <int N, int D, class E>
RUSH_FN void start_by_columns(float (&c)[D / 8][4], const u32 (&a)[N / 16][4], const E* tile) {
  const TilePlaces by(tile, N * kTileColumns * sizeof(E));
#pragma unroll
  for (int k = 0; k < N / 16; ++k)
    multiply_tile<true>(E(0.0f), c, a[k], by.at(k * 16 * kTileColumns), true);
}

// c (16 x D) += p (16 x N) @ tile, for N rows of the tile; p as products leave it.
template <class T, bool exact, int N, int D>
RUSH_FN void multiply_by_columns(float (&c)[D / 8][4], const float (&p)[N / 8][4],
                                 const typename Parts<T, exact>::Element* tile) {
  using E = typename Parts<T, exact>::Element;
  constexpr int count = Parts<T, exact>::kCount;
  if constexpr (kWarpgroups) {
    u32 a[N / 16][4];
    narrow_fragments<E, N>(a, p);
    begin_products();
    start_by_columns<N, D>(c, a, tile);
    return finish_products();
  }
  const int lane = threadIdx.x % 32, m = lane / 8, row = (m & 1) * 8 + lane % 8;
#pragma unroll
  for (int k = 0; k < N / 16; ++k) {
    u32 a[count][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      u32 words[count];
      take_apart<E, count>(p[2 * k + i / 2][i % 2 * 2], p[2 * k + i / 2][i % 2 * 2 + 1], words);
#pragma unroll
      for (int q = 0; q < count; ++q) a[q][i] = words[q];
    }
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      u32 b[count][4];
      const E* at = tile + tile_place<D, N>(k * 16 + row, 2 * d + m / 2);
#pragma unroll
      for (int q = 0; q < count; ++q) load_transposed(b[q], at + q * N * D);
      multiply_parts<E, count>(c[2 * d], a, b, 0);
      multiply_parts<E, count>(c[2 * d + 1], a, b, 2);
    }
  }
}

}  // namespace rush
