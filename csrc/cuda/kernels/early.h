// early.h: how a kernel waits for those before it.
//
// Note [Early launches]
// Kernels are launched so that the GPU may prepare one while the one before it in its stream still
// runs (programmatic dependent launch): 0.7 instead of 1.6 us from kernel to kernel on an H200, and
// the host needs 3.0 instead of 3.6 us. So every kernel begins with after_earlier(), in all of its
// threads: from there on everything before it in the stream is done, and can be seen. A thread that
// ended without it could let the kernel end before the one before, which nobody expects.
// Then it lets the next one be prepared, whose blocks come to the processors once all of this one's
// have, and wait there: 5% of a decoded token. Not before it has waited itself, or kernels would pile up.
#pragma once

#include "functors/types.h"

namespace rush {

RUSH_FN void after_earlier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace rush
