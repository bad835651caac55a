// linear.h: the op behind linear layers, for ops that do more in the same pass.
#pragma once

#include "device/linalg.h"
#include "ops/framework/data.h"
#include "ops/framework/operators.h"
#include "ops/linalg/matmul.h"

namespace rush {

inline IntList leading(const Tensor& x) { return IntList(x.sizes()).first(size_t(x.dim() - 1)); }

// The same memory under another geometry, for kernels.
inline Tensor seen_as(const Tensor& t, IntList sizes, IntList strides) {
  return make_tensor(t.storage(), sizes, strides, t.offset(), t.dtype());
}

// x @ w.T (+ out) into out, which is contiguous; w is (outs, width).
void multiply_rows(const Tensor& x, const Tensor& w, const Tensor& out, bool add);
// The product, the bias and perhaps relu in one launch. False: the device cannot, nothing was done.
bool multiply_and_add(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& out,
                      bool relu = false);

struct Linear {
  static constexpr const char* name = "linear";
  static constexpr bool any_device = true;

  static Spec check(const Tensor& x, const Tensor& w, const Tensor& bias) {
    rush::check(x.dim() > 0 && w.dim() > 0, ErrorKind::Runtime, name,
                "input and weight need at least one dim, got shapes ", x.sizes(), " and ",
                w.sizes());
    check_shape(w.dim() <= 2, name,
                "weight must be (out_features, in_features) or (in_features), got shape ",
                w.sizes());
    check_shape(x.sizes().back() == w.sizes().back(), name, "input of shape ", x.sizes(), " has ",
                x.sizes().back(), " features in its last dim, but weight of shape ", w.sizes(),
                " takes in_features=", w.sizes().back());
    rush::check(x.dtype() == w.dtype(), ErrorKind::Runtime, name,
                "input and weight must have the same dtype, got ", x.dtype(), " and ", w.dtype(),
                ": convert with .to(dtype)");
    check_dtype(x.dtype() != DType::Bool, name, "not implemented for bool tensors");
    const Device device = bias.defined()             ? common_device(name, {&x, &w, &bias})
                          : x.device() == w.device() ? x.device()
                                                     : common_device(name, {&x, &w});
    Spec spec{Dims(leading(x)), x.dtype(), device};
    if (w.dim() == 2) spec.sizes.push_back(w.sizes()[0]);
    if (bias.defined()) check_bias(x, w, bias, spec.sizes);
    return spec;
  }

  // In a compiled function relu may follow: Note [Products that wait] in device/deferred.h. (In a half type, what
  // rounds to zero before relu keeps its sign, and would lose it in relu before rounding.)
  static bool may_wait(const Tensor& x, const Tensor& w, const Tensor& bias) {
    return bias.defined() && x.dtype() == DType::Float32 && product_loops(x).linear &&
           bias.dim() == 1 && !op::any_laid_out_otherwise(x, w, bias);
  }

  static void run(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& out) {
    if (is_unborn(out) && wait_for_relu(x, w, bias, out)) return;
    if (bias.defined() && multiply_and_add(x, w, bias, out)) return;
    if (bias.defined()) copy_data(out, bias);
    if (w.dim() == 2)
      multiply_rows(x, w, out, bias.defined());
    else
      multiply_rows(x, seen_as(w, Dims{1, w.sizes()[0]}, Dims{0, w.strides()[0]}), out,
                    bias.defined());
  }

  static constexpr uint32_t needs[] = {in(1), in(0), 0};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, const Tensor& w,
                    const Tensor&) {
    Grads out(3);
    if (c.wants(0))
      out[0] = w.dim() == 1 ? unsqueeze(g, -1) * conj(w) : linear(g, adjoint(w), Tensor());
    if (c.wants(1)) {
      const bool single = c.sizes(1).size() == 1;
      const int64_t outs = single ? 1 : c.sizes(1)[0], rows = numel(leading(x));
      const bool plain = x.dim() == 2 && !single;
      const Tensor g2 = plain ? g : reshape(g, Dims{rows, outs});
      const Tensor x2 = plain ? x : reshape(x, Dims{rows, x.sizes().back()});
      const Tensor product = mm(transpose(g2, 0, 1), x2.is_complex() ? conj(x2) : x2);
      out[1] = single ? squeeze(product, IntList(Dims{0})) : product;
    }
    if (c.wants(2)) out[2] = g;
    return out;
  }
  static Tensor jvp(const Jvp& j, const Tensor& x, const Tensor& w, const Tensor& bias) {
    Tensor out;
    auto plus = [&](const Tensor& t) { out = out.defined() ? out + t : t; };
    if (j.tangent(0).defined()) plus(linear(j.tangent(0), w, Tensor()));
    if (j.tangent(1).defined()) plus(linear(x, j.tangent(1), Tensor()));
    if (bias.defined() && j.tangent(2).defined()) plus(expand(j.tangent(2), j.out().sizes()));
    return out;
  }

 private:
  static bool wait_for_relu(const Tensor& x, const Tensor& w, const Tensor& bias,
                            const Tensor& out);
  static void check_bias(const Tensor& x, const Tensor& w, const Tensor& bias, const Dims& sizes);
};

}  // namespace rush
