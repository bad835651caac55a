// select.h (NVRTC): what the searches of select_long.cu and select_rows.cu share.
#pragma once

#include "cuda/kernels/block.h"
#include "cuda/kernels/select_args.h"
#include "functors/order_keys.h"

namespace rush {

template <class T>
RUSH_FN KeyOf<T> key_at(const SelectArgs& args, const T* x, i64 i) {
  const KeyOf<T> key = order_key(x[i]);
  return args.descending ? KeyOf<T>(~key) : key;
}

// Which place of the sorted row is wanted. NaNs stand at the end.
RUSH_FN i64 wanted_place(const SelectArgs& args, i64 nans) {
  if (args.rank == 0) return args.k;
  const i64 numbers = args.length - nans;
  const bool whole = args.rank == 1 || numbers == 0;
  if (whole && numbers < args.length) return numbers;
  return ((whole ? args.length : numbers) - 1) / 2;
}

}  // namespace rush
