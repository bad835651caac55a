// sums.h: results to which many threads add.
#pragma once

#include "cuda/nn/rows.h"
#include "cuda/runtime/loops.h"

namespace rush::cuda {

// Zeros in the type of computation, which is `out` itself where it has that type; finish() brings
// the sums there. Of an undefined tensor there are none.
class AtomicSums {
 public:
  explicit AtomicSums(const Tensor& out) : out_(out), sums_(out) {
    if (!out.defined()) return;
    const DType type = compute_dtype(out.dtype());
    if (type != out.dtype()) sums_ = make_tensor(out.sizes(), type, out.device());
    fill(sums_, 0);
  }
  void* data() const { return sums_.defined() ? sums_.data() : nullptr; }
  void finish() const {
    if (out_.defined() && !sums_.is_same(out_)) copy(sums_, out_, false);
  }

 private:
  Tensor out_, sums_;
};

}  // namespace rush::cuda
