// Batch norm on GPUs, through kernels/batch_norm.cu.
#include <bit>

#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "device/nn/norm.h"

namespace rush::cuda {
namespace {

enum Kernel : uint64_t { kMoments, kGradSums, kNormalize, kInputGrad, kForward, kBackward };

// A key: kernel, whether channels lie last, the pack's width as a power of two, then the types of
// moments, parameters and elements.
uint64_t make_key(Kernel kernel, bool last, int width, DType moments, DType params, DType t) {
  return uint64_t(kernel) << 17 | uint64_t(last) << 16 |
         uint64_t(std::countr_zero(unsigned(width))) << 12 | uint64_t(moments) << 8 |
         uint64_t(params) << 4 | uint64_t(t);
}
std::string spell(uint64_t key) {
  const DType t = DType(key & 15), w = DType(key >> 4 & 15), m = DType(key >> 8 & 15);
  const int width = 1 << (key >> 12 & 15);
  const bool last = key >> 16 & 1;
  const char* c = t == DType::Float64 ? "double" : "float";
  constexpr const char* kinds[] = {"Moments",   "GradSums", "Normalize",
                                   "InputGrad", "Forward",  "Backward"};
  const auto kernel = Kernel(key >> 17);
  const bool map = kernel == kNormalize || kernel == kInputGrad;
  std::string kind = concat("rush::", kinds[kernel], "<", kernel_type(t), ", ", kernel_type(w));
  if (map) kind += concat(", ", kernel_type(m));
  kind += concat(", ", c, ">");
  return concat("rush::channel_",
                map                   ? "map"
                : kernel <= kGradSums ? "sums"
                                      : "norm",
                last ? "_last<" : "<", kind, ", ", kernel_type(t),
                map ? std::string() : concat(", ", c), ", ", width, ">");
}
const KernelFamily kBatchNorm{"batch_norm.cu", spell};

const void* data_of(const Tensor& t) { return t.defined() ? t.data() : nullptr; }

constexpr int64_t kMapColumns = 32;

// How the blocks divide the work.
struct Shape {
  bool last;
  int width;        // elements a pack
  int64_t columns;  // packs side by side in a block (channels-last)
  int64_t tiles;    // blocks side by side
  int64_t rows;     // what segments divide: rows, or planes of a channel

  // `widest`: packs side by side, at most. Few, and more rows share the work of joining.
  Shape(const Tensor& x, const BatchNormArgs& args, const std::initializer_list<const void*>& used,
        int64_t widest)
      : last(args.inner == 1) {
    width = int(16 / x.element_size());
    const int64_t run = last ? args.channels : args.inner;
    while (run % width) width /= 2;
    for (const void* p : used)
      while (p && reinterpret_cast<uintptr_t>(p) % uintptr_t(width * x.element_size())) width /= 2;
    const int64_t packs = (run + width - 1) / width;
    columns = std::min<int64_t>(last ? widest : kThreads, int64_t(std::bit_ceil(uint64_t(packs))));
    tiles = last ? (packs + columns - 1) / columns : args.channels;
    rows = last ? args.rows : args.rows / args.inner;
  }
  int64_t lanes() const { return kThreads / columns; }
};

// Rows in a segment: enough segments to fill the GPU, each worth a block's while.
int64_t segment_length(const Shape& s, const BatchNormArgs& args, int device, int64_t rounds) {
  const int64_t blocks = int64_t(device_info(device).processors) * kNormBlocks;
  const int64_t wanted = std::max<int64_t>(1, blocks / s.tiles);
  const int64_t least = s.last ? s.lanes() * rounds : std::max<int64_t>(1, 4096 / args.inner);
  const int64_t most = std::max<int64_t>(1, s.rows / least);
  const int64_t segments = std::clamp<int64_t>(wanted, 1, std::min<int64_t>(most, 65535));
  return (s.rows + segments - 1) / segments;
}

BatchNormArgs args_for(const Tensor& x, const Tensor& weight, double eps) {
  BatchNormArgs args{};
  args.n = x.numel();
  args.channels = x.sizes()[1];
  args.rows = args.n / args.channels;
  args.inner = x.is_contiguous() ? x.numel() / x.sizes()[0] / args.channels : 1;
  args.x = x.data();
  args.weight = data_of(weight);
  args.eps = eps;
  return args;
}

void sum_channels(Kernel kernel, BatchNormArgs& args, const Shape& shape, const Tensor& x,
                  DType params) {
  const int device = x.device().index;
  args.segment = segment_length(shape, args, device, 8);
  const bool countable = shape.tiles <= kStreamCounters;
  if (!countable) args.segment = shape.rows;
  const int64_t segments = (shape.rows + args.segment - 1) / args.segment;
  Tensor partial;
  if (segments > 1) {
    partial = make_tensor(Dims{segments, 2, args.channels}, compute_type(x.dtype()), x.device());
    args.partial = partial.data();
    args.counters = stream_counters(device, shape.tiles);
  }
  args.columns = i32(shape.columns);
  launch(kBatchNorm,
         make_key(kernel, shape.last, shape.width, compute_type(x.dtype()), params, x.dtype()),
         device, {unsigned(shape.tiles), unsigned(segments)}, {kThreads}, args);
}

// Does one kernel for the whole pass pay? Its second look at the elements should find them in the
// GPU's cache, and all its blocks have to run at once.
bool fits_one_launch(const Shape& shape, const Tensor& x, int64_t bytes) {
  constexpr int64_t kMost = int64_t(32) << 20;
  return shape.last && bytes <= kMost && 2 * shape.tiles <= kStreamCounters &&
         shape.tiles <= int64_t(device_info(x.device().index).processors) * kNormBlocks;
}

void norm_at_once(Kernel kernel, BatchNormArgs& args, const Shape& shape, const Tensor& x,
                  DType params) {
  const int device = x.device().index;
  args.segment = segment_length(shape, args, device, 4);
  const int64_t segments = (shape.rows + args.segment - 1) / args.segment;
  Tensor partial;
  if (segments > 1) {
    partial = make_tensor(Dims{segments, 2, args.channels}, compute_type(x.dtype()), x.device());
    args.partial = partial.data();
    args.counters = stream_counters(device, 2 * shape.tiles);
  }
  args.columns = i32(shape.columns);
  launch_together(kBatchNorm,
                  make_key(kernel, true, shape.width, compute_type(x.dtype()), params, x.dtype()),
                  device, {unsigned(shape.tiles), unsigned(segments)}, {kThreads}, args);
}

void map_elements(Kernel kernel, BatchNormArgs& args, const Shape& shape, const Tensor& x,
                  DType params, DType moments) {
  const int device = x.device().index;
  const int64_t blocks = int64_t(device_info(device).processors) * 8;
  args.columns = i32(shape.columns);
  Grid grid;
  if (shape.last) {
    const int64_t most = (shape.rows + shape.lanes() * 2 - 1) / (shape.lanes() * 2);
    grid = {unsigned(shape.tiles),
            unsigned(std::clamp<int64_t>(blocks / shape.tiles, 1, std::min<int64_t>(most, 65535)))};
  } else {
    const int64_t planes = args.n / args.inner;
    grid = {
        unsigned(std::clamp<int64_t>((planes + shape.lanes() - 1) / shape.lanes(), 1, blocks * 4))};
  }
  launch(kBatchNorm, make_key(kernel, shape.last, shape.width, moments, params, x.dtype()), device,
         grid, {kThreads}, args);
}

void normalize(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
               const Tensor& var, double eps, const Tensor& y) {
  BatchNormArgs args = args_for(x, weight, eps);
  args.bias = data_of(bias);
  args.mean = mean.data();
  args.var = var.data();
  args.y = y.data();
  const DType params = weight.defined() ? weight.dtype()
                       : bias.defined() ? bias.dtype()
                                        : x.dtype();
  map_elements(kNormalize, args, Shape(x, args, {args.x, args.y}, kMapColumns), x, params,
               mean.dtype());
}

void batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                const RunningMoments& running, double eps, const Tensor& y, const Tensor& mean,
                const Tensor& var) {
  BatchNormArgs args = args_for(x, weight, eps);
  args.mean_out = mean.data();
  args.var_out = var.data();
  args.running_mean = const_cast<void*>(data_of(running.mean));
  args.running_var = const_cast<void*>(data_of(running.var));
  args.batches = running.batches.defined() ? running.batches.data<i64>() : nullptr;
  args.momentum = running.momentum;
  const DType params = running.mean.defined()  ? running.mean.dtype()
                       : running.var.defined() ? running.var.dtype()
                                               : x.dtype();
  const DType affine = weight.defined() ? weight.dtype() : bias.defined() ? bias.dtype() : params;
  if (affine == params) {
    args.bias = data_of(bias);
    args.y = y.data();
    const Shape whole(x, args, {args.x, args.y}, kNormColumns);
    if (fits_one_launch(whole, x, x.numel() * x.element_size()))
      return norm_at_once(kForward, args, whole, x, params);
  }
  sum_channels(kMoments, args, Shape(x, args, {args.x}, kNormColumns), x, params);
  normalize(x, weight, bias, mean, var, eps, y);
}

void batch_norm_backward(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                         const Tensor& var, double eps, const Tensor& gx, const Tensor& gw,
                         const Tensor& gb) {
  BatchNormArgs args = args_for(x, weight, eps);
  args.g = g.data();
  args.mean = mean.data();
  args.var = var.data();
  args.gw = const_cast<void*>(data_of(gw));
  args.gb = const_cast<void*>(data_of(gb));
  args.y = const_cast<void*>(data_of(gx));
  const DType params = gw.defined() ? gw.dtype() : gb.defined() ? gb.dtype() : x.dtype();
  const Tensor sums = make_tensor(Dims{2, args.channels}, mean.dtype(), x.device());
  args.sums = sums.data();
  if (gx.defined() && (!weight.defined() || weight.dtype() == params) &&
      mean.dtype() == compute_type(x.dtype())) {
    const Shape whole(x, args, {args.x, args.g, args.y}, kNormColumns);
    if (fits_one_launch(whole, x, 2 * x.numel() * x.element_size()))
      return norm_at_once(kBackward, args, whole, x, params);
  }
  sum_channels(kGradSums, args, Shape(x, args, {args.x, args.g}, kNormColumns), x, params);
  if (gx.defined())
    map_elements(kInputGrad, args, Shape(x, args, {args.x, args.g, args.y}, kMapColumns), x,
                 weight.defined() ? weight.dtype() : x.dtype(), mean.dtype());
}

const bool registered = [] {
  NormLoops& loops = norm_loops(DeviceType::CUDA);
  loops.batch_norm = batch_norm;
  loops.batch_norm_eval = normalize;
  loops.batch_norm_backward = batch_norm_backward;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
