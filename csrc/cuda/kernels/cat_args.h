// cat_args.h: the arguments of cat.cu.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

inline constexpr int kCatInputs = 64;  // a launch; more inputs take more launches
// Counts are in units: the widest word that divides everything here.
struct CatArgs {
  void* out;
  i64 outer;    // runs of out
  i64 out_run;  // units from one run of out to the next
  const void* in[kCatInputs];
  i64 run[kCatInputs];    // units that input k gives to each run
  i64 place[kCatInputs];  // where in the run they start
  i64 step[kCatInputs];   // from one stretch of input k to the next
  Divider<u32> by_run[kCatInputs];
};

}  // namespace rush
