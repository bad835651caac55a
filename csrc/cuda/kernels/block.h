// block.h (NVRTC): threads that work together: lanes of a warp, warps of a block.
//
// - Every function is called by all threads of the warp, or of the block, that it names.
// - An operation is a struct with an Acc, blank() and join(earlier, later); join need not commute.
// - The order of joining follows from the threads' numbers alone: results are the same every time.
#pragma once

#include "cuda/kernels/element.h"

namespace rush {

inline constexpr int kLanes = 32;
inline constexpr int kWarps = kThreads / kLanes;
inline constexpr u32 kEveryLane = ~0u;

RUSH_FN int lane_number() { return int(threadIdx.x) % kLanes; }
RUSH_FN int warp_number() { return int(threadIdx.x) / kLanes; }

// ---- anything between lanes, four bytes at a time ----

template <class T>
struct Words {
  static_assert(sizeof(T) % 4 == 0);
  u32 w[sizeof(T) / 4];
};

// Nothing that was computed from x before is kept for later: it is cheaper to compute it again than
// to have no register for it.
template <class T>
RUSH_FN void forget_results_of(T& x) {
#ifdef RUSH_DEVICE
  if constexpr (sizeof(T) % 4 == 0) {
    auto words = bit_cast<Words<T>>(x);
#pragma unroll
    for (u32& w : words.w) asm volatile("" : "+r"(w));
    x = bit_cast<T>(words);
  }
#else
  (void)x;
#endif
}

// x with each of its words replaced by exchange(word).
template <class T, class F>
RUSH_FN T exchanged(const T& x, F exchange) {
  auto words = bit_cast<Words<T>>(x);
#pragma unroll
  for (u32& w : words.w) w = exchange(w);
  return bit_cast<T>(words);
}
// x of the lane `distance` below; lanes without one keep their own.
template <class T>
RUSH_FN T from_below(const T& x, int distance, int width = kLanes) {
  return exchanged(x, [&](u32 w) { return __shfl_up_sync(kEveryLane, w, distance, width); });
}
// x of a lane, counted within each group of `width`.
template <class T>
RUSH_FN T from_lane(const T& x, int lane, int width = kLanes) {
  return exchanged(x, [&](u32 w) { return __shfl_sync(kEveryLane, w, lane, width); });
}

// The lanes of the warp that hold the same digit of eight bits.
RUSH_FN u32 lanes_with(u32 digit) {
  u32 same = kEveryLane;
#pragma unroll
  for (int b = 0; b < 8; ++b) {
    const bool set = digit >> b & 1;
    const u32 votes = __ballot_sync(kEveryLane, set);
    same &= set ? votes : ~votes;
  }
  return same;
}

// ---- running results ----

// Joined over the lanes up to this one, in each group of `width` lanes.
template <class Op>
RUSH_FN typename Op::Acc scan_lanes_of(typename Op::Acc acc, int width = kLanes) {
  const int lane = lane_number() & (width - 1);
  for (int distance = 1; distance < width; distance *= 2) {
    const typename Op::Acc below = from_below(acc, distance, width);
    if (lane >= distance) acc = Op::join(below, acc);
  }
  return acc;
}

template <class T>
struct AddUp {
  using Acc = T;
  static RUSH_FN Acc blank() { return Acc(0); }
  static RUSH_FN Acc join(Acc a, Acc b) { return a + b; }
};

// What lies before this thread, and the sum of the whole block.
template <class T>
struct Share {
  T before, total;
};
template <class T>
RUSH_FN Share<T> share_of_block(T own) {
  __shared__ T warps[kWarps];
  const T upto = scan_lanes_of<AddUp<T>>(own);
  __syncthreads();  // the room may still be read from the last call
  if (lane_number() == kLanes - 1) warps[warp_number()] = upto;
  __syncthreads();
  Share<T> share{T(upto - own), T(0)};
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp_number()) share.before += warps[w];
    share.total += warps[w];
  }
  return share;
}

// ---- words that blocks leave for each other ----

// Past this, whoever sees the flag sees the value.
template <class T>
RUSH_FN void publish(T* place, u32* flag, const T& value) {
  const auto words = bit_cast<Words<T>>(value);
  volatile u32* to = reinterpret_cast<volatile u32*>(place);
#pragma unroll
  for (int k = 0; k < int(sizeof(T) / 4); ++k) to[k] = words.w[k];
  __threadfence();
  *static_cast<volatile u32*>(flag) = 1;
}
template <class T>
RUSH_FN T await(const T* place, const u32* flag) {
  while (*static_cast<const volatile u32*>(flag) == 0) {
  }
  __threadfence();
  Words<T> words;
  const volatile u32* from = reinterpret_cast<const volatile u32*>(place);
#pragma unroll
  for (int k = 0; k < int(sizeof(T) / 4); ++k) words.w[k] = from[k];
  return bit_cast<T>(words);
}

}  // namespace rush
