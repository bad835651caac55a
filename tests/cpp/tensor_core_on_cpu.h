// tensor_core_on_cpu.h: what a warp does together, thread by thread on the CPU: every thread lays
// down what it has, waits for the others, and works out its own part of the result from the
// layouts that Note [Fragments] in tensor_core.h tells.
#pragma once

#define RUSH_TENSOR_CORE_ON_CPU

#include <array>
#include <bitset>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "cuda_on_cpu.h"

#include "functors/types.h"

namespace rush {

struct WarpTable {
  FiberBarrier barrier{32};
  u32 words[32][8];
  const void* rows[32];
};
inline std::array<WarpTable, 8> warp_tables;

inline WarpTable& warp_table() { return warp_tables[threadIdx.x / 32]; }
inline int lane_number() { return int(threadIdx.x % 32); }

template <class F>
void meet(WarpTable& w, F read) {
  w.barrier.arrive_and_wait();
  read();
  w.barrier.arrive_and_wait();
}

inline void load_matrices(u32 (&r)[4], const void* row) {
  WarpTable& w = warp_table();
  w.rows[lane_number()] = row;
  meet(w, [&] {
    const int g = lane_number() / 4, t = lane_number() % 4;
    for (int m = 0; m < 4; ++m)
      std::memcpy(&r[m], static_cast<const char*>(w.rows[m * 8 + g]) + 4 * t, 4);
  });
}
inline void load_transposed(u32 (&r)[4], const void* row) {
  WarpTable& w = warp_table();
  w.rows[lane_number()] = row;
  meet(w, [&] {
    const int g = lane_number() / 4, t = lane_number() % 4;
    for (int m = 0; m < 4; ++m) {
      const u32 low = static_cast<const u16*>(w.rows[m * 8 + 2 * t])[g];
      const u32 high = static_cast<const u16*>(w.rows[m * 8 + 2 * t + 1])[g];
      r[m] = low | high << 16;
    }
  });
}

template <class T>
float word_element(u32 word, int i) {
  return float(T::from_bits(u16(word >> 16 * i)));
}

template <class T>
void multiply_add(T, float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  WarpTable& w = warp_table();
  u32* own = w.words[lane_number()];
  for (int i = 0; i < 4; ++i) own[i] = a[i];
  own[4] = b0, own[5] = b1;
  meet(w, [&] {
    const int g = lane_number() / 4, t = lane_number() % 4;
    for (int e = 0; e < 4; ++e) {
      const int lower = e / 2, col = 2 * t + e % 2;
      for (int k = 0; k < 16; ++k) {
        const int half_of = k / 8, word = k % 8 / 2, place = k % 2;
        const float x = word_element<T>(w.words[4 * g + word][2 * half_of + lower], place);
        const float y = word_element<T>(w.words[4 * col + word][4 + half_of], place);
        c[e] += x * y;
      }
    }
  });
}

template <class T>
u32 pair_of(T, float a, float b) {
  return u32(T(a).bits) | u32(T(b).bits) << 16;
}

inline float from_lane(float x, int mask) {
  WarpTable& w = warp_table();
  w.words[lane_number()][0] = bit_cast<u32>(x);
  float out = 0;
  meet(w, [&] { out = bit_cast<float>(w.words[lane_number() ^ mask][0]); });
  return out;
}
inline u32 word_of_lane(u32 x, u32 lane) { return __shfl_sync(0xffffffffu, x, lane); }

// ---- warpgroups, see Note [Warpgroups] in warpgroup.h ----

inline void begin_products() {}
inline void commit_products() {}
inline void wait_for_products() {}
template <int left>
void wait_for_products_but() {}
inline void finish_products() {}
template <int Eighths>
void settle(float (&)[Eighths][4]) {}
inline void show_to_products() {}
inline u32 read_again(const u32* word) { return *word; }
// Of 256 threads each, of which 128 may be ahead, but not by two: then a GPU takes them for all.
struct Meeting {
  FiberBarrier barrier{256};
  std::bitset<256> here;
  void come() {
    if (here[threadIdx.x]) std::abort();
    here[threadIdx.x] = true;
    if (here.all()) here.reset();
  }
};
inline std::array<Meeting, 16> meetings;
inline void announce_at(int number) {
  Meeting& m = meetings[size_t(number)];
  m.come();
  if (++m.barrier.arrived < m.barrier.size) return;
  m.barrier.arrived = 0;
  ++m.barrier.round;
}
inline void meet_at(int number) {
  Meeting& m = meetings[size_t(number)];
  m.come();
  m.barrier.arrive_and_wait();
}

struct TilePlace {
  const char* at;
  u32 step;
  // Element `col` of row `row` counted from `at`: the hardware swaps bits of the address itself.
  template <class T>
  float element(int row, int col) const {
    auto place = reinterpret_cast<uintptr_t>(at) + uintptr_t(col / 64) * step +
                 uintptr_t(row) * 128 + uintptr_t(col % 64) * 2;
    place ^= (place >> 7 & 7) << 4;
    return float(*reinterpret_cast<const T*>(place));
  }
};
inline TilePlace tile_descriptor(const void* at, u32 step) {
  return {static_cast<const char*>(at), step};
}

struct TilePlaces {
  const char* first;
  u32 step;
  explicit TilePlaces(const void* first_, u32 step_ = 16)
      : first(static_cast<const char*>(first_)), step(step_) {}
  TilePlace at(int elements) const { return {first + elements * 2, step}; }
};

template <bool across, class T, size_t Eighths>
void multiply_tile(T, float (&c)[Eighths][4], const u32 (&a)[4], const TilePlace& tile, bool add) {
  WarpTable& w = warp_table();
  for (int i = 0; i < 4; ++i) w.words[lane_number()][i] = a[i];
  meet(w, [&] {
    const int g = lane_number() / 4, t = lane_number() % 4;
    for (int n = 0; n < int(Eighths); ++n) {
      for (int e = 0; e < 4; ++e) {
        float& sum = c[n][e];
        if (!add) sum = 0;
        const int lower = e / 2, col = 8 * n + 2 * t + e % 2;
        for (int k = 0; k < 16; ++k) {
          const float x = word_element<T>(w.words[4 * g + k % 8 / 2][2 * (k / 8) + lower], k % 2);
          sum += x * (across ? tile.element<T>(k, col) : tile.element<T>(col, k));
        }
      }
    }
  });
}

template <bool across, class T, size_t Eighths>
void multiply_tiles(T, float (&c)[Eighths][4], const TilePlace& left, const TilePlace& right,
                    bool add) {
  meet(warp_table(), [&] {
    const int g = lane_number() / 4, t = lane_number() % 4, first = int(threadIdx.x / 32 % 4 * 16);
    for (int n = 0; n < int(Eighths); ++n) {
      for (int e = 0; e < 4; ++e) {
        float& sum = c[n][e];
        if (!add) sum = 0;
        const int row = first + g + e / 2 * 8, col = 8 * n + 2 * t + e % 2;
        for (int k = 0; k < 16; ++k)
          sum += left.element<T>(row, k) *
                 (across ? right.element<T>(k, col) : right.element<T>(col, k));
      }
    }
  });
}

inline void add_in_bulk(float* global, const float* shared, u32 bytes) {
  for (u32 i = 0; i < bytes / sizeof(float); ++i) global[i] += shared[i];
}
inline void read_by_adding() {}
inline void added() {}
inline void store_transposed(void* row, const u32 (&r)[4]) {
  WarpTable& w = warp_table();
  w.rows[lane_number()] = row;
  meet(w, [&] {
    const int g = lane_number() / 4, t = lane_number() % 4;
    for (int m = 0; m < 4; ++m)
      for (int half_of = 0; half_of < 2; ++half_of)
        static_cast<u16*>(const_cast<void*>(w.rows[m * 8 + 2 * t + half_of]))[g] =
            u16(r[m] >> 16 * half_of);
  });
}

}  // namespace rush
