// select_rows.cu: the k-th of a row, or the k first in their order, by one block that has the whole
// row in its registers.
//
// - The wanted key is found bit by bit from the top: a bit is set unless too many keys would then
//   be smaller. A step is a comparison an element and one sum over the block; nothing is counted
//   by digit, so it does not matter how the values are distributed.
// - Of equal keys the first ones count: where the last of those stands is found in the same way.
// - The k first are gathered in any order and sorted by key and position.
// - Element i belongs to thread i % kThreads. Behind the row's end stand keys above all others.
#include "cuda/kernels/select.h"

namespace rush {

// The sum over the block, known to all. Rooms take turns, so that a call needs one barrier.
class BlockSums {
 public:
  RUSH_FN u32 operator()(u32 own) {
    __shared__ u32 rooms[2][kWarps];
#pragma unroll
    for (int half = kLanes / 2; half > 0; half /= 2) own += __shfl_xor_sync(kEveryLane, own, half);
    u32* room = rooms[turn_ ^= 1];
    if (lane_number() == 0) room[warp_number()] = own;
    __syncthreads();
    u32 sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += room[w];
    return sum;
  }

 private:
  int turn_ = 0;
};

RUSH_FN void sort_in_memory(u64* list, int size) {  // by bitonic merges; a power of two
  for (int length = 2; length <= size; length *= 2) {
    for (int step = length / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int t = threadIdx.x; t < size / 2; t += kThreads) {
        const int low = t / step * 2 * step + t % step, high = low + step;
        const u64 a = list[low], b = list[high];
        if ((a > b) == ((low & length) == 0)) list[low] = b, list[high] = a;
      }
    }
  }
  __syncthreads();
}

// Blocks go through the rows. kept: how many are wanted; 0: the k-th alone.
template <class T, int items>
__global__ void __launch_bounds__(kThreads) select_rows(SelectArgs args) {
  after_earlier();
  constexpr int kPositionBits = items <= 4 ? 10 : items <= 8 ? 11 : items <= 16 ? 12 : 13;
  static_assert(items * kThreads <= 1 << kPositionBits);
  __shared__ u64 list[kMostKept];
  __shared__ int listed;
  BlockSums sum_up;
  const int length = int(args.length);
  for (i64 row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const T* x = typed<T>(args.x) + row * args.length;
    u32 keys[items], nans = 0;
#pragma unroll
    for (int j = 0; j < items; ++j) {
      const int i = j * kThreads + int(threadIdx.x);
      keys[j] = i < length ? u32(key_at(args, x, i)) : ~0u;
      nans += i < length && is_nan_value(x[i]);
    }
    const i64 place = wanted_place(args, args.rank == 0 ? 0 : sum_up(nans));
    u32 key = 0, before = 0;
    for (int bit = 8 * int(sizeof(T)) - 1; bit >= 0; --bit) {
      const u32 next = key | 1u << bit;
      u32 smaller = 0;
#pragma unroll
      for (int j = 0; j < items; ++j) smaller += keys[j] < next;
      smaller = sum_up(smaller);
      if (i64(smaller) <= place) key = next, before = smaller;
    }
    const u32 left = u32(place) - before;  // of the equals, before the wanted one
    int position = 0;
    for (int bit = kPositionBits - 1; bit >= 0; --bit) {
      const int next = position | 1 << bit;
      u32 same = 0;
#pragma unroll
      for (int j = 0; j < items; ++j)
        same += keys[j] == key && j * kThreads + int(threadIdx.x) < next;
      if (sum_up(same) <= left) position = next;
    }
    if (args.kept == 0) {
      if (threadIdx.x == 0) {
        if (args.values) typed<T>(args.values)[row] = x[position];
        if (args.indices) args.indices[row] = position;
      }
      continue;
    }
    const int kept = int(args.kept);
    int room = 1;
    while (room < kept) room *= 2;
    if (threadIdx.x == 0) listed = 0;
    for (int i = kept + int(threadIdx.x); i < room; i += kThreads) list[i] = ~u64(0);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < items; ++j) {
      const int i = j * kThreads + int(threadIdx.x);
      if (keys[j] < key || (keys[j] == key && i <= position))
        list[atomicAdd(&listed, 1)] = u64(keys[j]) << 32 | u64(i);
    }
    sort_in_memory(list, room);
    for (int i = threadIdx.x; i < kept; i += kThreads) {
      const int from = int(list[i] & 0xffffffffu);
      typed<T>(args.values)[row * args.kept + i] = x[from];
      args.indices[row * args.kept + i] = from;
    }
    __syncthreads();  // the list may still be read
  }
}

}  // namespace rush
