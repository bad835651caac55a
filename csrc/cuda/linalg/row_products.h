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

// A product of matrices by way of copies whose sizes are multiples of eight, filled up with zeros,
// where those cost less than they save: tensor cores are several times as slow where a row does not
// begin at a multiple of 16 bytes.
class AlignedProduct {
 public:
  // `fresh`: what out holds does not count.
  AlignedProduct(const Tensor& a, const Tensor& b, const Tensor& out, bool fresh);
  bool pays() const { return pays_; }
  // Each of these is t itself where that will do.
  Tensor factor(const Tensor& t) const;
  Tensor result(const Tensor& t) const;                       // yet to be computed
  void copy_back(const Tensor& from, const Tensor& t) const;  // from such a result
  // `count` numbers of t's type and device.
  Tensor vector(const void* data, int64_t count, const Tensor& t) const;

 private:
  bool pays_ = false;
};

}  // namespace rush::cuda
