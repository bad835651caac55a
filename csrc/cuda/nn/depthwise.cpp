#include "cuda/nn/depthwise.h"

#include <bit>

#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"

namespace rush::cuda {
namespace {

constexpr int64_t kMostTaps = 49;

// A key: stride of runs (0: pixel by pixel), kind (3: joining), filter height and width, the pack's width,
// the type.
uint64_t make_key(unsigned kind, int64_t kh, int64_t kw, int width, DType t, int64_t runs = 0) {
  return uint64_t(runs) << 18 | uint64_t(kind) << 16 | uint64_t(kh) << 12 | uint64_t(kw) << 8 |
         uint64_t(std::countr_zero(unsigned(width))) << 4 | uint64_t(t);
}
std::string spell(uint64_t key) {
  const DType t = DType(key & 15);
  const char* compute = t == DType::Float64 ? "double" : "float";
  const uint64_t kind = key >> 16 & 3, runs = key >> 18;
  if (kind == 3) return concat("rush::depthwise_join<", kernel_type(t), ", ", compute, ">");
  constexpr const char* names[] = {"forward", "input_grad", "weight_grad"};
  const std::string types = concat(kernel_type(t), ", ", compute, ", ");
  const int width = 1 << (key >> 4 & 15);
  if (runs) return concat("rush::depthwise_", names[kind], "_runs<", types, runs, ", ", width, ">");
  return concat("rush::depthwise_", names[kind], "<", types, key >> 12 & 15, ", ", key >> 8 & 15,
                ", ", width, ">");
}
const KernelFamily kDepthwise{"depthwise.cu", spell};

// Of the runs that a thread takes; 0: it takes pixel by pixel.
int64_t stride_of_runs(ConvKind kind, const ConvShape& s, DType t) {
  const int64_t stride = s.stride[1];
  const bool fits = s.kernel[1] == 3 && s.kernel[2] == 3 && s.dilation[1] == 1 &&
                    s.dilation[2] == 1 && stride == s.stride[2] && stride <= 2 &&
                    t != DType::Float64;
  if (!fits || kind == ConvKind::WeightGrad) return 0;
  const bool one = s.padding[1] == 1 && s.padding[2] == 1;
  return kind == ConvKind::Forward || stride == 1 || one ? stride : 0;
}

// As wide as one read, but no more than the registers hold for every tap.
int pack_width(const ConvShape& s, const ConvTensors& t, bool runs) {
  int width = int(16 / t.x.element_size());
  while (width > 1 && int64_t(width) * s.kernel_points() > (runs ? 36 : 100)) width /= 2;
  while (s.channels % width) width /= 2;
  for (const Tensor* x : {&t.x, &t.y, &t.w})
    while (reinterpret_cast<uintptr_t>(x->data()) % uintptr_t(width * t.x.element_size()))
      width /= 2;
  return width;
}

}  // namespace

bool is_depthwise(const ConvShape& s) {
  constexpr int64_t kMost = int64_t(1) << 31;
  return s.dims == 2 && s.groups == s.channels && s.out_channels == s.channels && s.channels > 1 &&
         s.kernel_points() <= kMostTaps && s.kernel[1] < 16 && s.kernel[2] < 16 &&
         s.batch * s.input_points() < kMost && s.batch * s.output_points() < kMost;
}

void convolve_depthwise(ConvKind kind, const ConvShape& s, const ConvTensors& t) {
  const int device = t.x.device().index;
  const DType dtype = t.x.dtype();
  DepthwiseArgs args{};
  args.x = t.x.data();
  args.w = t.w.data();
  args.y = t.y.data();
  args.x_out = t.x.data();
  args.w_out = t.w.data();
  args.y_out = t.y.data();
  args.bias = t.bias.defined() ? t.bias.data() : nullptr;
  args.channels = s.channels;
  args.taps = s.kernel_points();
  args.pixels = u32(s.batch * (kind == ConvKind::InputGrad ? s.input_points() : s.output_points()));
  args.in_h = Divider<u32>::of(u32(s.input[1]));
  args.in_w = Divider<u32>::of(u32(s.input[2]));
  args.out_h = Divider<u32>::of(u32(s.output[1]));
  args.out_w = Divider<u32>::of(u32(s.output[2]));
  args.stride_h = Divider<u32>::of(u32(s.stride[1]));
  args.stride_w = Divider<u32>::of(u32(s.stride[2]));
  for (size_t d = 0; d < 2; ++d) {
    args.stride[d] = i32(s.stride[d + 1]);
    args.padding[d] = i32(s.padding[d + 1]);
    args.dilation[d] = i32(s.dilation[d + 1]);
  }
  const int64_t runs = stride_of_runs(kind, s, dtype);
  if (runs > 0) {
    const auto& result = kind == ConvKind::Forward ? s.output : s.input;
    const int64_t per_line = (result[2] + kDepthwiseRun - 1) / kDepthwiseRun;
    args.runs = Divider<u32>::of(u32(per_line));
    args.pixels = u32(s.batch * result[1] * per_line);
  }
  const int width = pack_width(s, t, runs > 0);
  const int64_t packs = s.channels / width;
  args.columns = i32(std::min<int64_t>(32, int64_t(std::bit_ceil(uint64_t(packs)))));
  const int64_t tiles = (packs + args.columns - 1) / args.columns;
  const int64_t lanes = kThreads / args.columns;

  const bool sums = kind == ConvKind::WeightGrad;
  const int64_t blocks = int64_t(device_info(device).processors) * (sums ? 4 : 16);
  const int64_t least = lanes * (sums ? 8 : 2);  // pixels that are worth a block
  const int64_t most = std::max<int64_t>(1, int64_t(args.pixels) / least);
  int64_t stretches = std::clamp<int64_t>(blocks / tiles, 1, std::min<int64_t>(most, 65535));
  args.segment = u32((int64_t(args.pixels) + stretches - 1) / stretches);
  stretches = (int64_t(args.pixels) + args.segment - 1) / args.segment;
  args.stretches = stretches;
  Tensor partial;
  if (sums) {
    const DType wide = dtype == DType::Float64 ? dtype : DType::Float32;
    partial = make_tensor(Dims{stretches, args.taps, s.channels}, wide, t.x.device());
    args.partial = partial.data();
  }
  launch(kDepthwise, make_key(unsigned(kind), s.kernel[1], s.kernel[2], width, dtype, runs), device,
         {unsigned(tiles), unsigned(stretches)}, {kThreads}, args);
  if (sums)
    launch_each(kDepthwise, make_key(3, 0, 0, 1, dtype), device, s.channels * args.taps, args);
}

}  // namespace rush::cuda
