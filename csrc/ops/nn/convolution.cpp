// Convolutions: what users call is checked and brought to three internal ops over batched tensors,
// each of which is the derivative of the other two (see device/nn/convolution.h).
#include "device/nn/convolution.h"

#include <algorithm>

#include "core/modes.h"
#include "device/deferred.h"
#include "device/runtime.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/op_name.h"
#include "ops/framework/operators.h"
#include "ops/nn/conv_shape.h"
#include "ops/nn/spread.h"

namespace rush {

namespace {

Tensor conjugate(const Tensor& x) { return x.is_complex() ? conj(x) : x; }

// Channels-last when one of the two is, as PyTorch decides.
Dims result_strides(const Dims& sizes, const Tensor& a, const Tensor& b) {
  return a.is_channels_last() || b.is_channels_last() ? channels_last_strides(sizes) : Dims{};
}

// Where channels-last is faster: results then lie so, whatever programs see of it (see Note [Layout
// is ours] in core/layout.h). What has no kernels for it is left alone.
bool prefers_last(const Tensor& x) {
  const bool has_kernels = x.dtype() == DType::Float32 || is_reduced_float(x.dtype());
  if (!has_kernels || x.numel() == 0) return false;
  const auto prefers = convolution_loops(x).prefers_channels_last;
  return prefers && prefers(x.sizes());
}
bool arranges_result(const Tensor& x, const Tensor& w) {
  return automatic_layout() && prefers_last(x) && !x.is_channels_last() && !w.is_channels_last();
}
Dims strides_of_arranged(const Spec& spec, const Tensor& x) {
  return automatic_layout() && prefers_last(x) ? channels_last_strides(spec.sizes) : Dims{};
}

// The first `sizes` of each spatial dim.
Tensor cropped(Tensor x, const Dims& sizes) {
  for (uint32_t d = 2; d < sizes.size(); ++d) {
    if (x.sizes()[d] != sizes[d]) x = slice(x, int64_t(d), int64_t(0), sizes[d], 1);
  }
  return x;
}

// The tangent of f(a, b), which is linear in both.
template <class F>
Tensor product_rule(const Jvp& j, const Tensor& a, const Tensor& b, F&& f) {
  const Tensor &da = j.tangent(0), &db = j.tangent(1);
  if (!da.defined()) return f(a, db);
  if (!db.defined()) return f(da, b);
  return f(da, b) + f(a, db);
}

// False: the device cannot.
bool run_on_device(ConvKind kind, const ConvShape& shape, const ConvTensors& t) {
  const Tensor& result = t.written(kind);
  if (result.numel() == 0) return true;
  if (kind == ConvKind::WeightGrad && (shape.batch == 0 || shape.output_points() == 0)) {
    fill_data(result, 0);
    return true;
  }
  return convolution_loops(result).convolve(kind, shape, t);
}

}  // namespace

struct ConvolutionForward : RunsAnywhere {
  static constexpr const char* name = "convolution";
  static Dims output_size(const Tensor& x, const Tensor& w, IntList stride, IntList padding,
                          IntList dilation) {
    Dims out{x.sizes()[0], w.sizes()[0]};
    for (uint32_t d = 2; d < x.sizes().size(); ++d) {
      const int64_t reach = dilation[d - 2] * (w.sizes()[d] - 1) + 1;
      out.push_back((x.sizes()[d] + 2 * padding[d - 2] - reach) / stride[d - 2] + 1);
    }
    return out;
  }
  static Spec check(const Tensor& x, const Tensor& w, const Tensor&, IntList stride,
                    IntList padding, IntList dilation, int64_t) {
    const Dims sizes = output_size(x, w, stride, padding, dilation);
    return {sizes, x.dtype(), x.device(), result_strides(sizes, x, w)};
  }
  static bool arranges(const Tensor& x, const Tensor& w, const Tensor&, IntList, IntList, IntList,
                       int64_t) {
    return arranges_result(x, w);
  }
  static Dims arranged_strides(const Spec& spec, const Tensor& x, const Tensor&, const Tensor&,
                               IntList, IntList, IntList, int64_t) {
    return strides_of_arranged(spec, x);
  }
  // In a compiled function relu may follow: Note [Products that wait] in device/deferred.h.
  static bool may_wait(const Tensor& x, const Tensor&, const Tensor& bias, IntList, IntList,
                       IntList, int64_t) {
    return bias.defined() && x.dtype() == DType::Float32 && convolution_loops(x).convolve_with_relu;
  }
  [[gnu::noinline, gnu::cold]] static bool wait_for_relu(const Tensor& x, const Tensor& w,
                                                         const Tensor& bias, IntList stride,
                                                         IntList padding, IntList dilation,
                                                         int64_t groups, const Tensor& out) {
    const Tensor* operands[] = {&x, &w, &bias};
    const auto convolve = [stride = Dims(stride), padding = Dims(padding),
                           dilation = Dims(dilation),
                           groups](std::span<const Tensor> in, const Tensor& to, bool relu) {
      if (!relu) {
        run(in[0], in[1], in[2], stride, padding, dilation, groups, to);
        return true;
      }
      const ConvShape shape =
          conv_shape(in[0].sizes(), in[1].sizes(), to.sizes(), stride, padding, dilation, groups);
      return convolution_loops(to).convolve_with_relu(shape, {in[0], in[1], in[2], to});
    };
    return deferred::take_product({name, convolve}, operands, out);
  }
  static void run(const Tensor& x, const Tensor& w, const Tensor& bias, IntList stride,
                  IntList padding, IntList dilation, int64_t groups, const Tensor& out) {
    if (is_unborn(out) && wait_for_relu(x, w, bias, stride, padding, dilation, groups, out)) return;
    const ConvShape shape =
        conv_shape(x.sizes(), w.sizes(), out.sizes(), stride, padding, dilation, groups);
    if (!run_on_device(ConvKind::Forward, shape, {x, w, bias, out}))
      run_on_host<ConvolutionForward, 1>(x, w, bias, stride, padding, dilation, groups, out);
  }
  static constexpr uint32_t needs[] = {in(1), in(0), 0};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, const Tensor& w, const Tensor&,
                    IntList stride, IntList padding, IntList dilation, int64_t groups) {
    Dims points{0};
    for (int64_t d = 2; d < g.dim(); ++d) points.push_back(d);
    return {c.wants(0) ? _convolution_input_grad(g, conjugate(w), c.sizes(0), stride, padding,
                                                 dilation, groups)
                       : Tensor(),
            c.wants(1) ? _convolution_weight_grad(conjugate(x), g, c.sizes(1), stride, padding,
                                                  dilation, groups)
                       : Tensor(),
            c.wants(2) ? sum(g, points) : Tensor()};
  }
  static Tensor jvp(const Jvp& j, const Tensor& x, const Tensor& w, const Tensor&, IntList stride,
                    IntList padding, IntList dilation, int64_t groups) {
    const Tensor &dx = j.tangent(0), &dw = j.tangent(1), &dbias = j.tangent(2);
    const auto run = [&](const Tensor& a, const Tensor& b, const Tensor& c) {
      return _convolution_forward(a, b, c, stride, padding, dilation, groups);
    };
    if (dx.defined() && dw.defined()) return run(dx, w, Tensor()) + run(x, dw, dbias);
    if (dw.defined()) return run(x, dw, dbias);
    if (dx.defined()) return run(dx, w, dbias);
    Dims shape(uint32_t(x.dim() - 1), 1);
    shape[0] = dbias.sizes()[0];
    return expand(reshape(dbias, shape), j.out().sizes());
  }
};

struct ConvolutionInputGrad : RunsAnywhere {
  static constexpr const char* name = "convolution_backward";
  static Spec check(const Tensor& g, const Tensor& w, IntList input_size, IntList, IntList, IntList,
                    int64_t) {
    const Dims sizes(input_size);
    return {sizes, g.dtype(), g.device(), result_strides(sizes, g, w)};
  }
  static bool arranges(const Tensor& g, const Tensor& w, IntList, IntList, IntList, IntList,
                       int64_t) {
    return arranges_result(g, w);
  }
  static Dims arranged_strides(const Spec& spec, const Tensor& g, const Tensor&, IntList, IntList,
                               IntList, IntList, int64_t) {
    return strides_of_arranged(spec, g);
  }
  static void run(const Tensor& g, const Tensor& w, IntList input_size, IntList stride,
                  IntList padding, IntList dilation, int64_t groups, const Tensor& out) {
    const ConvShape shape =
        conv_shape(input_size, w.sizes(), g.sizes(), stride, padding, dilation, groups);
    if (!run_on_device(ConvKind::InputGrad, shape, {out, w, Tensor(), g}))
      run_on_host<ConvolutionInputGrad, 1>(g, w, input_size, stride, padding, dilation, groups,
                                           out);
  }
  static constexpr uint32_t needs[] = {in(1), in(0)};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor& g, const Tensor& w, IntList,
                    IntList stride, IntList padding, IntList dilation, int64_t groups) {
    Grads out(2);
    if (c.wants(0)) {
      // A transposed convolution with much output padding leaves some of h unread at the end.
      out[0] = cropped(
          _convolution_forward(h, conjugate(w), Tensor(), stride, padding, dilation, groups),
          c.sizes(0));
    }
    if (c.wants(1))
      out[1] =
          _convolution_weight_grad(h, conjugate(g), c.sizes(1), stride, padding, dilation, groups);
    return out;
  }
  static Tensor jvp(const Jvp& j, const Tensor& g, const Tensor& w, IntList input_size,
                    IntList stride, IntList padding, IntList dilation, int64_t groups) {
    return product_rule(j, g, w, [&](const Tensor& a, const Tensor& b) {
      return _convolution_input_grad(a, b, input_size, stride, padding, dilation, groups);
    });
  }
};

struct ConvolutionWeightGrad : RunsAnywhere {
  static constexpr const char* name = "convolution_backward";
  static Spec check(const Tensor& x, const Tensor&, IntList weight_size, IntList, IntList, IntList,
                    int64_t) {
    return {Dims(weight_size), x.dtype(), x.device()};
  }
  // In a compiled function a gradient of a half type is converted before it is used, which can move
  // the channels as well.
  static Dims arranged_strides(const Spec& spec, const Tensor& x, const Tensor&, IntList, IntList,
                               IntList, IntList, int64_t) {
    const bool converted = t_modes & kDefer && device_traits(x).asynchronous &&
                           is_reduced_float(x.dtype()) && !grad_enabled();
    return converted ? strides_of_arranged(spec, x) : Dims{};
  }
  static void run(const Tensor& x, const Tensor& g, IntList weight_size, IntList stride,
                  IntList padding, IntList dilation, int64_t groups, const Tensor& out) {
    const ConvShape shape =
        conv_shape(x.sizes(), weight_size, g.sizes(), stride, padding, dilation, groups);
    if (!run_on_device(ConvKind::WeightGrad, shape, {x, out, Tensor(), g}))
      run_on_host<ConvolutionWeightGrad, 1>(x, g, weight_size, stride, padding, dilation, groups,
                                            out);
  }
  static constexpr uint32_t needs[] = {in(1), in(0)};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor& x, const Tensor& g, IntList,
                    IntList stride, IntList padding, IntList dilation, int64_t groups) {
    Grads out(2);
    if (c.wants(0))
      out[0] =
          _convolution_input_grad(conjugate(g), h, c.sizes(0), stride, padding, dilation, groups);
    if (c.wants(1))
      out[1] = cropped(
          _convolution_forward(conjugate(x), h, Tensor(), stride, padding, dilation, groups),
          c.sizes(1));
    return out;
  }
  static Tensor jvp(const Jvp& j, const Tensor& x, const Tensor& g, IntList weight_size,
                    IntList stride, IntList padding, IntList dilation, int64_t groups) {
    return product_rule(j, x, g, [&](const Tensor& a, const Tensor& b) {
      return _convolution_weight_grad(a, b, weight_size, stride, padding, dilation, groups);
    });
  }
};

namespace {

// For pictures as image files and NumPy have them, with the channels last.
std::string channels_first_hint(int64_t all, int64_t dims) {
  std::string order;
  for (int64_t d = 0; d < all; ++d) {
    const int64_t batch = all - dims - 1;  // 0 without a dim of batches
    const int64_t from = d < batch ? d : d == batch ? all - 1 : d - 1;
    order += concat(d ? ", " : "", from);
  }
  return concat("; its channels seem to be last: input.permute(", order, ") puts them first");
}

// What convolutions and transposed ones ask of their tensors; `dims` spatial ones.
void check_tensors(const char* op, int64_t dims, const Tensor& x, const Tensor& w,
                   const Tensor& bias, int64_t groups, bool transposed) {
  check_shape(w.dim() == dims + 2, op, "weight must have ", dims + 2, " dimensions, got shape ",
              w.sizes());
  check_shape(x.dim() == dims + 1 || x.dim() == dims + 2, op, "input must have ", dims + 1,
              " dimensions (one image) or ", dims + 2, " (a batch), got shape ", x.sizes());
  check(x.dtype() == w.dtype() && (!bias.defined() || bias.dtype() == x.dtype()),
        ErrorKind::Runtime, op, "input, weight and bias must have the same dtype, got ", x.dtype(),
        ", ", w.dtype(), bias.defined() ? concat(" and ", bias.dtype()) : std::string(),
        ": convert with .to(dtype)");
  check_dtype(x.dtype() != DType::Bool &&
                  (!transposed || !is_integral(x.dtype()) || x.dtype() == DType::Int64),
              op, "not implemented for ", x.dtype(), " tensors");
  common_device(op, {&x, &w, &bias});
  check_argument(groups > 0, op, "groups must be positive, got ", groups);
  const int64_t channels = x.sizes()[size_t(x.dim() - dims - 1)];
  const int64_t wanted = transposed ? w.sizes()[0] : w.sizes()[1] * groups;
  check_shape(channels == wanted, op, "weight of shape ", w.sizes(), " with groups=", groups,
              " takes ", wanted, " channels, input of shape ", x.sizes(), " has ", channels,
              x.sizes().back() == wanted ? channels_first_hint(x.dim(), dims) : std::string());
  check_shape(w.sizes()[0] >= groups && w.sizes()[0] % groups == 0, op,
              "the first size of weight must be a multiple of groups (", groups, "), got shape ",
              w.sizes());
  const int64_t outs = transposed ? w.sizes()[1] * groups : w.sizes()[0];
  check_shape(!bias.defined() || (bias.dim() == 1 && bias.sizes()[0] == outs), op,
              "bias must have shape [", outs, "], got ", bias.defined() ? bias.sizes() : Dims{});
  for (int64_t d = 0; d < dims; ++d) {
    check_shape(x.sizes()[size_t(x.dim() - 1 - d)] > 0, op,
                "only the batch may be empty, got input of shape ", x.sizes());
    check_shape(w.sizes()[size_t(w.dim() - 1 - d)] > 0, op,
                "the kernel must not be empty, got weight of shape ", w.sizes());
  }
}

struct Window {
  Dims stride, padding, dilation;
};

// complex32 is computed in as complex64, as in pointwise ops, and rounded once.
template <class F>
Tensor in_complex64(const Tensor& x, const Tensor& w, const Tensor& bias, F&& f) {
  const auto wide = [](const Tensor& t) { return t.defined() ? cast(t, DType::Complex64) : t; };
  return cast(f(wide(x), wide(w), wide(bias)), DType::Complex32);
}

Tensor convolve_any(const char* op, int64_t dims, const Tensor& x, const Tensor& w,
                    const Tensor& bias, IntList stride, IntList padding, IntList dilation,
                    int64_t groups) {
  check_tensors(op, dims, x, w, bias, groups, false);
  const Window at{spread(op, "stride", stride, dims, 1), spread(op, "padding", padding, dims, 0),
                  spread(op, "dilation", dilation, dims, 1)};
  if (x.dtype() == DType::Complex32)
    return in_complex64(x, w, bias, [&](const Tensor& a, const Tensor& b, const Tensor& c) {
      return convolve_any(op, dims, a, b, c, stride, padding, dilation, groups);
    });
  const bool single = x.dim() == dims + 1;
  for (uint32_t d = 0; d < uint32_t(dims); ++d) {
    const int64_t size = x.sizes()[size_t(x.dim() - dims + d)] + 2 * at.padding[d];
    const int64_t reach = at.dilation[d] * (w.sizes()[d + 2] - 1) + 1;
    check_shape(reach <= size, op, "the kernel reaches over ", reach,
                " elements, but the padded input has only ", size, " in spatial dim ", d,
                "; input is ", x.sizes(), ", weight ", w.sizes());
  }
  const Tensor y = _convolution_forward(single ? unsqueeze(x, 0) : x, w, bias, at.stride,
                                        at.padding, at.dilation, groups);
  return single ? squeeze(y, IntList(Dims{0})) : y;
}

// padding by name. Where 'same' has to add an odd number, the one more goes to the end.
Tensor convolve_named(const char* op, int64_t dims, const Tensor& x, const Tensor& w,
                      const Tensor& bias, IntList stride, std::string_view padding,
                      IntList dilation, int64_t groups) {
  if (padding == "valid")
    return convolve_any(op, dims, x, w, bias, stride, Dims{0}, dilation, groups);
  check_argument(padding == "same", op, "padding must be a number, 'valid' or 'same', got '",
                 padding, "'");
  check_tensors(op, dims, x, w, bias, groups, false);
  const Dims steps = spread(op, "stride", stride, dims, 1),
             gaps = spread(op, "dilation", dilation, dims, 1);
  for (int64_t s : steps)
    check_argument(s == 1, op, "padding='same' needs a stride of 1, got ", stride);
  Dims before, extra(uint32_t(2 * dims), 0);
  bool uneven = false;
  for (uint32_t d = 0; d < uint32_t(dims); ++d) {
    const int64_t total = gaps[d] * (w.sizes()[d + 2] - 1);
    before.push_back(total / 2);
    extra[size_t(2 * (dims - 1 - d) + 1)] = total % 2;
    uneven = uneven || total % 2;
  }
  const Tensor padded = uneven ? constant_pad_nd(x, extra, 0) : x;
  return convolve_any(op, dims, padded, w, bias, steps, before, gaps, groups);
}

Tensor transpose_any(const char* op, int64_t dims, const Tensor& x, const Tensor& w,
                     const Tensor& bias, IntList stride, IntList padding, IntList output_padding,
                     int64_t groups, IntList dilation) {
  check_tensors(op, dims, x, w, bias, groups, true);
  const Window at{spread(op, "stride", stride, dims, 1), spread(op, "padding", padding, dims, 0),
                  spread(op, "dilation", dilation, dims, 1)};
  const Dims extra = spread(op, "output_padding", output_padding, dims, 0);
  if (x.dtype() == DType::Complex32)
    return in_complex64(x, w, bias, [&](const Tensor& a, const Tensor& b, const Tensor& c) {
      return transpose_any(op, dims, a, b, c, stride, padding, output_padding, groups, dilation);
    });
  const bool single = x.dim() == dims + 1;
  const Tensor batch = single ? unsqueeze(x, 0) : x;
  Dims sizes{batch.sizes()[0], w.sizes()[1] * groups};
  for (uint32_t d = 0; d < uint32_t(dims); ++d) {
    check_argument(extra[d] < std::max(at.stride[d], at.dilation[d]), op,
                   "output_padding must be smaller than stride or dilation, got output_padding ",
                   extra, ", stride ", at.stride, ", dilation ", at.dilation);
    const int64_t in_size = batch.sizes()[d + 2];
    const int64_t size = (in_size - 1) * at.stride[d] - 2 * at.padding[d] +
                         at.dilation[d] * (w.sizes()[d + 2] - 1) + 1 + extra[d];
    check_shape(size > 0, op, "the output would have size ", size, " in spatial dim ", d,
                ": input ", x.sizes(), ", weight ", w.sizes(), ", padding ", at.padding);
    sizes.push_back(size);
  }
  Tensor y = _convolution_input_grad(batch, w, sizes, at.stride, at.padding, at.dilation, groups);
  if (bias.defined()) {
    Dims shape(uint32_t(dims + 1), 1);
    shape[0] = bias.sizes()[0];
    y = y + reshape(bias, shape);
  }
  return single ? squeeze(y, IntList(Dims{0})) : y;
}

// The ops for one, two and three spatial dims.
template <OpName N, int64_t dims>
struct ConvolutionOp {
  static constexpr const char* name = N.text;
  static Tensor call(const Tensor& x, const Tensor& w, const Tensor& bias, IntList stride,
                     IntList padding, IntList dilation, int64_t groups) {
    return convolve_any(name, dims, x, w, bias, stride, padding, dilation, groups);
  }
};
template <OpName N, int64_t dims>
struct NamedPaddingOp {
  static constexpr const char* name = N.text;
  static Tensor call(const Tensor& x, const Tensor& w, const Tensor& bias, IntList stride,
                     std::string_view padding, IntList dilation, int64_t groups) {
    return convolve_named(name, dims, x, w, bias, stride, padding, dilation, groups);
  }
};
template <OpName N, int64_t dims>
struct TransposedOp {
  static constexpr const char* name = N.text;
  static Tensor call(const Tensor& x, const Tensor& w, const Tensor& bias, IntList stride,
                     IntList padding, IntList output_padding, int64_t groups, IntList dilation) {
    return transpose_any(name, dims, x, w, bias, stride, padding, output_padding, groups, dilation);
  }
};

}  // namespace

struct Conv1d : ConvolutionOp<"conv1d", 1> {};
struct Conv2d : ConvolutionOp<"conv2d", 2> {};
struct Conv3d : ConvolutionOp<"conv3d", 3> {};
struct Conv1dPadding : NamedPaddingOp<"conv1d", 1> {};
struct Conv2dPadding : NamedPaddingOp<"conv2d", 2> {};
struct Conv3dPadding : NamedPaddingOp<"conv3d", 3> {};
struct ConvTranspose1d : TransposedOp<"conv_transpose1d", 1> {};
struct ConvTranspose2d : TransposedOp<"conv_transpose2d", 2> {};
struct ConvTranspose3d : TransposedOp<"conv_transpose3d", 3> {};

struct Convolution {
  static constexpr const char* name = "convolution";
  static Tensor call(const Tensor& x, const Tensor& w, const Tensor& bias, IntList stride,
                     IntList padding, IntList dilation, bool transposed, IntList output_padding,
                     int64_t groups) {
    const int64_t dims = w.dim() - 2;
    check_shape(dims >= 1 && dims <= 3, name, "weight must have 3 to 5 dimensions, got shape ",
                w.sizes());
    check_shape(x.dim() == w.dim(), name, "input must have as many dimensions as weight, got ",
                x.sizes(), " and ", w.sizes());
    return transposed ? transpose_any(name, dims, x, w, bias, stride, padding, output_padding,
                                      groups, dilation)
                      : convolve_any(name, dims, x, w, bias, stride, padding, dilation, groups);
  }
};

}  // namespace rush

#include "ops/convolution.inc"
