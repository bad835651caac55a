#include "ops/ops.h"

namespace rush {

RUSH_API Tensor norm(const Tensor& self, const Scalar& p) { return _vector_norm(self, p); }

RUSH_API Tensor norm(const Tensor& self, const Scalar& p, IntList dim, bool keepdim) {
  return _vector_norm(self, p, dim, keepdim);
}

}  // namespace rush
