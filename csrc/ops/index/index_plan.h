// index_plan.h: what self[indices] means: which dims are indexed, where the indexed dims of the
// result stand, which shape it has.
#pragma once

#include <vector>

#include "device/index.h"
#include "ops/framework/op.h"

namespace rush {

// A window over t's storage, without t's version counter: for reading and writing below autograd.
inline Tensor window(const Tensor& t, IntList sizes, IntList strides) {
  return make_tensor(t.storage(), sizes, strides, t.offset(), t.dtype());
}

inline bool is_mask(const Tensor& t) {
  return t.dtype() == DType::Bool || t.dtype() == DType::UInt8;
}

// A 0-d tensor counts as one with a single element along one dim.
inline Tensor at_least_1d(const Tensor& t) {
  return t.dim() == 0 ? window(t, Dims{1}, Dims{1}) : t;
}

inline void check_index_type(const char* op, const Tensor& self, const Tensor& index) {
  check_dtype(index.dtype() == DType::Int64 || index.dtype() == DType::Int32, op,
              "index must be int64 or int32, got ", index.dtype());
  check(index.device() == self.device(), ErrorKind::Device, op, "index is on ", index.device(),
        ", the tensor is on ", self.device());
}

// Of what is written there.
inline void check_source(const char* op, const Tensor& self, const Tensor& source) {
  check_dtype(source.dtype() == self.dtype(), op, "the tensor is ", self.dtype(),
              ", the source is ", source.dtype(), ": they must be the same");
  check(source.device() == self.device(), ErrorKind::Device, op, "source is on ", source.device(),
        ", the tensor is on ", self.device());
}

// The traits of blocks that read by an index, which may be out of range, and of those that copy self
// and write by an index. Neither may share memory with what it reads.
struct IndexReader {
  static constexpr bool any_device = true;
  static constexpr bool may_fail = true;
  static constexpr bool refuses_sharing = true;
};
struct IndexWriter {
  static constexpr bool any_device = true;
  static constexpr bool in_place_safe = true;
  static constexpr bool refuses_sharing = true;
};

// int64 indices, as the kernels want them. Raises for other types than int32 and int64.
Tensor as_index(const char* op, const Tensor& index);

// The shape of self[indices]. Counts masks, checks everything but the range of the indices.
Dims indexed_shape(const char* op, const Tensor& self, TensorList indices);

// index(self, indices) for a tensor on a GPU, where a mask has to be waited for: once, and not
// again by the gradient. The masks are on the GPU, too.
RUSH_API Tensor index_by_masks(const Tensor& self, TensorList indices);
// The indices with coordinates in place of masks.
RUSH_API std::vector<Tensor> without_masks(TensorList indices);
RUSH_API bool has_gpu_mask(const Tensor& self, TensorList indices);

// self[indices], resolved: the result is `before` dims, then the dims of the indices, then `after`.
struct IndexPlan {
  IndexPlan(const char* op, const Tensor& self, TensorList indices);

  Dims before_sizes, before_strides, after_sizes, after_strides;  // dims of self that are kept
  Dims index_sizes;
  Tensor index;  // of index_sizes: one index a place (strides may be 0), or offsets in elements if
                 // several dims are indexed
  IndexRange range;  // what `index` ranges over

  // self's kept dims, with strides 0 for the index dims: what the loops read from or write to.
  Tensor spread(const Tensor& self) const;
  Tensor spread_index() const;
};

}  // namespace rush
