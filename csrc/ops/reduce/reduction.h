// reduction.h: which dims a reduction folds, and the shapes that follow.
#pragma once

#include <bitset>

#include "ops/framework/op.h"

namespace rush {

class ReducedDims {
 public:
  // No dims, or an empty list: all of them. Raises for a dim out of range or named twice.
  ReducedDims(const char* op, const Tensor& x, const std::optional<IntList>& dims);

  bool has(int64_t d) const { return mask_[size_t(d)]; }
  int64_t count() const { return int64_t(mask_.count()); }
  Dims shape(const Tensor& x, bool keepdim) const;
  // `out` seen with size 1 in the reduced dims, as the loops want it.
  Tensor keepdim_view(const Tensor& x, const Tensor& out) const;
  // How many elements fold into one.
  int64_t folded(const Tensor& x) const;
  // Are they the last ones?
  bool are_last(const Tensor& x) const;

 private:
  std::bitset<kMaxDims> mask_;
};

// A reduced tensor brought back to the rank of its source: inserts size-1 dims where keepdim was
// false.
Tensor restore_dims(const Tensor& reduced, int64_t rank, const char* op,
                    const std::optional<IntList>& dims, bool keepdim);

}  // namespace rush
