// Boxes in images: which of them to keep, and what images hold in their bins. Pooling is linear in
// the images, so that the gradient of a gradient is the pooling again; boxes get none.
#include "device/nn/vision.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"
#include "ops/roi_ops.h"

namespace rush {

namespace {

RoiShape roi_shape(std::string_view op, IntList input, const Tensor& rois, double scale,
                   IntList bins) {
  check_shape(input.size() == 4, op, "input must have shape (N, C, H, W), got ", input);
  check_shape(rois.dim() == 2 && rois.sizes()[1] == 5, op, "rois must have shape (K, 5), got ",
              rois.sizes());
  check_argument(bins[0] > 0 && bins[1] > 0, op,
                 "pooled_height and pooled_width must be positive, got ", bins[0], " and ",
                 bins[1]);
  return {.batch = input[0],
          .channels = input[1],
          .size = {input[2], input[3]},
          .rois = rois.sizes()[0],
          .bins = {bins[0], bins[1]},
          .scale = scale,
          .sampling_ratio = 0,
          .aligned = false};
}

RoiShape checked(std::string_view op, const Tensor& x, const Tensor& rois, double scale,
                 IntList bins, bool by_position) {
  const RoiShape s = roi_shape(op, x.sizes(), rois, scale, bins);
  check_dtype(x.is_floating() && x.dtype() == rois.dtype(), op,
              "input and rois must have the same floating type, got ", x.dtype(), " and ",
              rois.dtype());
  check_argument(s.size[0] * s.size[1] < (int64_t(1) << 31), op, "input has ",
                 s.size[0] * s.size[1], " elements per channel, more than 2^31");
  check_argument(!by_position || s.channels % (bins[0] * bins[1]) == 0, op,
                 "the channels of input must be a multiple of pooled_height * pooled_width, got ",
                 s.channels, " and ", bins[0] * bins[1]);
  return s;
}

// (rois, channels, bins...), by position with the channels that are left.
Spec pooled(std::string_view op, const Tensor& x, const Tensor& rois, double scale, IntList bins,
            bool by_position) {
  const RoiShape s = checked(op, x, rois, scale, bins, by_position);
  const int64_t channels = by_position ? s.channels / (bins[0] * bins[1]) : s.channels;
  return {Dims{s.rois, channels, bins[0], bins[1]}, x.dtype(), common_device(op, {&x, &rois})};
}

Tensor in_type_of(const Tensor& input, const Tensor& result) {
  return result.dtype() == input.dtype() ? result : cast(result, input.dtype());
}

// Which input channel each element of a result by position was read from.
Tensor channel_mapping(const Tensor& input, const Tensor& result) {
  const Dims& n = result.sizes();
  const Tensor all = arange(input.sizes()[1], DType::Int32, {}, input.device());
  return contiguous(expand(reshape(all, Dims{1, n[1], n[2], n[3]}), n));
}

const char* places_name(bool by_position) { return by_position ? "ps_roi_align" : "roi_align"; }

}  // namespace

struct RoiPlaces {
  static constexpr const char* name = "roi_align";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, const Tensor& rois, double scale, IntList bins, int64_t, bool,
                    bool by_position) {
    return pooled(places_name(by_position), x, rois, scale, bins, by_position);
  }
  static RoiShape shape(IntList input, const Tensor& rois, double scale, IntList bins,
                        int64_t sampling_ratio, bool aligned) {
    RoiShape s = roi_shape(name, input, rois, scale, bins);
    s.sampling_ratio = sampling_ratio;
    s.aligned = aligned;
    return s;
  }
  static void run(const Tensor& x, const Tensor& rois, double scale, IntList bins,
                  int64_t sampling_ratio, bool aligned, bool by_position, const Tensor& out) {
    if (out.numel() == 0) return;
    vision_loops(out).roi_align(shape(x.sizes(), rois, scale, bins, sampling_ratio, aligned),
                                by_position, contiguous_data(x), contiguous_data(rois), out);
  }
  static constexpr uint32_t needs[] = {in(1), 0};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor& rois, double scale,
                    IntList bins, int64_t sampling_ratio, bool aligned, bool by_position) {
    if (!c.wants(0)) return Grads(2);
    return {_roi_places_backward(g, rois, c.sizes(0), scale, bins, sampling_ratio, aligned,
                                 by_position),
            Tensor()};
  }
};

struct RoiPlacesBackward {
  static constexpr const char* name = "roi_align_backward";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& g, const Tensor&, IntList input_size, double, IntList, int64_t,
                    bool, bool) {
    return {Dims(input_size), g.dtype(), g.device()};
  }
  static void run(const Tensor& g, const Tensor& rois, IntList input_size, double scale,
                  IntList bins, int64_t sampling_ratio, bool aligned, bool by_position,
                  const Tensor& out) {
    if (g.numel() == 0) return fill_data(out, 0);
    vision_loops(out).roi_align_backward(
        RoiPlaces::shape(input_size, rois, scale, bins, sampling_ratio, aligned), by_position,
        contiguous_data(g), contiguous_data(rois), out);
  }
  static constexpr uint32_t needs[] = {in(1), 0};
  static Grads grad(const Ctx& c, const Tensor& gg, const Tensor&, const Tensor& rois, IntList,
                    double scale, IntList bins, int64_t sampling_ratio, bool aligned,
                    bool by_position) {
    if (!c.wants(0)) return Grads(2);
    return {_roi_places(gg, rois, scale, bins, sampling_ratio, aligned, by_position), Tensor()};
  }
};

struct RoiLargest {
  static constexpr const char* name = "roi_pool";
  static constexpr bool any_device = true;
  static constexpr uint32_t non_differentiable = 0b10;
  static std::array<Spec, 2> check(const Tensor& x, const Tensor& rois, double scale,
                                   IntList bins) {
    const Spec values = pooled(name, x, rois, scale, bins, false);
    return {values, Spec{values.sizes, DType::Int32, values.device}};
  }
  static void run(const Tensor& x, const Tensor& rois, double scale, IntList bins,
                  const Tensor& out, const Tensor& argmax) {
    if (out.numel() == 0) return;
    vision_loops(out).roi_pool(roi_shape(name, x.sizes(), rois, scale, bins), contiguous_data(x),
                               contiguous_data(rois), out, argmax);
  }
  static constexpr uint32_t needs[] = {in(1) | result(1), 0};
  static Grads grad(const Ctx& c, GradSpan g, const Tensor&, const Tensor& rois, double, IntList) {
    if (!c.wants(0) || !g[0].defined()) return Grads(2);
    return {_roi_largest_backward(g[0], rois, c.out(1), c.sizes(0)), Tensor()};
  }
};

struct RoiLargestBackward {
  static constexpr const char* name = "roi_pool_backward";
  static Tensor call(const Tensor& g, const Tensor& rois, const Tensor& argmax, IntList input) {
    const int64_t area = input[2] * input[3], count = input[0] * input[1] * area;
    const Tensor at = cast(argmax, DType::Int64), empty = lt(at, wrap_number(0));
    const Tensor image =
        reshape(cast(select(rois, 1, 0), DType::Int64), Dims{rois.sizes()[0], 1, 1, 1});
    const Tensor channel =
        reshape(arange(input[1], DType::Int64, {}, rois.device()), Dims{1, input[1], 1, 1});
    const Tensor place = (image * Scalar(input[1]) + channel) * Scalar(area) +
                         masked_fill(at, empty, wrap_number(0));
    const Tensor kept = masked_fill(g, empty, wrap_number(0));
    const Tensor none = zeros(Dims{count}, g.dtype(), {}, g.device());
    if (count == 0 || g.numel() == 0) return reshape(none, input);
    return reshape(scatter_add(none, 0, flatten(place), flatten(kept)), input);
  }
};

struct RoiMeans {
  static constexpr const char* name = "ps_roi_pool";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, const Tensor& rois, double scale, IntList bins) {
    return pooled(name, x, rois, scale, bins, true);
  }
  static void run(const Tensor& x, const Tensor& rois, double scale, IntList bins,
                  const Tensor& out) {
    if (out.numel() == 0) return;
    vision_loops(out).roi_mean(roi_shape(name, x.sizes(), rois, scale, bins), contiguous_data(x),
                               contiguous_data(rois), out);
  }
  static constexpr uint32_t needs[] = {in(1), 0};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor& rois, double scale,
                    IntList bins) {
    if (!c.wants(0)) return Grads(2);
    return {_roi_means_backward(g, rois, c.sizes(0), scale, bins), Tensor()};
  }
};

struct RoiMeansBackward {
  static constexpr const char* name = "ps_roi_pool_backward";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& g, const Tensor&, IntList input_size, double, IntList) {
    return {Dims(input_size), g.dtype(), g.device()};
  }
  static void run(const Tensor& g, const Tensor& rois, IntList input_size, double scale,
                  IntList bins, const Tensor& out) {
    if (g.numel() == 0) return fill_data(out, 0);
    vision_loops(out).roi_mean_backward(roi_shape(name, input_size, rois, scale, bins),
                                        contiguous_data(g), contiguous_data(rois), out);
  }
  static constexpr uint32_t needs[] = {in(1), 0};
  static Grads grad(const Ctx& c, const Tensor& gg, const Tensor&, const Tensor& rois, IntList,
                    double scale, IntList bins) {
    if (!c.wants(0)) return Grads(2);
    return {_roi_means(gg, rois, scale, bins), Tensor()};
  }
};

struct RoiAlign {
  static constexpr const char* name = "roi_align";
  static Tensor call(const Tensor& input, const Tensor& rois, double scale, int64_t height,
                     int64_t width, int64_t sampling_ratio, bool aligned) {
    return in_type_of(input, _roi_places(input, rois, scale, Dims{height, width}, sampling_ratio,
                                         aligned, false));
  }
};

struct PsRoiAlign {
  static constexpr const char* name = "ps_roi_align";
  static std::tuple<Tensor, Tensor> call(const Tensor& input, const Tensor& rois, double scale,
                                         int64_t height, int64_t width, int64_t sampling_ratio) {
    const Tensor out =
        _roi_places(input, rois, scale, Dims{height, width}, sampling_ratio, true, true);
    return {in_type_of(input, out), channel_mapping(input, out)};
  }
};

struct RoiPool {
  static constexpr const char* name = "roi_pool";
  static std::tuple<Tensor, Tensor> call(const Tensor& input, const Tensor& rois, double scale,
                                         int64_t height, int64_t width) {
    const auto [out, argmax] = _roi_largest(input, rois, scale, Dims{height, width});
    return {in_type_of(input, out), argmax};
  }
};

struct PsRoiPool {
  static constexpr const char* name = "ps_roi_pool";
  static std::tuple<Tensor, Tensor> call(const Tensor& input, const Tensor& rois, double scale,
                                         int64_t height, int64_t width) {
    const Tensor out = _roi_means(input, rois, scale, Dims{height, width});
    return {in_type_of(input, out), channel_mapping(input, out)};
  }
};

struct NmsKeep {
  static constexpr const char* name = "nms";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& boxes, double) {
    return {Dims{boxes.sizes()[0]}, DType::Bool, boxes.device()};
  }
  static void run(const Tensor& boxes, double threshold, const Tensor& out) {
    if (out.numel() == 0) return;
    vision_loops(out).nms(contiguous_data(boxes), threshold, out);
  }
};

struct Nms {
  static constexpr const char* name = "nms";
  static Tensor call(const Tensor& dets, const Tensor& scores, double threshold) {
    check_shape(dets.dim() == 2 && dets.sizes()[1] == 4, name, "dets must have shape (N, 4), got ",
                dets.sizes());
    check_shape(scores.dim() == 1 && scores.sizes()[0] == dets.sizes()[0], name,
                "scores must have one number per box, got shape ", scores.sizes(), " for ",
                dets.sizes()[0], " boxes");
    check_dtype(dets.is_floating() && dets.dtype() == scores.dtype(), name,
                "dets and scores must have the same floating type, got ", dets.dtype(), " and ",
                scores.dtype());
    common_device(name, {&dets, &scores});
    const Tensor order = argsort(detach(scores), 0, true, true);
    return masked_select(order, _nms_keep(index_select(detach(dets), 0, order), threshold));
  }
};

}  // namespace rush

#include "ops/roi.inc"
