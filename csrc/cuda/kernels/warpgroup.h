// warpgroup.h (NVRTC): matrix products of four warps at once, as Hopper has them (wgmma).
//
// Note [Warpgroups]
// Each of the four warps has 16 rows of the left factor and of c in its registers, laid out as Note
// [Fragments] in tensor_core.h tells; the right factor, which all four share, is read from a tile in
// shared memory. Its rows are 128 bytes long (64 elements) and lie end to end from a multiple of
// 1,024 bytes on; the 16 bytes at place p of row r lie at place p ^ (r % 8).
// The products run by themselves: begin_products() before the first, finish_products() after the
// last, and nobody touches their registers or tiles in between. Who has other work meanwhile calls
// commit_products() behind the last and wait_for_products() after that work.
// tests/cpp/tensor_core_on_cpu.h has the same functions for the tests.
#pragma once

#include "cuda/kernels/tensor_core.h"

namespace rush {

inline constexpr int kTileColumns = 64;  // elements of a tile's row

#ifndef RUSH_TENSOR_CORE_ON_CPU

RUSH_FN void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
RUSH_FN void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
RUSH_FN void wait_for_products() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
// All but the last `left` groups that were committed.
template <int left>
RUSH_FN void wait_for_products_but() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}
RUSH_FN void finish_products() {
  commit_products();
  wait_for_products();
}
// What threads have written to shared memory is seen by the products after the next barrier.
RUSH_FN void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Two warpgroups meet: who has to wait for the other calls meet_at, who only lets it go on announce_at.
RUSH_FN void meet_at(int number) {
  asm volatile("barrier.cta.sync.aligned %0, 256;" ::"r"(number) : "memory");
}
RUSH_FN void announce_at(int number) {
  asm volatile("barrier.cta.arrive.aligned %0, 256;" ::"r"(number) : "memory");
}

// A word of shared memory, whatever was read there before.
RUSH_FN u32 read_again(const u32* word) {
  u32 x;
  asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(x) : "r"(shared_address(word)) : "memory");
  return x;
}

// Where a tile lies: from eight rows to the next eight are 1,024 bytes, from 64 columns to the
// next 64 `step` bytes.
RUSH_FN u64 tile_descriptor(const void* at, u32 step) {
  constexpr u64 kSwizzled = u64(1) << 62, kEightRows = u64(1024 / 16) << 32;
  return kSwizzled | kEightRows | u64(step / 16) << 16 | u64((shared_address(at) & 0x3ffff) / 16);
}

// Many of them near each other: only the lower word of the descriptor differs.
struct TilePlaces {
  u32 lower, upper;
  RUSH_FN explicit TilePlaces(const void* first, u32 step = 16) {
    const u64 all = tile_descriptor(first, step);
    lower = u32(all), upper = u32(all >> 32);
  }
  // `elements` of two bytes behind the first.
  RUSH_FN u64 at(int elements) const { return u64(upper) << 32 | (lower + u32(elements) * 2 / 16); }
};

#define RUSH_FOUR(i) "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
#define RUSH_SIXTEEN(i) RUSH_FOUR(i), RUSH_FOUR(i + 1), RUSH_FOUR(i + 2), RUSH_FOUR(i + 3)
#define RUSH_WORDS_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define RUSH_WORDS_32 \
  RUSH_WORDS_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define RUSH_WORDS_64                                                             \
  RUSH_WORDS_32                                                                   \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, " \
  "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "   \
  "%62, %63"
// The words of c, then a's four (from number A on), the tile, whether to add, whether transposed.
#define RUSH_MULTIPLY(shape, type, words, A0, A1, A2, A3, TILE, ADD, ACROSS, ...)                \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" ADD                                          \
               ", 0;\n"                                                                          \
               "wgmma.mma_async.sync.aligned." shape ".f32." type "." type " {" words "}, {%" A0 \
               ", %" A1 ", %" A2 ", %" A3 "}, %" TILE ", p, 1, 1, %" ACROSS ";\n}"               \
               : __VA_ARGS__                                                                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(tile), "r"(int(add)),           \
                 "n"(int(across)))
#define RUSH_MULTIPLY_WIDTHS(T, type)                                                          \
  template <bool across>                                                                       \
  RUSH_FN void multiply_tile(T, float (&c)[4][4], const u32(&a)[4], u64 tile, bool add) {      \
    RUSH_MULTIPLY("m64n32k16", type, RUSH_WORDS_16, "16", "17", "18", "19", "20", "21", "22",  \
                  RUSH_SIXTEEN(0));                                                            \
  }                                                                                            \
  template <bool across>                                                                       \
  RUSH_FN void multiply_tile(T, float (&c)[8][4], const u32(&a)[4], u64 tile, bool add) {      \
    RUSH_MULTIPLY("m64n64k16", type, RUSH_WORDS_32, "32", "33", "34", "35", "36", "37", "38",  \
                  RUSH_SIXTEEN(0), RUSH_SIXTEEN(4));                                           \
  }                                                                                            \
  template <bool across>                                                                       \
  RUSH_FN void multiply_tile(T, float (&c)[16][4], const u32(&a)[4], u64 tile, bool add) {     \
    RUSH_MULTIPLY("m64n128k16", type, RUSH_WORDS_64, "64", "65", "66", "67", "68", "69", "70", \
                  RUSH_SIXTEEN(0), RUSH_SIXTEEN(4), RUSH_SIXTEEN(8), RUSH_SIXTEEN(12));        \
  }
RUSH_MULTIPLY_WIDTHS(half, "f16")
RUSH_MULTIPLY_WIDTHS(bfloat16, "bf16")
// The same with the 64 rows of the left factor in a tile, too.
#define RUSH_MULTIPLY_TILES(T, type)                                                   \
  template <bool across>                                                               \
  RUSH_FN void multiply_tiles(T, float (&c)[8][4], u64 left, u64 right, bool add) {    \
    asm volatile(                                                                      \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                                   \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" RUSH_WORDS_32 \
        "}, %32, %33, p, 1, 1, 0, %35;\n}"                                             \
        : RUSH_SIXTEEN(0), RUSH_SIXTEEN(4)                                             \
        : "l"(left), "l"(right), "r"(int(add)), "n"(int(across)));                     \
  }
RUSH_MULTIPLY_TILES(half, "f16")
RUSH_MULTIPLY_TILES(bfloat16, "bf16")
#undef RUSH_FOUR
#undef RUSH_SIXTEEN
#undef RUSH_WORDS_16
#undef RUSH_WORDS_32
#undef RUSH_WORDS_64
#undef RUSH_MULTIPLY
#undef RUSH_MULTIPLY_WIDTHS
#undef RUSH_MULTIPLY_TILES

// What products have written is not read before here, whatever the compiler thinks.
template <int Eighths>
RUSH_FN void settle(float (&c)[Eighths][4]) {
#pragma unroll
  for (int n = 0; n < Eighths; ++n)
    asm volatile("" : "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])::"memory");
}

// Adds `bytes` of shared memory, a multiple of 16, to floats in global memory, while threads go on.
// Of the one thread that calls it, all that it has asked for so far: read_by_adding() waits until
// the shared memory may change again, added() until the sums are there.
RUSH_FN void add_in_bulk(float* global, const float* shared, u32 bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;" ::"l"(global),
      "r"(shared_address(shared)), "r"(bytes)
      : "memory");
}
RUSH_FN void read_by_adding() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
RUSH_FN void added() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Four 8 x 8 matrices as Note [Fragments] has them, each transposed, into shared memory: thread i
// names the row i % 8 of matrix i / 8, of 16 bytes.
RUSH_FN void store_transposed(void* row, const u32 (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   shared_address(row)),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

#endif

}  // namespace rush
