// team.h (NVRTC): a team of threads (part of a warp, some warps, or the whole block) that finds one
// result.
#pragma once

#include "cuda/kernels/element.h"

namespace rush {

struct JoinSum {
  template <class T>
  RUSH_FN T operator()(T a, T b) const {
    return a + b;
  }
};

// The value of the thread whose number differs in `bits`, for values of any size.
template <class T>
RUSH_FN T from_neighbour(const T& mine, int bits) {
  static_assert(sizeof(T) % 4 == 0);
  struct Words {
    u32 v[sizeof(T) / 4];
  };
  Words words = bit_cast<Words>(mine);
#pragma unroll
  for (u32& w : words.v) w = __shfl_xor_sync(0xffffffffu, w, bits);
  return bit_cast<T>(words);
}

// What `join` makes of the values of a team's threads, known to all of them, by a tree that is
// always the same. All threads of the block call it.
template <int Team, class T, class Join>
RUSH_FN T join_team(T mine, Join join) {
  constexpr int warp = 32;
#pragma unroll
  for (int half = (Team < warp ? Team : warp) / 2; half > 0; half /= 2) {
    const T other = from_neighbour(mine, half);
    // The lower thread's value comes first, so that both compute the same.
    mine = threadIdx.x & half ? join(other, mine) : join(mine, other);
  }
  if constexpr (Team > warp) {
    __shared__ T all[kThreads / warp];
    __syncthreads();  // an earlier call's readers are done
    if (threadIdx.x % warp == 0) all[threadIdx.x / warp] = mine;
    __syncthreads();
    const int first = int(threadIdx.x) / Team * (Team / warp);
    mine = all[first];
#pragma unroll
    for (int w = 1; w < Team / warp; ++w) mine = join(mine, all[first + w]);
  }
  return mine;
}

// The same over threads that are a block's columns apart: Lanes of them share a column, thread t
// standing in column t % (kThreads / Lanes).
template <int Lanes, class T, class Join>
RUSH_FN T join_column(T mine, Join join) {
  if constexpr (Lanes > 1) {
    constexpr int columns = kThreads / Lanes;
    __shared__ T all[Lanes][columns];
    const int column = threadIdx.x % columns;
    __syncthreads();  // an earlier call's readers are done
    all[threadIdx.x / columns][column] = mine;
    __syncthreads();
    mine = all[0][column];
    for (int k = 1; k < Lanes; ++k) mine = join(mine, all[k][column]);
  }
  return mine;
}

}  // namespace rush
