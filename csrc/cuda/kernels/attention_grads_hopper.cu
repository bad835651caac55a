// attention_grads_hopper.cu: the gradients of attention by one kernel, for Hopper's products and
// heads of 64 and 128 in half precision. Compiled for sm_90a alone.
//
// A warpgroup has 64 keys, and queries pass by, 64 at a time: the weights and their gradients are
// computed once, where attention.cu does so for queries and for keys. Each block has a part of
// every query's gradient; these are added up in global memory, in any order, so that the last bits
// may differ from call to call. Three launches:
// - attention_terms: what each query brings along (its lse and delta), and zeros for the sums;
// - attention_grads: the gradients of keys and values, and those of the queries as float sums;
// - attention_query_sums: these in the type and the layout that are asked for.
#define RUSH_WARPGROUPS
#include "cuda/kernels/attention.h"

namespace rush {

inline constexpr int kPassing = 64, kGroupKeys = 64, kGroupThreads = 128;
// Warpgroups of a block: two share the sums of queries where these are wide. Else a processor has several blocks, which
// do not wait for each other: one computes weights while another multiplies.
template <int D>
inline constexpr int kGroups = attention_grads_groups(D);
template <int D>
inline constexpr int kGradThreads = kGroups<D> * kGroupThreads;

// A warp's rows among those of its warpgroup's 64.
RUSH_FN int row_of_warp() { return int(threadIdx.x / 32 % 4 * kTileRows); }

// Where the sums and terms of a head's queries from `tile` * 64 on lie.
template <int D>
RUSH_FN float* sums_at(const AttentionGradsArgs& args, int head, int tile) {
  return args.sums + (i64(head) * args.tiles + tile) * (kPassing * D);
}
RUSH_FN float* terms_at(const AttentionGradsArgs& args, int head, int tile) {
  return args.terms + (i64(head) * args.tiles + tile) * (2 * kPassing);
}

// A block has two tiles of queries, each of its warps 16 rows.
template <class T, int D>
__global__ void __launch_bounds__(2 * kGroupThreads)
    attention_terms(const __grid_constant__ AttentionGradsArgs args) {
  after_earlier();
  const AttentionArgs& call = args.call;
  const int pairs = (args.tiles + 1) / 2;
  const HeadPlace place(call, int(blockIdx.x) / pairs);
  const int tile = int(blockIdx.x) % pairs * 2 + int(threadIdx.x / kGroupThreads);
  if (tile >= args.tiles) return;
  Pack<float, 4>* const sums =
      reinterpret_cast<Pack<float, 4>*>(sums_at<D>(args, place.number, tile));
#pragma unroll
  for (int i = 0; i < kPassing * D / 4; i += kGroupThreads)
    sums[i + int(threadIdx.x % kGroupThreads)] = {};
  const auto rows = [&](const void* p, const HeadSteps& steps) {
    return rows_of<T>(call, p, steps, place.batch, place.head, call.queries, call.value_width);
  };
  const auto out = rows(call.out, call.out_steps), g = rows(call.g, call.g_steps);
  float* const terms = terms_at(args, place.number, tile);
  const auto write = [&](int row, float delta) {
    terms[row] = lse_of(call, place.number, tile * kPassing + row);
    terms[kPassing + row] = tile * kPassing + row < call.queries ? delta : 0.0f;
  };
  const int lane = threadIdx.x % 32;
  if (call.aligned) {  // eight elements per thread; all of a warp's rows are asked for at once
    constexpr int kLanes = D / kChunk, kRows = 32 / kLanes;
    float deltas[kTileRows / kRows] = {};
#pragma unroll
    for (int i = 0; i < kTileRows / kRows; ++i) {
      const int row = tile * kPassing + row_of_warp() + i * kRows + lane / kLanes;
      const int column = lane % kLanes * kChunk;
      if (row >= out.rows || column >= out.width) continue;
      const auto x = load_pack<kChunk>(out.data + row * out.step + column);
      const auto y = load_pack<kChunk>(g.data + row * g.step + column);
#pragma unroll
      for (int e = 0; e < kChunk; ++e) deltas[i] += float(x.v[e]) * float(y.v[e]);
    }
#pragma unroll
    for (int i = 0; i < kTileRows / kRows; ++i) {
#pragma unroll
      for (int apart = 1; apart < kLanes; apart *= 2) deltas[i] += from_lane(deltas[i], apart);
      if (lane % kLanes == 0) write(row_of_warp() + i * kRows + lane / kLanes, deltas[i]);
    }
    return;
  }
  float deltas[2];
  row_products<T, D>(out, g, tile * kPassing + row_of_warp(), deltas);
  if (lane % 4 != 0) return;
#pragma unroll
  for (int r = 0; r < 2; ++r) write(row_of_warp() + lane / 4 + r * 8, deltas[r]);
}

template <class T, int D>
struct GradRoom {
  static constexpr int kKeys = kGroups<D> * kGroupKeys;
  T keys[kKeys * D], values[kKeys * D];
  T queries[2][kPassing * D], grads[2][kPassing * D];  // that pass by
  T scores[kGroups<D>][kPassing * kGroupKeys];         // gradients: queries by a group's keys
  float sums[kPassing * D];
  float terms[2][2 * kPassing];
};

// c (64 x 64) = 64 rows of a tile @ tile^T. The left tile has `Rows` altogether.
template <int D, int Rows, class T>
RUSH_FN void start_tiles(float (&c)[kPassing / 8][4], const T* left, const T* right) {
  const TilePlaces from(left), by(right);
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    const int half_of = k / 4 * kTileColumns, column = k % 4 * 16;
    multiply_tiles<false>(T(0.0f), c, from.at(half_of * Rows + column),
                          by.at(half_of * kPassing + column), k > 0);
  }
}

template <class T, int D, int extras>
__global__ void __launch_bounds__(kGradThreads<D>, (kGroups<D> == 1 ? 3 : 1))
    attention_grads(const __grid_constant__ AttentionGradsArgs args) {
  after_earlier();
  RUSH_DYNAMIC_SHARED(room, GradRoom<T, D>);
  static_assert(sizeof(room) == attention_grads_shared(D));
  constexpr int kKeys = GradRoom<T, D>::kKeys, kThreads = kGradThreads<D>;
  const AttentionArgs& call = args.call;
  const int group = threadIdx.x / kGroupThreads, lane = threadIdx.x % 32;
  const int key_heads = call.heads / call.group, number = int(blockIdx.x / call.blocks);
  const int batch = number / key_heads, head = number % key_heads;
  const int first = int(blockIdx.x % call.blocks) * kKeys;
  const int own = first + group * kGroupKeys + row_of_warp();
  load_tile<T, true, D, kKeys, kThreads>(room.keys, keys_of<T>(call, batch, head), first);
  load_tile<T, true, D, kKeys, kThreads>(room.values, values_of<T>(call, batch, head), first);
  const T* const own_keys = room.keys + group * kGroupKeys * kTileColumns;
  const T* const own_values = room.values + group * kGroupKeys * kTileColumns;
  const auto load = [&](int stage, const HeadPlace& place, int tile) {
    const auto rows = [&](const void* p, const HeadSteps& steps, int width) {
      return rows_of<T>(call, p, steps, place.batch, place.head, call.queries, width);
    };
    load_tile<T, true, D, kPassing, kThreads>(
        room.queries[stage], rows(call.q, call.q_steps, call.width), tile * kPassing);
    load_tile<T, true, D, kPassing, kThreads>(
        room.grads[stage], rows(call.g, call.g_steps, call.value_width), tile * kPassing);
    if (threadIdx.x < 2 * kPassing / 4)
      copy_async(room.terms[stage] + threadIdx.x * 4,
                 terms_at(args, place.number, tile) + threadIdx.x * 4);
  };

  const float keep_scale = extras & kDropout ? call.keep_scale : 1.0f;
  const float scale = scale_left<extras>(call);
  const WeightDropout dropout = weight_dropout_of(call);
  float key_grad[D / 8][4] = {}, value_grad[D / 8][4] = {};
  const int begin = call.causal ? first / kPassing : 0;
  for (int shared_by = 0; shared_by < call.group && begin < args.tiles; ++shared_by) {
    const HeadPlace place(call, batch * call.heads + head * call.group + shared_by);
    load(0, place, begin);
    wait_for_tiles();
    __syncthreads();
    int stage = 0;
#pragma unroll 1
    for (int tile = begin; tile < args.tiles; ++tile, stage = 1 - stage) {
      if (tile + 1 < args.tiles) load(1 - stage, place, tile + 1);
      const T *queries = room.queries[stage], *grads = room.grads[stage];
      float p[kPassing / 8][4], ds[kPassing / 8][4];
      begin_products();
      start_tiles<D, kKeys>(p, own_keys, queries);
      commit_products();
      start_tiles<D, kKeys>(ds, own_values, grads);
      commit_products();
      DroppedWeights<true, kPassing> dropped;
      if constexpr ((extras & kDropout) != 0) dropped.find(dropout, place, own, tile * kPassing);
      wait_for_products_but<1>();
      settle(p);
      finish_scores<T, extras, true, kPassing>(p, call, place, own, tile * kPassing);
      const float* const terms = room.terms[stage] + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < kPassing / 8; ++n) {
        const auto lse = load_pack<2>(terms + n * 8);
#pragma unroll
        for (int e = 0; e < 4; ++e)
          p[n][e] = math::quick_exp2(math::fma(p[n][e], scale, -lse.v[e % 2]));
      }
      wait_for_products();
      settle(ds);
#pragma unroll
      for (int n = 0; n < kPassing / 8; ++n) {
        const auto delta = load_pack<2>(terms + kPassing + n * 8);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          ds[n][e] =
              p[n][e] * score_grad<extras>(dropped, n, e, ds[n][e], keep_scale, delta.v[e % 2]);
          p[n][e] = if_kept<extras>(dropped, n, e, p[n][e]);
        }
      }
      u32 weights[kPassing / 16][4], score_grads[kPassing / 16][4];
      narrow_fragments<T, kPassing>(weights, p);
      narrow_fragments<T, kPassing>(score_grads, ds);
      begin_products();
      start_by_columns<kPassing, D>(value_grad, weights, grads);
      start_by_columns<kPassing, D>(key_grad, score_grads, queries);
      commit_products();
      // Keys by queries become queries by keys.
#pragma unroll
      for (int k = 0; k < kPassing / 16; ++k) {
        const int query = 16 * k + lane / 16 * 8 + lane % 8;
        const int chunk = row_of_warp() / kChunk + lane / 8 % 2;
        store_transposed(room.scores[group] + tile_place<kTileColumns, kPassing>(query, chunk),
                         score_grads[k]);
      }
      show_to_products();
      if (threadIdx.x == 0) read_by_adding();
      __syncthreads();
      // The warpgroup's columns of the queries' gradients, by the keys of all.
      float sums[D / kGroups<D> / 8][4];
      const TilePlaces left(room.scores[0]);
      const TilePlaces right(room.keys + group * kKeys * kTileColumns);
      begin_products();
#pragma unroll
      for (int k = 0; k < kKeys / 16; ++k)
        multiply_tiles<true>(T(0.0f), sums, left.at(k / 4 * kPassing * kGroupKeys + k % 4 * 16),
                             right.at(k * 16 * kTileColumns), k > 0);
      finish_products();
      settle(sums);
      settle(key_grad);
      settle(value_grad);
#pragma unroll
      for (int n = 0; n < kPassing / 8; ++n)
        store_pack<4>(room.sums + (n * kThreads + int(threadIdx.x)) * 4,
                      Pack<float, 4>{{sums[n][0], sums[n][1], sums[n][2], sums[n][3]}});
      wait_for_tiles();  // the next ones; shows the sums, too
      __syncthreads();
      if (threadIdx.x == 0)
        add_in_bulk(sums_at<D>(args, place.number, tile), room.sums, kPassing * D * sizeof(float));
    }
  }
  store_rows<T, D>(key_grad, head_of<T>(call.gk, call.gk_steps, batch, head), call.gk_steps.row,
                   own, call.keys, call.width, call.aligned, call.scale, call.scale);
  store_rows<T, D>(value_grad, head_of<T>(call.gv, call.gv_steps, batch, head), call.gv_steps.row,
                   own, call.keys, call.value_width, call.aligned, keep_scale, keep_scale);
  if (threadIdx.x == 0) added();
}

template <class T, int D>
__global__ void __launch_bounds__(kGradThreads<D>)
    attention_query_sums(const __grid_constant__ AttentionGradsArgs args) {
  after_earlier();
  const AttentionArgs& call = args.call;
  const HeadPlace place(call, int(blockIdx.x) / args.tiles);
  constexpr int kWidth = D / kGroups<D>;  // of a warpgroup's columns
  const int tile = int(blockIdx.x) % args.tiles, column = int(threadIdx.x / kGroupThreads) * kWidth;
  const float* const sums = sums_at<D>(args, place.number, tile);
  float c[kWidth / 8][4];
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
    const auto four = load_pack<4>(sums + (n * kGradThreads<D> + int(threadIdx.x)) * 4);
#pragma unroll
    for (int e = 0; e < 4; ++e) c[n][e] = four.v[e];
  }
  store_rows<T, kWidth>(c, head_of<T>(call.gq, call.gq_steps, place.batch, place.head) + column,
                        call.gq_steps.row, tile * kPassing + row_of_warp(), call.queries,
                        call.width - column, call.aligned, call.scale, call.scale);
}

}  // namespace rush
