// fault.h (NVRTC): indices out of range, noted for the host.
//
// The record keeps the first offender (lowest launch, then lowest position), so that the error is
// the same every time. The lock is taken only by threads that would improve the record.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

RUSH_FN bool earlier(const volatile IndexFault* f, u64 launch, i64 position) {
  return launch < f->launch || (launch == f->launch && position < f->position);
}

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
