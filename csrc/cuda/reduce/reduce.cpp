// Reductions on GPUs, through kernels/reduce.cu.
#include "device/reduce.h"

#include <bit>

#include "core/layout.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "cuda/runtime/nest.h"
#include "device/deferred.h"
#include "device/pointwise.h"
#include "functors/fold.h"

namespace rush::cuda {
namespace {

// The kernels' names, in the order of ReduceFn; the two that are composed have none. Those of FoldFn,
// whose formulas are in functors/fold.h, come after them.
constexpr const char* kFoldNames[int(ReduceFn::kCount)] = {
    "Sum",          "Mean",  "Prod",  "Max",   "Min",     "ArgMax",     "ArgMin", "Any", "All",
    "CountNonzero", nullptr, "Norm1", "Norm2", "NormInf", "NormNegInf", nullptr,  "Var", "Std"};

const char* name_of(ReduceFn f) {
  return f < ReduceFn::kCount ? kFoldNames[int(f)] : kFoldFnNames[int(f) - int(ReduceFn::kCount)];
}
bool has_type(ReduceFn f) {
  return f != ReduceFn::Any && f != ReduceFn::All && f != ReduceFn::CountNonzero;
}

// Do its running results take more than a number or two?
bool has_large_results(ReduceFn f) {
  return f == ReduceFn::Var || f == ReduceFn::Std || f == ReduceFn::ArgMax || f == ReduceFn::ArgMin;
}

// Key: fold, its type, input, output, pack width (log 2), long indices, across, straight.
struct Instance {
  ReduceFn fold;
  DType type, in, out;
  unsigned width_log, long_index, across, straight;

  uint64_t key() const {
    return uint64_t(fold) << 21 | uint64_t(type) << 16 | uint64_t(in) << 11 | uint64_t(out) << 6 |
           width_log << 3 | long_index << 2 | across << 1 | straight;
  }
  static Instance of(uint64_t key) {
    Instance i;
    i.straight = key & 1;
    i.across = key >> 1 & 1;
    i.long_index = key >> 2 & 1;
    i.width_log = key >> 3 & 7;
    i.out = DType(key >> 6 & 31);
    i.in = DType(key >> 11 & 31);
    i.type = DType(key >> 16 & 31);
    i.fold = ReduceFn(key >> 21);
    return i;
  }
  std::string types() const {
    std::string fold_name = concat("rush::folds::", name_of(fold));
    if (has_type(fold)) fold_name += concat("<", kernel_type(type), ">");
    return concat(fold_name, ", ", stored_type(in), ", ", stored_type(out), ", ",
                  long_index ? "rush::u64" : "rush::u32");
  }
};

std::string spell_reduce(uint64_t key) {
  const Instance i = Instance::of(key);
  if (i.across && i.width_log)
    return concat("rush::reduce_columns<", i.types(), ", ", 1 << i.width_log, ", ",
                  i.straight ? "true" : "false", ">");
  return concat("rush::reduce<", i.types(), ", ", 1 << i.width_log, ", ",
                i.across ? "true" : "false", ">");
}
std::string spell_merge(uint64_t key) {
  const Instance i = Instance::of(key);
  return concat("rush::reduce_merge<", i.types(), ", ", i.across ? "true" : "false", ">");
}
std::string spell_joined(uint64_t key) {
  const Instance i = Instance::of(key);
  return concat("rush::sum_columns_joined<", stored_type(i.in), ", ", stored_type(i.out), ", ",
                i.long_index ? "rush::u64, " : "rush::u32, ", 1 << i.width_log,
                i.straight ? ", true>" : ", false>");
}
const KernelFamily kSumJoined{"reduce.cu", spell_joined};
const KernelFamily kReduce{"reduce.cu", spell_reduce};
const KernelFamily kMerge{"reduce.cu", spell_merge};

constexpr int64_t kMostSegments = 65535;
// Elements (packs) that a lane folds before its segment ends: fewer are not worth a segment, more
// would round a sum badly.
constexpr int64_t kLeastShare = 32, kMostShare = 512;

// In how many segments n elements an output are folded, by `blocks` blocks a segment: so that all
// run at the same time, if a lane's share lets them.
int64_t segments_for(int64_t n, int64_t lanes, int64_t blocks, int device) {
  const auto at_least = [&](int64_t share) { return (n + lanes * share - 1) / (lanes * share); };
  const int64_t room = int64_t(device_info(device).processors) * kReduceBlocks / blocks;
  const int64_t fewest = std::max<int64_t>(1, at_least(kMostShare));
  return std::min(std::clamp(room, fewest, std::max(fewest, at_least(kLeastShare))), kMostSegments);
}

int64_t power_above(int64_t n, int64_t most) {
  return std::min<int64_t>(most, int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(n, 1)))));
}

// Lanes for outputs of so many packs each. Joining lanes can cost more than folding, so a warp is enough
// where there are outputs for all processors; a lane folds up to 32 packs then.
constexpr int64_t kWarp = 32;
int64_t lanes_of_stretch(int64_t packs, int64_t outputs, int device) {
  const int64_t threads = int64_t(device_info(device).processors) * kReduceBlocks * kThreads;
  const int64_t wanted = std::max((packs + 31) / 32, threads / std::max<int64_t>(outputs, 1));
  return power_above(std::clamp(wanted, kWarp, std::max(kWarp, packs)), kThreads);
}

struct Outputs {
  const Tensor& out;
  const Tensor* second = nullptr;  // of out's shape
  double count = 0;
  // Of a sum whose last stage may wait (Note [What waits longer] in device/deferred_queue.h): where
  // it goes, `out` being how that is seen, without memory. Nothing is done where it cannot.
  const Tensor* later = nullptr;
};

// Are the outputs, as the kernels count them, those of a contiguous tensor in their order?
bool counts_in_order(const Walk<3>& kept) {
  int64_t next = 1;
  for (int d = 0; d < kept.dims; ++d) {
    if (kept.strides[size_t(d)][1] != next) return false;
    next *= kept.sizes[size_t(d)];
  }
  return true;
}

// What may be done with a sum instead of two launches now.
enum class Late {
  None,
  Segments,  // the first stage is launched, the second one waits
  Joined,    // one launch, whose last blocks do the second stage
  Rows       // few rows: all of it waits
};
Late late_way(const ReduceArgs& args, const Instance& instance, const Walk<3>& kept,
              const Walk<1>& folded, const Outputs& to, const Tensor& x, int64_t blocks) {
  constexpr int64_t kMostBytes = 65536;  // of what is held instead of a result
  if (!instance.across || args.outputs < 32 || !counts_in_order(kept)) return Late::None;
  const bool vector = to.later->dim() == 1;  // a gradient of a bias; others are soon asked for
  if (args.segments > 1) {
    if (vector) return Late::Segments;
    return instance.width_log > 0 && blocks <= kStreamCounters ? Late::Joined : Late::None;
  }
  const bool typed = x.dtype() == DType::Float32 || is_reduced_float(x.dtype());
  const bool rows = typed && kept.dims == 1 && kept.strides[0][0] == 1 && folded.dims <= 1 &&
                    instance.width_log == 0 && folded.strides[0][0] > 0;
  return vector && rows && x.numel() * x.element_size() <= kMostBytes && deferred::reads_later(x)
             ? Late::Rows
             : Late::None;
}

// `ordered`: positions count, so the folded dims keep their row-major order.
bool run_or_wait(ReduceFn fold, DType type, const Tensor& x, const Outputs& to, bool ordered) {
  const Tensor& out = to.out;
  if (out.numel() == 0) return !to.later;
  Walk<3> kept;
  Walk<1> folded;
  for (int64_t d = 0; d < x.dim(); ++d) {
    const auto i = size_t(d);
    const int64_t step = x.strides()[i];
    if (x.sizes()[i] == out.sizes()[i] && x.sizes()[i] != 1)
      kept.add(x.sizes()[i],
               {step, out.strides()[i], to.second ? to.second->strides()[i] : int64_t(0)});
    else
      folded.add(x.sizes()[i], {step});
  }
  kept.coalesce();
  folded.coalesce(!ordered);
  check(kept.dims <= kNestDims && folded.dims <= kNestDims, ErrorKind::NotImplemented, "reduction",
        "more than ", kNestDims,
        " dims that cannot be joined are not supported on a GPU: make the "
        "tensor contiguous");

  const int device = x.device().index;
  ReduceArgs args{};
  args.in = x.data();
  args.out = to.later ? nullptr : out.data();
  args.second = to.second ? to.second->data() : nullptr;
  args.outputs = kept.numel;
  args.n = folded.numel;
  args.count = to.count;

  Instance instance{fold, type, x.dtype(), out.dtype(), 0, 0, 0, 0};
  instance.long_index = !(kept.is_short() && folded.is_short());
  const int64_t along = folded.dims ? std::abs(folded.strides[0][0]) : 0;
  const int64_t beside = kept.dims ? std::abs(kept.strides[0][0]) : 0;
  instance.across = beside != 0 && (along == 0 || beside < along);

  Grid block;
  int64_t lanes, at_once;
  int64_t width = 16 / x.element_size();
  // Eight large results beside each other would not find registers.
  if (instance.across && width == 8 && has_large_results(fold)) width = 4;
  bool packs = width > 1 && (reinterpret_cast<uintptr_t>(args.in) & 15) == 0;
  if (instance.across) {
    // Neighbouring outputs in packs, aligned for every element.
    packs = packs && beside == 1 && kept.strides[0][0] == 1 && kept.sizes[0] % width == 0 &&
            args.n >= 64;
    for (int d = 1; packs && d < kept.dims; ++d) packs = kept.strides[size_t(d)][0] % width == 0;
    for (int d = 0; packs && d < folded.dims; ++d)
      packs = folded.strides[size_t(d)][0] % width == 0;
    const int64_t places = packs ? args.outputs / width : args.outputs;
    at_once = power_above(places, args.n >= 64 ? 32 : kThreads);
    lanes = kThreads / at_once;
    block = {unsigned(at_once), unsigned(lanes)};
    if (packs) at_once *= width;
  } else {
    // One stretch for each output, aligned for every one of them.
    packs = packs && folded.dims == 1 && folded.strides[0][0] == 1 && args.n >= width * kWarp;
    for (int d = 0; packs && d < kept.dims; ++d) packs = kept.strides[size_t(d)][0] % width == 0;
    lanes = packs ? lanes_of_stretch(args.n / width, args.outputs, device)
                  : power_above(args.n, kThreads);
    at_once = kThreads / lanes;
    block = {unsigned(lanes), unsigned(at_once)};
  }
  if (packs) instance.width_log = unsigned(std::countr_zero(uint64_t(width)));
  args.segment = std::max<int64_t>(args.n, 1);
  args.segments = 1;
  instance.straight = packs && instance.across && folded.dims == 1;
  const bool stretched = packs && !instance.across;
  const int64_t blocks = (args.outputs + at_once - 1) / at_once;
  const int64_t segments =
      segments_for(args.n, lanes << (stretched ? instance.width_log : 0), blocks, device);
  if (segments > 1) {
    args.segment = (args.n + segments - 1) / segments;
    const int64_t unit = int64_t(1) << instance.width_log;
    args.segment = (args.segment + unit - 1) / unit * unit;
    args.segments = i32((args.n + args.segment - 1) / args.segment);
  }
  const bool merges_across = args.outputs >= 32;
  const Late how = to.later ? late_way(args, instance, kept, folded, to, x, blocks) : Late::None;
  if (to.later && how == Late::None) return false;
  if (how == Late::Rows) {
    const int64_t step = folded.dims ? folded.strides[0][0] : 1;
    deferred::take_sums({x, 0, step, args.n, true, out.dtype(), int(lanes)}, *to.later);
    return true;
  }
  if (how == Late::Joined) {
    give_storage(to.later->impl());
    args.out = to.later->data();
  }
  Tensor partial;
  if (args.segments > 1) {
    partial = to.later ? make_tensor(Dims{args.segments, args.outputs}, DType::Float32, x.device())
                       : make_tensor(Dims{args.segments, args.outputs, folds::kMostAcc},
                                     DType::UInt8, x.device());
    args.partial = partial.data();
  }
  const Grid grid{unsigned(blocks), unsigned(args.segments)};
  const auto both = [&]<class I>(const Nest<I, 3>& nest) {
    if (how == Late::Joined) {
      launch(kSumJoined, instance.key(), device, grid, block, args, nest, folded.template nest<I>(),
             stream_counters(device, blocks));
      return;
    }
    launch(kReduce, instance.key(), device, grid, block, args, nest, folded.template nest<I>());
    if (args.segments == 1 || to.later) return;
    Instance merge = instance;
    merge.width_log = merge.straight = 0;
    merge.across = merges_across;
    const int64_t merging = power_above(args.segments, merge.across ? kThreads / 32 : kThreads);
    const int64_t outputs = kThreads / merging;
    Grid merge_block{unsigned(merging), unsigned(outputs)};
    if (merge.across) std::swap(merge_block.x, merge_block.y);
    launch(kMerge, merge.key(), device, {unsigned((args.outputs + outputs - 1) / outputs)},
           merge_block, args, nest);
  };
  if (instance.long_index)
    both(kept.template nest<u64>());
  else
    both(kept.template nest<u32>());
  if (how == Late::Segments)
    deferred::take_sums({partial, 0, args.outputs, args.segments, true, out.dtype()}, *to.later);
  return true;
}
void run(ReduceFn fold, DType type, const Tensor& x, const Outputs& to, bool ordered = false) {
  run_or_wait(fold, type, x, to, ordered);
}

// A float8 or wide sum cannot, nor one that a single launch finds.
bool sum_later(const Tensor& x, const Dims& kept, const Tensor& out) {
  if (wide_type(out.dtype()) != DType::Float32 || !deferred::takes_sums(out)) return false;
  const Tensor seen = make_pending(kept, {}, out.dtype(), out.device());  // its geometry
  return run_or_wait(ReduceFn::Sum, DType::Float32, x, {seen, nullptr, 0, &out}, false);
}

// (sum of |x|^p)^(1/p)
void norm_p(const Tensor& x, const Tensor& out, double p, DType type) {
  const Tensor powers = make_tensor(x.sizes(), type, x.device());
  map_unary(UnaryFn::Abs, x, powers, {}, type);
  map_binary(BinaryFn::Pow, powers, wrap_number(p), powers, {}, type);
  // The sum of powers may be beyond a half type's range where its root is not.
  const Tensor sums = out.dtype() == type ? out : make_tensor(out.sizes(), type, out.device());
  run(ReduceFn::Sum, type, powers, {sums});
  map_binary(BinaryFn::Pow, sums, wrap_number(1 / p), out, {}, type);
}

void reduce(ReduceFn fn, const Tensor& x, const Tensor& out, ParamSpan params) {
  const DType norm = floating_fold_type(x.dtype(), out.dtype());
  const bool truth = x.dtype() == DType::Bool;
  switch (fn) {
    case ReduceFn::Sum:
    case ReduceFn::Prod:
      return run(fn, wide_type(out.dtype()), x, {out});
    case ReduceFn::Mean:
      return run(fn, wide_type(out.dtype()), x, {out, nullptr, folded_count(x, out)});
    case ReduceFn::Max:
      return run(truth ? ReduceFn::Any : fn, compute_type(x.dtype()), x, {out});
    case ReduceFn::Min:
      return run(truth ? ReduceFn::All : fn, compute_type(x.dtype()), x, {out});
    case ReduceFn::ArgMax:
    case ReduceFn::ArgMin:
      return run(fn, compute_type(x.dtype()), x, {out}, true);
    case ReduceFn::Any:
    case ReduceFn::All:
      return run(fn, DType::Bool, x, {out});
    case ReduceFn::CountNonzero:
    case ReduceFn::Norm0:
      return run(ReduceFn::CountNonzero, DType::Bool, x, {out});
    case ReduceFn::NormP:
      return norm_p(x, out, params[0].to_double(), norm);
    default:  // the other norms
      return run(fn, norm, x, {out});
  }
}

void fold(FoldFn fn, const Tensor& x, const Tensor& out) {
  run(ReduceFn(int(ReduceFn::kCount) + int(fn)), floating_fold_type(x.dtype(), out.dtype()), x,
      {out, nullptr, folded_count(x, out)});
}

void reduce_var(const Tensor& x, const Tensor& out, double correction, bool take_sqrt,
                const Tensor* mean_out) {
  const double divisor = std::max(0.0, folded_count(x, out) - correction);
  if (x.is_complex()) {  // the variances of the parts add up
    const Tensor other = make_tensor(out.sizes(), out.dtype(), out.device());
    if (mean_out) reduce(ReduceFn::Mean, x, *mean_out, {});
    run(ReduceFn::Var, compute_type(to_real(x.dtype())), part_of(x, 0), {out, nullptr, divisor});
    run(ReduceFn::Var, compute_type(to_real(x.dtype())), part_of(x, 1), {other, nullptr, divisor});
    map_binary(BinaryFn::Add, out, other, out);
    if (take_sqrt) map_unary(UnaryFn::Sqrt, out, out);
    return;
  }
  run(take_sqrt ? ReduceFn::Std : ReduceFn::Var, compute_type(x.dtype()), x,
      {out, mean_out, divisor});
}

void reduce_arg(ReduceFn fn, const Tensor& x, const Tensor& values, const Tensor& indices,
                int64_t) {
  const ReduceFn fold =
      fn == ReduceFn::Max || fn == ReduceFn::ArgMax ? ReduceFn::ArgMax : ReduceFn::ArgMin;
  run(fold, compute_type(x.dtype()), x, {indices, values.defined() ? &values : nullptr}, true);
}

const bool registered = [] {
  ReduceLoops& loops = reduce_loops(DeviceType::CUDA);
  loops.reduce = reduce;
  loops.fold = fold;
  loops.var = reduce_var;
  loops.arg = reduce_arg;
  loops.sum_later = sum_later;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
