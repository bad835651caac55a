// Products of dense matrices at the places of a sparse one: what a gradient of its values is.
#include "device/nn/embedding.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {

// The same sums as those for the weights of bags: embedding_bag is a product with a CSR matrix.
struct SampledProduct {
  static constexpr const char* name = "_sampled_product";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;  // rushlight/sparse has the gradients
  static constexpr bool may_fail = true;
  static Spec check(const Tensor& left, const Tensor& right, const Tensor& columns,
                    const Tensor& bounds) {
    check_dtype(is_floating(left.dtype()) && left.dtype() == right.dtype(), name,
                "expects two matrices of one floating type, got ", left.dtype(), " and ",
                right.dtype());
    check_shape(left.dim() == 2 && right.dim() == 2 && left.sizes()[1] == right.sizes()[1], name,
                "rows of both matrices must be equally long, got ", left.sizes(), " and ",
                right.sizes());
    check_shape(columns.dim() == 1 && bounds.dim() == 1 && bounds.numel() == left.sizes()[0] + 1,
                name, "there must be one more bound than rows of ", left.sizes(), ", got ",
                bounds.sizes(), " and columns of ", columns.sizes());
    check_dtype((columns.dtype() == DType::Int64 || columns.dtype() == DType::Int32) &&
                    bounds.dtype() == DType::Int64,
                name, "columns must be int64 or int32, bounds int64; got ", columns.dtype(),
                " and ", bounds.dtype());
    common_device(name, {&left, &right, &columns, &bounds});
    return {columns.sizes(), left.dtype(), left.device()};
  }
  static void run(const Tensor& left, const Tensor& right, const Tensor& columns,
                  const Tensor& bounds, const Tensor& out) {
    if (out.numel() == 0) return;
    const Bags places{contiguous_data(columns), contiguous_data(bounds), Tensor(), BagMode(0), -1};
    embedding_loops(out).bag_weights(contiguous_data(left), contiguous_data(right), places, out);
  }
};

}  // namespace rush

#include "ops/sampled_product.inc"
