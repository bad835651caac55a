// Pools. Three internal ops over batches do the work: maxima, and averages with their adjoint.
#include "device/nn/pool.h"

#include <algorithm>

#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/op_name.h"
#include "ops/framework/operators.h"
#include "ops/nn/spread.h"

namespace rush {

namespace {

Tensor as_image(const Tensor& x) { return x.is_channels_last() ? x : contiguous_data(x); }
Spec image_spec(const Dims& sizes, DType dtype, const Tensor& like) {
  return {sizes, dtype, like.device(),
          like.is_channels_last() ? channels_last_strides(sizes) : Dims{}};
}
Dims pooled_sizes(const Tensor& x, IntList output) {
  Dims sizes{x.sizes()[0], x.sizes()[1]};
  for (int64_t n : output) sizes.push_back(n);
  return sizes;
}

// Half types run through float32, narrow integers through int64.
DType loop_type(DType t) { return is_integral(t) ? DType::Int64 : compute_type(t); }
Tensor in_loop_type(const Tensor& x) {
  const DType t = loop_type(x.dtype());
  return x.dtype() == t ? x : convert_data(x, t);
}
// Runs f on a tensor like out that has the loop's type and the layout of x; then fills out.
template <class F>
void into(const Tensor& out, bool last, F&& f) {
  const DType t = loop_type(out.dtype());
  const bool direct = out.dtype() == t && (last ? out.is_channels_last() : out.is_contiguous());
  const Tensor y =
      direct ? out
      : last ? make_tensor(out.sizes(), channels_last_strides(out.sizes()), t, out.device())
             : make_tensor(out.sizes(), t, out.device());
  f(y);
  if (!direct) copy_data(out, y);
}
// The values of g with the layout of an image.
Tensor lying_like(bool last, const Tensor& g) {
  if (last ? g.is_channels_last() : g.is_contiguous()) return g;
  const Tensor out =
      last ? make_tensor(g.sizes(), channels_last_strides(g.sizes()), g.dtype(), g.device())
           : make_tensor(g.sizes(), g.dtype(), g.device());
  copy_data(out, g);
  return out;
}

}  // namespace

struct MaxPool : RunsAnywhere {
  static constexpr const char* name = "max_pool_with_indices";
  static constexpr uint32_t non_differentiable = 0b10;
  static std::array<Spec, 2> check(const Tensor& x, IntList output, IntList, IntList, IntList,
                                   IntList) {
    const Dims sizes = pooled_sizes(x, output);
    return {image_spec(sizes, x.dtype(), x), image_spec(sizes, DType::Int64, x)};
  }
  static void run(const Tensor& x, IntList, IntList kernel, IntList stride, IntList padding,
                  IntList dilation, const Tensor& out, const Tensor& indices) {
    if (out.numel() == 0) return;
    const Tensor image = in_loop_type(as_image(x));
    const bool last = !image.is_contiguous();
    into(out, last, [&](const Tensor& y) {
      into(indices, last, [&](const Tensor& i) {
        pool_loops(x).max(image, {kernel, stride, padding, dilation, true, {}}, y, i);
      });
    });
  }
  static constexpr uint32_t needs[] = {result(1)};
  static Grads grad(const Ctx& c, GradSpan g, const Tensor&, IntList, IntList kernel,
                    IntList stride, IntList padding, IntList dilation) {
    if (!g[0].defined()) return Grads(1);
    return {_max_pool_backward(g[0], c.out(1), c.sizes(0), kernel, stride, padding, dilation)};
  }
};

// Without places: for results of which nobody wants a gradient. They are twice the values' bytes.
struct MaxPoolValues : RunsAnywhere {
  static constexpr const char* name = MaxPool::name;
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& x, IntList output, IntList, IntList, IntList, IntList) {
    return image_spec(pooled_sizes(x, output), x.dtype(), x);
  }
  static void run(const Tensor& x, IntList, IntList kernel, IntList stride, IntList padding,
                  IntList dilation, const Tensor& out) {
    if (out.numel() == 0) return;
    const Tensor given = as_image(x);
    const bool last = !given.is_contiguous();
    const PoolWindows windows{kernel, stride, padding, dilation, true, {}};
    const bool is_byte = x.dtype() == DType::UInt8 || x.dtype() == DType::Int8;
    if (is_byte && pool_loops(x).max_values_of_bytes &&
        (last ? out.is_channels_last() : out.is_contiguous()))
      return pool_loops(x).max_values(given, windows, out);
    const Tensor image = in_loop_type(given);
    into(out, last, [&](const Tensor& y) { pool_loops(x).max_values(image, windows, y); });
  }
  // Where nobody looks on, either.
  static bool will_do(const Tensor& x) {
    return pool_loops(x).max_values && !x.is_batched() && !(t_modes & (kIntercept | kForward)) &&
           !(grad_enabled() && requires_grad(x));
  }
};

struct MaxPoolBackward : RunsAnywhere {
  static constexpr const char* name = "max_pool_with_indices_backward";
  static constexpr bool may_fail = true;
  static Spec check(const Tensor& g, const Tensor& indices, IntList input_size, IntList, IntList,
                    IntList, IntList) {
    return image_spec(Dims(input_size), g.dtype(), indices.is_channels_last() ? indices : g);
  }
  static void run(const Tensor& g, const Tensor& indices, IntList, IntList kernel, IntList stride,
                  IntList padding, IntList dilation, const Tensor& out) {
    if (out.numel() == 0) return;
    const bool last = g.is_channels_last() || indices.is_channels_last();
    into(out, last, [&](const Tensor& gx) {
      const bool lies_last = !gx.is_contiguous();
      pool_loops(g).max_backward(lying_like(lies_last, in_loop_type(g)),
                                 lying_like(lies_last, indices),
                                 {kernel, stride, padding, dilation, true, {}}, gx);
    });
  }
  static constexpr uint32_t needs[] = {in(1), 0};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor&, const Tensor& indices, IntList,
                    IntList, IntList, IntList, IntList) {
    return {c.wants(0)
                ? reshape(gather(flatten(h, 2, -1), 2, flatten(indices, 2, -1), false), c.sizes(0))
                : Tensor(),
            Tensor()};
  }
};

struct FractionalMaxPool {
  static constexpr const char* name = "fractional_max_pool";
  static constexpr bool any_device = true;
  static constexpr uint32_t non_differentiable = 0b10;
  static std::array<Spec, 2> check(const Tensor& x, IntList kernel, IntList output,
                                   const Tensor& samples) {
    const int64_t dims = x.dim() - 2;
    check_shape((dims == 2 || dims == 3) && int64_t(kernel.size()) == dims &&
                    int64_t(output.size()) == dims,
                name, "a batch (N, C, H, W) takes two numbers as kernel_size and output_size, ",
                "(N, C, D, H, W) three; got input ", x.sizes(), ", kernel_size ", kernel,
                " and output_size ", output);
    check_dtype(is_floating(x.dtype()), name, "not implemented for ", x.dtype(), " tensors");
    rush::check(samples.dtype() == x.dtype(), ErrorKind::Runtime, name,
                "the random samples must be ", x.dtype(), " as the input, got ", samples.dtype());
    check_shape(samples.sizes() == Dims{x.sizes()[0], x.sizes()[1], dims}, name,
                "the random samples must have shape ", Dims{x.sizes()[0], x.sizes()[1], dims},
                ", got ", samples.sizes());
    for (int64_t d = 0; d < dims; ++d) {
      const int64_t n = x.sizes()[size_t(2 + d)], k = kernel[size_t(d)], m = output[size_t(d)];
      check_shape(k > 0 && m > 0 && m + k - 1 <= n, name, "output_size ", output,
                  " and kernel_size ", kernel, " do not fit into an input of ", x.sizes(),
                  ": output + kernel - 1 must be at most the input's size");
    }
    const Dims sizes = pooled_sizes(x, output);
    return {image_spec(sizes, x.dtype(), x), image_spec(sizes, DType::Int64, x)};
  }
  static void run(const Tensor& x, IntList kernel, IntList, const Tensor& samples,
                  const Tensor& out, const Tensor& indices) {
    if (out.numel() == 0) return;
    pool_loops(out).fractional_max(x, kernel, samples, out, indices);
  }
  static constexpr uint32_t needs[] = {kOut, 0};
  static Grads grad(const Ctx& c, GradSpan g, const Tensor&, IntList, IntList, const Tensor&) {
    if (!g[0].defined()) return Grads(2);
    return {_max_pool_backward(g[0], c.out(1), c.sizes(0), {}, {}, {}, {}), Tensor()};
  }
};

struct AveragePool : RunsAnywhere {
  static constexpr const char* name = "avg_pool";
  static Spec check(const Tensor& x, IntList output, IntList, IntList, IntList, bool,
                    std::optional<int64_t>) {
    return image_spec(pooled_sizes(x, output), x.dtype(), x);
  }
  static void run(const Tensor& x, IntList, IntList kernel, IntList stride, IntList padding,
                  bool include, std::optional<int64_t> divisor, const Tensor& out) {
    if (out.numel() == 0) return;
    const Tensor image = in_loop_type(as_image(x));
    into(out, !image.is_contiguous(), [&](const Tensor& y) {
      pool_loops(x).average(image, {kernel, stride, padding, {}, include, divisor}, y);
    });
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, IntList, IntList kernel,
                    IntList stride, IntList padding, bool include, std::optional<int64_t> divisor) {
    // g may have lost the order of its dims on the way, as single points do.
    const ModeGuard arrange(kArrange, c.arranged(0));
    return {_average_pool_backward(g, c.sizes(0), kernel, stride, padding, include, divisor)};
  }
};

struct AveragePoolBackward : RunsAnywhere {
  static constexpr const char* name = "avg_pool_backward";
  static Spec check(const Tensor& g, IntList input_size, IntList, IntList, IntList, bool,
                    std::optional<int64_t>) {
    return image_spec(Dims(input_size), g.dtype(), g);
  }
  static bool arranges(const Tensor& g, IntList input_size, IntList, IntList, IntList, bool,
                       std::optional<int64_t>) {
    return t_modes & kArrange && !g.is_channels_last() && input_size.size() >= 4 && !g.is_meta();
  }
  static Dims arranged_strides(const Spec& spec, const Tensor&, IntList, IntList, IntList, IntList,
                               bool, std::optional<int64_t>) {
    return spec.sizes.size() >= 4 ? channels_last_strides(spec.sizes) : Dims{};
  }
  static void run(const Tensor& g, IntList, IntList kernel, IntList stride, IntList padding,
                  bool include, std::optional<int64_t> divisor, const Tensor& out) {
    if (out.numel() == 0) return;
    into(out, g.is_channels_last() || out.is_channels_last(), [&](const Tensor& gx) {
      pool_loops(g).average_backward(lying_like(!gx.is_contiguous(), in_loop_type(g)),
                                     {kernel, stride, padding, {}, include, divisor}, gx);
    });
  }
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor&, IntList, IntList kernel,
                    IntList stride, IntList padding, bool include, std::optional<int64_t> divisor) {
    return {_average_pool(h, Dims(IntList(c.sizes(0)).subspan(2)), kernel, stride, padding, include,
                          divisor)};
  }
};

namespace {

void check_image(const char* op, int64_t dims, const Tensor& x) {
  check_shape(x.dim() == dims + 1 || x.dim() == dims + 2, op, "input must have ", dims + 1,
              " dimensions (one image) or ", dims + 2, " (a batch), got shape ", x.sizes());
  for (int64_t d = x.dim() == dims + 2 ? 1 : 0; d < x.dim(); ++d)
    check_shape(x.sizes()[size_t(d)] > 0, op, "only the batch may be empty, got shape ", x.sizes());
  check_dtype(!x.is_complex() && x.dtype() != DType::Bool, op, "not implemented for ", x.dtype(),
              " tensors");
}

struct Windows {
  Dims kernel, stride, padding, dilation, output;

  Windows(const char* op, int64_t dims, const Tensor& x, IntList kernel_size, IntList steps,
          IntList pads, IntList gaps, bool ceil_mode)
      : kernel(spread(op, "kernel_size", kernel_size, dims, 1)),
        stride(steps.empty() ? kernel : spread(op, "stride", steps, dims, 1)),
        padding(spread(op, "padding", pads, dims, 0)),
        dilation(spread(op, "dilation", gaps, dims, 1)) {
    check_image(op, dims, x);
    for (uint32_t d = 0; d < uint32_t(dims); ++d) {
      const int64_t n = x.sizes()[size_t(x.dim() - dims + d)],
                    reach = dilation[d] * (kernel[d] - 1) + 1;
      check_argument(2 * padding[d] <= reach, op, "padding must be at most half the kernel, got ",
                     "padding ", padding, " and kernel_size ", kernel);
      const int64_t room = n + 2 * padding[d] - reach + (ceil_mode ? stride[d] - 1 : 0);
      int64_t size = room >= 0 ? room / stride[d] + 1 : 0;
      // The last window has to start inside the image or its left padding.
      if (ceil_mode && size > 0 && (size - 1) * stride[d] >= n + padding[d]) --size;
      check_shape(size >= 1, op, "the window reaches over ", reach, " elements, but dim ", d,
                  " of the input has ", n, " and padding ", padding[d], "; input is ", x.sizes());
      output.push_back(size);
    }
  }
};

// Runs f on a batch: a single image becomes a batch of one.
template <class F>
Tensor as_batch(int64_t dims, const Tensor& x, F&& f) {
  if (x.dim() == dims + 2) return f(x);
  return squeeze(f(unsqueeze(x, 0)), IntList(Dims{0}));
}
using Pair = std::tuple<Tensor, Tensor>;
template <class F>
Pair pair_as_batch(int64_t dims, const Tensor& x, F&& f) {
  if (x.dim() == dims + 2) return f(x);
  auto [a, b] = f(unsqueeze(x, 0));
  return {squeeze(a, IntList(Dims{0})), squeeze(b, IntList(Dims{0}))};
}

Pair max_any(const char* op, int64_t dims, const Tensor& x, IntList kernel, IntList stride,
             IntList padding, IntList dilation, bool ceil_mode) {
  const Windows w(op, dims, x, kernel, stride, padding, dilation, ceil_mode);
  return pair_as_batch(dims, x, [&](const Tensor& b) {
    return _max_pool(b, w.output, w.kernel, w.stride, w.padding, w.dilation);
  });
}

Tensor max_values(const char* op, int64_t dims, const Tensor& x, IntList kernel, IntList stride,
                  IntList padding, IntList dilation, bool ceil_mode) {
  if (!MaxPoolValues::will_do(x))
    return std::get<0>(max_any(op, dims, x, kernel, stride, padding, dilation, ceil_mode));
  const Windows w(op, dims, x, kernel, stride, padding, dilation, ceil_mode);
  return as_batch(dims, x, [&](const Tensor& b) {
    return op::call<MaxPoolValues>(b, IntList(w.output), IntList(w.kernel), IntList(w.stride),
                                   IntList(w.padding), IntList(w.dilation));
  });
}

Tensor average_any(const char* op, int64_t dims, const Tensor& x, IntList kernel, IntList stride,
                   IntList padding, bool ceil_mode, bool include, std::optional<int64_t> divisor) {
  const Windows w(op, dims, x, kernel, stride, padding, Dims{1}, ceil_mode);
  check_argument(!divisor || *divisor != 0, op, "divisor_override must not be 0");
  check_dtype(is_floating(x.dtype()) || x.dtype() == DType::Int64, op, "not implemented for ",
              x.dtype(), " tensors");
  return as_batch(dims, x, [&](const Tensor& b) {
    return _average_pool(b, w.output, w.kernel, w.stride, w.padding, include, divisor);
  });
}

Pair adaptive_max(const char* op, int64_t dims, const Tensor& x, IntList output) {
  check_image(op, dims, x);
  const Dims sizes = spread(op, "output_size", output, dims, 0);
  return pair_as_batch(dims, x, [&](const Tensor& b) {
    return _max_pool(b, sizes, Dims{}, Dims{}, Dims{}, Dims{});
  });
}

Tensor adaptive_average(const char* op, int64_t dims, const Tensor& x, IntList output) {
  const bool one = std::all_of(output.begin(), output.end(), [](int64_t n) { return n == 1; });
  // One mean over everything: also for types without a loop.
  const bool looped = is_floating(x.dtype());
  if (one && dims > 1 && x.dim() > dims && x.numel() > 0 &&
      (looped ? x.is_contiguous() && !is_laid_out_otherwise(x) : x.is_complex())) {
    Dims last;
    for (int64_t d = -dims; d < 0; ++d) last.push_back(d);
    return mean(x, IntList(last), true, std::nullopt);
  }
  check_image(op, dims, x);
  check_dtype(is_floating(x.dtype()), op, "not implemented for ", x.dtype(), " tensors");
  const Dims sizes = spread(op, "output_size", output, dims, 0);
  return as_batch(dims, x, [&](const Tensor& b) {
    return _average_pool(b, sizes, Dims{}, Dims{}, Dims{}, true, std::nullopt);
  });
}

// The ops for one, two and three spatial dims; `pool` is one of the functions above.
template <OpName N, int64_t dims, auto pool>
struct MaxPoolOp {
  static constexpr const char* name = N.text;
  static auto call(const Tensor& x, IntList kernel, IntList stride, IntList padding,
                   IntList dilation, bool ceil_mode) {
    return pool(name, dims, x, kernel, stride, padding, dilation, ceil_mode);
  }
};
template <OpName N, int64_t dims>
struct AvgPoolOp {
  static constexpr const char* name = N.text;
  static Tensor call(const Tensor& x, IntList kernel, IntList stride, IntList padding,
                     bool ceil_mode, bool include, std::optional<int64_t> divisor) {
    return average_any(name, dims, x, kernel, stride, padding, ceil_mode, include, divisor);
  }
};
template <OpName N, int64_t dims, auto pool>
struct AdaptivePoolOp {
  static constexpr const char* name = N.text;
  static auto call(const Tensor& x, IntList output) { return pool(name, dims, x, output); }
};

}  // namespace

struct MaxPool1d : MaxPoolOp<"max_pool1d", 1, max_values> {};
struct MaxPool1dWithIndices : MaxPoolOp<"max_pool1d_with_indices", 1, max_any> {};
// It has no divisor_override.
struct AvgPool1d {
  static constexpr const char* name = "avg_pool1d";
  static Tensor call(const Tensor& x, IntList kernel, IntList stride, IntList padding,
                     bool ceil_mode, bool include) {
    return average_any(name, 1, x, kernel, stride, padding, ceil_mode, include, std::nullopt);
  }
};
struct AdaptiveAvgPool1d : AdaptivePoolOp<"adaptive_avg_pool1d", 1, adaptive_average> {};
struct AdaptiveMaxPool1d : AdaptivePoolOp<"adaptive_max_pool1d", 1, adaptive_max> {};

struct MaxPool2d : MaxPoolOp<"max_pool2d", 2, max_values> {};
struct MaxPool2dWithIndices : MaxPoolOp<"max_pool2d_with_indices", 2, max_any> {};
struct AvgPool2d : AvgPoolOp<"avg_pool2d", 2> {};
struct AdaptiveAvgPool2d : AdaptivePoolOp<"adaptive_avg_pool2d", 2, adaptive_average> {};
struct AdaptiveMaxPool2d : AdaptivePoolOp<"adaptive_max_pool2d", 2, adaptive_max> {};

struct MaxPool3d : MaxPoolOp<"max_pool3d", 3, max_values> {};
struct MaxPool3dWithIndices : MaxPoolOp<"max_pool3d_with_indices", 3, max_any> {};
struct AvgPool3d : AvgPoolOp<"avg_pool3d", 3> {};
struct AdaptiveAvgPool3d : AdaptivePoolOp<"adaptive_avg_pool3d", 3, adaptive_average> {};
struct AdaptiveMaxPool3d : AdaptivePoolOp<"adaptive_max_pool3d", 3, adaptive_max> {};

}  // namespace rush

#include "ops/pooling.inc"
