// args.h: the arguments of the CUDA kernels, as the host fills them and the device reads them.
//
// - Plain structs, passed by value at launch (at most 4 KB); no pointer to host memory in them.
// - Compiled by g++ and NVRTC: both must see the same layout, so only types of fixed width.
// - Strides are in elements of their operand. Offsets are computed modulo 2^32 or 2^64 and read as
//   signed, so a negative stride works.
#pragma once

#include "cuda/kernels/early.h"
#include "functors/number.h"
#include "functors/stored.h"

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

// ---- one struct per kernel ----

// Packs of V elements that a thread of a flat launch takes at a time.
RUSH_FN constexpr int packs_at_once(int V) { return V <= 4 ? 4 : 2; }

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
inline constexpr int kNarrowMost = 16;
RUSH_FN constexpr int narrow_run(int element_size) { return 1024 / element_size; }
struct TransposeArgs {
  void* out;
  const void* in;
  i64 batches, rows, cols;  // of out
  i64 out_row, out_batch, in_row, in_batch;
};

// Blocks of a reduction that a processor has room for: the compiler keeps registers to that.
inline constexpr int kReduceBlocks = 5;

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
  bool nonzero;  // instead: anything but zero will do
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
  // Of one index, that has not been checked by a launch before.
  u64 launch;
  bool is_unchecked, wraps;
};

// Seed and call number of random numbers. In a captured graph `state` is a place on the device
// that each replay fills: the seed, and a number to add to the call.
struct RandomKey {
  u64 seed, call;
};
RUSH_FN RandomKey random_key(u64 seed, u64 call, const u64* state) {
  if (state) return {state[0], state[1] + call};
  return {seed, call};
}

struct RandomArgs {
  i64 n;
  void* out;
  u64 seed, call;
  double a, b;
  u32 mask;  // bits of each word that count, for targets with fewer bits than float32
  const u64* state = nullptr;
};

struct RandomIntArgs {
  i64 n;
  void* out;
  u64 seed, call;
  i64 from;
  u64 range;  // 0 stands for 2^64
  const u64* state = nullptr;
};

inline constexpr int kOptimizerPointers = 5, kOptimizerNumbers = 10, kOptimizerScalars = 3,
                     kOptimizerOptions = 8;
inline constexpr i64 kOptimizerPiece = 8192;  // elements a block takes
struct OptimizerTarget {
  void* ptrs[kOptimizerPointers];  // the parameter, its gradient, its states
  i64 numel;
  double numbers[kOptimizerNumbers];
  void* scalars[kOptimizerScalars];
};
struct OptimizerPiece {
  u32 tensor, number;
};
struct OptimizerArgs {
  const OptimizerTarget* tensors;
  const OptimizerPiece* pieces;
};
struct OptimizerNumbersArgs {
  OptimizerTarget* tensors;  // their numbers are written
  i64 n;
  double options[kOptimizerOptions];
  const double* places[kOptimizerOptions];  // null: the option is the number
  bool wide;                                // the scalars are float64
};

inline constexpr int kRowNormBlocks = 2;  // that a processor runs at once where rows are prefetched
// Rows of `width`: x, y (gx in the backward pass), g; one mean and rstd per row. Absent ones are
// null.
struct RowNormArgs {
  const void *x, *g, *weight, *bias;
  void *y, *mean, *rstd, *partial;
  i64 rows, width, segment;  // segment: rows that one block's sums cover
  double eps;
};

// (batch, channels, inner) contiguous, or (batch, inner, channels); one mean and rstd per sample and
// group.
struct GroupNormArgs {
  const void *x, *g, *weight, *bias;
  void *y, *mean, *rstd;
  void* partial;  // the planes' sums, [batch][2][channels]
  i64 batch, channels, groups, inner;
  double eps;
  // Channels last:
  void *segment_sums, *means;  // [batch][segments][channels] pairs, [batch][groups] pairs
  i64 segment, segments;       // points that a block takes; how many times that is a sample
  i32 columns;                 // packs side by side in a block
  u32* counters;               // one per sample, where the last block joins segments
};

// Rows of `width`; or columns of (outer, width, inner), counted as rows. Backward: x is the forward
// pass's result and y the argument's gradient.
struct SoftmaxArgs {
  const void *x, *g;
  void* y;
  i64 rows, width, inner;
};

// Scores (batch, classes, points) and class indices (batch, points). Steps are in elements of the
// scores, and of their gradient. Absent tensors are null.
struct CrossEntropyArgs {
  const void *x, *weight, *g;
  const i64* target;
  void *loss, *total, *gx;
  double *partial, *weights;  // sums of losses and weights, a pair a block; the sum of all weights
  i64 batch, classes, points;
  i64 batch_step, class_step, point_step;
  i64 ignore_index;
  double smoothing;
  i32 g_step;       // 0: one gradient for all positions
  i32 blocks;       // of the launch that wrote `partial`
  bool reduces;     // the losses are added up
  bool mean;        // and divided by the sum of weights
  bool float_loss;  // of half-precision scores: the loss and its gradient are float
  u64 launch;
  IndexFault* fault;
  u32* counter;  // the last block joins the sums; null: a second launch does
};

struct JoinPairsArgs {
  const void* partial;  // [segments][2][channels]
  void *gw, *gb;
  i64 segments, channels;
};

// (batch, channels, inner); one mean and variance a channel.
inline constexpr int kNormColumns = 8;  // packs side by side, at most, where channels are added up
inline constexpr int kNormBlocks = 3;   // that each processor runs at once of the kernels that wait
struct BatchNormArgs {
  i64 n, channels, rows;  // elements, channels, elements of a channel
  i64 inner;              // 1 for channels-last
  i64 segment;            // rows (planes) that a block adds up
  i32 columns;            // packs side by side in a block; contiguous: threads for one plane
  const void *x, *g, *weight, *bias, *mean, *var;
  void *y, *mean_out, *var_out, *running_mean, *running_var, *gw, *gb;
  i64* batches;
  void *partial, *sums;  // [segment][channel pack], [2][channels]
  u32* counters;         // one for each block of channels; two where blocks wait
  double momentum, eps;
};

// A convolution of each channel by itself, channels-last.
inline constexpr int kDepthwiseRun = 4;
struct DepthwiseArgs {
  const void *x, *w, *bias, *y;  // y: what the backward passes read
  void *x_out, *w_out, *y_out, *partial;
  i64 channels, taps, stretches;
  u32 pixels;  // that threads go over: the outputs, or the inputs for their gradient; or runs of them
  u32 segment;  // pixels (runs) that a block takes
  i32 columns;  // packs of channels side by side in a block
  Divider<u32> in_h, in_w, out_h, out_w, stride_h, stride_w;
  Divider<u32> runs;  // of kDepthwiseRun pixels, per line of the result
  i32 stride[2], padding[2], dilation[2];
};

// Missing spatial dims have size 1 and stand in front.
template <class I>
struct PoolArgs {
  i64 n;  // places that threads take
  const void* x;
  void* y;
  i64* indices;
  I channels;
  Divider<I> packs, in[3], out[3];  // packs: channels, or how many packs of them
  i32 kernel[3], stride[3], padding[3], dilation[3];
  bool channels_last, adaptive, include_pad;
  double divisor;  // 0: the window's size
};

// Losses of n pairs; g_step as above.
struct LossArgs {
  i64 n;
  const void *x, *target, *g;
  void* y;
  double* partial;
  i32 g_step, blocks;
  double parameter, scale;
  u32* counter = nullptr;  // the last block joins the sums; null: a second launch does
};

// y = x * scale + shift where an element is kept, x * 0 + floor elsewhere.
struct DropoutArgs {
  i64 n;
  const void* x;
  void* y;
  truth* mask;
  u64 seed, call;
  double keep;  // the probability
  double scale, shift, floor;
};

// out[b] = in_a[b] @ in_b[b], shapes (m, k) and (k, n); steps in elements, a batch step may be 0.
inline constexpr int kSmallDepth = 128;  // the deepest product that matmul_small takes
struct MatmulArgs {
  void* out;
  const void* a;
  const void* b;
  const void* bias;  // n numbers, added to every row (matmul_small), or null
  i64 batches, m, n, k;
  i64 out_batch, out_row, out_col;
  i64 a_batch, a_row, a_col;
  i64 b_batch, b_row, b_col;
  i64 relu;  // of what is written (matmul_small)
};
inline constexpr int kMostPieces = 64;  // a launch; more take more launches
struct PiecesArgs {
  const void* from[kMostPieces];
  void* to[kMostPieces];
  i64 count[kMostPieces];  // of elements
};

// One step of a recurrent cell, forward or backward; see rnn.cu.
struct CellArgs {
  i64 batch, units;
  const void *input_sums, *state_sums, *b_input, *b_state, *before;
  void *h, *c, *kept;
  const void *h_grad, *c_grad;
  void *input_sums_grad, *state_sums_grad, *before_grad;
};

// One step of an LSTM inside a sequence; see rnn.cu.
struct LstmStepArgs {
  i64 rows, units;
  void* sums;  // (rows, 4 * units); gates afterwards
  const void *b_input, *b_state;
  void *h, *c;            // (rows, units): the states, before and after
  void* out;              // h again, `out_step` from row to row
  void *kept_h, *kept_c;  // the states before; null: no backward will come
  i64 out_step;
};
struct LstmStepGradArgs {
  i64 rows, units;
  void* gates;  // their gradients afterwards
  const void *kept_c, *out_grad;
  i64 out_step;
  const void* h_grad;  // of the state after the step
  void* c_grad;        // of the state after it, then before it
};

// From one row, head and batch to the next, in elements.
struct HeadSteps {
  i64 row, head, batch;
};
// See attention.cu; heads are counted as those of the queries.
struct AttentionArgs {
  const void *q, *k, *v, *mask, *g;
  void *out, *gq, *gk, *gv;
  float *lse, *delta;  // (batch * heads, queries)
  HeadSteps q_steps, k_steps, v_steps, mask_steps, out_steps, g_steps, gq_steps, gk_steps, gv_steps;
  i64 mask_col;
  i32 queries, keys, width, value_width;
  i32 heads, group;  // of queries; that share keys
  i32 blocks;        // per head
  bool causal;
  bool mask_is_bool, mask_is_half;  // half: the operands' type; neither: float32
  bool aligned;            // every row starts at a multiple of 16 bytes and has a multiple of them
  float scale;             // of scores
  float keep, keep_scale;  // dropout keeps a weight with this probability; 1: no dropout
  u64 seed, call;
  const u64* state;  // see random_key
};

// See attention_grads_hopper.cu.
struct AttentionGradsArgs {
  AttentionArgs call;
  // Per head and tile of 64 queries: the gradients of these so far, as the kernel's threads hold them.
  float* sums;
  float* terms;  // the same: 64 times lse with base 2, then 64 times delta
  i32 tiles;     // per head
};
// Warpgroups of a block, and its bytes of shared memory, for heads of `width`.
RUSH_FN constexpr int attention_grads_groups(int width) { return width > 64 ? 2 : 1; }
RUSH_FN constexpr u32 attention_grads_shared(int width) {
  const int keys = 64 * attention_grads_groups(width), queries = 64, element = 2;
  return u32((2 * keys + 4 * queries) * width * element + keys * queries * element +
             queries * width * 4 + 4 * queries * 4);
}

// Few rows of queries against many keys, which are split among blocks.
struct AttentionDecodeArgs {
  AttentionArgs call;
  // Per unit (a head of keys or of queries), split and row: the sums so far, then per row the largest
  // score and the sum of exponentials.
  float* parts;
  u32* counters;  // per unit
  i32 rows, splits;
  i32 tiles;            // per split
  bool heads_are_rows;  // one query each of the heads that share keys; else the queries of a head
};

}  // namespace rush
