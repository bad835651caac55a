// fault.h (NVRTC): what a kernel leaves for the host when it meets what it cannot use.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

RUSH_FN bool earlier(const volatile IndexFault* f, u64 launch, i64 position) {
  return launch < f->launch || (launch == f->launch && position < f->position);
}

// The first offender stays (lowest launch, then lowest position), so that the error is the same
// every time. The lock is taken only by threads that would improve the record.
RUSH_FN void report(IndexFault* fault, u64 launch, i64 position, i64 value) {
  bool done = !earlier(fault, launch, position);
  while (!done) {
    if (atomicCAS(&fault->lock, 0u, 1u) != 0u) continue;
    __threadfence();
    volatile IndexFault* f = fault;
    if (earlier(f, launch, position)) {
      f->launch = launch;
      f->position = position;
      f->value = value;
    }
    __threadfence();
    atomicExch(&fault->lock, 0u);
    done = true;
  }
}

}  // namespace rush
