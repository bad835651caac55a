// row_products.h: products in half precision that cuBLASLt is slow at: by few rows, and by matrices
// whose rows begin anywhere.
#pragma once

#include "core/tensor.h"
#include "cuda/kernels/args.h"

namespace rush::cuda {

// The factors and the result, for kernels of our own: matrices, or batches of them.
MatmulArgs matmul_arguments(const Tensor& a, const Tensor& b, const Tensor& out);

// out = a @ b (+ bias) for one to four rows of a and a b whose columns lie end to end: what
// reading b takes. False: it is something else, and nothing was done.
bool multiply_few_rows(const Tensor& a, const Tensor& b, const Tensor& out, const void* bias);

// A product of matrices by way of copies whose rows begin at multiples of 16 bytes, where those cost
// less than they save: tensor cores read others several times as slowly.
class AlignedRows {
 public:
  // `fresh`: what out holds does not count.
  AlignedRows(const Tensor& a, const Tensor& b, const Tensor& out, bool fresh);
  bool pays() const { return pays_; }
  Tensor factor(const Tensor& t) const;
  Tensor result(const Tensor& t) const;              // to be computed, then
  void copy_back(const Tensor& t, const Tensor& out) const;  // unless it is the same

 private:
  bool pays_ = false;
};

}  // namespace rush::cuda
