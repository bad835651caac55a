// attention_decode.cu: attention of few queries, as a model writes its text: one query, many keys.
//
// A block of the general kernel has 64 queries, and would walk alone over all keys of a head. Here
// the keys are split among blocks, so that the whole GPU reads them, and among the warps of a block.
// A warp has up to 16 rows: the queries of a head, or of one query all heads that share the keys,
// which are then read once. Each keeps its rows' maxima and sums as attention.cu does; the warps of
// a block are joined in shared memory, and the blocks of a unit by the one that comes last, in their
// order: the same bits every time.
//
// A model's cache is mostly short, and then nearly all the time goes to waiting: for memory, and for
// the last block. So where the blocks of a unit are few, they are a cluster and read each other's
// shared memory instead (attention_decode_near), each for some of the results.
#include "cuda/kernels/attention.h"
#include "cuda/kernels/cluster.h"
#include "cuda/kernels/last_block.h"

namespace rush {

inline constexpr int kDecodeKeys = kTileWarps * kTileRows;  // that a block takes at a time

// Where a unit's rows are.
struct DecodePlace {
  int batch, head, key_head;
  bool across;  // rows are heads
  RUSH_FN DecodePlace(const AttentionDecodeArgs& args, int unit) : across(args.heads_are_rows) {
    const AttentionArgs& a = args.call;
    const int units = across ? a.heads / a.group : a.heads, own = unit % units;
    batch = unit / units;
    head = across ? own * a.group : own;
    key_head = across ? own : own / a.group;
  }
  RUSH_FN i64 row_step(const HeadSteps& s) const { return across ? s.head : s.row; }
  RUSH_FN i64 lse_place(const AttentionArgs& a, int row) const {
    const i64 number = i64(batch) * a.heads + head;
    return across ? number + row : number * a.queries + row;
  }
};

// Rows that were added up apart: what either has counts by its distance to the common maximum.
struct DecodeRow {
  float top, sum;
  RUSH_FN float weight(float of) const {
    return math::quick_exp2(of - (top == minus_infinity() ? 0.0f : top));
  }
};

template <class T, int D>
RUSH_FN void finish_row(const AttentionArgs& a, const DecodePlace& place, int row, int col,
                        const DecodeRow& all, float value) {
  if (col == 0)
    a.lse[place.lse_place(a, row)] =
        all.sum == 0.0f ? minus_infinity() : all.top * kLn2 + math::log(all.sum);
  if (col < a.value_width)
    head_of<T>(a.out, a.out_steps, place.batch,
               place.head)[row * place.row_step(a.out_steps) + col] =
        T(all.sum == 0.0f ? 0.0f : value / all.sum);
}

// C: the blocks of a unit, if they are a cluster; or 1.
template <class T, int D, bool extras, int C>
RUSH_FN void decode(const AttentionDecodeArgs& args) {
  constexpr bool exact = true;
  constexpr int kTile = kTileRows * D;
  static_assert(sizeof(T) == 2);  // so that sums fit where the tiles were
  alignas(16) __shared__ T room[kTileWarps * 2 * kTile];
  __shared__ float tops[kTileWarps][kTileRows], sums[kTileWarps][kTileRows];
  const AttentionArgs& a = args.call;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int unit = int(blockIdx.x) / args.splits, split = int(blockIdx.x) % args.splits;
  const DecodePlace place(args, unit);
  const auto k = keys_of<T>(a, place.batch, place.key_head);
  const auto v = values_of<T>(a, place.batch, place.key_head);
  auto q = rows_of<T>(a, a.q, a.q_steps, place.batch, place.head, args.rows, a.width);
  q.step = place.row_step(a.q_steps);
  const i64 mask_at = place.batch * a.mask_steps.batch + place.head * a.mask_steps.head;

  T *keys = room + warp * 2 * kTile, *values = keys + kTile;
  float out[D / 8][4] = {};
  float top[2] = {minus_infinity(), minus_infinity()}, sum[2] = {0, 0};
  const int begin = split * args.tiles * kDecodeKeys, wanted = begin + args.tiles * kDecodeKeys;
  const int end = wanted < a.keys ? wanted : a.keys;
  const auto load = [&](int key) {
    if (key >= end) return;
    load_tile<T, exact, D, kTileRows, 32>(keys, k, key, lane);
    load_tile<T, exact, D, kTileRows, 32>(values, v, key, lane);
  };
  load(begin + warp * kTileRows);  // on their way together with the queries
  RowFragments<T, exact, D> queries;
  queries.load(q, 0);
#pragma unroll 1
  for (int key = begin + warp * kTileRows; key < end; key += kDecodeKeys) {
    // What the mask says is on its way together with the keys.
    bool hidden[2][4];
    float added[2][4] = {};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int r = i / 4, n = i / 2 % 2, e = i % 2;
      const int row = lane / 4 + r * 8, at = key + n * 8 + lane % 4 * 2 + e;
      hidden[n][2 * r + e] = at >= a.keys;
      if (extras && at < a.keys && row < args.rows) {
        const i64 m = mask_at + row * place.row_step(a.mask_steps) + at * a.mask_col;
        if (a.mask_is_bool)
          hidden[n][2 * r + e] = !static_cast<const truth*>(a.mask)[m];
        else if (a.mask_is_half)
          added[n][2 * r + e] = float(static_cast<const T*>(a.mask)[m]) * kLog2E;
        else
          added[n][2 * r + e] = static_cast<const float*>(a.mask)[m] * kLog2E;
      }
    }
    wait_for_copies();
    __syncwarp();
    float p[2][4] = {};
    multiply_by_rows<kTileRows>(p, queries, keys);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float here = minus_infinity();
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = p[n][2 * r + e];
          x *= a.scale * kLog2E;
          if (extras) x += added[n][2 * r + e];
          if (hidden[n][2 * r + e]) x = minus_infinity();
          here = x > here ? x : here;
        }
      }
      here = row_max(here);
      const DecodeRow next{here > top[r] ? here : top[r], 0};
      const float factor = next.weight(top[r]);
      top[r] = next.top;
      sum[r] *= factor;
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) sum[r] += p[n][2 * r + e] = next.weight(p[n][2 * r + e]);
#pragma unroll
      for (int d = 0; d < D / 8; ++d) out[d][2 * r] *= factor, out[d][2 * r + 1] *= factor;
    }
    multiply_by_columns<T, exact, kTileRows, D>(out, p, values);
    __syncwarp();  // the next tiles come where these are
    load(key + kDecodeKeys);
  }

  // The warps' rows become the block's.
  __syncthreads();
  float* sums_of_values = reinterpret_cast<float*>(room);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = lane / 4 + r * 8;
    const float all = row_sum(sum[r]);
    if (lane % 4 == 0) tops[warp][row] = top[r], sums[warp][row] = all;
    float* to = sums_of_values + warp * kTile + row * D + lane % 4 * 2;
#pragma unroll
    for (int d = 0; d < D / 8; ++d) to[8 * d] = out[d][2 * r], to[8 * d + 1] = out[d][2 * r + 1];
  }
  __syncthreads();
  // What each warp's row counts for, once per row.
  __shared__ float shares[kTileWarps][kTileRows];
  __shared__ DecodeRow joined[kTileRows];
  if (int(threadIdx.x) < args.rows) {
    const int row = threadIdx.x;
    DecodeRow all{minus_infinity(), 0};
#pragma unroll
    for (int w = 0; w < kTileWarps; ++w) all.top = tops[w][row] > all.top ? tops[w][row] : all.top;
#pragma unroll
    for (int w = 0; w < kTileWarps; ++w) {
      shares[w][row] = all.weight(tops[w][row]);
      all.sum += shares[w][row] * sums[w][row];
    }
    joined[row] = all;
  }
  __syncthreads();
  const int cells = args.rows * D, record = cells + 2 * args.rows;
  float* const parts = args.parts + i64(unit) * args.splits * record;
  __shared__ float own_cells[C > 1 ? kTile : 1];
#pragma unroll 4
  for (int i = threadIdx.x; i < cells; i += kTileThreads) {
    const int row = i / D, col = i % D;
    float value = 0;
#pragma unroll
    for (int w = 0; w < kTileWarps; ++w) value += shares[w][row] * sums_of_values[w * kTile + i];
    const DecodeRow& all = joined[row];
    if constexpr (C > 1) {
      own_cells[i] = value;
      continue;
    }
    if (args.splits == 1) {
      finish_row<T, D>(a, place, row, col, all, value);
      continue;
    }
    float* const own = parts + split * record;
    own[i] = value;
    if (col == 0) own[cells + row] = all.top, own[cells + args.rows + row] = all.sum;
  }
  if constexpr (C > 1) {
    wait_for_cluster();
    for (int i = split * kTileThreads + int(threadIdx.x); i < cells; i += C * kTileThreads) {
      float found[C][3];
#pragma unroll
      for (int s = 0; s < C; ++s) {
        found[s][0] = read_of_block(&joined[i / D].top, s);
        found[s][1] = read_of_block(&joined[i / D].sum, s);
        found[s][2] = read_of_block(own_cells + i, s);
      }
      DecodeRow all{minus_infinity(), 0};
      float value = 0;
#pragma unroll
      for (int s = 0; s < C; ++s) all.top = found[s][0] > all.top ? found[s][0] : all.top;
#pragma unroll
      for (int s = 0; s < C; ++s) {
        const float weight = all.weight(found[s][0]);
        all.sum += weight * found[s][1];
        value += weight * found[s][2];
      }
      finish_row<T, D>(a, place, i / D, i % D, all, value);
    }
    wait_for_cluster();  // nobody ends while others read
    return;
  }
  if (args.splits == 1 || !comes_last(args.counters + unit, u32(args.splits))) return;

  // And the blocks' rows the unit's. First what each counts for, then the sums: whatever a thread
  // reads next does not wait for what it read before. (The host splits so that they fit
  // here.) Past this processor's own cache, which may hold older values.
  float *weights = sums_of_values, *counted = weights + args.splits * args.rows;
  const int pairs = args.splits * args.rows;
  for (int i = threadIdx.x; i < pairs; i += kTileThreads) {
    const float* from = parts + i / args.rows * record + cells + i % args.rows;
    weights[i] = __ldcg(from), counted[i] = __ldcg(from + args.rows);
  }
  __syncthreads();
  if (int(threadIdx.x) < args.rows) {
    DecodeRow all{minus_infinity(), 0};
    for (int i = threadIdx.x; i < pairs; i += args.rows)
      all.top = weights[i] > all.top ? weights[i] : all.top;
    for (int i = threadIdx.x; i < pairs; i += args.rows) {
      weights[i] = all.weight(weights[i]);
      all.sum += weights[i] * counted[i];
    }
    joined[threadIdx.x] = all;
  }
  __syncthreads();
  // Four cells of four blocks at a time, read together.
  constexpr int kCells = 4, kSplits = 4;
  for (int i = threadIdx.x; i < cells; i += kCells * kTileThreads) {
    float value[kCells] = {};
    for (int s = 0; s < args.splits; s += kSplits) {
      float found[kSplits][kCells];
#pragma unroll
      for (int j = 0; j < kSplits; ++j)
#pragma unroll
        for (int c = 0; c < kCells; ++c) {
          const int at = i + c * kTileThreads;
          found[j][c] =
              s + j < args.splits && at < cells ? __ldcg(parts + i64(s + j) * record + at) : 0.0f;
        }
#pragma unroll
      for (int j = 0; j < kSplits; ++j)
#pragma unroll
        for (int c = 0; c < kCells; ++c) {
          const int at = i + c * kTileThreads;
          if (s + j < args.splits && at < cells)
            value[c] += weights[(s + j) * args.rows + at / D] * found[j][c];
        }
    }
#pragma unroll
    for (int c = 0; c < kCells; ++c) {
      const int at = i + c * kTileThreads;
      if (at < cells) finish_row<T, D>(a, place, at / D, at % D, joined[at / D], value[c]);
    }
  }
}

template <class T, int D, bool extras>
__global__ void __launch_bounds__(kTileThreads) attention_decode(AttentionDecodeArgs args) {
  after_earlier();
  decode<T, D, extras, 1>(args);
}
template <class T, int D, bool extras, int C>
__global__ void __launch_bounds__(kTileThreads) RUSH_CLUSTER(C)
    attention_decode_near(AttentionDecodeArgs args) {
  after_earlier();
  decode<T, D, extras, C>(args);
}

}  // namespace rush
