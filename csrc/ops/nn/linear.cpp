// Linear maps over the last dim. One op instead of a transpose and a product: half the cost of a
// small call, errors in the caller's own words, and inputs of any rank without a copy.
#include "ops/nn/linear.h"

#include "device/deferred.h"
#include "device/linalg.h"

namespace rush {

namespace {

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

}  // namespace

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

bool multiply_and_add(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& out,
                      bool relu) {
  const auto linear = product_loops(out).linear;
  if (!linear || w.dim() != 2 || bias.dim() != 1 || out.numel() == 0 || w.sizes()[1] == 0)
    return false;
  const Tensor rows = as_rows(x);
  if (!rows.defined() || rows.dim() != 2) return false;
  const Dims sizes{rows.sizes()[0], w.sizes()[0]};
  return linear(rows, w, bias, seen_as(out, sizes, contiguous_strides(sizes)), relu);
}

[[gnu::noinline, gnu::cold]] bool Linear::wait_for_relu(const Tensor& x, const Tensor& w,
                                                        const Tensor& bias, const Tensor& out) {
  const Tensor* operands[] = {&x, &w, &bias};
  const auto product = [](std::span<const Tensor> in, const Tensor& to, bool relu) {
    if (relu) return multiply_and_add(in[0], in[1], in[2], to, true);
    run(in[0], in[1], in[2], to);
    return true;
  };
  return deferred::take_product({name, product}, operands, out);
}

[[gnu::noinline]] void Linear::check_bias(const Tensor& x, const Tensor& w, const Tensor& bias,
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
