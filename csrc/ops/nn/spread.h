// spread.h: kernel sizes, strides, padding and dilation of convolutions and pools.
#pragma once

#include "ops/framework/op.h"

namespace rush {

// Beyond this, sizes computed from a stride, padding or dilation could overflow.
constexpr int64_t kLargestStep = int64_t(1) << 40;

// A number per spatial dim; one number may stand for all of them.
inline Dims spread(const char* op, const char* what, IntList list, int64_t dims, int64_t least) {
  check_shape(list.size() == 1 || int64_t(list.size()) == dims, op, what,
              " must be one number or one per dim (", dims, "), got ", list);
  Dims out(uint32_t(dims), list[0]);
  if (list.size() > 1) out = Dims(list);
  for (int64_t v : out)
    check_argument(v >= least && v <= kLargestStep, op, what, " must be ",
                   least > 0 ? "positive" : "at least 0", v > 0 ? " and below 2^40" : "", ", got ",
                   list);
  return out;
}

}  // namespace rush
