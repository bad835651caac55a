// A linear map and relu in one pass: what the second half of a transformer's layer begins with.
#include "core/misaligned.h"
#include "core/modes.h"
#include "device/linalg.h"
#include "ops/linear_relu_ops.h"
#include "ops/nn/linear.h"

namespace rush {

struct LinearRelu {
  static constexpr const char* name = "linear";

  // Not where something is recorded or deferred, which knows the two ops.
  static bool is_plain(const Tensor& x, const Tensor& w, const Tensor& bias) {
    if (t_modes & (kIntercept | kDefer | kForward) || !bias.defined() || !x.is_floating() ||
        is_misaligned(x) || is_misaligned(w) || is_misaligned(bias))
      return false;
    return !grad_enabled() || !(requires_grad(x) || requires_grad(w) || requires_grad(bias));
  }
  static Tensor call(const Tensor& x, const Tensor& w, const Tensor& bias) {
    if (product_loops(x).linear && is_plain(x, w, bias)) {
      const Spec spec = Linear::check(x, w, bias);
      const Tensor out = make_tensor(spec.sizes, spec.dtype, spec.device);
      if (multiply_and_add(x, w, bias, out, true)) return out;
    }
    return relu(linear(x, w, bias));
  }
};

}  // namespace rush

#include "ops/linear_relu.inc"
