// group_rows.h (NVRTC): rows of contiguous images for group norm, a group of a sample each, and what
// blocks exchange that share one (a cluster).
#pragma once

#include "cuda/kernels/channel_sums.h"
#include "cuda/kernels/cluster.h"
#include "cuda/kernels/norm_rows.h"

namespace rush {

// A group of a sample: blockIdx.x numbers them, or their blocks.
struct GroupRow {
  i64 row, per_group, width, sample, first;  // first: its first channel
  RUSH_FN explicit GroupRow(const GroupNormArgs& args, int blocks = 1)
      : row(blockIdx.x / blocks),
        per_group(quotient(args.channels, args.groups)),
        width(per_group * args.inner),
        sample(quotient(row, args.groups)),
        first((row - sample * args.groups) * per_group) {}
};

// What a block takes of a row, of Blocks that are a cluster: packs, counted from the row's first.
template <int Blocks>
struct RowPart {
  u32 rank = blockIdx.x % Blocks, packs, share, begin;
  RUSH_FN explicit RowPart(i64 packs)
      : packs(u32(packs)), share((u32(packs) + Blocks - 1) / Blocks), begin(rank * share) {}
  RUSH_FN u32 count_of(u32 rank) const {
    const u32 from = rank * share;
    return from >= packs ? 0 : from + share <= packs ? share : packs - from;
  }
};

// The moments of a row from those of its parts, which are of C(count_of(rank)) * V elements. Of more
// blocks than one each has to wait_for_arrivals() before it ends; see exchange.
template <int V, int Blocks, class C>
RUSH_FN RowMoments<C> join_parts(const RowPart<Blocks>& part, C mean, C squares) {
  if constexpr (Blocks == 1) {
    return {C(part.packs) * V, mean, squares};
  } else {
    __shared__ C found[Blocks][2];
    exchange(mean, squares, found);
    RowMoments<C> all = RowMoments<C>::none();
#pragma unroll
    for (int r = 0; r < Blocks; ++r)
      all = JoinMoments{}(all, RowMoments<C>{C(part.count_of(r)) * V, found[r][0], found[r][1]});
    return all;
  }
}

// Scale and shift of the channels that a block meets, where they are not too many.
template <class C>
struct ChannelTable {
  static constexpr int kMost = 64;
  C scale[kMost], shift[kMost];
};

// What all blocks of a row found, in the order of their numbers; see join_parts.
template <int Blocks, class C>
RUSH_FN PairSum<C> join_sums_of_blocks(const PairSum<C>& own) {
  if constexpr (Blocks == 1) {
    return own;
  } else {
    __shared__ C found[Blocks][2];
    exchange(own.plain, own.along, found);
    PairSum<C> all{0, 0};
#pragma unroll
    for (int r = 0; r < Blocks; ++r) all = JoinPairs{}(all, {found[r][0], found[r][1]});
    return all;
  }
}

}  // namespace rush
