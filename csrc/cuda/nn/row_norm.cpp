// Layer, RMS and group norm on GPUs, through kernels/row_norm.cu and group_norm.cu.
#include <bit>

#include "core/layout.h"
#include "cuda/nn/row_choice.h"
#include "cuda/runtime/loops.h"
#include "device/deferred.h"
#include "device/nn/norm.h"
#include "device/reduce.h"

namespace rush::cuda {
namespace {

// ---- rows ----

enum RowKernel : uint64_t { kHeld, kHeldTwice, kRows, kBackward, kWhole, kColumns, kJoin };

// What a thread keeps where sums down the columns are kept as well: a warp has more of a short row.
int64_t held_whole(DType t, int team) { return (team == 2 ? 1 : 2) * held_elements(t); }

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
  const std::string own = type_pair(type) + ", ";
  const std::string types = concat(own, kernel_type(weight), ", ", kTeams[team], ", ", width, ", ");
  switch (RowKernel(key >> 12)) {
    case kHeld:
      return concat("rush::row_norm_held<", types, held_elements(type) / width, ", ", centred);
    case kHeldTwice:
      return concat("rush::row_norm_held<", types, 2 * held_elements(type) / width, ", ", centred);
    case kRows:
      return concat("rush::row_norm<", types, centred);
    case kBackward:
      return concat("rush::row_norm_backward<", types, centred);
    case kWhole:
      return concat("rush::row_norm_backward_whole<", types, held_whole(type, team) / width, ", ",
                    centred);
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
  if (is_unborn(y) && deferred::take_row_norm(x, width, weight, bias, centred, eps, y, mean, rstd))
    return;
  RowNormArgs args = row_args(x, width, weight, mean, rstd);
  args.bias = data_or_null(bias);
  args.y = y.data();
  args.eps = eps;
  const auto [team, held] = row_norm_choice(x.dtype(), args.rows, width, processors_of(x));
  const bool packs =
      width % pack_of(x.dtype()) == 0 && aligned({args.x, args.y, args.weight, args.bias});
  const RowKernel kernel = held == 0                          ? kRows
                           : held == held_elements(x.dtype()) ? kHeld
                                                              : kHeldTwice;
  const RowInstance i{kernel, centred, team, packs, parameter_type(x, weight, bias), x.dtype()};
  launch(kRowFamily, i.key(), x.device().index, blocks_of_teams(args.rows, team), {kThreads}, args);
}

}  // namespace

void join_row_sums(const Tensor& partial, int64_t segments, int64_t channels, DType type,
                   const Tensor& gw, const Tensor& gb, int device) {
  const JoinPairsArgs args{partial.data(), const_cast<void*>(data_or_null(gw)),
                           const_cast<void*>(data_or_null(gb)), segments, channels};
  const RowInstance i{kJoin, false, 0, false, (gw.defined() ? gw : gb).dtype(), type};
  launch(kRowFamily, i.key(), device, {unsigned((channels + 31) / 32)}, {kThreads}, args);
}

namespace {

void row_norm_backward(const Tensor& g, const Tensor& x, int64_t width, const Tensor& weight,
                       const Tensor& mean, const Tensor& rstd, bool centred, const Tensor& gx,
                       const Tensor& gw, const Tensor& gb) {
  if (gx.defined() && is_unborn(gx) &&
      deferred::take_row_norm_backward(g, x, width, weight, mean, rstd, centred, gx, gw, gb))
    return;
  RowNormArgs args = row_args(x, width, weight, mean, rstd);
  args.g = g.data();
  const int device = x.device().index;
  const DType type = x.dtype(), parameters = parameter_type(x, weight, gw);
  const bool packs =
      width % pack_of(type) == 0 && aligned({args.x, args.g, args.weight, data_or_null(gx)});
  const auto [blocks, whole, held] =
      row_norm_whole_choice(type, args.rows, width, processors_of(x));
  if (gx.defined() && (gw.defined() || gb.defined()) && held > 0) {
    const Tensor partial = make_tensor(Dims{blocks, 2, width}, compute_dtype(type), x.device());
    args.partial = partial.data();
    args.y = gx.data();
    launch(kRowFamily, RowInstance{kWhole, centred, whole, packs, parameters, type}.key(), device,
           {unsigned(blocks)}, {kThreads}, args);
    return join_row_sums(partial, blocks, width, type, gw, gb, device);
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
  join_row_sums(partial, segments, width, type, gw, gb, device);
}

// ---- groups ----

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
  kNormalize,
  kInputGrad
};

// Key: kernel, packs that a thread holds, team, elements per pack (log 2), type of the parameters,
// type.
struct GroupInstance {
  GroupKernel kernel;
  DType weight, type;
  int64_t width = 1, held = 0;
  int team = 0;

  uint64_t key() const {
    return kernel << 17 | uint64_t(held) << 12 | uint64_t(team) << 10 |
           uint64_t(std::countr_zero(uint64_t(width))) << 8 | uint64_t(weight) << 4 |
           uint64_t(type);
  }
};
std::string spell_groups(uint64_t key) {
  const auto type = DType(key & 15), weight = DType(key >> 4 & 15);
  const uint64_t width = 1 << (key >> 8 & 3), held = key >> 12 & 31;
  const std::string c = compute_name(type), t = kernel_type(type), w = kernel_type(weight);
  const std::string all = concat(c, ", ", t, ", ", w, ", ", width);
  const auto last = [&](const char* kernel, const std::string& kind, const std::string& types) {
    return concat("rush::group_", kernel, "_last<rush::", kind, ", ", types, ", ", width, ">");
  };
  switch (GroupKernel(key >> 17)) {
    case kGroups:
      return concat("rush::group_norm<", all, ">");
    case kGroupsHeld:
      return concat("rush::group_norm_held<", all, ", ", held, ">");
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
      return concat("rush::group_norm_backward_held<", all, ", ", held, ">");
    case kMomentSums:
      return last("sums", concat("GroupMoments<", t, ", ", c, ">"), concat(c, ", ", t));
    case kGradSums:
      return last("sums", concat("GroupGradSums<", t, ", ", c, ">"), concat(c, ", ", t));
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

// Elements of the widest pack that divides `run` and that these places are aligned to.
int64_t widest_pack(DType type, int64_t run, std::initializer_list<const void*> places) {
  int64_t width = pack_of(type);
  while (run % width != 0 || !aligned(places, width * element_size(type))) width /= 2;
  return width;
}

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

// Channels last: a launch of one of the kernels whose blocks take parts of samples. `share`: how many
// points a thread takes, at least; `widest`: packs side by side, at most.
void launch_parts(GroupInstance i, GroupNormArgs& args, int64_t widest, int64_t share, Device on,
                  Tensor* segment_sums = nullptr) {
  const int64_t packs = args.channels / i.width;
  args.columns = i32(std::min<int64_t>(widest, int64_t(std::bit_ceil(uint64_t(packs)))));
  const int64_t tiles = (packs + args.columns - 1) / args.columns;
  const int64_t least = kThreads / args.columns * share;
  const int64_t wanted =
      int64_t(device_info(on.index).processors) * 8 / std::max<int64_t>(1, args.batch * tiles);
  const int64_t segments = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, args.inner / least));
  args.segment = (args.inner + segments - 1) / segments;
  args.segments = (args.inner + args.segment - 1) / args.segment;
  if (segment_sums) {
    *segment_sums =
        make_tensor(Dims{args.batch, args.segments, args.channels, 2}, compute_dtype(i.type), on);
    args.segment_sums = segment_sums->data();
  }
  launch(kGroupFamily, i.key(), on.index, {unsigned(args.batch * args.segments), unsigned(tiles)},
         {kThreads}, args);
}
constexpr int64_t kSumShare = 8, kMapShare = 4, kMapColumns = 32;

void group_norm_last(GroupNormArgs& args, DType type, DType parameters, Device on) {
  GroupInstance i{kMomentSums, parameters, type};
  i.width = widest_pack(type, args.channels, {args.x, args.y});
  Tensor segment_sums;
  launch_parts(i, args, kNormColumns, kSumShare, on, &segment_sums);
  launch(kGroupFamily, GroupInstance{kMoments, parameters, type}.key(), on.index,
         blocks_of_teams(args.batch * args.groups, 1), {kThreads}, args);
  i.kernel = kNormalize;
  launch_parts(i, args, kMapColumns, kMapShare, on);
}

void group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups,
                double eps, const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  GroupNormArgs args = group_args(x, weight, groups, mean, rstd);
  args.bias = data_or_null(bias);
  args.y = y.data();
  args.eps = eps;
  const int device = x.device().index;
  const DType type = x.dtype(), parameters = parameter_type(x, weight, bias);
  if (!x.is_contiguous()) return group_norm_last(args, type, parameters, x.device());
  const int64_t rows = args.batch * groups, width = x.numel() / rows;
  const bool spread = rows * 2 < device_info(device).processors && width > 16384;
  GroupInstance i{kGroups, parameters, type};
  i.width = widest_pack(type, args.inner, {args.x, args.y});
  if (!spread) {
    i.held = held_packs(packs_of_thread(width, i.width));
    if (i.held > 0) i.kernel = kGroupsHeld;
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

void group_norm_backward_last(GroupNormArgs& args, DType type, DType parameters, Device on) {
  GroupInstance i{kGradSums, parameters, type};
  i.width = widest_pack(type, args.channels, {args.x, args.g, args.y});
  Tensor segment_sums;
  launch_parts(i, args, kNormColumns, kSumShare, on, &segment_sums);
  const Tensor means = make_tensor(Dims{args.batch, args.groups, 2}, compute_dtype(type), on);
  args.means = means.data();
  launch(kGroupFamily, GroupInstance{kMeans, parameters, type}.key(), on.index,
         blocks_of_teams(args.batch * args.groups, 1), {kThreads}, args);
  i.kernel = kInputGrad;
  if (args.y) launch_parts(i, args, kMapColumns, kMapShare, on);
}

// Of contiguous tensors.
void group_norm_backward_planes(GroupNormArgs& args, DType type, DType parameters, int device) {
  GroupInstance i{kGroupsBackwardHeld, parameters, type};
  i.width = widest_pack(type, args.inner, {args.x, args.g, args.y});
  const int64_t rows = args.batch * args.groups, per_group = args.channels / args.groups;
  // At least half of the threads have something of every plane, and there are rows for all
  // processors.
  const bool fills = args.inner * 2 >= kThreads * i.width && rows >= device_info(device).processors;
  i.held = held_packs(per_group * packs_of_thread(args.inner, i.width));
  if (args.y && fills && i.held > 0) {
    launch(kGroupFamily, i.key(), device, {unsigned(rows)}, {kThreads}, args);
    return;
  }
  i.held = 0;
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
  GroupNormArgs args = group_args(x, weight, groups, mean, rstd);
  args.g = g.data();
  args.y = const_cast<void*>(data_or_null(gx));
  const int device = x.device().index;
  const DType type = x.dtype(), parameters = parameter_type(x, weight, gw);
  const Tensor partial =
      make_tensor(Dims{args.batch, 2, args.channels}, compute_dtype(type), x.device());
  args.partial = partial.data();
  if (x.is_contiguous())
    group_norm_backward_planes(args, type, parameters, device);
  else
    group_norm_backward_last(args, type, parameters, x.device());
  if (gw.defined() || gb.defined())
    join_row_sums(partial, args.batch, args.channels, type, gw, gb, device);
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
