// Layer, RMS and group norm on GPUs, through kernels/row_norm.cu.
#include "cuda/nn/rows.h"
#include "cuda/runtime/loops.h"
#include "device/nn/norm.h"
#include "device/reduce.h"

namespace rush::cuda {
namespace {

// ---- rows ----

enum RowKernel : uint64_t { kHeld, kHeldTwice, kRows, kBackward, kWhole, kColumns, kJoin };

// What a thread keeps of a row, in elements; kHeldTwice: twice that.
int64_t held(DType t) { return t == DType::Float64 ? 8 : 16; }

// Key: kernel, centred, team, packs, type of the parameters, type.
struct RowInstance {
  RowKernel kernel;
  bool centred;
  int team;
  bool packs;
  DType weight, type;

  uint64_t key() const {
    return kernel << 12 | uint64_t(centred) << 11 | uint64_t(team) << 9 | uint64_t(packs) << 8 |
           uint64_t(weight) << 4 | uint64_t(type);
  }
};
std::string spell_rows(uint64_t key) {
  const auto type = DType(key & 15), weight = DType(key >> 4 & 15);
  const int team = int(key >> 9 & 3);
  const int64_t width = key >> 8 & 1 ? pack_of(type) : 1;
  const char* centred = key >> 11 & 1 ? "true>" : "false>";
  const std::string own = concat(compute_name(type), ", ", kernel_type(type), ", ");
  const std::string types = concat(own, kernel_type(weight), ", ", kTeams[team], ", ", width, ", ");
  switch (RowKernel(key >> 12)) {
    case kHeld:
      return concat("rush::row_norm_held<", types, held(type) / width, ", ", centred);
    case kHeldTwice:
      return concat("rush::row_norm_held<", types, 2 * held(type) / width, ", ", centred);
    case kRows:
      return concat("rush::row_norm<", types, centred);
    case kBackward:
      return concat("rush::row_norm_backward<", types, centred);
    case kWhole:
      return concat("rush::row_norm_backward_whole<", own, kernel_type(weight), ", ", width, ", ",
                    held(type) / width, ", ", centred);
    case kColumns:
      return concat("rush::row_norm_columns<", own, centred);
    default:
      return concat("rush::join_segments<", compute_name(type), ", ", kernel_type(weight), ">");
  }
}
const KernelFamily kRowFamily{"row_norm.cu", spell_rows};

DType parameter_type(const Tensor& x, const Tensor& a, const Tensor& b) {
  return a.defined() ? a.dtype() : b.defined() ? b.dtype() : x.dtype();
}

RowNormArgs row_args(const Tensor& x, int64_t width, const Tensor& weight, const Tensor& mean,
                     const Tensor& rstd) {
  RowNormArgs args{};
  args.x = x.data();
  args.weight = data_or_null(weight);
  args.mean = const_cast<void*>(data_or_null(mean));
  args.rstd = rstd.data();
  args.width = width;
  args.rows = x.numel() / width;
  return args;
}

void row_norm(const Tensor& x, int64_t width, const Tensor& weight, const Tensor& bias,
              bool centred, double eps, const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  RowNormArgs args = row_args(x, width, weight, mean, rstd);
  args.bias = data_or_null(bias);
  args.y = y.data();
  args.eps = eps;
  const int64_t most = held(x.dtype());
  const int team = width <= 8 * most ? 0 : width <= 32 * most ? 1 : 2;
  const bool packs = width % pack_of(x.dtype()) == 0 && aligned({args.x, args.y});
  const RowKernel kernel = width <= kThreads * most       ? kHeld
                           : width <= kThreads * most * 2 ? kHeldTwice
                                                          : kRows;
  const RowInstance i{kernel, centred, team, packs, parameter_type(x, weight, bias), x.dtype()};
  launch(kRowFamily, i.key(), x.device().index, blocks_of_teams(args.rows, team), {kThreads}, args);
}

// gw and gb from [segments][2][channels].
void join(const Tensor& partial, int64_t segments, int64_t channels, DType type, const Tensor& gw,
          const Tensor& gb, int device) {
  const JoinPairsArgs args{partial.data(), const_cast<void*>(data_or_null(gw)),
                           const_cast<void*>(data_or_null(gb)), segments, channels};
  const RowInstance i{kJoin, false, 0, false, (gw.defined() ? gw : gb).dtype(), type};
  launch(kRowFamily, i.key(), device, {unsigned((channels + 31) / 32)}, {kThreads}, args);
}

void row_norm_backward(const Tensor& g, const Tensor& x, int64_t width, const Tensor& weight,
                       const Tensor& mean, const Tensor& rstd, bool centred, const Tensor& gx,
                       const Tensor& gw, const Tensor& gb) {
  RowNormArgs args = row_args(x, width, weight, mean, rstd);
  args.g = g.data();
  const int device = x.device().index;
  const DType type = x.dtype(), parameters = parameter_type(x, weight, gw);
  const bool packs = width % pack_of(type) == 0 && aligned({args.x, args.g, data_or_null(gx)});
  const int64_t blocks = std::min(args.rows, int64_t(device_info(device).processors) * 4);
  // Rows that a block holds, and enough of them to keep the GPU busy that way.
  const bool whole = gx.defined() && (gw.defined() || gb.defined()) && width > 512 &&
                     width <= kThreads * held(type) && args.rows >= blocks;
  if (whole) {
    const Tensor partial = make_tensor(Dims{blocks, 2, width}, compute_dtype(type), x.device());
    args.partial = partial.data();
    args.y = gx.data();
    launch(kRowFamily, RowInstance{kWhole, centred, 0, packs, parameters, type}.key(), device,
           {unsigned(blocks)}, {kThreads}, args);
    return join(partial, blocks, width, type, gw, gb, device);
  }
  if (gx.defined()) {
    args.y = gx.data();
    const int team = width <= 128 ? 0 : width <= 1024 ? 1 : 2;
    launch(kRowFamily, RowInstance{kBackward, centred, team, packs, parameters, type}.key(), device,
           blocks_of_teams(args.rows, team), {kThreads}, args);
  }
  if (!gw.defined() && !gb.defined()) return;
  const int64_t tiles = (width + 31) / 32;
  args.segment = rows_of_segment(args.rows, tiles, device);
  const int64_t segments = (args.rows + args.segment - 1) / args.segment;
  const Tensor partial = make_tensor(Dims{segments, 2, width}, compute_dtype(type), x.device());
  args.partial = partial.data();
  launch(kRowFamily, RowInstance{kColumns, centred, 0, false, parameters, type}.key(), device,
         {unsigned(tiles), unsigned(segments)}, {kThreads}, args);
  join(partial, segments, width, type, gw, gb, device);
}

// ---- groups ----

enum GroupKernel : uint64_t { kGroups, kApply, kFinish, kPlanes, kGroupsBackward };

// Key: kernel, team, packs, type of the parameters, type.
std::string spell_groups(uint64_t key) {
  const auto type = DType(key & 15), weight = DType(key >> 4 & 15);
  const std::string own = concat(compute_name(type), ", ", kernel_type(type), ", ");
  switch (GroupKernel(key >> 11)) {
    case kGroups:
      return concat("rush::group_norm<", own, kernel_type(weight), ", ",
                    key >> 8 & 1 ? pack_of(type) : 1, ">");
    case kApply:
      return concat("rush::group_norm_apply<", own, kernel_type(weight), ">");
    case kFinish:
      return concat("rush::group_norm_finish<", compute_name(type), ">");
    case kPlanes:
      return concat("rush::group_norm_planes<", own, kTeams[key >> 9 & 3], ">");
    default:
      return concat("rush::group_norm_backward<", own, kernel_type(weight), ">");
  }
}
const KernelFamily kGroupFamily{"row_norm.cu", spell_groups};

uint64_t group_key(GroupKernel kernel, int team, bool packs, DType weight, DType type) {
  return kernel << 11 | uint64_t(team) << 9 | uint64_t(packs) << 8 | uint64_t(weight) << 4 |
         uint64_t(type);
}

GroupNormArgs group_args(const Tensor& x, const Tensor& weight, int64_t groups, const Tensor& mean,
                         const Tensor& rstd) {
  GroupNormArgs args{};
  args.x = x.data();
  args.weight = data_or_null(weight);
  args.mean = mean.data();
  args.rstd = rstd.data();
  args.batch = x.sizes()[0];
  args.channels = x.sizes()[1];
  args.groups = groups;
  args.inner = x.numel() / std::max<int64_t>(1, args.batch * args.channels);
  return args;
}

// Blocks that share a row.
unsigned parts_of(int64_t rows, int64_t width, int device) {
  const int64_t wanted = int64_t(device_info(device).processors) * 16 / std::max<int64_t>(rows, 1);
  return unsigned(std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, width / (4 * kThreads))));
}

void group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups,
                double eps, const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  GroupNormArgs args = group_args(x, weight, groups, mean, rstd);
  args.bias = data_or_null(bias);
  args.y = y.data();
  args.eps = eps;
  const int device = x.device().index;
  const DType type = x.dtype(), parameters = parameter_type(x, weight, bias);
  const int64_t rows = args.batch * groups, width = x.numel() / rows;
  const bool spread = rows * 2 < device_info(device).processors && width > 16384;
  if (!spread) {
    const bool packs = width % pack_of(type) == 0 && aligned({args.x, args.y});
    launch(kGroupFamily, group_key(kGroups, 0, packs, parameters, type), device, {unsigned(rows)},
           {kThreads}, args);
    return;
  }
  const Dims shape{rows, width}, one{rows, 1}, steps{1, 1};
  const Tensor means = mean.alias(one, steps, mean.offset());
  reduce_var(x.alias(shape, Dims{width, 1}, x.offset()), rstd.alias(one, steps, rstd.offset()), 0,
             false, &means);
  launch(kGroupFamily, group_key(kApply, 0, false, parameters, type), device,
         {unsigned(rows), parts_of(rows, width, device)}, {kThreads}, args);
  launch(kGroupFamily, group_key(kFinish, 0, false, parameters, type), device,
         blocks_for(rows, device), {kThreads}, args);
}

void group_norm_backward(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                         const Tensor& rstd, int64_t groups, const Tensor& gx, const Tensor& gw,
                         const Tensor& gb) {
  GroupNormArgs args = group_args(x, weight, groups, mean, rstd);
  args.g = g.data();
  const int device = x.device().index;
  const DType type = x.dtype(), parameters = parameter_type(x, weight, gw);
  const Tensor partial =
      make_tensor(Dims{args.batch, 2, args.channels}, compute_dtype(type), x.device());
  args.partial = partial.data();
  const int team = args.inner <= 64 ? 0 : args.inner <= 1024 ? 1 : 2;
  launch(kGroupFamily, group_key(kPlanes, team, false, parameters, type), device,
         blocks_of_teams(args.batch * args.channels, team), {kThreads}, args);
  if (gx.defined()) {
    args.y = gx.data();
    const int64_t rows = args.batch * groups;
    launch(kGroupFamily, group_key(kGroupsBackward, 0, false, parameters, type), device,
           {unsigned(rows), parts_of(rows, x.numel() / rows, device)}, {kThreads}, args);
  }
  if (gw.defined() || gb.defined()) join(partial, args.batch, args.channels, type, gw, gb, device);
}

const bool registered = [] {
  NormLoops& loops = norm_loops(DeviceType::CUDA);
  loops.takes_halves = true;
  loops.row_norm = row_norm;
  loops.row_norm_backward = row_norm_backward;
  loops.group_norm = group_norm;
  loops.group_norm_backward = group_norm_backward;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
