// Linear maps over the last dim. One op instead of a transpose and a product: half the cost of a
// small call, errors in the caller's own words, and inputs of any rank without a copy.
#include "device/linalg.h"
#include "ops/framework/data.h"
#include "ops/framework/operators.h"
#include "ops/linalg/matmul.h"

namespace rush {

namespace {

IntList leading(const Tensor& x) { return IntList(x.sizes()).first(size_t(x.dim() - 1)); }

// The same memory under another geometry, for kernels.
Tensor seen_as(const Tensor& t, IntList sizes, IntList strides) {
  return make_tensor(t.storage(), sizes, strides, t.offset(), t.dtype());
}

// x as matrices of rows over the last dim: (rows, width), or (batch, rows, width) where the rows do
// not follow each other evenly. Undefined when even that takes a copy.
Tensor as_rows(const Tensor& x) {
  const int64_t width = x.sizes().back(), step = x.strides().back();
  Dims sizes, strides;  // of the leading dims, neighbours joined
  for (size_t d = 0; d + 1 < size_t(x.dim()); ++d) {
    const int64_t n = x.sizes()[d], s = x.strides()[d];
    if (n == 1) continue;
    if (!sizes.empty() && strides.back() == n * s) {
      sizes[sizes.size() - 1] *= n;
      strides[strides.size() - 1] = s;
    } else {
      sizes.push_back(n), strides.push_back(s);
    }
  }
  if (sizes.size() > 2) return {};
  if (sizes.empty()) sizes.push_back(1), strides.push_back(width);
  sizes.push_back(width), strides.push_back(step);
  return seen_as(x, sizes, strides);
}

// x @ w.T (+ out) into out, which is contiguous; w is (outs, width).
void multiply_rows(const Tensor& x, const Tensor& w, const Tensor& out, bool add) {
  const int64_t width = w.sizes()[1], outs = w.sizes()[0];
  if (x.dim() == 2 && out.dim() == 2)
    return product_loops(out).gemm(
        x, seen_as(w, Dims{width, outs}, Dims{w.strides()[1], w.strides()[0]}), out, 1,
        add ? 1 : 0);
  Tensor rows = as_rows(x);
  if (!rows.defined()) rows = as_rows(contiguous_data(x));
  Dims sizes = rows.sizes(), w_sizes{width, outs}, w_strides{w.strides()[1], w.strides()[0]};
  sizes[sizes.size() - 1] = outs;
  if (rows.dim() == 3) {
    w_sizes = {sizes[0], width, outs};
    w_strides = {0, w.strides()[1], w.strides()[0]};
  }
  product_loops(out).gemm(rows, seen_as(w, w_sizes, w_strides),
                          seen_as(out, sizes, contiguous_strides(sizes)), 1, add ? 1 : 0);
}

// The product and the bias in one launch, where the device can.
bool multiply_and_add(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& out) {
  const auto linear = product_loops(out).linear;
  if (!linear || w.dim() != 2 || bias.dim() != 1 || out.numel() == 0 || w.sizes()[1] == 0)
    return false;
  const Tensor rows = as_rows(x);
  if (!rows.defined() || rows.dim() != 2) return false;
  const Dims sizes{rows.sizes()[0], w.sizes()[0]};
  return linear(rows, w, bias, seen_as(out, sizes, contiguous_strides(sizes)));
}

}  // namespace

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

  static void run(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& out) {
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
  [[gnu::noinline]] static void check_bias(const Tensor& x, const Tensor& w, const Tensor& bias,
                                           const Dims& sizes) {
    rush::check(bias.dtype() == x.dtype(), ErrorKind::Runtime, name,
                "bias must have the dtype of input and weight, ", x.dtype(), ", got ", bias.dtype(),
                ": convert with .to(dtype)");
    bool fits = bias.dim() <= int64_t(sizes.size());
    for (int64_t d = 1; fits && d <= bias.dim(); ++d) {
      const int64_t n = bias.sizes()[size_t(bias.dim() - d)];
      fits = n == 1 || n == sizes[sizes.size() - size_t(d)];
    }
    check_shape(fits, name, "bias of shape ", bias.sizes(), " does not fit the result of shape ",
                sizes, ": input is ", x.sizes(), ", weight ", w.sizes(),
                ", so bias should have one element for each of the weight's out_features");
  }
};

struct Bilinear {
  static constexpr const char* name = "bilinear";
  static Tensor call(const Tensor& a, const Tensor& b, const Tensor& w, const Tensor& bias) {
    check(w.dim() == 3, ErrorKind::Shape, name,
          "weight must be (out_features, in1_features, in2_features), got shape ", w.sizes());
    check(a.dim() == b.dim() && a.dim() > 0 && equal(leading(a), leading(b)), ErrorKind::Shape,
          name, "input1 and input2 must agree in all dims but the last, got shapes ", a.sizes(),
          " and ", b.sizes());
    const int64_t outs = w.sizes()[0], first = w.sizes()[1], second = w.sizes()[2];
    check_shape(a.sizes().back() == first, name, "input1 of shape ", a.sizes(), " has ",
                a.sizes().back(), " features, but weight of shape ", w.sizes(),
                " takes in1_features=", first);
    check_shape(b.sizes().back() == second, name, "input2 of shape ", b.sizes(), " has ",
                b.sizes().back(), " features, but weight of shape ", w.sizes(),
                " takes in2_features=", second);
    check_shape(!bias.defined() || (bias.dim() == 1 && bias.sizes()[0] == outs), name,
                "bias must have shape [", outs, "], got ", bias.defined() ? bias.sizes() : Dims{});
    check(a.dtype() == b.dtype() && a.dtype() == w.dtype() &&
              (!bias.defined() || bias.dtype() == a.dtype()),
          ErrorKind::Runtime, name, "all tensors must have the same dtype, got input1 ", a.dtype(),
          ", input2 ", b.dtype(), ", weight ", w.dtype(),
          bias.defined() ? concat(", bias ", bias.dtype()) : std::string());
    // input1 against the weight as one product, then input2 against each row of what comes out.
    Dims sizes(leading(a));
    const int64_t rows = numel(sizes);
    const Tensor left =
        mm(reshape(a, Dims{rows, first}), reshape(transpose(w, 0, 1), Dims{first, outs * second}));
    sizes.push_back(outs);
    const Tensor out = reshape(
        bmm(reshape(left, Dims{rows, outs, second}), reshape(b, Dims{rows, second, 1})), sizes);
    return bias.defined() ? out + bias : out;
  }
};

}  // namespace rush

#include "ops/linear.inc"
