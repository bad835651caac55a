// Batch norm on GPUs, through kernels/batch_norm.cu.
#include "core/layout.h"
#include "cuda/nn/channel_choice.h"
#include "cuda/runtime/loops.h"
#include "device/deferred.h"
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
  const char* c = compute_name(t);
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

int64_t processors_of(const Tensor& x) { return device_info(x.device().index).processors; }

// args.segment is given. (Packs may be narrower than those it was found for.)
Tensor partial_sums(BatchNormArgs& args, const ChannelShape& shape, const Tensor& x,
                    int64_t counters) {
  if (counters > kStreamCounters) args.segment = shape.rows;
  const int64_t segments = (shape.rows + args.segment - 1) / args.segment;
  if (segments == 1) return {};
  const Tensor partial =
      make_tensor(Dims{segments, 2, args.channels}, compute_type(x.dtype()), x.device());
  args.partial = partial.data();
  args.counters = stream_counters(x.device().index, counters);
  return partial;
}
Grid sum_grid(const BatchNormArgs& args, const ChannelShape& shape) {
  return {unsigned(shape.tiles), unsigned((shape.rows + args.segment - 1) / args.segment)};
}

void sum_channels(Kernel kernel, BatchNormArgs& args, const ChannelShape& shape, const Tensor& x,
                  DType params) {
  const Tensor partial = partial_sums(args, shape, x, shape.tiles);
  args.columns = i32(shape.columns);
  launch(kBatchNorm,
         make_key(kernel, shape.last, shape.width, compute_type(x.dtype()), params, x.dtype()),
         x.device().index, sum_grid(args, shape), {kThreads}, args);
}

void norm_at_once(Kernel kernel, BatchNormArgs& args, const ChannelShape& shape, const Tensor& x,
                  DType params) {
  const Tensor partial = partial_sums(args, shape, x, 2 * shape.tiles);
  args.columns = i32(shape.columns);
  launch_together(kBatchNorm,
                  make_key(kernel, true, shape.width, compute_type(x.dtype()), params, x.dtype()),
                  x.device().index, sum_grid(args, shape), {kThreads}, args);
}

void map_elements(Kernel kernel, BatchNormArgs& args, const ChannelShape& shape, const Tensor& x,
                  DType params, DType moments) {
  args.columns = i32(shape.columns);
  launch(kBatchNorm, make_key(kernel, shape.last, shape.width, moments, params, x.dtype()),
         x.device().index, map_grid(shape, args, processors_of(x)), {kThreads}, args);
}

// ---- steps that may wait ----

void scale_channels(const RowStep& row, std::span<const Tensor> operands, const Tensor& out) {
  const bool backward = row.fn == RowOp::ChannelsBackward;
  const Tensor& x = operands[backward ? 1 : 0];
  BatchNormArgs args = channel_args(row, x);
  args.x = x.data();
  args.g = backward ? operands[0].data() : nullptr;
  args.y = out.data();
  map_elements(backward ? kInputGrad : kNormalize, args,
               ChannelShape(x.dtype(), args, {args.x, args.g, args.y}, kMapColumns), x,
               channel_parameters(row, {}, x.dtype()), channel_moments(row));
}

// Where the result waits, and the device can take the step later. Contiguous images do not wait.
bool takes_channels(const RowStep& row, std::span<const Tensor> operands, const Tensor& out) {
  const Tensor* places[] = {&operands[0], &operands[operands.size() - 1]};
  return is_unborn(out) && !operands[0].is_contiguous() &&
         deferred::take_rows(row, {places, operands.size()}, out);
}

void channel_sums(const RowStep& row, std::span<const Tensor> operands,
                  std::span<const Tensor> beside) {
  const Tensor &g = operands[0], &x = operands[1];
  BatchNormArgs args = channel_args(row, x);
  args.x = x.data();
  args.g = g.data();
  args.sums = beside[0].data();
  args.gw = const_cast<void*>(data_or_null(beside[1]));
  args.gb = const_cast<void*>(data_or_null(beside[2]));
  sum_channels(kGradSums, args, ChannelShape(x.dtype(), args, {args.x, args.g}, kNormColumns), x,
               channel_parameters(row, beside, x.dtype()));
}

// ---- passes ----

void normalize(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
               const Tensor& var, double eps, const Tensor& y) {
  const RowStep row{
      .fn = RowOp::Channels, .width = x.sizes()[1], .eps = eps, .with = {weight, bias, mean, var}};
  if (!takes_channels(row, {&x, 1}, y)) scale_channels(row, {&x, 1}, y);
}

void batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                const RunningMoments& running, double eps, const Tensor& y, const Tensor& mean,
                const Tensor& var) {
  BatchNormArgs args = channel_args(x, eps);
  args.x = x.data();
  args.weight = data_or_null(weight);
  args.mean_out = mean.data();
  args.var_out = var.data();
  args.running_mean = const_cast<void*>(data_or_null(running.mean));
  args.running_var = const_cast<void*>(data_or_null(running.var));
  args.batches = running.batches.defined() ? running.batches.data<i64>() : nullptr;
  args.momentum = running.momentum;
  const DType params = parameter_type(x, running.mean, running.var);
  const DType affine = weight.defined() ? weight.dtype() : bias.defined() ? bias.dtype() : params;
  const int64_t processors = processors_of(x);
  const ChannelShape shape(x.dtype(), args, {args.x}, kNormColumns);
  const bool whole =
      affine == params && fits_one_launch(shape, x.numel() * x.element_size(), processors);
  // (In the same segments where the second half waits: the sums have the same bits.)
  args.segment = segment_length(shape, args, processors, whole ? kWholeRounds : kSumRounds);
  if (whole && !is_unborn(y)) {
    args.bias = data_or_null(bias);
    args.y = y.data();
    if (aligned({args.y}, shape.width * x.element_size()))
      return norm_at_once(kForward, args, shape, x, params);
  }
  sum_channels(kMoments, args, shape, x, params);
  normalize(x, weight, bias, mean, var, eps, y);
}

bool waits(const Tensor& t) { return !arranged_form(t).impl()->storage.load(); }

// The sums of a gradient that waits are found in the pass that computes it, where the device can: it
// is written there, too. Else by a launch of their own.
void sum_gradient(RowStep row, const Tensor& g, const Tensor& x) {
  const Tensor beside[] = {row.beside[0], row.beside[1], row.beside[2]};
  const Tensor operands[] = {g, x};
  const Tensor* places[] = {&g, &x};
  if (waits(g) && !x.is_contiguous() &&
      deferred::take_rows(row, places, make_pending(x.sizes(), x.strides(), x.dtype(), x.device())))
    beside[0].storage();
  else
    channel_sums(row, operands, beside);
}

// As kernels read moments. (Statistics of a half type that does not train any more have that type.)
Tensor as_computed(const Tensor& moments, DType type) {
  if (moments.dtype() == compute_type(type)) return moments;
  const Tensor out = make_tensor(moments.sizes(), compute_type(type), moments.device());
  copy(moments, out, false);
  return out;
}

void batch_norm_backward(const Tensor& g, const Tensor& x, const Tensor& weight,
                         const Tensor& given_mean, const Tensor& given_var, double eps,
                         const Tensor& gx, const Tensor& gw, const Tensor& gb) {
  const Tensor mean = as_computed(given_mean, x.dtype()), var = as_computed(given_var, x.dtype());
  BatchNormArgs args = channel_args(x, eps);
  args.x = x.data();
  const DType params = parameter_type(x, gw, gb);
  const Tensor sums = make_tensor(Dims{2, args.channels}, mean.dtype(), x.device());
  const int64_t processors = processors_of(x);
  const ChannelShape shape(x.dtype(), args, {args.x}, kNormColumns);
  const bool whole = gx.defined() && (!weight.defined() || weight.dtype() == params) &&
                     fits_one_launch(shape, 2 * x.numel() * x.element_size(), processors);
  args.segment = segment_length(shape, args, processors, whole ? kWholeRounds : kSumRounds);
  const RowStep back{.fn = RowOp::ChannelsBackward,
                     .width = args.channels,
                     .eps = eps,
                     .with = {weight, mean, var, sums}};
  const Tensor operands[] = {g, x};
  if (whole && !waits(g)) {
    args.g = g.data();
    args.weight = data_or_null(weight);
    args.mean = mean.data();
    args.var = var.data();
    args.gw = const_cast<void*>(data_or_null(gw));
    args.gb = const_cast<void*>(data_or_null(gb));
    args.y = gx.data();
    args.sums = sums.data();
    if (aligned({args.g, args.y}, shape.width * x.element_size()))
      return norm_at_once(kBackward, args, shape, x, params);
  }
  sum_gradient({.fn = RowOp::ChannelSums,
                .width = args.channels,
                .segment = args.segment,
                .eps = eps,
                .with = {mean, var},
                .beside = {sums, gw, gb}},
               g, x);
  if (gx.defined() && !takes_channels(back, operands, gx)) scale_channels(back, operands, gx);
}

const bool registered = [] {
  NormLoops& loops = norm_loops(DeviceType::CUDA);
  loops.batch_norm = batch_norm;
  loops.batch_norm_eval = normalize;
  loops.batch_norm_backward = batch_norm_backward;
  loops.scale_channels = scale_channels;
  loops.channel_sums = channel_sums;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
