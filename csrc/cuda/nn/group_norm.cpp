// Group norm on GPUs, through kernels/group_norm.cu.
#include "core/layout.h"
#include "cuda/nn/group_choice.h"
#include "cuda/nn/row_choice.h"
#include "cuda/runtime/loops.h"
#include "device/deferred.h"
#include "device/nn/norm.h"
#include "device/reduce.h"

namespace rush::cuda {
namespace {

enum GroupKernel : uint64_t {
  kGroups,
  kGroupsHeld,
  kApply,
  kFinish,
  kPlanes,
  kGroupsBackward,
  kGroupsBackwardHeld,
  // Channels last:
  kMomentSums,
  kGradSums,
  kMoments,
  kMeans,
  kMomentsJoined,
  kMeansJoined,
  kNormalize,
  kInputGrad
};

// Key: kernel, blocks that share a row (log 2), packs that a thread holds, team, elements per pack
// (log 2), type of the parameters, type.
struct GroupInstance {
  GroupKernel kernel;
  DType weight, type;
  int64_t width = 1, held = 0, blocks = 1;
  int team = 0;

  uint64_t key() const {
    return kernel << 19 | uint64_t(std::countr_zero(uint64_t(blocks))) << 17 |
           uint64_t(held) << 12 | uint64_t(team) << 10 |
           uint64_t(std::countr_zero(uint64_t(width))) << 8 | uint64_t(weight) << 4 |
           uint64_t(type);
  }
};
std::string spell_groups(uint64_t key) {
  const auto type = DType(key & 15), weight = DType(key >> 4 & 15);
  const uint64_t width = 1 << (key >> 8 & 3), held = key >> 12 & 31, blocks = 1 << (key >> 17 & 3);
  const std::string c = compute_name(type), t = kernel_type(type), w = kernel_type(weight);
  const std::string all = concat(c, ", ", t, ", ", w, ", ", width);
  const auto last = [&](const char* kernel, const std::string& kind, const std::string& types) {
    return concat("rush::group_", kernel, "_last<rush::", kind, ", ", types, ", ", width, ">");
  };
  const auto joined = [&](const std::string& kind) {
    return concat("rush::group_sums_joined<rush::", kind, ", ", all, ">");
  };
  switch (GroupKernel(key >> 19)) {
    case kGroups:
      return concat("rush::group_norm<", all, ">");
    case kGroupsHeld:
      return concat("rush::group_norm_held<", all, ", ", held, ", ", blocks, ">");
    case kApply:
      return concat("rush::group_norm_apply<", all, ">");
    case kFinish:
      return concat("rush::group_norm_finish<", c, ">");
    case kPlanes:
      return concat("rush::group_norm_planes<", c, ", ", t, ", ", kTeams[key >> 10 & 3], ", ",
                    width, ">");
    case kGroupsBackward:
      return concat("rush::group_norm_backward<", all, ">");
    case kGroupsBackwardHeld:
      return concat("rush::group_norm_backward_held<", all, ", ", held, ", ", blocks, ">");
    case kMomentSums:
      return last("sums", concat("GroupMoments<", t, ", ", c, ">"), concat(c, ", ", t));
    case kGradSums:
      return last("sums", concat("GroupGradSums<", t, ", ", c, ">"), concat(c, ", ", t));
    case kMomentsJoined:
      return joined(concat("GroupMoments<", t, ", ", c, ">"));
    case kMeansJoined:
      return joined(concat("GroupGradSums<", t, ", ", c, ">"));
    case kMoments:
      return concat("rush::group_moments_last<", c, ", ", t, ">");
    case kMeans:
      return concat("rush::group_means_last<", c, ", ", w, ">");
    case kNormalize:
      return last("map", concat("GroupNormalize<", t, ", ", w, ", ", c, ">"), t);
    default:
      return last("map", concat("GroupInputGrad<", t, ", ", w, ", ", c, ">"), t);
  }
}
const KernelFamily kGroupFamily{"group_norm.cu", spell_groups};

// Blocks that share a row.
unsigned parts_of(int64_t rows, int64_t packs, int device) {
  const int64_t wanted = int64_t(device_info(device).processors) * 16 / std::max<int64_t>(rows, 1);
  return unsigned(std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, packs / (4 * kThreads))));
}

// How many packs a thread has to hold, as kernels come; 0: too many.
int64_t held_packs(int64_t packs) {
  constexpr int64_t kLeast = 4, kMost = 16;
  return packs > kMost ? 0 : std::max(kLeast, int64_t(std::bit_ceil(uint64_t(packs))));
}
int64_t packs_of_thread(int64_t elements, int64_t width) {
  return (elements + kThreads * width - 1) / (kThreads * width);
}

// Blocks that may share a row: they have to be a cluster, and exchange floats.
int64_t most_blocks(DType type, int device) {
  return device_info(device).major >= 9 && type != DType::Float64 ? 8 : 1;
}
// How many do, and packs that a thread of theirs holds: not more than leave room for some blocks on a
// processor, which read while others compute and write. (Fewer packs and more blocks take longer:
// the blocks of a cluster wait for each other.)
constexpr int64_t kHeldAlone = 8;
void share_row(GroupInstance& i, int64_t elements, int device) {
  const int64_t most = most_blocks(i.type, device);
  const auto packs = [&] { return packs_of_thread(elements, i.width * i.blocks); };
  while (i.blocks < most && packs() > kHeldAlone) i.blocks *= 2;
  i.held = held_packs(packs());
}
// The same for blocks that take whole planes, which have `inner` elements each.
void share_planes(GroupInstance& i, int64_t planes, int64_t inner, int device) {
  const int64_t most = most_blocks(i.type, device);
  const auto packs = [&] { return planes / i.blocks * packs_of_thread(inner, i.width); };
  while (i.blocks < most && packs() > kHeldAlone && planes % (2 * i.blocks) == 0) i.blocks *= 2;
  i.held = held_packs(packs());
}

// Channels last: a launch of one of the kernels whose blocks take parts of samples.
void launch_parts(const GroupInstance& i, GroupNormArgs& args, const PartShape& shape, Device on,
                  Tensor* segment_sums = nullptr) {
  const Grid grid = cut_into_parts(args, i.width, shape, device_info(on.index).processors);
  if (segment_sums) {
    *segment_sums =
        make_tensor(Dims{args.batch, args.segments, args.channels, 2}, compute_dtype(i.type), on);
    args.segment_sums = segment_sums->data();
  }
  launch(kGroupFamily, i.key(), on.index, grid, {kThreads}, args);
}
constexpr PartShape kSumParts{kNormColumns, 8};

// In a compiled function, whose `result` waits, one launch adds up and joins. (Elsewhere it would save as
// much, but that has not been measured.)
bool joins_at_once(const GroupNormArgs& args, const Tensor& result) {
  return result.defined() && is_unborn(result) && args.batch <= kStreamCounters;
}

// The statistics; what goes over the elements with them is Groups below.
void group_norm_last(GroupNormArgs& args, DType type, DType parameters, const Tensor& y) {
  const Device on = y.device();
  const bool joined = joins_at_once(args, y);
  GroupInstance i{joined ? kMomentsJoined : kMomentSums, parameters, type};
  i.width = widest_pack(type, args.channels, {args.x});
  if (joined) args.counters = stream_counters(on.index, args.batch);
  Tensor segment_sums;
  launch_parts(i, args, kSumParts, on, &segment_sums);
  if (joined) return;
  launch(kGroupFamily, GroupInstance{kMoments, parameters, type}.key(), on.index,
         blocks_of_teams(args.batch * args.groups, 1), {kThreads}, args);
}

// Later, with other steps, where y or gx waits; else now.
void scale_groups(const RowStep& row, std::span<const Tensor> operands, const Tensor& out) {
  const bool backward = row.fn == RowOp::GroupsBackward;
  const Tensor& x = operands[backward ? 1 : 0];
  GroupNormArgs args = group_args(row, x);
  args.x = x.data();
  args.g = backward ? operands[0].data() : nullptr;
  args.y = out.data();
  GroupInstance i{backward ? kInputGrad : kNormalize, group_parameters(row, x.dtype()), x.dtype()};
  i.width = widest_pack(i.type, args.channels, {args.x, args.g, args.y});
  launch_parts(i, args, kMapParts, x.device());
}
void scale_or_take(const RowStep& row, std::span<const Tensor> operands, const Tensor& out) {
  const Tensor* places[] = {&operands[0], &operands[operands.size() - 1]};
  if (!is_unborn(out) || !deferred::take_rows(row, {places, operands.size()}, out))
    scale_groups(row, operands, out);
}

void group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups,
                double eps, const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  const RowStep row{.fn = RowOp::Groups,
                    .width = x.sizes()[1],
                    .groups = groups,
                    .with = {weight, bias, mean, rstd}};
  GroupNormArgs args = group_args(row, x);
  args.x = x.data();
  args.eps = eps;
  const int device = x.device().index;
  const DType type = x.dtype(), parameters = parameter_type(x, weight, bias);
  if (!x.is_contiguous()) {
    group_norm_last(args, type, parameters, y);
    return scale_or_take(row, {&x, 1}, y);
  }
  args.y = y.data();
  const int64_t rows = args.batch * groups, width = x.numel() / rows;
  GroupInstance i{kGroups, parameters, type};
  i.width = widest_pack(type, args.inner, {args.x, args.y});
  share_row(i, width, device);
  if (i.held == 0) i.blocks = 1;
  const bool spread = rows * i.blocks * 2 < device_info(device).processors && width > 16384;
  if (!spread && i.held > 0) {
    i.kernel = kGroupsHeld;
    const auto by_plane = Divider<u32>::of(u32(args.inner / i.width));
    launch(kGroupFamily, i.key(), device, {unsigned(rows * i.blocks)}, {kThreads}, args, by_plane);
    return;
  }
  i.held = 0, i.blocks = 1;
  if (!spread) {
    launch(kGroupFamily, i.key(), device, {unsigned(rows)}, {kThreads}, args);
    return;
  }
  const Dims shape{rows, width}, one{rows, 1}, steps{1, 1};
  const Tensor means = mean.alias(one, steps, mean.offset());
  reduce_var(x.alias(shape, Dims{width, 1}, x.offset()), rstd.alias(one, steps, rstd.offset()), 0,
             false, &means);
  i.kernel = kApply;
  launch(kGroupFamily, i.key(), device, {unsigned(rows), parts_of(rows, width / i.width, device)},
         {kThreads}, args);
  launch_each(kGroupFamily, GroupInstance{kFinish, parameters, type}.key(), device, rows, args);
}

// What the gradient of x needs of its groups.
Tensor group_norm_backward_last(GroupNormArgs& args, DType type, DType parameters, Device on,
                                const Tensor& gx) {
  const bool joined = joins_at_once(args, gx);
  GroupInstance i{joined ? kMeansJoined : kGradSums, parameters, type};
  i.width = widest_pack(type, args.channels, {args.x, args.g});
  const Tensor means = make_tensor(Dims{args.batch, args.groups, 2}, compute_dtype(type), on);
  args.means = means.data();
  if (joined) args.counters = stream_counters(on.index, args.batch);
  Tensor segment_sums;
  launch_parts(i, args, kSumParts, on, &segment_sums);
  if (joined) return means;
  launch(kGroupFamily, GroupInstance{kMeans, parameters, type}.key(), on.index,
         blocks_of_teams(args.batch * args.groups, 1), {kThreads}, args);
  return means;
}

// Of contiguous tensors.
void group_norm_backward_planes(GroupNormArgs& args, DType type, DType parameters, int device) {
  GroupInstance i{kGroupsBackwardHeld, parameters, type};
  i.width = widest_pack(type, args.inner, {args.x, args.g, args.y});
  const int64_t rows = args.batch * args.groups, per_group = args.channels / args.groups;
  share_planes(i, per_group, args.inner, device);
  // At least half of the threads have something of every plane, and there are blocks for all
  // processors.
  const bool fills =
      args.inner * 2 >= kThreads * i.width && rows * i.blocks >= device_info(device).processors;
  if (args.y && fills && i.held > 0) {
    launch(kGroupFamily, i.key(), device, {unsigned(rows * i.blocks)}, {kThreads}, args);
    return;
  }
  i.held = 0, i.blocks = 1;
  i.kernel = kPlanes;
  i.team = args.inner <= 64 * i.width ? 0 : args.inner <= 1024 * i.width ? 1 : 2;
  launch(kGroupFamily, i.key(), device, blocks_of_teams(args.batch * args.channels, i.team),
         {kThreads}, args);
  if (!args.y) return;
  i.team = 0;
  i.kernel = kGroupsBackward;
  launch(kGroupFamily, i.key(), device,
         {unsigned(rows), parts_of(rows, per_group * args.inner / i.width, device)}, {kThreads},
         args);
}

void group_norm_backward(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                         const Tensor& rstd, int64_t groups, const Tensor& gx, const Tensor& gw,
                         const Tensor& gb) {
  RowStep row{.fn = RowOp::GroupsBackward,
              .width = x.sizes()[1],
              .groups = groups,
              .with = {weight, mean, rstd}};
  GroupNormArgs args = group_args(row, x);
  args.x = x.data();
  args.g = g.data();
  const int device = x.device().index;
  const DType type = x.dtype(), parameters = parameter_type(x, weight, gw);
  const Tensor partial =
      make_tensor(Dims{args.batch, 2, args.channels}, compute_dtype(type), x.device());
  args.partial = partial.data();
  if (x.is_contiguous()) {
    args.y = const_cast<void*>(data_or_null(gx));
    group_norm_backward_planes(args, type, parameters, device);
  } else {
    row.with[3] = group_norm_backward_last(args, type, parameters, x.device(), gx);
    const Tensor operands[] = {g, x};
    if (gx.defined()) scale_or_take(row, operands, gx);
  }
  if (gw.defined() || gb.defined())
    join_row_sums(partial, args.batch, args.channels, type, gw, gb, device);
}

const bool registered = [] {
  NormLoops& loops = norm_loops(DeviceType::CUDA);
  loops.group_norm = group_norm;
  loops.group_norm_backward = group_norm_backward;
  loops.scale_groups = scale_groups;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
