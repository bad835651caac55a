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

// The moments of a row from those of its parts, which are of C(count_of(rank)) * V elements. Other
// blocks read this one's, so it has to wait_for_arrivals() before it ends.
template <int V, int Blocks, class C>
RUSH_FN RowMoments<C> join_parts(const RowPart<Blocks>& part, C mean, C squares) {
  if constexpr (Blocks == 1) {
    return {C(part.packs) * V, mean, squares};
  } else {
    __shared__ C found[2];
    if (threadIdx.x == 0) {
      found[0] = mean, found[1] = squares;
      publish_to_cluster();
    }
    arrive_at_cluster();
    wait_for_arrivals();
    RowMoments<C> all = RowMoments<C>::none();
#pragma unroll
    for (int r = 0; r < Blocks; ++r)
      all = JoinMoments{}(all, RowMoments<C>{C(part.count_of(r)) * V, read_of_block(&found[0], r),
                                             read_of_block(&found[1], r)});
    arrive_having(all.mean, all.squares);
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
    __shared__ C found[2];
    if (threadIdx.x == 0) {
      found[0] = own.plain, found[1] = own.along;
      publish_to_cluster();
    }
    arrive_at_cluster();
    wait_for_arrivals();
    PairSum<C> all{0, 0};
#pragma unroll
    for (int r = 0; r < Blocks; ++r)
      all = JoinPairs{}(all, {read_of_block(&found[0], r), read_of_block(&found[1], r)});
    arrive_having(all.plain, all.along);
    return all;
  }
}

}  // namespace rush
