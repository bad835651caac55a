// attention.cu: softmax(q k^T * scale + mask) v by tiles: the weights exist only in registers.
//
// Dao, "FlashAttention-2" (2023), with a block of 4 warps, 16 rows each:
// - forward: 64 queries; tiles of N keys and values pass by. A row keeps its maximum and its sum of
//   exponentials so far; what was added up is brought to a new maximum when there is one. The
//   next tile of keys is on its way while values are multiplied, and the other way round.
// - backward, in two kernels without atomics, so that the same numbers come out every time: of the
//   queries (a block has 64 of them, keys pass by), then of keys and values (a block has 64 keys,
//   queries pass by). Both compute the weights again from lse, the logarithm of each row's sum.
//   The first one also writes delta, the sums of g * out over each row, for the second.
// - D: the width of heads, filled up to a power of two. `exact`: see Note [Parts of a float].
//   `extras`: whether there is a mask, or dropout.
// Tiles that pass by in backward have two places: while one is worked with, the next one comes.
#include "cuda/kernels/attention.h"

namespace rush {

// ---- forward ----

// Four blocks per processor where registers allow it: a usual batch of heads then runs in one wave.
template <class T, int D>
inline constexpr int kForwardBlocks = D > 64                           ? 2
                                      : sizeof(T) == 2 && !kWarpgroups ? 4
                                                                       : 3;

template <class T, int D, int N, bool exact, int extras>
__global__ void __launch_bounds__(kTileThreads, (kForwardBlocks<T, D>))
    attention_forward(AttentionArgs args) {
  after_earlier();
  constexpr int kQueries = kTileWarps * kTileRows, kRoom = Parts<T, exact>::kCount * N * D;
  using E = typename Parts<T, exact>::Element;
  alignas(kTileAlignment) __shared__ E room[2 * kRoom];
  E *keys = room, *values = room + kRoom;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const HeadPlace place(args, int(blockIdx.x / args.blocks));
  // Under a causal mask the last queries have most to do: they begin.
  const int first = (args.blocks - 1 - int(blockIdx.x % args.blocks)) * kQueries;
  const int own = first + warp * kTileRows, key_head = place.head / args.group;
  const auto k = keys_of<T>(args, place.batch, key_head);
  const auto v = values_of<T>(args, place.batch, key_head);

  load_tile<T, exact, D, N>(keys, k, 0);
  RowFragments<T, exact, D> queries;
  queries.load(
      rows_of<T>(args, args.q, args.q_steps, place.batch, place.head, args.queries, args.width),
      own);
  const int end = args.causal && first + kQueries < args.keys ? first + kQueries : args.keys;
  float out[D / 8][4] = {};
  float top[2] = {minus_infinity(), minus_infinity()}, sum[2] = {0, 0};
  const float scale = scale_left<extras>(args);
  const WeightDropout dropout = weight_dropout_of(args);
#pragma unroll 1
  for (int key = 0; key < end; key += N) {
    wait_for_tiles();
    __syncthreads();
    load_tile<T, exact, D, N>(values, v, key);
    float p[N / 8][4];
    DroppedWeights<false, N> dropped;
    multiply_by_rows<N>(p, queries, keys, [&] {
      if constexpr ((extras & kDropout) != 0) dropped.find(dropout, place, own, key);
    });
    finish_scores<T, extras, false, N>(p, args, place, own, key);
    wait_for_tiles();
    __syncthreads();
    if (key + N < end) load_tile<T, exact, D, N>(keys, k, key + N);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float here = minus_infinity();
#pragma unroll
      for (int n = 0; n < N / 8; ++n) {
        here = math::fmax(here, p[n][2 * r]);
        here = math::fmax(here, p[n][2 * r + 1]);
      }
      here = row_max(here) * scale;
      const float next = here > top[r] ? here : top[r];
      const float base = next == minus_infinity() ? 0.0f : next;  // nothing to see yet
      const float factor = math::quick_exp2(top[r] - base);
      top[r] = next;
      sum[r] *= factor;
#pragma unroll
      for (int n = 0; n < N / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = p[n][2 * r + e];
          x = math::quick_exp2(math::fma(x, scale, -base));
          sum[r] += x;
          x = if_kept<extras>(dropped, n, 2 * r + e, x);
        }
      }
#pragma unroll
      for (int d = 0; d < D / 8; ++d) out[d][2 * r] *= factor, out[d][2 * r + 1] *= factor;
    }
    multiply_by_columns<T, exact, N, D>(out, p, values);
  }

  float share[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float all = row_sum(sum[r]);
    const int query = own + lane / 4 + r * 8;
    // A query that may see nothing gets zeros.
    share[r] = all == 0.0f ? 0.0f : (extras & kDropout ? args.keep_scale : 1.0f) / all;
    if (lane % 4 == 0 && query < args.queries)
      args.lse[i64(place.number) * args.queries + query] =
          all == 0.0f ? minus_infinity() : top[r] * kLn2 + math::log(all);
  }
  store_rows<T, D>(out, head_of<T>(args.out, args.out_steps, place.batch, place.head),
                   args.out_steps.row, own, args.queries, args.value_width, args.aligned, share[0],
                   share[1]);
}

// ---- backward ----

// Places for each tile that passes by: a float has too many parts for two.
template <class T>
inline constexpr int kStages = sizeof(T) == 2 ? 2 : 1;

template <class T, int D, int N, bool exact, int extras>
__global__ void __launch_bounds__(kTileThreads) attention_query_grad(AttentionArgs args) {
  after_earlier();
  constexpr int kQueries = kTileWarps * kTileRows, kRoom = Parts<T, exact>::kCount * N * D;
  using E = typename Parts<T, exact>::Element;
  alignas(kTileAlignment) __shared__ E room[kStages<T>][2][kRoom];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const HeadPlace place(args, int(blockIdx.x / args.blocks));
  const int first = (args.blocks - 1 - int(blockIdx.x % args.blocks)) * kQueries;
  const int own = first + warp * kTileRows, key_head = place.head / args.group;
  const auto k = keys_of<T>(args, place.batch, key_head);
  const auto v = values_of<T>(args, place.batch, key_head);
  const auto of_queries = [&](const void* p, const HeadSteps& steps, int width) {
    return rows_of<T>(args, p, steps, place.batch, place.head, args.queries, width);
  };
  const auto load = [&](E(&to)[2][kRoom], int key) {
    load_tile<T, exact, D, N>(to[0], k, key);
    load_tile<T, exact, D, N>(to[1], v, key);
  };

  load(room[0], 0);
  RowFragments<T, exact, D> queries, grads;
  queries.load(of_queries(args.q, args.q_steps, args.width), own);
  grads.load(of_queries(args.g, args.g_steps, args.value_width), own);
  float delta[2], lse[2];
  row_products<T, D>(of_queries(args.out, args.out_steps, args.value_width),
                     of_queries(args.g, args.g_steps, args.value_width), own, delta);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = own + lane / 4 + r * 8;
    lse[r] = lse_of(args, place.number, query);
    if (lane % 4 == 0 && query < args.queries)
      args.delta[i64(place.number) * args.queries + query] = delta[r];
  }

  const int end = args.causal && first + kQueries < args.keys ? first + kQueries : args.keys;
  const float keep_scale = extras & kDropout ? args.keep_scale : 1.0f;
  const float scale = scale_left<extras>(args);
  const WeightDropout dropout = weight_dropout_of(args);
  float out[D / 8][4] = {};
  int stage = 0;
#pragma unroll 1
  for (int key = 0; key < end; key += N, stage = kStages<T> - 1 - stage) {
    if (kStages<T> == 1 && key > 0) __syncthreads(), load(room[0], key);
    wait_for_tiles();
    __syncthreads();
    if (kStages<T> == 2 && key + N < end) load(room[1 - stage], key + N);
    float p[N / 8][4], ds[N / 8][4];
    multiply_by_rows<N>(p, queries, room[stage][0]);
    multiply_by_rows<N>(ds, grads, room[stage][1]);
    finish_scores<T, extras, false, N>(p, args, place, own, key);
    DroppedWeights<false, N> dropped;
    if constexpr ((extras & kDropout) != 0) dropped.find(dropout, place, own, key);
#pragma unroll
    for (int n = 0; n < N / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float weight = math::quick_exp2(math::fma(p[n][e], scale, -lse[e / 2]));
        ds[n][e] = weight * score_grad<extras>(dropped, n, e, ds[n][e], keep_scale, delta[e / 2]);
      }
    }
    multiply_by_columns<T, exact, N, D>(out, ds, room[stage][0]);
  }
  store_rows<T, D>(out, head_of<T>(args.gq, args.gq_steps, place.batch, place.head),
                   args.gq_steps.row, own, args.queries, args.width, args.aligned, args.scale,
                   args.scale);
}

// Which of the two gradients a launch computes: wide heads leave no registers for both.
enum AttentionPart : int { kBothParts = 0, kValuePart = 1, kKeyPart = 2 };

template <class T, int D, int N, bool exact, int extras, int part>
__global__ void __launch_bounds__(kTileThreads) attention_key_grad(AttentionArgs args) {
  after_earlier();
  constexpr int kKeys = kTileWarps * kTileRows;
  constexpr bool for_keys = part != kValuePart, for_values = part != kKeyPart;
  constexpr int kRoom = Parts<T, exact>::kCount * N * D;
  using E = typename Parts<T, exact>::Element;
  alignas(kTileAlignment) __shared__ E room[kStages<T>][2][kRoom];
  alignas(8) __shared__ float of_rows[kStages<T>][2][N];  // lse and delta
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int key_heads = args.heads / args.group, number = int(blockIdx.x / args.blocks);
  const int batch = number / key_heads, head = number % key_heads;
  const int first = int(blockIdx.x % args.blocks) * kKeys, own = first + warp * kTileRows;

  RowFragments<T, exact, D> keys, values;
  keys.load(keys_of<T>(args, batch, head), own);
  if (for_keys)
    values.load(rows_of<T>(args, args.v, args.v_steps, batch, head, args.keys, args.value_width),
                own);
  const auto load = [&](int stage, const HeadPlace& place, int query) {
    const auto q =
        rows_of<T>(args, args.q, args.q_steps, place.batch, place.head, args.queries, args.width);
    const auto g = rows_of<T>(args, args.g, args.g_steps, place.batch, place.head, args.queries,
                              args.value_width);
    load_tile<T, exact, D, N>(room[stage][0], q, query);
    load_tile<T, exact, D, N>(room[stage][1], g, query);
    for (int i = threadIdx.x; i < N; i += kTileThreads) {
      of_rows[stage][0][i] = lse_of(args, place.number, query + i);
      of_rows[stage][1][i] = query + i < args.queries
                                 ? args.delta[i64(place.number) * args.queries + query + i]
                                 : 0.0f;
    }
  };

  const float keep_scale = extras & kDropout ? args.keep_scale : 1.0f;
  const float scale = scale_left<extras>(args);
  const WeightDropout dropout = weight_dropout_of(args);
  float key_grad[D / 8][4] = {}, value_grad[D / 8][4] = {};
  const int begin = args.causal ? first / N * N : 0;
  for (int shared_by = 0; shared_by < args.group && begin < args.queries; ++shared_by) {
    const HeadPlace place(args, batch * args.heads + head * args.group + shared_by);
    __syncthreads();
    load(0, place, begin);
    int stage = 0;
#pragma unroll 1
    for (int query = begin; query < args.queries; query += N, stage = kStages<T> - 1 - stage) {
      if (kStages<T> == 1 && query > begin) __syncthreads(), load(0, place, query);
      wait_for_tiles();
      __syncthreads();
      if (kStages<T> == 2 && query + N < args.queries) load(1 - stage, place, query + N);
      const E *queries = room[stage][0], *grads = room[stage][1];
      float p[N / 8][4], ds[N / 8][4];
      multiply_by_rows<N>(p, keys, queries);
      if (for_keys) multiply_by_rows<N>(ds, values, grads);
      finish_scores<T, extras, true, N>(p, args, place, own, query);
      DroppedWeights<true, N> dropped;
      if constexpr ((extras & kDropout) != 0) dropped.find(dropout, place, own, query);
#pragma unroll
      for (int n = 0; n < N / 8; ++n) {
        const auto lse = load_pack<2>(of_rows[stage][0] + n * 8 + lane % 4 * 2);
        const auto delta = load_pack<2>(of_rows[stage][1] + n * 8 + lane % 4 * 2);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float weight = math::quick_exp2(math::fma(p[n][e], scale, -lse.v[e % 2]));
          p[n][e] = if_kept<extras>(dropped, n, e, weight);
          if (for_keys)
            ds[n][e] =
                weight * score_grad<extras>(dropped, n, e, ds[n][e], keep_scale, delta.v[e % 2]);
        }
      }
      if (for_values) multiply_by_columns<T, exact, N, D>(value_grad, p, grads);
      if (for_keys) multiply_by_columns<T, exact, N, D>(key_grad, ds, queries);
    }
  }
  if (for_keys)
    store_rows<T, D>(key_grad, head_of<T>(args.gk, args.gk_steps, batch, head), args.gk_steps.row,
                     own, args.keys, args.width, args.aligned, args.scale, args.scale);
  if (for_values)
    store_rows<T, D>(value_grad, head_of<T>(args.gv, args.gv_steps, batch, head), args.gv_steps.row,
                     own, args.keys, args.value_width, args.aligned, keep_scale, keep_scale);
}

}  // namespace rush
