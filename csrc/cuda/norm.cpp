// Layer and RMS norm and softmax on GPUs, through kernels/norm.cu.
#include "cpu/norm.h"

#include "cpu/device_loops.h"
#include "cuda/launch.h"
#include "cuda/loops.h"

namespace rush::cuda {
namespace {

constexpr int64_t kWarp = 32, kColumns = 32;
constexpr int64_t kNarrow = 512;  // a row up to here is a warp's, a longer one a block's

enum RowKernel : uint64_t { kRowNorm, kRowNormBackward, kRowNormColumns };

// Keys: kernel, then flags, then types.
std::string spell_rows(uint64_t key) {
  const char* type = kernel_type(DType(key & 15));
  const bool centred = key >> 4 & 1, narrow = key >> 5 & 1;
  const char* flag = centred ? "true" : "false";
  if (key >> 6 == kRowNormColumns) return concat("rush::row_norm_columns<", type, ", ", flag, ">");
  return concat(key >> 6 == kRowNorm ? "rush::row_norm<" : "rush::row_norm_backward<", type, ", ",
                narrow ? 32 : 256, ", ", flag, ">");
}
std::string spell_join(uint64_t key) {
  return concat("rush::join_pairs<", kernel_type(DType(key)), ">");
}
std::string spell_softmax(uint64_t key) {
  const DType in = DType(key & 15), out = DType(key >> 4 & 15);
  return concat("rush::softmax_rows<", in == DType::Float64 ? "double" : "float", ", ",
                kernel_type(in), ", ", kernel_type(out), ", ", key >> 8 & 1 ? 32 : 256, ", ",
                key >> 9 & 1 ? "true" : "false", ">");
}
constexpr KernelFamily kRows{kRowNormFamily, "norm.cu", spell_rows};
constexpr KernelFamily kJoin{kJoinPairsFamily, "norm.cu", spell_join};
constexpr KernelFamily kSoftmax{kSoftmaxFamily, "norm.cu", spell_softmax};

const void* data_of(const Tensor& t) { return t.defined() ? t.data() : nullptr; }

Grid row_blocks(int64_t rows, bool narrow) {
  return {unsigned(narrow ? (rows + kThreads / kWarp - 1) / (kThreads / kWarp) : rows)};
}

// ---- rows ----

RowNormArgs row_args(const Tensor& x, int64_t width, const Tensor& weight, const Tensor& mean,
                     const Tensor& rstd) {
  RowNormArgs args{};
  args.x = x.data();
  args.weight = data_of(weight);
  args.mean = const_cast<void*>(data_of(mean));
  args.rstd = rstd.data();
  args.width = width;
  args.rows = x.numel() / width;
  return args;
}

uint64_t row_key(RowKernel kernel, bool narrow, bool centred, DType t) {
  return kernel << 6 | uint64_t(narrow) << 5 | uint64_t(centred) << 4 | uint64_t(t);
}

void row_norm(const Tensor& x, int64_t width, const Tensor& weight, const Tensor& bias,
              bool centred, double eps, const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  RowNormArgs args = row_args(x, width, weight, mean, rstd);
  args.bias = data_of(bias);
  args.y = y.data();
  args.eps = eps;
  const bool narrow = width <= kNarrow;
  launch(kRows, row_key(kRowNorm, narrow, centred, x.dtype()), x.device().index,
         row_blocks(args.rows, narrow), {kThreads}, args);
}

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

void row_norm_backward(const Tensor& g, const Tensor& x, int64_t width, const Tensor& weight,
                       const Tensor& mean, const Tensor& rstd, bool centred, const Tensor& gx,
                       const Tensor& gw, const Tensor& gb) {
  RowNormArgs args = row_args(x, width, weight, mean, rstd);
  args.g = g.data();
  const int device = x.device().index;
  const bool narrow = width <= kNarrow;
  if (gx.defined()) {
    args.y = gx.data();
    launch(kRows, row_key(kRowNormBackward, narrow, centred, x.dtype()), device,
           row_blocks(args.rows, narrow), {kThreads}, args);
  }
  if (!gw.defined() && !gb.defined()) return;
  const int64_t tiles = (width + kColumns - 1) / kColumns;
  args.segment = segment_length(args.rows, tiles, device);
  const int64_t segments = (args.rows + args.segment - 1) / args.segment;
  const Tensor partial = make_tensor(Dims{segments, 2, width}, x.dtype(), x.device());
  args.partial = partial.data();
  launch(kRows, row_key(kRowNormColumns, false, centred, x.dtype()), device,
         {unsigned(tiles), unsigned(segments)}, {kThreads}, args);
  const Tensor spare = make_tensor(Dims{width}, x.dtype(), x.device());
  join_pairs(partial, segments, width, gw.defined() ? gw : spare, gb.defined() ? gb : spare);
}

// ---- softmax ----

bool softmax(const Tensor& x, int64_t dim, bool log, const Tensor& out) {
  const bool last = x.dim() == 0 || dim == x.dim() - 1;
  if (!last || !x.is_contiguous() || !out.is_contiguous()) return false;
  const int64_t width = x.dim() ? x.sizes()[size_t(dim)] : 1;
  const SoftmaxArgs args{x.data(), out.data(), x.numel() / width, width};
  const bool narrow = width <= kNarrow;
  launch(
      kSoftmax,
      uint64_t(log) << 9 | uint64_t(narrow) << 8 | uint64_t(out.dtype()) << 4 | uint64_t(x.dtype()),
      x.device().index, row_blocks(args.rows, narrow), {kThreads}, args);
  return true;
}

const bool registered = [] {
  DeviceLoops& loops = device_loops(DeviceType::CUDA);
  loops.norms.row_norm = row_norm;
  loops.norms.row_norm_backward = row_norm_backward;
  loops.softmax = softmax;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
