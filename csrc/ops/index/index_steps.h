// index_steps.h: an index with several items, applied item by item. Ints, slices, None and `...`
// run as select, slice and unsqueeze, whose backward is cheap; index tensors are collected, one
// entry per dimension, and one call of index or index_put_ does the rest.
#pragma once

#include <vector>

#include "ops/index/index_plan.h"

namespace rush {

[[noreturn, gnu::cold]] RUSH_API void index_out_of_bounds(int64_t index, int64_t dim, int64_t size);
[[noreturn, gnu::cold]] RUSH_API void too_many_indices(const Tensor& t, int64_t used);

inline int64_t wrapped_index(int64_t index, int64_t dim, int64_t size) {
  if (index < -size || index >= size) [[unlikely]]
    index_out_of_bounds(index, dim, size);
  return index < 0 ? index + size : index;
}

// The stride of every step-th element. A step that no stride can hold leaves one element at most,
// whose stride means nothing.
inline int64_t stepped(int64_t stride, int64_t step) {
  int64_t found = 0;
  return __builtin_mul_overflow(stride, step, &found) ? stride : found;
}

// A slice of a dimension whose size is known: all numbers lie inside.
struct SliceRange {
  int64_t start, stop, step, length;
};

class RUSH_API IndexSteps {
 public:
  explicit IndexSteps(const Tensor& t) : self_(t), current_(t) {}

  int64_t next_size() const;  // of the dimension that the next select or slice is about
  void select(int64_t index);
  void slice(const SliceRange& r);
  void new_axis();
  void keep(int64_t count);
  void truth(bool value);  // true picks everything along a new axis, false nothing
  void index(Tensor t);    // int64 or bool
  // Any tensor: masks and integers of other types are converted, one number is a select.
  void tensor(const Tensor& t);

  const Tensor& current() const { return current_; }
  const Tensor& self() const { return self_; }
  bool has_indices() const { return has_indices_; }
  TensorList indices() const { return indices_; }

 private:
  void advance(int64_t count);
  void check_mask(const Tensor& mask) const;

  const Tensor& self_;
  Tensor current_;
  std::vector<Tensor> indices_;  // undefined: the whole dimension; a mask covers several
  int64_t dim_ = 0;              // in current_
  int64_t source_dim_ = 0;       // in self_
  bool has_indices_ = false;
};

// The elements where the steps lead.
RUSH_API Tensor indexed(const IndexSteps& steps);
// Writes there; a tensor is broadcast, and takes the target's dtype.
RUSH_API void assign(const IndexSteps& steps, const Tensor& value);
RUSH_API void assign(const IndexSteps& steps, const Scalar& value);

}  // namespace rush
