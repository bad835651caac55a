// Questions about dtypes, as users ask them; the rules stand in core/dtype.cpp and core/tensor.cpp.
#include "ops/framework/op.h"
#include "ops/ops.h"

namespace rush {

struct PromoteTypes {
  static constexpr const char* name = "promote_types";
  static DType call(DType a, DType b) { return promote(a, b); }
};

struct CanCast {
  static constexpr const char* name = "can_cast";
  static bool call(DType from, DType to) { return can_cast(from, to); }
};

struct ResultTypeOf {
  static constexpr const char* name = "result_type";
  static DType call(const Tensor& a, const Tensor& b) {
    ResultType r;
    r.add(a);
    r.add(b);
    return r.get();
  }
};

}  // namespace rush

#include "ops/promotion.inc"
