// async_copy.h (NVRTC): copies from global to shared memory that run by themselves.
#pragma once

#include "functors/types.h"

namespace rush {

#ifdef RUSH_DEVICE
RUSH_FN u32 shared_address(const void* p) { return u32(__cvta_generic_to_shared(p)); }
#endif

// 16 bytes from global to shared memory, both aligned to 16, while the threads go on.
RUSH_FN void copy_async(void* shared, const void* global) {
#if defined(RUSH_DEVICE) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)),
               "l"(global)
               : "memory");
#else
  struct alignas(16) Unit {
    u64 v[2];
  };
  *static_cast<Unit*>(shared) = *static_cast<const Unit*>(global);
#endif
}
// Waits for the thread's own copies; a barrier then makes everyone's visible.
RUSH_FN void wait_for_copies() {
#if defined(RUSH_DEVICE) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace rush
