// cuda_on_cpu.h: lets g++ compile the .cu files, and runs their kernels here, thread by thread.
//
// - One block at a time, so that `__shared__` can be `static`. Blocks run in order: one may wait
//   for words that another before it has left.
// - A kernel without __syncthreads runs its threads one after the other (launch), the others run
//   them in turn (launch_together): each has a stack of its own, and gives way where it has to
//   wait. (As real threads they spent minutes at their barriers.)
#pragma once

#include <ucontext.h>

#include <atomic>
#include <bit>
#include <functional>
#include <memory>
#include <vector>

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};
inline Dim3 threadIdx, blockIdx, blockDim, gridDim;

struct Fiber {
  static constexpr size_t kStack = 128 << 10;
  Dim3 thread;
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStack]};
  bool done = false;
};
inline std::vector<std::unique_ptr<Fiber>> fibers;
inline Fiber* running = nullptr;
inline ucontext_t between_fibers;
inline std::function<void()> fiber_body;

inline void give_way() {
  Fiber* self = running;
  swapcontext(&self->context, &between_fibers);
  running = self;
  threadIdx = self->thread;
}

struct FiberBarrier {
  unsigned size = 0, arrived = 0, round = 0;
  void arrive_and_wait() {
    const unsigned now = round;
    if (++arrived == size) {
      arrived = 0;
      ++round;
      return;
    }
    while (round == now) give_way();
  }
};
inline FiberBarrier block_barrier;

#define __global__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__

template <class T>
T __ldcg(const T* p) {
  return *p;
}
inline void __syncthreads() { block_barrier.arrive_and_wait(); }
inline int __syncthreads_or(int vote) {
  static int any;
  if (threadIdx.x == 0) any = 0;
  __syncthreads();
  any |= vote != 0;
  __syncthreads();
  return any;
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

// ---- warps: every function here is called by all 32 lanes ----

struct Warp {
  FiberBarrier barrier{32};
  unsigned words[32];
};
inline std::vector<Warp> warps;

inline unsigned lane_of_thread() { return (threadIdx.y * blockDim.x + threadIdx.x) % 32; }
// Every lane's word, as f(words) wants it.
template <class F>
auto exchange(unsigned word, F f) {
  Warp& warp = warps[(threadIdx.y * blockDim.x + threadIdx.x) / 32];
  warp.words[lane_of_thread()] = word;
  warp.barrier.arrive_and_wait();
  const auto result = f(static_cast<const unsigned*>(warp.words));
  warp.barrier.arrive_and_wait();
  return result;
}
inline unsigned __shfl_up_sync(unsigned, unsigned x, unsigned distance, unsigned width = 32) {
  const unsigned lane = lane_of_thread();
  return exchange(x, [&](const unsigned* words) {
    return lane % width >= distance ? words[lane - distance] : words[lane];
  });
}
inline unsigned __shfl_sync(unsigned, unsigned x, unsigned from, unsigned width = 32) {
  const unsigned lane = lane_of_thread();
  return exchange(
      x, [&](const unsigned* words) { return words[lane / width * width + from % width]; });
}
inline unsigned __shfl_xor_sync(unsigned, unsigned x, unsigned bits) {
  const unsigned lane = lane_of_thread();
  return exchange(x, [&](const unsigned* words) { return words[lane ^ bits]; });
}
inline unsigned __ballot_sync(unsigned, int vote) {
  return exchange(vote != 0, [](const unsigned* words) {
    unsigned bits = 0;
    for (unsigned l = 0; l < 32; ++l) bits |= words[l] << l;
    return bits;
  });
}
inline unsigned __match_any_sync(unsigned, unsigned x) {
  return exchange(x, [&](const unsigned* words) {
    unsigned bits = 0;
    for (unsigned l = 0; l < 32; ++l) bits |= unsigned(words[l] == x) << l;
    return bits;
  });
}
inline void __syncwarp() {
  exchange(0, [](const unsigned*) { return 0; });
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(unsigned(x)); }

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

inline void run_fiber() {
  fiber_body();
  running->done = true;
}

template <class Kernel, class... Args>
void launch_together(Dim3 grid, Dim3 block, Kernel kernel, const Args&... args) {
  gridDim = grid, blockDim = block;
  const unsigned threads = block.x * block.y * block.z;
  while (fibers.size() < threads) fibers.push_back(std::make_unique<Fiber>());
  fiber_body = [&] { kernel(args...); };
  for_each(grid, [&](Dim3 b) {
    blockIdx = b;
    block_barrier = {threads};
    warps.assign((threads + 31) / 32, Warp{});
    unsigned next = 0, left = threads;
    for_each(block, [&](Dim3 t) {
      Fiber& f = *fibers[next++];
      f.thread = t, f.done = false;
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = f.stack.get();
      f.context.uc_stack.ss_size = Fiber::kStack;
      f.context.uc_link = &between_fibers;
      makecontext(&f.context, run_fiber, 0);
    });
    while (left > 0) {
      for (unsigned i = 0; i < threads; ++i) {
        Fiber& f = *fibers[i];
        if (f.done) continue;
        running = &f;
        threadIdx = f.thread;
        swapcontext(&between_fibers, &f.context);
        left -= f.done;
      }
    }
  });
}
