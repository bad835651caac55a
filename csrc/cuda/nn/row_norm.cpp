// Layer and RMS norm on GPUs, through kernels/row_norm.cu.
#include "core/layout.h"
#include "cuda/nn/row_choice.h"
#include "cuda/runtime/loops.h"
#include "device/deferred.h"
#include "device/nn/norm.h"
#include "device/reduce.h"

namespace rush::cuda {
namespace {

enum RowKernel : uint64_t { kHeld, kHeldTwice, kRows, kBackward, kWhole, kColumns, kJoin };

// What a thread keeps where sums down the columns are kept as well: a warp has more of a short row.
int64_t held_whole(DType t, int team) {
  return team > 2 ? part_of_block(t).held : (team == 2 ? 1 : 2) * held_elements(t);
}

// Key: kernel, centred, team, packs, type of the parameters, type.
struct RowInstance {
  RowKernel kernel;
  bool centred;
  int team;
  bool packs;
  DType weight, type;

  uint64_t key() const {
    return kernel << 13 | uint64_t(centred) << 12 | uint64_t(team) << 9 | uint64_t(packs) << 8 |
           uint64_t(weight) << 4 | uint64_t(type);
  }
};
std::string spell_rows(uint64_t key) {
  const auto type = DType(key & 15), weight = DType(key >> 4 & 15);
  const int team = int(key >> 9 & 7);
  const int64_t width = key >> 8 & 1 ? pack_of(type) : 1;
  const char* centred = key >> 12 & 1 ? "true>" : "false>";
  const std::string own = type_pair(type) + ", ";
  const std::string types = concat(own, kernel_type(weight), ", ", kTeams[team], ", ", width, ", ");
  switch (RowKernel(key >> 13)) {
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
  const auto may_wait = [&](const Tensor& sums) {
    return !sums.defined() || (is_unborn(sums) && deferred::takes_sums(sums));
  };
  const bool waits = compute_dtype(type) == DType::Float32 && may_wait(gw) && may_wait(gb);
  for (const Tensor* sums : {&gb, &gw}) {
    if (!sums->defined() || !is_unborn(*sums)) continue;
    const int64_t first = sums == &gb ? 0 : channels;
    if (waits)
      deferred::take_sums({partial, first, 2 * channels, segments, false, sums->dtype()}, *sums);
    else
      give_storage(sums->impl());
  }
  if (waits) return;
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

const bool registered = [] {
  NormLoops& loops = norm_loops(DeviceType::CUDA);
  loops.takes_halves = true;
  loops.row_norm = row_norm;
  loops.row_norm_backward = row_norm_backward;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
