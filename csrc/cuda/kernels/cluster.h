// cluster.h (NVRTC): blocks that run beside each other and read each other's shared memory, from
// compute capability 9.0 on. A kernel says how many with RUSH_CLUSTER; neighbours are together.
#pragma once

#include "cuda/kernels/async_copy.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define RUSH_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#else
#define RUSH_CLUSTER(blocks)
#endif

namespace rush {

// All threads of all blocks of the cluster; what they wrote before is seen by all. (The barriers are for
// whole warps, whose threads may have gone different ways before.)
RUSH_FN void wait_for_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// The same in two parts, for what one thread of each block wrote: that one publishes it first. A fence
// in every thread takes longer than what small kernels do between two.
RUSH_FN void publish_to_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.acq_rel.cluster;" ::: "memory");
#endif
}
RUSH_FN void arrive_at_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
RUSH_FN void wait_for_arrivals() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// What is at this place of another block's shared memory.
RUSH_FN float read_of_block(const float* place, [[maybe_unused]] int block) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  u32 there;
  float x;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(there)
               : "r"(shared_address(place)), "r"(block));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(there) : "memory");
  return x;
#else
  return *place;
#endif
}

// The two numbers of each block of the cluster, for all threads of this one. A block must not end
// before the others have read from it: it has to wait_for_arrivals() at its end. Those arrive when
// what they read is in `all`: an arrival by itself does not wait for a read that is under way.
template <int Blocks>
RUSH_FN void exchange(float first, float second, float (&all)[Blocks][2]) {
  __shared__ float own[2];
  if (threadIdx.x == 0) {
    own[0] = first, own[1] = second;
    publish_to_cluster();
  }
  arrive_at_cluster();
  wait_for_arrivals();
  const int block = threadIdx.x / 2, which = threadIdx.x % 2;
  if (block < Blocks) all[block][which] = read_of_block(&own[which], block);
  __syncthreads();
  arrive_at_cluster();
}

}  // namespace rush
