// rows.h: for blocks that look at rows, and that may wait in a compiled function (device/deferred.h).
#pragma once

#include "core/layout.h"
#include "core/modes.h"

namespace rush::op {

// Rows are those that the program sees. A deferrable block is given forms in whatever order of dims,
// so check() of one that does not serve any order settles that first.
inline void settle_layout(const Tensor& t) {
  if (t_modes & kDefer && t.defined() && is_laid_out_otherwise(t)) t.storage();
}

}  // namespace rush::op
