// last_block.h (NVRTC): the block that comes last finishes what all have prepared.
#pragma once

#include "functors/types.h"

namespace rush {

// True in all threads of the block that is the last of those that share the counter, once the
// others' results can be seen.
RUSH_FN bool comes_last(u32* counter, u32 blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    last = atomicAdd(counter, 1u) == blocks - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  __threadfence();
  return last;
}

}  // namespace rush
