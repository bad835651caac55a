// sparse.h: products with a sparse matrix in CSR layout on a device. Its rows are the bags of
// device/nn/embedding.h: the index of an element is its column, the weight its value.
#pragma once

#include "device/nn/embedding.h"

namespace rush {

// Floating tensors of one dtype, contiguous; results are overwritten. A device that leaves these
// empty has those of bags, which do the same.
struct SparseLoops {
  // out[r] = the sum over the elements of row r of value * dense[column]
  void (*product)(const Tensor& dense, const Bags& matrix, const Tensor& out) = nullptr;
  // out[k] = left[row of k] . right[column of k]
  void (*sampled)(const Tensor& left, const Tensor& right, const Bags& matrix,
                  const Tensor& out) = nullptr;
};
inline constinit DeviceTable<SparseLoops> sparse_loops;

}  // namespace rush
