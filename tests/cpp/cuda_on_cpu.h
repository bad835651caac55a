// cuda_on_cpu.h: lets g++ compile the .cu files, and runs their kernels here, thread by thread.
//
// - One block at a time, so that `__shared__` can be `static`.
// - A kernel without __syncthreads runs its threads one after the other (launch), the others run
//   them as real threads (launch_together).
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};
inline thread_local Dim3 threadIdx, blockIdx;
inline Dim3 blockDim, gridDim;
inline std::optional<std::barrier<>> block_barrier;

#define __global__ inline
#define __shared__ static
#define __launch_bounds__(threads)

inline void __syncthreads() { block_barrier->arrive_and_wait(); }

// Threads of a warp exchange values through here; launch_together gives each warp a barrier.
inline std::deque<std::barrier<>> warp_barriers;
inline unsigned warp_values[1024];
inline unsigned thread_in_block() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
inline unsigned __shfl_xor_sync(unsigned, unsigned value, int bits) {
  const unsigned me = thread_in_block();
  std::barrier<>& warp = warp_barriers[me / 32];
  warp_values[me] = value;
  warp.arrive_and_wait();
  const unsigned other = warp_values[me ^ unsigned(bits)];
  warp.arrive_and_wait();
  return other;
}

inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline unsigned atomicCAS(unsigned* p, unsigned expected, unsigned value) {
  return std::atomic_ref(*p).compare_exchange_strong(expected, value), expected;
}
inline unsigned long long atomicCAS(unsigned long long* p, unsigned long long expected,
                                    unsigned long long value) {
  return std::atomic_ref(*p).compare_exchange_strong(expected, value), expected;
}
template <class T>
T atomicAdd(T* p, T value) {
  return std::atomic_ref(*p).fetch_add(value);
}
inline unsigned atomicExch(unsigned* p, unsigned value) {
  return std::atomic_ref(*p).exchange(value);
}

template <class F>
void for_each(Dim3 size, F f) {
  for (unsigned z = 0; z < size.z; ++z)
    for (unsigned y = 0; y < size.y; ++y)
      for (unsigned x = 0; x < size.x; ++x) f(Dim3{x, y, z});
}

template <class Kernel, class... Args>
void launch(Dim3 grid, Dim3 block, Kernel kernel, const Args&... args) {
  gridDim = grid, blockDim = block;
  for_each(grid, [&](Dim3 b) {
    blockIdx = b;
    for_each(block, [&](Dim3 t) {
      threadIdx = t;
      kernel(args...);
    });
  });
}

template <class Kernel, class... Args>
void launch_together(Dim3 grid, Dim3 block, Kernel kernel, const Args&... args) {
  gridDim = grid, blockDim = block;
  for_each(grid, [&](Dim3 b) {
    const unsigned count = block.x * block.y * block.z;
    block_barrier.emplace(count);
    warp_barriers.clear();
    for (unsigned first = 0; first < count; first += 32)
      warp_barriers.emplace_back(std::min(32u, count - first));
    std::vector<std::jthread> threads;
    for_each(block, [&](Dim3 t) {
      threads.emplace_back([=, &args...] {
        blockIdx = b, threadIdx = t;
        kernel(args...);
      });
    });
  });
}
