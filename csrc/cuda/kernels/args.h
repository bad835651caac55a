// args.h: the arguments of the CUDA kernels, as the host fills them and the device reads them.
//
// - Plain structs, passed by value at launch (at most 4 KB); no pointer to host memory in them.
// - Compiled by g++ and NVRTC: both must see the same layout, so only types of fixed width.
// - Strides are in elements of their operand. Offsets are computed modulo 2^32 or 2^64 and read as
//   signed, so a negative stride works.
#pragma once

#include "functors/number.h"

namespace rush {

// Dims left after coalescing; the host peels the outermost ones off a nest that has more.
inline constexpr int kNestDims = 8;
inline constexpr int kMaxParams = 4;

// ---- walking over strides ----

// n / d. For 32 bits by one multiplication (Granlund and Montgomery, 1994), right for n < 2^31.
template <class I>
struct Divider {
  I d;
  static RUSH_FN Divider of(I d) { return {d}; }
  RUSH_FN I operator()(I n) const { return n / d; }
};
template <>
struct Divider<u32> {
  u32 d, magic, shift;
  static RUSH_FN Divider of(u32 d) {
    u32 shift = 0;
    while ((u64(1) << shift) < d) ++shift;
    return {d, u32(((u64(1) << 32) * ((u64(1) << shift) - d)) / d + 1), shift};
  }
  RUSH_FN u32 operator()(u32 n) const { return (u32((u64(n) * magic) >> 32) + n) >> shift; }
};

// A coalesced shape, dim 0 the innermost, with each operand's strides. I is u32 when neither the
// number of elements nor any offset reaches 2^31, else u64.
template <class I, int Operands>
struct Nest {
  i32 dims;
  Divider<I> sizes[kNestDims];
  I strides[kNestDims][Operands];
};

// ---- one struct a kernel ----

template <int Inputs>
struct PointwiseArgs {
  i64 n;
  void* out;
  const void* in[Inputs];
  u32 single;                 // bit i: input i is one element, read by everyone
  u32 given;                  // bit i: input i is numbers[i], and in[i] is not read
  Number numbers[Inputs];     // a Python number need not travel through device memory
  Number params[kMaxParams];  // the functor's own
};

struct CopyArgs {
  i64 n;
  void* out;
  const void* in;
};

struct FillArgs {
  i64 n;
  void* out;
  Number value;
};

// Matrices that lie across each other: out[b][i][j] = in[b][j][i], out contiguous along j and in
// along i; steps in elements.
struct TurnArgs {
  void* out;
  const void* in;
  i64 batches, rows, cols;  // of out
  i64 out_row, out_batch, in_row, in_batch;
};

// A kept dim is one that the output has; `n` elements are folded into each of `outputs`.
struct ReduceArgs {
  const void* in;
  void* out;
  void* second;   // the winners' values of arg reductions, the means of variances; or null
  void* partial;  // [segments][outputs] of the fold's Acc when segments > 1, else unused
  i64 outputs, n;
  i64 segment;  // elements a segment; a multiple of the vector width
  i32 segments;
  double count;  // what a mean or a variance divides by
};

// The first bad index of the first launch that met one; the host resets it and raises from it at
// the next synchronisation.
struct IndexFault {
  u64 launch;    // ~0: none
  i64 position;  // among the launch's indices, in row-major order
  i64 value;
  u32 lock;
};

struct IndexArgs {
  i64 n;
  void* out;
  const void* source;
  const i64* index;
  i64 size;    // of the indexed dim
  i64 stride;  // of the indexed dim, in elements
  bool wraps;  // negative indices count from the end
  u64 launch;  // grows with each launch
  IndexFault* fault;
};

struct BetweenArgs {
  i64 n;
  const void* x;
  double lo, hi;
  u64 launch;
  IndexFault* fault;
};

struct ScatterArgs {
  i64 lines;  // each is written by one thread, in order
  void* out;
  const void* source;
  const i64* index;
  i64 length, index_step, source_step;  // along a line
  i64 size, stride;                     // as in IndexArgs
  Number alpha;
};

struct RandomArgs {
  i64 n;
  void* out;
  u64 seed, call;
  double a, b;
  u32 mask;  // bits of each word that count, for targets with fewer bits than float32
};

struct RandomIntArgs {
  i64 n;
  void* out;
  u64 seed, call;
  i64 from;
  u64 range;  // 0 stands for 2^64
};

inline constexpr int kOptimizerPointers = 5, kOptimizerNumbers = 10;
inline constexpr i64 kOptimizerPiece = 8192;  // elements a block takes
struct OptimizerTarget {
  void* ptrs[kOptimizerPointers];  // the parameter, its gradient, its states
  i64 numel;
  double numbers[kOptimizerNumbers];
};
struct OptimizerPiece {
  u32 tensor, number;
};
struct OptimizerArgs {
  const OptimizerTarget* tensors;
  const OptimizerPiece* pieces;
};

// Rows of `width`: x, y (gx in the backward pass), g; one mean and rstd a row. Absent ones are
// null.
struct RowNormArgs {
  const void *x, *g, *weight, *bias;
  void *y, *mean, *rstd, *partial;
  i64 rows, width, segment;  // segment: rows that one block's sums cover
  double eps;
};

struct JoinPairsArgs {
  const void* partial;  // [segments][2][channels]
  void *gw, *gb;
  i64 segments, channels;
};

struct SoftmaxArgs {
  const void* x;
  void* y;
  i64 rows, width;
};

// (batch, channels, inner); one mean and variance a channel.
struct ChannelNormArgs {
  i64 n;
  Divider<u32> channels, inner;
  const void *x, *g, *weight, *bias, *mean, *var, *gw, *gb;
  void *y, *partial;
  i64 segment;
  double eps;
};

// Missing spatial dims have size 1 and stand in front.
struct PoolArgs {
  i64 n;  // elements that threads take
  const void* x;
  void* y;
  i64* indices;
  i64 channels;
  i32 in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
  bool channels_last, adaptive, include_pad;
  double divisor;  // 0: the window's size
};

// out[b] = in_a[b] @ in_b[b], shapes (m, k) and (k, n); steps in elements, a batch step may be 0.
struct MatmulArgs {
  void* out;
  const void* a;
  const void* b;
  i64 batches, m, n, k;
  i64 out_batch, out_row, out_col;
  i64 a_batch, a_row, a_col;
  i64 b_batch, b_row, b_col;
};

}  // namespace rush
