// ctc_args.h: the arguments of ctc.cu.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

// log_probs and gx (steps, batch, classes); log_alpha and log_beta (batch, steps, width). The
// states of a sample are blank, label, blank, ..., blank: twice its labels and one.
struct CtcArgs {
  const void* log_probs;
  const i64* targets;
  const i64 *inputs, *lengths, *first;  // of each sample: steps, labels, and where these begin
  void *log_alpha, *log_beta, *loss, *gx;
  i32*
      chains;  // [batch][2][longest]: the next equal label or -1; 1 where a label is the first such
  i64 blank, steps, batch, classes, width, longest;
  bool zero_infinity;
  u64 launch;
  IndexFault* fault;
};

}  // namespace rush
