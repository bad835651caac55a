// group_choice.h: how group norm's kernels for channels-last images are launched, by themselves or as
// part of a work of several steps (cuda/pointwise/fused_rows.cpp).
#pragma once

#include <bit>

#include "cuda/nn/rows.h"
#include "device/fused.h"

namespace rush::cuda {

// Of a step over groups, for x; where x, g and y are is left open.
inline GroupNormArgs group_args(const RowStep& row, const Tensor& x) {
  const bool backward = row.fn == RowOp::GroupsBackward;
  GroupNormArgs args{};
  args.weight = data_or_null(row.with[0]);
  args.bias = backward ? nullptr : data_or_null(row.with[1]);
  args.mean = row.with[backward ? 1 : 2].data();
  args.rstd = row.with[backward ? 2 : 3].data();
  args.means = backward ? const_cast<void*>(data_or_null(row.with[3])) : nullptr;
  args.batch = x.sizes()[0];
  args.channels = x.sizes()[1];
  args.groups = row.groups;
  args.inner = x.numel() / std::max<int64_t>(1, args.batch * args.channels);
  return args;
}
inline DType group_parameters(const RowStep& row, DType type) {
  const Tensor none, &other = row.fn == RowOp::Groups ? row.with[1] : none;
  return row.with[0].defined() ? row.with[0].dtype() : other.defined() ? other.dtype() : type;
}

// Elements of the widest pack that divides `run` and that these places are aligned to.
inline int64_t widest_pack(DType type, int64_t run, std::initializer_list<const void*> places) {
  int64_t width = pack_of(type);
  while (run % width != 0 || !aligned(places, width * element_size(type))) width /= 2;
  return width;
}

// Packs side by side, at most; and how many points a thread takes, at least.
struct PartShape {
  int64_t widest, share;
};
inline constexpr PartShape kMapParts{32, 4};

// Channels last: cuts samples into parts, one per block.
inline Grid cut_into_parts(GroupNormArgs& args, int64_t width, const PartShape& shape,
                           int64_t processors) {
  const int64_t packs = args.channels / width;
  args.columns = i32(std::min<int64_t>(shape.widest, int64_t(std::bit_ceil(uint64_t(packs)))));
  const int64_t tiles = (packs + args.columns - 1) / args.columns;
  const int64_t least = kThreads / args.columns * shape.share;
  const int64_t wanted = processors * 8 / std::max<int64_t>(1, args.batch * tiles);
  const int64_t segments = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, args.inner / least));
  args.segment = (args.inner + segments - 1) / segments;
  args.segments = (args.inner + args.segment - 1) / args.segment;
  return {unsigned(args.batch * args.segments), unsigned(tiles)};
}

}  // namespace rush::cuda
