// convolution.cpp: who computes a convolution, and in which layout.
//
//   float32, bfloat16   oneDNN, for contiguous and channels-last tensors alike; some float32 ones
//                       as products of matrices, or over tiles (winograd.h)
//   float16             converted to float32 and back, since few processors compute in it
//   float64 and others  our own products over unfolded patches, contiguous; narrow integers as
//                       int64, which wraps around to the same bits
#include "device/nn/convolution.h"

#include <algorithm>
#include <array>

#include "core/modes.h"
#include "cpu/copy/copy.h"
#include "cpu/linalg/gemm.h"
#include "cpu/nn/convolution_patches.h"
#include "cpu/nn/weight_layouts.h"
#include "cpu/nn/winograd.h"
#include "cpu/vendor/onednn_convolution.h"
#include "cpu/vendor/onednn_matmul.h"

namespace rush {

namespace {

// x as it is when it lies end to end in one of the two layouts that we know, else contiguous.
bool has_known_layout(const Tensor& x) {
  return x.is_contiguous() ||
         ((x.dim() == 4 || x.dim() == 5) && is_channels_last(x.sizes(), x.strides()));
}

Tensor fresh(const Tensor& like, DType dtype, bool contiguous) {
  if (contiguous || !has_known_layout(like)) return make_tensor(like.sizes(), dtype);
  return make_tensor(like.sizes(), like.strides(), dtype, {});
}

Tensor brought(const Tensor& x, DType dtype, bool contiguous) {
  if (!x.defined()) return x;
  if (x.dtype() == dtype && (contiguous ? x.is_contiguous() : has_known_layout(x))) return x;
  Tensor copy = fresh(x, dtype, contiguous);
  copy_cpu(x, copy);
  return copy;
}

// Runs f on tensors of this dtype and layout, and copies the result back where it lies elsewhere.
template <class F>
bool with_tensors(ConvKind kind, ConvTensors t, DType dtype, bool contiguous, F&& f) {
  const Tensor result = t.written(kind);
  const bool direct =
      result.dtype() == dtype && (contiguous ? result.is_contiguous() : has_known_layout(result));
  for (Tensor* x : {&t.x, &t.w, &t.bias, &t.y}) {
    if (x == &t.written(kind))
      *x = direct ? *x : fresh(*x, dtype, contiguous);
    else
      *x = brought(*x, dtype, contiguous);
  }
  if (!f(t)) return false;
  if (!direct) copy_cpu(t.written(kind), result);
  return true;
}

// oneDNN fills whole vectors with the channels of an image, however few there are. The gradient of
// a photograph took it three times as long as products over patches do (`bench_choices.py`).
bool has_few_channels(ConvKind kind, const ConvShape& s, const ConvTensors& t) {
  return kind == ConvKind::InputGrad && s.groups == 1 && s.channels <= 4 &&
         t.x.dtype() == DType::Float32;
}

bool through_onednn(ConvKind kind, const ConvShape& s, const ConvTensors& t) {
  const DType dtype = t.x.dtype();
  if (has_few_channels(kind, s, t)) return false;
  const bool direct =
      dtype == DType::Float32 || (dtype == DType::BFloat16 && onednn::has_bfloat16());
  if (!direct && !is_reduced_float(dtype)) return false;
  return with_tensors(kind, t, direct ? dtype : DType::Float32, false,
                      [&](const ConvTensors& u) { return onednn::run_convolution(kind, s, u); });
}

// Points by channels, as channels-last tensors lie.
Tensor as_matrix(const Tensor& x, int64_t channels) {
  return make_tensor(x.storage(), Dims{x.numel() / channels, channels}, Dims{channels, 1},
                     x.offset(), x.dtype());
}
bool lies_last(const Tensor& x) {
  const bool either = x.is_contiguous() && x.numel() == x.sizes()[0] * x.sizes()[1];
  return either || (x.dim() == 4 && is_channels_last(x.sizes(), x.strides()));
}

// Will a weight that is used without recording be kept in another layout?
bool is_kept(const Tensor& w) {
  return !grad_enabled() && keeps_weight_layouts() && w.storage()->can_be_watched();
}

// A kernel of one point, channels-last: a product of matrices. Backward it took 15% less time than
// oneDNN's convolutions on the shapes of ResNet-50, which need their weights in another layout;
// forward only small images gain, and not where the weight is kept as oneDNN wants it. Narrow ones
// are oneDNN's.
bool through_product(ConvKind kind, const ConvShape& s, const ConvTensors& t) {
  constexpr int64_t kWide = 64, kSmallImage = 64;
  if (t.x.dtype() != DType::Float32 || s.groups != 1 || !s.is_pointwise() || t.bias.defined())
    return false;
  if (std::min(s.channels, s.out_channels) < kWide || !lies_last(t.x) || !lies_last(t.y) ||
      !t.w.is_contiguous())
    return false;
  if (kind == ConvKind::Forward && (s.output_points() > kSmallImage || is_kept(t.w))) return false;
  const Tensor x = as_matrix(t.x, s.channels), y = as_matrix(t.y, s.out_channels),
               w = as_matrix(t.w, s.channels);
  const auto transposed = [](const Tensor& m) {
    return make_tensor(m.storage(), Dims{m.sizes()[1], m.sizes()[0]}, Dims{1, m.sizes()[1]},
                       m.offset(), m.dtype());
  };
  if (kind == ConvKind::Forward)
    gemm_cpu(x, transposed(w), y);
  else if (kind == ConvKind::InputGrad)
    gemm_cpu(y, w, x);
  else
    gemm_cpu(transposed(y), x, w);
  return true;
}

// A kernel of one point that skips points: it is one that skips none, over the points that are
// read. oneDNN would gather these itself, but its scratch memory is too small when channels that
// lie last do not fill its vectors: the weights' gradient held whatever lay beside it.
void convolve_somehow(ConvKind kind, const ConvShape& shape, const ConvTensors& t);
bool through_points(ConvKind kind, const ConvShape& s, const ConvTensors& t) {
  constexpr std::array<int64_t, 3> ones{1, 1, 1}, none{};
  const auto last = [](const Tensor& x) {
    return !x.is_contiguous() && is_channels_last(x.sizes(), x.strides());
  };
  if (s.kernel_points() != 1 || s.stride == ones || s.padding != none || t.x.dim() != 4 ||
      !(last(t.x) || last(t.y)))
    return false;
  ConvShape inner = s;
  inner.input = s.output;
  inner.stride = ones;
  const Dims sizes{s.batch, s.channels, s.output[1], s.output[2]}, of = t.x.strides();
  const Tensor read = make_tensor(t.x.storage(), sizes,
                                  Dims{of[0], of[1], of[2] * s.stride[1], of[3] * s.stride[2]},
                                  t.x.offset(), t.x.dtype());
  ConvTensors u = t;
  u.x = make_tensor(sizes, channels_last_strides(sizes), t.x.dtype(), {});
  if (kind != ConvKind::InputGrad) copy_cpu(read, u.x);
  convolve_somehow(kind, inner, u);
  if (kind == ConvKind::InputGrad) {
    fill_cpu(t.x, 0);
    copy_cpu(u.x, read);
  }
  return true;
}

void convolve_somehow(ConvKind kind, const ConvShape& shape, const ConvTensors& t) {
  if (through_points(kind, shape, t) || through_product(kind, shape, t) ||
      convolve_tiles(kind, shape, t) || through_onednn(kind, shape, t))
    return;
  const DType dtype = is_reduced_float(t.x.dtype()) ? DType::Float32
                      : is_integral(t.x.dtype())    ? DType::Int64
                                                    : t.x.dtype();
  with_tensors(kind, t, dtype, true, [&](const ConvTensors& u) {
    convolve_patches(kind, shape, u);
    return true;
  });
}

bool convolve_cpu(ConvKind kind, const ConvShape& shape, const ConvTensors& t) {
  convolve_somehow(kind, shape, t);
  return true;
}

bool prefers_channels_last(IntList sizes) { return sizes.size() == 4 && onednn::available(); }

const bool registered = [] {
  convolution_loops(DeviceType::CPU) = {convolve_cpu, prefers_channels_last};
  return true;
}();

}  // namespace
}  // namespace rush
