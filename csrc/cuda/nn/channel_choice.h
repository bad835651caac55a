// channel_choice.h: how batch norm's kernels are launched, by themselves or as part of a work of
// several steps (cuda/pointwise/fused_rows.cpp).
#pragma once

#include <bit>

#include "cuda/nn/rows.h"
#include "device/fused.h"

namespace rush::cuda {

inline BatchNormArgs channel_args(const Tensor& x, double eps) {
  BatchNormArgs args{};
  args.n = x.numel();
  args.channels = x.sizes()[1];
  args.rows = args.n / args.channels;
  args.inner = x.is_contiguous() ? x.numel() / x.sizes()[0] / args.channels : 1;
  args.eps = eps;
  return args;
}

// Of a step over channels, for x; where x, g and y are is left open.
inline BatchNormArgs channel_args(const RowStep& row, const Tensor& x) {
  BatchNormArgs args = channel_args(x, row.eps);
  if (row.fn == RowOp::ChannelSums) {
    args.mean = row.with[0].data();
    args.var = row.with[1].data();
    args.segment = row.segment;
    return args;
  }
  const bool backward = row.fn == RowOp::ChannelsBackward;
  args.weight = data_or_null(row.with[0]);
  args.bias = backward ? nullptr : data_or_null(row.with[1]);
  args.mean = row.with[backward ? 1 : 2].data();
  args.var = row.with[backward ? 2 : 3].data();
  args.sums = backward ? row.with[3].data() : nullptr;
  return args;
}

// The types of its parameters and of its moments.
inline DType channel_parameters(const RowStep& row, std::span<const Tensor> beside, DType type) {
  if (row.fn == RowOp::ChannelSums)
    return beside[1].defined() ? beside[1].dtype() : beside[2].defined() ? beside[2].dtype() : type;
  const Tensor none, &other = row.fn == RowOp::Channels ? row.with[1] : none;
  return row.with[0].defined() ? row.with[0].dtype() : other.defined() ? other.dtype() : type;
}
inline DType channel_moments(const RowStep& row) {
  return row.with[row.fn == RowOp::Channels ? 2 : 1].dtype();
}

// Packs side by side, at most, where no sums are formed.
inline constexpr int64_t kMapColumns = 32;

// How the blocks divide the work.
struct ChannelShape {
  bool last;        // do the channels lie last?
  int width;        // elements a pack
  int64_t columns;  // packs side by side in a block (channels-last)
  int64_t tiles;    // blocks side by side
  int64_t rows;     // what segments divide: rows, or planes of a channel

  // The widest pack that these places are aligned to.
  ChannelShape(DType type, const BatchNormArgs& args, std::initializer_list<const void*> used,
               int64_t widest)
      : last(args.inner == 1) {
    const int64_t run = last ? args.channels : args.inner;
    int most = int(pack_of(type));
    while (run % most) most /= 2;
    for (const void* p : used)
      while (p && !aligned({p}, most * element_size(type))) most /= 2;
    cut(args, most, widest);
  }
  // `widest`: packs side by side, at most. Few, and more rows share the work of joining.
  ChannelShape(const BatchNormArgs& args, int width, int64_t widest) : last(args.inner == 1) {
    cut(args, width, widest);
  }
  int64_t lanes() const { return kThreads / columns; }

 private:
  void cut(const BatchNormArgs& args, int pack, int64_t widest) {
    width = pack;
    const int64_t packs = ((last ? args.channels : args.inner) + width - 1) / width;
    columns = std::min<int64_t>(last ? widest : kThreads, int64_t(std::bit_ceil(uint64_t(packs))));
    tiles = last ? (packs + columns - 1) / columns : args.channels;
    rows = last ? args.rows : args.rows / args.inner;
  }
};

// Rows in a segment: enough segments to fill the GPU, each worth a block's while. All of them where
// there are no counters to tell the last block by.
inline int64_t segment_length(const ChannelShape& s, const BatchNormArgs& args, int64_t processors,
                              int64_t rounds) {
  if (s.tiles > kStreamCounters) return s.rows;
  const int64_t wanted = std::max<int64_t>(1, processors * kNormBlocks / s.tiles);
  const int64_t least = s.last ? s.lanes() * rounds : std::max<int64_t>(1, 4096 / args.inner);
  const int64_t most = std::max<int64_t>(1, s.rows / least);
  const int64_t segments = std::clamp<int64_t>(wanted, 1, std::min<int64_t>(most, 65535));
  return (s.rows + segments - 1) / segments;
}
// Rounds of a block's lanes that a segment is worth, in kernels that only add up, and in those that do
// both.
inline constexpr int64_t kSumRounds = 8, kWholeRounds = 4;

// Does one kernel for the whole pass pay? Its second look at the elements should find them in the
// GPU's cache, and all its blocks have to run at once.
inline bool fits_one_launch(const ChannelShape& shape, int64_t bytes, int64_t processors) {
  constexpr int64_t kMost = int64_t(32) << 20;
  return shape.last && bytes <= kMost && 2 * shape.tiles <= kStreamCounters &&
         shape.tiles <= processors * kNormBlocks;
}

// For kernels that go over the elements.
inline Grid map_grid(const ChannelShape& shape, const BatchNormArgs& args, int64_t processors) {
  const int64_t blocks = processors * 8;
  if (!shape.last) {
    const int64_t planes = args.n / args.inner;
    return {
        unsigned(std::clamp<int64_t>((planes + shape.lanes() - 1) / shape.lanes(), 1, blocks * 4))};
  }
  const int64_t most = (shape.rows + shape.lanes() * 2 - 1) / (shape.lanes() * 2);
  return {unsigned(shape.tiles),
          unsigned(std::clamp<int64_t>(blocks / shape.tiles, 1, std::min<int64_t>(most, 65535)))};
}

}  // namespace rush::cuda
