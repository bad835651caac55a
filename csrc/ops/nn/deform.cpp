// Convolutions whose kernel points are moved by offsets: a product with patches that are gathered
// first. The patches stay in memory for the gradient of the weight.
#include "device/nn/vision.h"
#include "ops/deform_ops.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {

namespace {

constexpr const char* kName = "deform_conv2d";

DeformShape deform_shape(const Tensor& x, IntList kernel, IntList stride, IntList padding,
                         IntList dilation, int64_t groups) {
  DeformShape s{};
  s.batch = x.sizes()[0];
  s.channels = x.sizes()[1];
  s.groups = groups;
  for (size_t d = 0; d < 2; ++d) {
    s.in[d] = x.sizes()[2 + d];
    s.kernel[d] = kernel[d];
    s.stride[d] = stride[d];
    s.padding[d] = padding[d];
    s.dilation[d] = dilation[d];
    s.out[d] = (s.in[d] + 2 * padding[d] - (dilation[d] * (kernel[d] - 1) + 1)) / stride[d] + 1;
  }
  return s;
}

void check_numbers(IntList stride, IntList padding, IntList dilation, int64_t groups,
                   int64_t offset_groups) {
  check_argument(stride[0] > 0 && stride[1] > 0, kName, "stride must be positive, got ", stride);
  check_argument(padding[0] >= 0 && padding[1] >= 0, kName, "padding must not be negative, got ",
                 padding);
  check_argument(dilation[0] > 0 && dilation[1] > 0, kName, "dilation must be positive, got ",
                 dilation);
  check_argument(groups > 0 && offset_groups > 0, kName,
                 "groups and offset_groups must be positive, got ", groups, " and ", offset_groups);
}

void check_tensors(const Tensor& x, const Tensor& weight, const Tensor& offset, const Tensor& mask,
                   const Tensor& bias, int64_t groups) {
  check_shape(x.dim() == 4 && weight.dim() == 4 && offset.dim() == 4, kName,
              "input, weight and offset must have four dimensions, got ", x.sizes(), ", ",
              weight.sizes(), " and ", offset.sizes());
  check_shape(weight.sizes()[1] * groups == x.sizes()[1] && weight.sizes()[0] % groups == 0, kName,
              "weight must have shape (out, ", x.sizes()[1],
              " / groups, h, w) with out a multiple "
              "of groups = ",
              groups, ", got ", weight.sizes());
  check_shape(bias.dim() == 1 && bias.sizes()[0] == weight.sizes()[0], kName,
              "bias must have one number per output channel, got ", bias.sizes(), " for ",
              weight.sizes()[0]);
  for (const Tensor* t : {&weight, &offset, &mask, &bias}) {
    check_dtype(x.is_floating() && (!t->defined() || t->dtype() == x.dtype()), kName,
                "all tensors must have the same floating type, got ", x.dtype(), " and ",
                t->defined() ? t->dtype() : x.dtype());
  }
}

// Offsets and masks have one channel per number and kernel point, and the result's sizes.
void check_moves(const DeformShape& s, const Tensor& t, int64_t numbers, const char* what) {
  const Dims wanted{s.batch, s.groups * numbers * s.points(), s.out[0], s.out[1]};
  check_shape(t.sizes() == wanted, kName, what, " must have shape ", wanted, ", got ", t.sizes());
}

}  // namespace

struct DeformPatches {
  static constexpr const char* name = kName;
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, const Tensor& offset, const Tensor& mask, IntList kernel,
                    IntList stride, IntList padding, IntList dilation, int64_t groups) {
    const DeformShape s = deform_shape(x, kernel, stride, padding, dilation, groups);
    check_shape(s.out[0] > 0 && s.out[1] > 0 && s.points() > 0, name,
                "the result would be empty: input is ", x.sizes(), ", the kernel ", kernel);
    check_argument(s.channels % groups == 0, name,
                   "the channels of input must be a multiple of offset_groups, got ", s.channels,
                   " and ", groups);
    check_moves(s, offset, 2, "offset");
    if (mask.defined()) check_moves(s, mask, 1, "mask");
    check_argument(s.area() < (int64_t(1) << 31), name, "input has ", s.area(),
                   " elements per channel, more than 2^31");
    const Device device = mask.defined() ? common_device(name, {&x, &offset, &mask})
                                         : common_device(name, {&x, &offset});
    return {Dims{s.batch, s.channels * s.points(), s.places()}, x.dtype(), device};
  }
  static void run(const Tensor& x, const Tensor& offset, const Tensor& mask, IntList kernel,
                  IntList stride, IntList padding, IntList dilation, int64_t groups,
                  const Tensor& out) {
    if (out.numel() == 0) return;
    deform_loops(out).patches(deform_shape(x, kernel, stride, padding, dilation, groups),
                              contiguous_data(x), contiguous_data(offset),
                              mask.defined() ? contiguous_data(mask) : mask, out);
  }
  static constexpr uint32_t needs[] = {in(0) | in(1) | in(2), in(0) | in(1) | in(2),
                                       in(0) | in(1) | in(2)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, const Tensor& offset,
                    const Tensor& mask, IntList kernel, IntList stride, IntList padding,
                    IntList dilation, int64_t groups) {
    auto [gx, goffset, gmask] =
        _deform_patches_backward(g, x, offset, mask, kernel, stride, padding, dilation, groups,
                                 c.wants(0), c.wants(1), c.wants(2));
    return {c.wants(0) ? gx : Tensor(), c.wants(1) ? goffset : Tensor(),
            c.wants(2) ? gmask : Tensor()};
  }
};

struct DeformPatchesBackward {
  static constexpr const char* name = "deform_conv2d_backward";
  static constexpr bool any_device = true;
  static std::array<Spec, 3> check(const Tensor&, const Tensor& x, const Tensor& offset,
                                   const Tensor& mask, IntList, IntList, IntList, IntList, int64_t,
                                   bool for_x, bool for_offset, bool for_mask) {
    const auto spec = [&](bool wanted, const Tensor& t) {
      return Spec{wanted ? t.sizes() : Dims{0}, x.dtype(), x.device()};
    };
    return {spec(for_x, x), spec(for_offset, offset), spec(for_mask && mask.defined(), mask)};
  }
  static void run(const Tensor& g, const Tensor& x, const Tensor& offset, const Tensor& mask,
                  IntList kernel, IntList stride, IntList padding, IntList dilation, int64_t groups,
                  bool for_x, bool for_offset, bool for_mask, const Tensor& out_x,
                  const Tensor& out_offset, const Tensor& out_mask) {
    if (g.numel() == 0) {
      for (const Tensor* out : {&out_x, &out_offset, &out_mask}) fill_data(*out, 0);
      return;
    }
    deform_loops(g).patches_backward(
        deform_shape(x, kernel, stride, padding, dilation, groups), contiguous_data(g),
        contiguous_data(x), contiguous_data(offset), mask.defined() ? contiguous_data(mask) : mask,
        for_x ? out_x : Tensor(), for_offset ? out_offset : Tensor(),
        for_mask && mask.defined() ? out_mask : Tensor());
  }
};

struct DeformProduct {
  static constexpr const char* name = kName;
  static Tensor call(const Tensor& x, const Tensor& weight, const Tensor& offset,
                     const Tensor& mask, const Tensor& bias, IntList stride, IntList padding,
                     IntList dilation, int64_t groups, int64_t offset_groups) {
    check_tensors(x, weight, offset, mask, bias, groups);
    const Dims kernel{weight.sizes()[2], weight.sizes()[3]};
    const DeformShape s = deform_shape(x, kernel, stride, padding, dilation, offset_groups);
    const Tensor columns =
        _deform_patches(x, offset, mask, kernel, stride, padding, dilation, offset_groups);
    const int64_t outputs = weight.sizes()[0], depth = weight.sizes()[1] * s.points();
    const Tensor product = matmul(reshape(weight, Dims{groups, outputs / groups, depth}),
                                  reshape(columns, Dims{s.batch, groups, depth, s.places()}));
    return reshape(product, Dims{s.batch, outputs, s.out[0], s.out[1]}) +
           reshape(bias, Dims{1, outputs, 1, 1});
  }
};

// As torchvision does it, autocast computes in float32 and gives the result in input's dtype.
struct DeformConv2d {
  static constexpr const char* name = kName;
  static Tensor call(const Tensor& input, const Tensor& weight, const Tensor& offset,
                     const Tensor& mask, const Tensor& bias, int64_t stride_h, int64_t stride_w,
                     int64_t pad_h, int64_t pad_w, int64_t dilation_h, int64_t dilation_w,
                     int64_t groups, int64_t offset_groups, bool use_mask) {
    const Dims stride{stride_h, stride_w}, padding{pad_h, pad_w}, dilation{dilation_h, dilation_w};
    check_numbers(stride, padding, dilation, groups, offset_groups);
    const Tensor out = _deform_product(input, weight, offset, use_mask ? mask : Tensor(), bias,
                                       stride, padding, dilation, groups, offset_groups);
    return out.dtype() == input.dtype() ? out : cast(out, input.dtype());
  }
};

}  // namespace rush

#include "ops/deform.inc"
