// Passes over lists of tensors on GPUs, through kernels/lists.cu: one launch for up to kListMost
// tensors of a type.
#include "device/lists.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "cuda/kernels/lists_args.h"
#include "cuda/pointwise/spelling.h"
#include "cuda/runtime/loops.h"

namespace rush::cuda {
namespace {

constexpr DType kTypes[] = {DType::Float32, DType::Float16, DType::BFloat16, DType::Float64};

int64_t pieces_of(int64_t numel) { return (numel + kListPiece - 1) / kListPiece; }

// Takes the items of a list, as many as one launch has room for at a time: put(args, slot, item)
// writes one item, queue(args, pieces) launches them. `args` holds what all launches have.
template <class Args, class Item, class Takes, class Put, class Queue>
void by_chunks(const Args& args, std::span<const Item> items, Takes takes, Put put, Queue queue) {
  Args now = args;
  const auto send = [&] {
    const u32 pieces = now.pieces.first[now.pieces.tensors];
    if (pieces > 0) queue(now, pieces);
    now.pieces.tensors = 0;
  };
  now.pieces.tensors = 0;
  now.pieces.first[0] = 0;
  for (const Item& item : items) {
    if (item.numel == 0 || !takes(item)) continue;
    if (now.pieces.tensors == kListMost) send();
    const int slot = now.pieces.tensors++;
    now.pieces.numel[slot] = item.numel;
    now.pieces.first[slot + 1] = now.pieces.first[slot] + u32(pieces_of(item.numel));
    put(now, slot, item);
  }
  send();
}

// ---- pointwise ----

template <int Inputs>
struct PointwiseItem {
  char* out;
  const char* in[Inputs];  // null where it is not the tensor's own
  int64_t numel;
  double number;
};

constexpr FnInfo kCopyInfo{"Positive", 0, FnResult::Same, 0};
std::string spell_copy(uint64_t key) {
  return spell_flat("list_pointwise", kCopyInfo, read_pointwise_key<1>(key));
}
const KernelFamily kCopy{"lists.cu", spell_copy};

template <class Fn, int Inputs>
std::string spell(uint64_t key) {
  const PointwiseKey<Inputs> k = read_pointwise_key<Inputs>(key);
  return spell_flat("list_pointwise", info(Fn(k.fn)), k);
}
template <class Fn, int Inputs>
const KernelFamily kFamily{"lists.cu", spell<Fn, Inputs>};

// Tensors that are aligned to packs in one launch, the others in another.
template <int Inputs>
void launch_pointwise(const KernelFamily& family, unsigned fn, DType compute, const DType* types,
                      const ListArgs<Inputs>& common, std::span<const PointwiseItem<Inputs>> items,
                      int device) {
  const auto is_own = [&](int i) {
    return !((common.single | common.given | common.own) >> i & 1);
  };
  int width = int(16 / element_size(types[0]));
  for (int i = 0; i < Inputs; ++i)
    if (is_own(i)) width = std::min(width, int(16 / element_size(types[i + 1])));
  for (const int V : {width, 1}) {
    const auto takes = [&](const PointwiseItem<Inputs>& item) {
      bool aligned = is_aligned(item.out, width * element_size(types[0]));
      for (int i = 0; i < Inputs; ++i)
        aligned = aligned && is_aligned(item.in[i], width * element_size(types[i + 1]));
      return aligned == (V == width);
    };
    const auto put = [](ListArgs<Inputs>& args, int slot, const PointwiseItem<Inputs>& item) {
      args.out[slot] = item.out;
      for (int i = 0; i < Inputs; ++i) args.in[i][slot] = item.in[i];
      args.numbers[slot] = item.number;
    };
    const uint64_t key =
        pointwise_key(fn, compute, unsigned(std::countr_zero(unsigned(V))), types, Inputs + 1);
    by_chunks(common, items, takes, put, [&](const ListArgs<Inputs>& args, u32 pieces) {
      launch(family, key, device, {pieces}, {kThreads}, args);
    });
  }
}

// Inputs as the kernels take them.
template <int Inputs>
struct Operands {
  ListArgs<Inputs> args{};
  DType types[Inputs + 1];
  std::vector<PointwiseItem<Inputs>> items;

  explicit Operands(std::span<const Tensor> outs) : items(outs.size()) {
    types[0] = outs[0].dtype();
    for (size_t k = 0; k < outs.size(); ++k) {
      items[k] = {};
      items[k].out = outs[k].data<char>();
      items[k].numel = outs[k].numel();
    }
  }

  // Input i, or the functor's number for i = Inputs.
  void set_numbers(int i, std::span<const double> numbers) {
    if (numbers.size() > 1) {
      internal_assert(args.own == 0, "a list of tensors has two numbers for each");
      args.own |= 1u << i;
      for (size_t k = 0; k < items.size(); ++k) items[k].number = numbers[k];
    } else if (i == Inputs) {
      args.value = to_number(numbers[0]);
    } else {
      args.given |= 1u << i;
      args.given_numbers[i] = to_number(numbers[0]);
    }
  }

  void set(int i, const ListInput& input, DType compute) {
    types[i + 1] = compute;  // of numbers, where it is not read: one kernel serves all
    if (input.tensors.empty()) return set_numbers(i, input.numbers);
    types[i + 1] = input.tensors[0].dtype();
    if (input.tensors.size() == 1 && input.tensors[0].numel() == 1) {
      args.single |= 1u << i;
      args.shared[i] = input.tensors[0].data();
      return;
    }
    for (size_t k = 0; k < items.size(); ++k) items[k].in[i] = input.tensors[k].data<char>();
  }
};

template <class Fn, int Inputs>
void run_pointwise(const ListWork& work) {
  Operands<Inputs> operands(work.outs);
  for (int i = 0; i < Inputs; ++i) operands.set(i, work.inputs[size_t(i)], work.compute);
  if (!work.value.empty()) operands.set_numbers(Inputs, work.value);
  launch_pointwise<Inputs>(kFamily<Fn, Inputs>, work.fn, work.compute, operands.types,
                           operands.args, operands.items, work.outs[0].device().index);
}

void list_pointwise(const ListWork& work) {
  if (work.arity == 1)
    run_pointwise<UnaryFn, 1>(work);
  else if (work.arity == 2)
    run_pointwise<BinaryFn, 2>(work);
  else
    run_pointwise<TernaryFn, 3>(work);
}

void move_into(std::span<const Tensor> to, const ListInput& from, DType from_type) {
  const DType compute = promote(compute_type(to[0].dtype()), compute_type(from_type));
  Operands<1> operands(to);
  operands.set(0, from, compute);
  launch_pointwise<1>(kCopy, 0, compute, operands.types, operands.args, operands.items,
                      to[0].device().index);
}
void list_copy(std::span<const Tensor> from, std::span<const Tensor> to) {
  move_into(to, {from, {}}, from[0].dtype());
}
void list_fill(std::span<const Tensor> tensors, double value) {
  move_into(tensors, {{}, {&value, 1}}, tensors[0].dtype());
}

// ---- norms, scales ----

// The aligned tensors of each type, then the others: f(type, pack's width, takes).
template <class F>
void for_each_kind(F&& f) {
  for (const DType type : kTypes) {
    const int width = int(16 / element_size(type));
    for (const int V : {width, 1}) {
      f(type, V, [type, V, width](const FlatTensor& t) {
        return t.dtype == type && is_aligned(t.data, 16) == (V == width);
      });
    }
  }
}

void list_scale(std::span<const FlatTensor> tensors, const Tensor& factor) {
  ListArgs<2> args{};
  args.single = 0b10;
  args.shared[1] = factor.data();
  // The norm has been taken before: what it read last is still in the cache.
  args.backwards = true;
  for (const DType type : kTypes) {
    std::vector<PointwiseItem<2>> items;
    for (const FlatTensor& t : tensors)
      if (t.dtype == type) items.push_back({t.data, {t.data, nullptr}, t.numel, 0});
    const DType types[] = {type, type, factor.dtype()};
    launch_pointwise<2>(kFamily<BinaryFn, 2>, unsigned(BinaryFn::Mul), compute_type(type), types,
                        args, items, factor.device().index);
  }
}

std::string spell_unscale(uint64_t key) {
  const DType type = DType(key & 15);
  return concat("rush::list_unscale<", kernel_type(compute_type(type)), ", ", kernel_type(type),
                ", ", int(key >> 4), ">");
}
const KernelFamily kUnscale{"lists.cu", spell_unscale};

void list_unscale(std::span<const FlatTensor> tensors, const Tensor& factor, const Tensor& found) {
  ListUnscaleArgs args{};
  args.factor = factor.data<float>();
  args.found = found.data<float>();
  const auto put = [](ListUnscaleArgs& to, int slot, const FlatTensor& t) {
    to.data[slot] = t.data;
  };
  for_each_kind([&](DType type, int V, auto takes) {
    by_chunks(args, tensors, takes, put, [&](const ListUnscaleArgs& now, u32 pieces) {
      launch(kUnscale, uint64_t(V) << 4 | uint64_t(type), factor.device().index, {pieces},
             {kThreads}, now);
    });
  });
}

// Key: the fold, then the type of memory, then the pack's width.
constexpr const char* kFolds[] = {"Norm1", "Norm2", "NormInf", "NormNegInf"};
std::string spell_norm(uint64_t key) {
  const DType type = DType(key >> 2 & 15);
  return concat("rush::list_norm<rush::folds::", kFolds[key & 3], "<",
                kernel_type(compute_type(type)), ">, ", kernel_type(type), ", ", int(key >> 6),
                ">");
}
const KernelFamily kNorm{"lists.cu", spell_norm};

std::string spell_join(uint64_t key) {
  return concat("rush::list_join<rush::folds::", kFolds[key & 3], "<double>, ",
                kernel_type(DType(key >> 2)), ">");
}
const KernelFamily kJoin{"lists.cu", spell_join};

struct NormItem : FlatTensor {
  size_t number;
};

bool list_norm(std::span<const FlatTensor> tensors, double p, std::span<const Tensor> outs) {
  if (p != 1 && p != 2 && !std::isinf(p)) return false;
  const uint64_t fold = p == 1 ? 0 : p == 2 ? 1 : p > 0 ? 2 : 3;
  const Device device = outs[0].device();
  int64_t total = 0;
  std::vector<NormItem> items;
  for (const FlatTensor& t : tensors) {
    total += pieces_of(t.numel);
    items.push_back({t, items.size()});
  }
  const Tensor partial = make_tensor(Dims{std::max<int64_t>(total, 1)}, DType::Float64, device);
  ListNormArgs args{};
  args.partial = partial.data<double>();
  std::vector<u32> begin(tensors.size(), 0), end(tensors.size(), 0);
  u32 before = 0;  // pieces of the launches so far
  const auto put = [&](ListNormArgs& to, int slot, const NormItem& t) {
    to.in[slot] = t.data;
    begin[t.number] = before + to.pieces.first[slot];
    end[t.number] = before + to.pieces.first[slot + 1];
  };
  for_each_kind([&](DType type, int V, auto takes) {
    by_chunks(args, std::span<const NormItem>(items), takes, put,
              [&](ListNormArgs now, u32 pieces) {
                now.partial += before;
                before += pieces;
                launch(kNorm, uint64_t(V) << 6 | uint64_t(type) << 2 | fold, device.index, {pieces},
                       {kThreads}, now);
              });
  });
  if (outs.size() == 1) begin = {0}, end = {before};
  for (size_t done = 0; done < outs.size(); done += kListMost) {
    ListJoinArgs join{};
    join.partial = partial.data<double>();
    const size_t count = std::min<size_t>(kListMost, outs.size() - done);
    for (size_t k = 0; k < count; ++k) {
      join.begin[k] = begin[done + k];
      join.end[k] = end[done + k];
      join.out[k] = outs[done + k].data();
    }
    launch(kJoin, uint64_t(outs[0].dtype()) << 2 | fold, device.index, {unsigned(count)},
           {kThreads}, join);
  }
  return true;
}

// ---- sums ----

const KernelFamily kColumnSums{
    "lists.cu", [](uint64_t) { return std::string("rush::list_column_sums<float>"); }};

SumType sum_type(DType t) {
  return t == DType::Float16 ? kSumHalf : t == DType::BFloat16 ? kSumBFloat16 : kSumFloat;
}

void list_column_sums(std::span<const ColumnSums> from, std::span<const Tensor> outs) {
  ListSumsArgs args{};
  const auto send = [&] {
    const u32 blocks = args.first[args.tensors];
    if (blocks > 0) launch(kColumnSums, 0, outs[0].device().index, {blocks}, {kThreads}, args);
    args.tensors = 0;
  };
  for (size_t k = 0; k < outs.size(); ++k) {
    const ColumnSums& sums = from[k];
    if (args.tensors == kSumsMost) send();
    const int slot = args.tensors++;
    args.from[slot] = sums.from.data<char>() + sums.first * sums.from.element_size();
    args.read[slot] = sum_type(sums.from.dtype());
    args.lanes[slot] = u8(sums.lanes);
    args.out[slot] = outs[k].data();
    args.columns[slot] = u32(outs[k].numel());
    args.segments[slot] = u32(sums.segments);
    args.step[slot] = u32(sums.step);
    args.by_tree[slot] = sums.by_tree;
    args.rounded[slot] = sum_type(sums.rounded);
    args.type[slot] = sum_type(outs[k].dtype());
    args.first[slot + 1] = args.first[slot] + (args.columns[slot] + kSumColumns - 1) / kSumColumns;
  }
  send();
}

// ---- images ----

// Key: channels last, then the types.
std::string spell_move(uint64_t key) {
  return concat("rush::list_move_channels<", kernel_type(DType(key >> 5 & 15)), ", ",
                kernel_type(DType(key >> 1 & 15)), key & 1 ? ", true>" : ", false>");
}
const KernelFamily kMove{"lists.cu", spell_move};

bool moves_channels(const Tensor& from, const Tensor& to) {
  const auto has_type = [](const Tensor& t) {
    return t.dtype() == DType::Float32 || is_reduced_float(t.dtype());
  };
  const auto fits = [](const Tensor& one, const Tensor& other) {
    return is_contiguous(one.sizes(), one.strides()) &&
           is_channels_last(other.sizes(), other.strides());
  };
  if (from.dim() < 4 || from.dim() > 5 || from.sizes() != to.sizes() || from.numel() == 0 ||
      from.numel() >> 31 || !has_type(from) || !has_type(to))
    return false;
  const int64_t points = from.numel() / (from.sizes()[0] * from.sizes()[1]);
  return points <= kMovedElements && (fits(from, to) || fits(to, from));
}

// Those that go one way.
void move_channels(std::span<const Tensor> from, std::span<const Tensor> to, bool last) {
  ListMoveArgs args{};
  const uint64_t key =
      uint64_t(to[0].dtype()) << 5 | uint64_t(from[0].dtype()) << 1 | uint64_t(last);
  const auto send = [&] {
    const u32 blocks = args.first[args.tensors];
    if (blocks > 0) launch(kMove, key, to[0].device().index, {blocks}, {kThreads}, args);
    args.tensors = 0;
  };
  for (size_t k = 0; k < to.size(); ++k) {
    if (is_contiguous(from[k].sizes(), from[k].strides()) != last) continue;
    if (args.tensors == kListMost) send();
    const int slot = args.tensors++;
    const Dims& sizes = to[k].sizes();
    const u32 channels = u32(sizes[1]), points = u32(to[k].numel() / (sizes[0] * sizes[1]));
    const u32 part = std::clamp<u32>(kMovedElements / points, 1, kMovedChannels);
    args.from[slot] = from[k].data();
    args.to[slot] = to[k].data();
    args.channels[slot] = channels;
    args.points[slot] = points;
    args.part[slot] = part;
    args.first[slot + 1] = args.first[slot] + u32(sizes[0]) * ((channels + part - 1) / part);
  }
  send();
}
void list_move_channels(std::span<const Tensor> from, std::span<const Tensor> to) {
  for (const bool last : {true, false}) move_channels(from, to, last);
}

const bool registered = [] {
  list_loops(DeviceType::CUDA) = {list_pointwise, list_copy,  list_move_channels,
                                  moves_channels, list_fill,  list_column_sums,
                                  list_norm,      list_scale, list_unscale};
  return true;
}();

}  // namespace
}  // namespace rush::cuda
