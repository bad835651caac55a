// Batch norm on GPUs, through kernels/norm.cu.
#include "cpu/norm.h"

#include "cpu/device_loops.h"
#include "cpu/reduce.h"
#include "cuda/launch.h"
#include "cuda/loops.h"

namespace rush::cuda {
namespace {

constexpr int64_t kColumns = 32;

enum ChannelKernel : uint64_t { kChannelNorm, kChannelBackward, kChannelSumsLast, kChannelSums };

// Keys: kernel, then type.
std::string spell_join(uint64_t key) {
  return concat("rush::join_pairs<", kernel_type(DType(key)), ">");
}
std::string spell_channels(uint64_t key) {
  constexpr const char* names[] = {"channel_norm", "channel_norm_backward", "channel_sums_last",
                                   "channel_sums"};
  return concat("rush::", names[key >> 4], "<", kernel_type(DType(key & 15)), ">");
}
constexpr KernelFamily kJoin{kJoinPairsFamily, "norm.cu", spell_join};
constexpr KernelFamily kChannels{kChannelNormFamily, "norm.cu", spell_channels};

const void* data_of(const Tensor& t) { return t.defined() ? t.data() : nullptr; }

// Enough segments to fill the GPU, each long enough to be worth its place.
int64_t segment_length(int64_t rows, int64_t blocks, int device) {
  const int64_t wanted = int64_t(device_info(device).processors) * 4 / std::max<int64_t>(blocks, 1);
  const int64_t segments = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, rows / 16));
  return (rows + segments - 1) / segments;
}

void join_pairs(const Tensor& partial, int64_t segments, int64_t channels, const Tensor& gw,
                const Tensor& gb) {
  const JoinPairsArgs args{partial.data(), gw.data(), gb.data(), segments, channels};
  launch(kJoin, uint64_t(gw.dtype()), gw.device().index, blocks_for(channels, gw.device().index),
         {kThreads}, args);
}

// ---- channels ----

struct Image {
  int64_t channels, inner;
};
Image image_of(const Tensor& x) {
  const int64_t channels = x.sizes()[1];
  const int64_t batch = x.sizes()[0];
  return {channels, x.is_contiguous() ? x.numel() / batch / channels : 1};
}

ChannelNormArgs channel_args(const Tensor& x, const Tensor& weight, const Tensor& mean,
                             const Tensor& var, double eps) {
  check(x.numel() < int64_t(1) << 31, ErrorKind::NotImplemented, "batch_norm",
        "more than 2^31 elements are not supported on a GPU yet");
  const Image image = image_of(x);
  ChannelNormArgs args{};
  args.n = x.numel();
  args.channels = Divider<u32>::of(u32(image.channels));
  args.inner = Divider<u32>::of(u32(image.inner));
  args.x = x.data();
  args.weight = data_of(weight);
  args.mean = mean.data();
  args.var = var.data();
  args.eps = eps;
  return args;
}

uint64_t channel_key(ChannelKernel kernel, DType t) { return kernel << 4 | uint64_t(t); }

void batch_norm_eval(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                     const Tensor& var, double eps, const Tensor& y) {
  ChannelNormArgs args = channel_args(x, weight, mean, var, eps);
  args.bias = data_of(bias);
  args.y = y.data();
  const int device = x.device().index;
  launch(kChannels, channel_key(kChannelNorm, x.dtype()), device, blocks_for(args.n, device),
         {kThreads}, args);
}

void batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                const Tensor& y, const Tensor& mean, const Tensor& var) {
  Dims sizes(uint32_t(x.dim()), 1), strides(uint32_t(x.dim()), 1);
  sizes[1] = x.sizes()[1];
  const Tensor mean_view = mean.alias(sizes, strides, mean.offset());
  const Tensor var_view = var.alias(sizes, strides, var.offset());
  reduce_var(x, var_view, 0, false, &mean_view);
  batch_norm_eval(x, weight, bias, mean, var, eps, y);
}

void batch_norm_backward(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                         const Tensor& var, double eps, const Tensor& gx, const Tensor& gw,
                         const Tensor& gb) {
  ChannelNormArgs args = channel_args(x, weight, mean, var, eps);
  const Image image = image_of(x);
  const int device = x.device().index;
  args.g = g.data();
  const bool last = image.inner == 1;
  const int64_t tiles = last ? (image.channels + kColumns - 1) / kColumns : image.channels;
  const int64_t rows = args.n / image.channels / (last ? 1 : image.inner);
  args.segment = last ? segment_length(rows, tiles, device)
                      : std::max<int64_t>(1, segment_length(rows * 16, tiles, device) / 16);
  const int64_t segments = (rows + args.segment - 1) / args.segment;
  const Tensor partial = make_tensor(Dims{segments, 2, image.channels}, x.dtype(), x.device());
  args.partial = partial.data();
  launch(kChannels, channel_key(last ? kChannelSumsLast : kChannelSums, x.dtype()), device,
         {unsigned(tiles), unsigned(segments)}, {kThreads}, args);
  const auto sums = [&](const Tensor& t) {
    return t.defined() ? t : make_tensor(Dims{image.channels}, x.dtype(), x.device());
  };
  const Tensor w = sums(gw), b = sums(gb);
  join_pairs(partial, segments, image.channels, w, b);
  if (!gx.defined()) return;
  args.gw = w.data();
  args.gb = b.data();
  args.y = gx.data();
  launch(kChannels, channel_key(kChannelBackward, x.dtype()), device, blocks_for(args.n, device),
         {kThreads}, args);
}

const bool registered = [] {
  NormLoops& norms = device_loops(DeviceType::CUDA).norms;
  norms.batch_norm = batch_norm;
  norms.batch_norm_eval = batch_norm_eval;
  norms.batch_norm_backward = batch_norm_backward;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
