// lists_args.h: the arguments of lists.cu. The tensors travel with the launch, so that nothing has
// to be copied to the device before it, and a captured graph keeps them.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

inline constexpr int kListMost = 64;      // tensors that one launch takes
inline constexpr i64 kListPiece = 16384;  // elements that a block takes: a multiple of every pack

// Tensors cut into pieces, which are counted through.
struct ListPieces {
  i32 tensors;
  u32 first[kListMost + 1];  // the first piece of each tensor, and behind the last one
  i64 numel[kListMost];
};

template <int Inputs>
struct ListArgs {
  ListPieces pieces;
  void* out[kListMost];
  const void* in[Inputs][kListMost];
  double numbers[kListMost];  // one per tensor, see `own`
  const void* shared[Inputs];
  Number given_numbers[Inputs], value;
  u32 single;      // bit i: input i is one element, shared[i], for all tensors
  u32 given;       // bit i: input i is given_numbers[i]
  u32 own;         // bit i: input i is the tensor's own number; bit Inputs: the functor's number is
  bool backwards;  // the last piece first: it is the one that a pass before has left in the cache
};
static_assert(sizeof(ListArgs<3>) <= 4096);

struct ListNormArgs {
  ListPieces pieces;
  const void* in[kListMost];
  double* partial;  // one per piece
};
static_assert(sizeof(ListNormArgs) <= 4096);

// Output k is joined from the partial results [begin[k], end[k]).
struct ListJoinArgs {
  u32 begin[kListMost], end[kListMost];
  const double* partial;
  void* out[kListMost];
};

// Sums down columns, kSumColumns per block; see ColumnSums in device/lists.h.
inline constexpr int kSumColumns = 32, kSumsMost = 104;
enum SumType : u8 { kSumFloat, kSumHalf, kSumBFloat16 };
struct ListSumsArgs {
  i32 tensors;
  u32 first[kSumsMost + 1];  // the first block of each, and behind the last one
  const void* from[kSumsMost];
  void* out[kSumsMost];
  u32 columns[kSumsMost], segments[kSumsMost], step[kSumsMost];
  bool by_tree[kSumsMost];
  SumType read[kSumsMost], rounded[kSumsMost], type[kSumsMost];
  u8 lanes[kSumsMost];
};
static_assert(sizeof(ListSumsArgs) <= 4096);

// Images of (batch, channels, points), a part of the channels of one per block; see
// ListLoops::move_channels. Elements of a block's part pass through shared memory.
inline constexpr int kMovedElements = 4096, kMovedChannels = 256;
struct ListMoveArgs {
  i32 tensors;
  u32 first[kListMost + 1];  // the first block of each, and behind the last one
  const void* from[kListMost];
  void* to[kListMost];
  u32 channels[kListMost], points[kListMost];
  u32 part[kListMost];  // channels per block
};
static_assert(sizeof(ListMoveArgs) <= 4096);

struct ListUnscaleArgs {
  ListPieces pieces;
  void* data[kListMost];
  const float* factor;
  float* found;
};

}  // namespace rush
