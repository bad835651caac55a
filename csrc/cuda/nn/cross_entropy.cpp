// Cross entropy and nll_loss on GPUs, through kernels/cross_entropy.cu.
#include "core/modes.h"
#include "cuda/nn/rows.h"
#include "cuda/runtime/loops.h"
#include "device/nn/loss.h"

namespace rush::cuda {
namespace {

enum Kernel : uint64_t { kRows, kColumns, kJoin, kBackwardRows, kBackwardColumns };

// Key: kernel, team (columns: lanes share them), packs, scores, type.
std::string spell(uint64_t key) {
  const auto type = DType(key & 15);
  const bool scores = key >> 4 & 1, packs = key >> 5 & 1;
  const int team = int(key >> 6 & 3);
  const std::string types = type_pair(type);
  const std::string rows = concat(types, ", ", kTeams[team], ", ", packs ? pack_of(type) : 1, ">");
  const char* flag = scores ? "true>" : "false>";
  switch (Kernel(key >> 8)) {
    case kRows:
      return concat("rush::cross_entropy_rows<", rows);
    case kColumns:
      return concat("rush::cross_entropy_columns<", types, ", ", team ? 8 : 1, ", ", flag);
    case kJoin:
      return concat("rush::cross_entropy_join<", kernel_type(type), ">");
    case kBackwardRows:
      return concat("rush::cross_entropy_backward_rows<", rows);
    default:
      return concat("rush::cross_entropy_backward_columns<", types, ", ", flag);
  }
}
const KernelFamily kFamily{"cross_entropy.cu", spell};

uint64_t key_of(Kernel kernel, int team, bool packs, bool scores, DType type) {
  return kernel << 8 | uint64_t(team) << 6 | uint64_t(packs) << 5 | uint64_t(scores) << 4 |
         uint64_t(type);
}

// x: the scores of the call, dense.
CrossEntropyArgs args_for(const CrossEntropyCall& c, const Tensor& x) {
  CrossEntropyArgs args{};
  args.x = x.data();
  args.weight = data_or_null(c.weight);
  args.target = c.target.data<const i64>();
  const Dims &n = x.sizes(), &steps = x.strides();
  args.batch = n[0], args.classes = n[1], args.points = n[2];
  args.batch_step = steps[0], args.class_step = steps[1], args.point_step = steps[2];
  args.ignore_index = c.ignore_index;
  args.smoothing = c.smoothing;
  args.reduces = c.reduction != 0;
  args.mean = c.reduction == 1;
  return args;
}

// Do the classes lie along memory? How they are read then.
struct Rows {
  bool fit;
  int team;
  bool packs;
};
Rows rows_of(const CrossEntropyArgs& args, DType type) {
  const int64_t width = pack_of(type);
  Rows rows;
  rows.fit = args.class_step == 1 || args.classes == 1;
  rows.team = args.classes <= 128 ? 0 : args.classes <= 1024 ? 1 : 2;
  const auto keeps_aligned = [&](int64_t count, int64_t step) {
    return count == 1 || step % width == 0;
  };
  rows.packs = args.classes % width == 0 && keeps_aligned(args.batch, args.batch_step) &&
               keeps_aligned(args.points, args.point_step) && aligned({args.x, args.gx});
  return rows;
}

void cross_entropy(const CrossEntropyCall& c, const Tensor& loss, const Tensor& total,
                   const Tensor& weights) {
  const Tensor x = is_dense(c.x.sizes(), c.x.strides()) ? c.x : contiguous(c.x);
  CrossEntropyArgs args = args_for(c, x);
  const DType type = c.x.dtype();
  const int device = c.x.device().index;
  args.loss = loss.data();
  args.float_loss = loss.dtype() != type;
  args.total = total.data();
  args.weights = weights.data<double>();
  const FaultSlot fault =
      next_fault_slot(device, c.scores ? "cross_entropy" : "nll_loss", 1, args.classes);
  args.launch = fault.launch;
  args.fault = fault.record;

  const int64_t positions = args.batch * args.points;
  const Rows rows = rows_of(args, type);
  const bool by_rows = rows.fit && c.scores;
  const int shared = c.scores && args.classes > 8 && few_columns(positions, device);
  const int64_t in_block = by_rows ? kThreads / kTeams[rows.team] : kThreads / (shared ? 8 : 1);
  const int64_t most = int64_t(device_info(device).processors) * 8;
  int64_t blocks = std::clamp<int64_t>((positions + in_block - 1) / in_block, 1, most);
  if (args.reduces && blocks == 2) blocks = 1;  // a second launch costs more
  Tensor partial;
  if (args.reduces && blocks > 1) {
    partial = make_tensor(Dims{blocks, 2}, DType::Float64, c.x.device());
    args.partial = partial.data<double>();
    if (t_modes & kDefer) args.counter = stream_counters(device, 1);
  }
  args.blocks = i32(blocks);
  launch(kFamily,
         by_rows ? key_of(kRows, rows.team, rows.packs, true, type)
                 : key_of(kColumns, shared, false, c.scores, type),
         device, {unsigned(blocks)}, {kThreads}, args);
  if (args.reduces && blocks > 1 && !args.counter)
    launch(kFamily, key_of(kJoin, 0, false, false, type), device, {1}, {kThreads}, args);
}

void cross_entropy_backward(const CrossEntropyCall& c, const Tensor& g, const Tensor& total,
                            const Tensor& weights, const Tensor& gx) {
  if (gx.numel() == 0) return;
  const Tensor x = lying_like(gx, c.x);
  CrossEntropyArgs args = args_for(c, x);
  const DType type = c.x.dtype();
  const int device = c.x.device().index;
  const int64_t positions = args.batch * args.points;
  args.g = g.data();
  args.g_step = c.reduction == 0;
  args.float_loss = g.dtype() != type;
  args.total = total.data();
  args.weights = weights.data<double>();
  args.gx = gx.data();
  const Rows rows = rows_of(args, type);
  if (rows.fit && c.scores) {
    launch(kFamily, key_of(kBackwardRows, rows.team, rows.packs, true, type), device,
           blocks_of_teams(positions, rows.team), {kThreads}, args);
    return;
  }
  const int64_t across = (positions + kThreads - 1) / kThreads;
  const int64_t wanted =
      int64_t(device_info(device).processors) * 16 / std::max<int64_t>(across, 1);
  const int64_t down = std::clamp<int64_t>(wanted, 1, std::min<int64_t>(args.classes, 65535));
  launch(kFamily, key_of(kBackwardColumns, 0, false, c.scores, type), device,
         {unsigned(across), unsigned(down)}, {kThreads}, args);
}

const bool registered = [] {
  LossLoops& loops = loss_loops(DeviceType::CUDA);
  loops.cross_entropy = cross_entropy;
  loops.cross_entropy_backward = cross_entropy_backward;
  loops.cross_entropy_keeps_order = true;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
