// Resampling along one dim: every mode of interpolate is a row of weights for each output, and
// several dims are resampled one after the other. Patches of images (fold, unfold).
#include <algorithm>
#include <array>

#include "device/nn/image.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/op_name.h"
#include "ops/framework/operators.h"

namespace rush {

namespace {

ResampleMode mode_of(std::string_view mode) {
  constexpr std::string_view names[] = {"nearest", "nearest-exact", "linear",
                                        "cubic",   "smooth-linear", "smooth-cubic"};
  const auto found = std::find(std::begin(names), std::end(names), mode);
  check_argument(found != std::end(names), "interpolate", "unknown mode '", mode, "'");
  return ResampleMode(found - std::begin(names));
}

Resampling resampling(int64_t in, int64_t out, std::string_view mode, bool align_corners,
                      double scale) {
  double ratio = scale > 0 ? 1 / scale : double(in) / double(out);
  if (align_corners) ratio = out > 1 ? double(in - 1) / double(out - 1) : 0;
  return {in, out, ratio, align_corners, mode_of(mode)};
}

Spec resized(const Tensor& x, int64_t dim, int64_t size) {
  Dims sizes = x.sizes();
  sizes[size_t(dim)] = size;
  return {sizes, x.dtype(), x.device(),
          !x.is_contiguous() && is_dense(x.sizes(), x.strides())
              ? preserved_strides(sizes, x.strides())
              : Dims{}};
}

// Along one dim. Each of the two ops is the other's gradient.
template <OpName N, auto adjoint>
struct ResampleAlong {
  static constexpr const char* name = N.text;
  static constexpr bool any_device = true;
  static constexpr bool any_layout = true;
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, int64_t dim, int64_t,
                    std::string_view mode, bool align, double scale) {
    const int64_t size = c.sizes(0)[size_t(wrap_dim(name, dim, g.dim()))];
    return {adjoint(g, dim, size, mode, align, scale)};
  }
};

}  // namespace

struct Resample : ResampleAlong<"interpolate", _resample_backward> {
  static Spec check(const Tensor& x, int64_t dim, int64_t size, std::string_view, bool, double) {
    dim = wrap_dim(name, dim, x.dim());
    const bool bytes = x.dtype() == DType::UInt8 && (x.is_meta() || image_loops(x).resamples_bytes);
    check_dtype(is_floating(x.dtype()) || bytes, name, "not implemented for ", x.dtype(),
                " tensors");
    check_shape(size > 0 && x.sizes()[size_t(dim)] > 0, name,
                "input and output sizes must be positive, got input of shape ", x.sizes(),
                " and size ", size, " for dim ", dim);
    return resized(x, dim, size);
  }
  static void run(const Tensor& x, int64_t dim, int64_t size, std::string_view mode, bool align,
                  double scale, const Tensor& out) {
    if (out.numel() == 0) return;
    dim = wrap_dim(name, dim, x.dim());
    const Resampling how = resampling(x.sizes()[size_t(dim)], size, mode, align, scale);
    image_loops(out).resample(x, dim, how, out);
  }
};

struct ResampleBackward : ResampleAlong<"interpolate_backward", _resample> {
  static Spec check(const Tensor& g, int64_t dim, int64_t size, std::string_view, bool, double) {
    return resized(g, wrap_dim(name, dim, g.dim()), size);
  }
  static void run(const Tensor& g, int64_t dim, int64_t size, std::string_view mode, bool align,
                  double scale, const Tensor& out) {
    if (out.numel() == 0) return;
    dim = wrap_dim(name, dim, g.dim());
    const Resampling how = resampling(size, g.sizes()[size_t(dim)], mode, align, scale);
    image_loops(out).resample_backward(g, dim, how, out);
  }
};

struct ResampleImage {
  static constexpr const char* name = "interpolate";
  static constexpr bool any_device = true;
  static constexpr bool any_layout = true;
  static Spec check(const Tensor& x, IntList size, std::string_view mode, bool,
                    std::span<const double> scales) {
    const int64_t dims = x.dim() - 2;
    check_dtype(is_floating(x.dtype()), name, "not implemented for ", x.dtype(), " tensors");
    check_shape(
        dims >= 1 && dims <= 3 && int64_t(size.size()) == dims && int64_t(scales.size()) == dims,
        name, "expected a size and a scale for each of one to three spatial dims, got ", size,
        " for an input of shape ", x.sizes());
    Dims sizes = x.sizes();
    for (size_t d = 0; d < size.size(); ++d) {
      check_shape(size[d] > 0 && x.sizes()[2 + d] > 0, name,
                  "input and output sizes must be positive, got input of shape ", x.sizes(),
                  " and size ", size);
      sizes[2 + d] = size[d];
    }
    check_argument(mode_of(mode) < ResampleMode::SmoothLinear, name,
                   "several dims at once do not go with smoothing");
    const bool last = is_channels_last(x.sizes(), x.strides()) && x.dim() >= 4;
    return {sizes, x.dtype(), x.device(), last ? channels_last_strides(sizes) : Dims{}};
  }
  static void run(const Tensor& x, IntList size, std::string_view mode, bool align,
                  std::span<const double> scales, const Tensor& out) {
    if (out.numel() == 0) return;
    const ImageLoops& loops = image_loops(out);
    if (!loops.resample_image) {
      const NoGradGuard no_grad;
      Tensor y = x;
      for (size_t d = 0; d < size.size(); ++d)
        y = _resample(y, int64_t(2 + d), size[d], mode, align, scales[d]);
      return copy_data(out, y);
    }
    std::array<Resampling, 3> how;
    how.fill({1, 1, 1, false, ResampleMode::Nearest});
    for (size_t d = 0; d < size.size(); ++d)
      how[3 - size.size() + d] = resampling(x.sizes()[2 + d], size[d], mode, align, scales[d]);
    loops.resample_image(x, how.data(), out);
  }
  // The adjoint, dim by dim: each result is gathered, and the same every time.
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, IntList, std::string_view mode,
                    bool align, std::span<const double> scales) {
    Tensor gx = g;
    for (size_t d = scales.size(); d-- > 0;)
      gx = _resample_backward(gx, int64_t(2 + d), c.sizes(0)[2 + d], mode, align, scales[d]);
    return {gx};
  }
};

namespace {

PatchShape patch_shape(const char* op, int64_t planes, int64_t h, int64_t w, IntList kernel,
                       IntList dilation, IntList padding, IntList stride) {
  PatchShape s{planes,
               {h, w},
               {0, 0},
               {kernel[0], kernel[1]},
               {dilation[0], dilation[1]},
               {padding[0], padding[1]},
               {stride[0], stride[1]}};
  for (int d = 0; d < 2; ++d) {
    const int64_t reach = s.dilation[d] * (s.kernel[d] - 1) + 1;
    s.out[d] = (s.in[d] + 2 * s.padding[d] - reach) / s.stride[d] + 1;
    check_shape(s.in[d] + 2 * s.padding[d] >= reach && s.out[d] > 0, op, "the kernel reaches over ",
                reach, " elements, but the padded image has only ", s.in[d] + 2 * s.padding[d],
                " in dim ", d);
  }
  checked_numel(op, Dims{planes, s.kernel[0], s.kernel[1], s.out[0], s.out[1]});
  return s;
}

// Sizes of images and kernels fit into 31 bits, so that products of two of them fit into 64.
Dims both(const char* op, const char* what, IntList list, int64_t least) {
  check_shape(list.size() == 1 || list.size() == 2, op, what, " must be one or two numbers, got ",
              list);
  for (int64_t v : list)
    check_argument(v >= least && v < (int64_t(1) << 31), op, what, " must be ",
                   least > 0 ? "positive" : "at least 0", " and below 2^31, got ", list);
  return Dims{list[0], list.back()};
}

}  // namespace

struct UnfoldPatches {
  static constexpr const char* name = "im2col";
  static constexpr bool any_device = true;
  static PatchShape shape(const Tensor& x, IntList kernel, IntList dilation, IntList padding,
                          IntList stride) {
    const Dims& n = x.sizes();
    return patch_shape("unfold", n[0] * n[1], n[2], n[3], kernel, dilation, padding, stride);
  }
  static Spec check(const Tensor& x, IntList kernel, IntList dilation, IntList padding,
                    IntList stride) {
    const PatchShape s = shape(x, kernel, dilation, padding, stride);
    return {Dims{x.sizes()[0], x.sizes()[1] * kernel[0] * kernel[1], s.out[0] * s.out[1]},
            x.dtype(), x.device()};
  }
  static void run(const Tensor& x, IntList kernel, IntList dilation, IntList padding,
                  IntList stride, const Tensor& out) {
    image_loops(out).unfold(shape(x, kernel, dilation, padding, stride), contiguous_data(x), out);
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, IntList kernel, IntList dilation,
                    IntList padding, IntList stride) {
    return {
        _fold_patches(g, Dims{c.sizes(0)[2], c.sizes(0)[3]}, kernel, dilation, padding, stride)};
  }
};

struct FoldPatches {
  static constexpr const char* name = "col2im";
  static constexpr bool any_device = true;
  static PatchShape shape(const Tensor& x, IntList output, IntList kernel, IntList dilation,
                          IntList padding, IntList stride) {
    const int64_t channels = x.sizes()[1] / (kernel[0] * kernel[1]);
    return patch_shape("fold", x.sizes()[0] * channels, output[0], output[1], kernel, dilation,
                       padding, stride);
  }
  static Spec check(const Tensor& x, IntList output, IntList kernel, IntList dilation,
                    IntList padding, IntList stride) {
    check_shape(x.sizes()[1] % (kernel[0] * kernel[1]) == 0, "fold", "the ", x.sizes()[1],
                " rows must be a multiple of the kernel's ", kernel[0] * kernel[1], " points");
    const PatchShape s = shape(x, output, kernel, dilation, padding, stride);
    check_shape(s.out[0] * s.out[1] == x.sizes()[2], "fold", "an image of ", output, " has ",
                s.out[0], " x ", s.out[1], " patches, but the input has ", x.sizes()[2],
                " columns; its shape is ", x.sizes());
    return {Dims{x.sizes()[0], x.sizes()[1] / (kernel[0] * kernel[1]), output[0], output[1]},
            x.dtype(), x.device()};
  }
  static void run(const Tensor& x, IntList output, IntList kernel, IntList dilation,
                  IntList padding, IntList stride, const Tensor& out) {
    image_loops(out).fold(shape(x, output, kernel, dilation, padding, stride), contiguous_data(x),
                          out);
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, IntList, IntList kernel,
                    IntList dilation, IntList padding, IntList stride) {
    return {_unfold_patches(g, kernel, dilation, padding, stride)};
  }
};

struct Im2col {
  static constexpr const char* name = "unfold";
  static Tensor call(const Tensor& x, IntList kernel, IntList dilation, IntList padding,
                     IntList stride) {
    check_shape((x.dim() == 3 || x.dim() == 4) && numel(IntList(x.sizes()).last(3)) > 0, name,
                "input must be an image of 3 dims or a batch of 4, got shape ", x.sizes());
    check_dtype(is_differentiable(x.dtype()) || x.dtype() == DType::Bool, name,
                "not implemented for ", x.dtype(), " tensors");
    const Dims k = both(name, "kernel_size", kernel, 1), d = both(name, "dilation", dilation, 1),
               p = both(name, "padding", padding, 0), s = both(name, "stride", stride, 1);
    if (x.dim() == 4) return _unfold_patches(x, k, d, p, s);
    return squeeze(_unfold_patches(unsqueeze(x, 0), k, d, p, s), IntList(Dims{0}));
  }
};

struct Col2im {
  static constexpr const char* name = "fold";
  static Tensor call(const Tensor& x, IntList output, IntList kernel, IntList dilation,
                     IntList padding, IntList stride) {
    check_shape((x.dim() == 2 || x.dim() == 3) && numel(IntList(x.sizes()).last(2)) > 0, name,
                "input must be columns of 2 dims or a batch of 3, got shape ", x.sizes());
    check_dtype(is_differentiable(x.dtype()) || x.dtype() == DType::Bool, name,
                "not implemented for ", x.dtype(), " tensors");
    const Dims o = both(name, "output_size", output, 1), k = both(name, "kernel_size", kernel, 1),
               d = both(name, "dilation", dilation, 1), p = both(name, "padding", padding, 0),
               s = both(name, "stride", stride, 1);
    if (x.dim() == 3) return _fold_patches(x, o, k, d, p, s);
    return squeeze(_fold_patches(unsqueeze(x, 0), o, k, d, p, s), IntList(Dims{0}));
  }
};

}  // namespace rush

#include "ops/resampling.inc"
