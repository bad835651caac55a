// Filters that feed back what they gave. Each sample waits for the one before it, so there is
// nothing to gain on a GPU: calls there run over host copies.
#include "device/nn/recursive_filter.h"

#include "ops/framework/op.h"
#include "ops/recursive_filter_ops.h"

namespace rush {

struct RecursiveFilter {
  static constexpr const char* name = "recursive_filter";
  static Spec check(const Tensor& x, const Tensor& feedback, const Tensor& before) {
    check_shape(x.dim() == 3 && feedback.dim() == 2 && feedback.sizes()[0] == x.sizes()[1], name,
                "expects input (batch, channels, time) and feedback (channels, order), got ",
                x.sizes(), " and ", feedback.sizes());
    const Dims wanted{x.sizes()[0], x.sizes()[1], feedback.sizes()[1]};
    check_shape(before.sizes() == wanted, name, "before must have shape ", wanted, ", got ",
                before.sizes());
    check_dtype(x.is_floating() && x.dtype() == feedback.dtype() && x.dtype() == before.dtype(),
                name, "expects tensors of one floating type, got ", x.dtype(), ", ",
                feedback.dtype(), " and ", before.dtype());
    return {x.sizes(), x.dtype(), common_device(name, {&x, &feedback, &before})};
  }
  static void run(const Tensor& x, const Tensor& feedback, const Tensor& before,
                  const Tensor& out) {
    if (out.numel() > 0) recursive_filter_loops(out).forward(x, feedback, before, out);
  }
};

}  // namespace rush

#include "ops/recursive_filter.inc"
