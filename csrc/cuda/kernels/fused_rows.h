// fused_rows.h (NVRTC): what kernels are made of that take a step over rows with pointwise steps
// before and after it. Their sources are generated (cuda/pointwise/fused_source.cpp): a struct
// `Work`, whose functions x and g compute V elements of the step's operands, and y takes V elements
// of its result, each in U rows. The step itself is that of row_norm.h or softmax.h: the same sums in the same order.
#pragma once

#include "cuda/kernels/batch_norm.h"
#include "cuda/kernels/fused.h"
#include "cuda/kernels/group_map.h"
#include "cuda/kernels/row_norm.h"
#include "cuda/kernels/softmax.h"

namespace rush {

// Where some elements of a row are, for read() and write() of fused.h.
struct FusedRowPlace {
  i64 first, row, i;
  i64 step;  // to the next row that is taken with it; then no input may be one element per row
  RUSH_FN i64 of(int) const { return 0; }
  template <int V>
  RUSH_FN i64 apart() const {
    return step;
  }
};

template <class Work>
struct FusedRows {
  const FusedArgs& args;
  const Number* params;
  static RUSH_FN FusedRowPlace at(const RowPlace& p) { return {p.at + p.i, p.row, p.i, 0}; }
  template <int V>
  RUSH_FN auto x(const RowPlace& p) const {
    return Work::template x<V, 1>(args, params, at(p)).p[0];
  }
  template <int V>
  RUSH_FN auto g(const RowPlace& p) const {
    return Work::template g<V, 1>(args, params, at(p)).p[0];
  }
  template <int V, class T>
  RUSH_FN void y(const RowPlace& p, const Pack<T, V>& pack) const {
    Work::template y<V, 1>(args, params, at(p), Packs<T, V, 1>{{pack}});
  }
};

template <class Work, class C, class T, class W, int Team, int V, int Held, bool centred>
__global__ void __launch_bounds__(kThreads)
    fused_row_norm(RowNormArgs args, FusedArgs fused, FusedParams<Work::kParams> params) {
  after_earlier();
  normalize_held<C, T, W, Team, V, Held, centred>(args, FusedRows<Work>{fused, params.at});
}

template <class Work, class C, class T, class W, int Team, int V, int Held, bool centred>
__global__ void __launch_bounds__(kThreads, (WholeShape<T, Team>::blocks))
    fused_row_norm_backward(RowNormArgs args, FusedArgs fused, FusedParams<Work::kParams> params) {
  after_earlier();
  normalize_backward_whole<C, T, W, Team, V, Held, centred>(args,
                                                            FusedRows<Work>{fused, params.at});
}

template <class Work, class C, class T, int Team, int V, int Held, bool log>
__global__ void __launch_bounds__(kThreads)
    fused_softmax(SoftmaxArgs args, FusedArgs fused, FusedParams<Work::kParams> params) {
  after_earlier();
  softmax_of_held<C, T, Team, V, Held, log>(args, FusedRows<Work>{fused, params.at});
}

template <class Work, class C, class T, int Team, int V, int Held, bool log>
__global__ void __launch_bounds__(kThreads)
    fused_softmax_backward(SoftmaxArgs args, FusedArgs fused, FusedParams<Work::kParams> params) {
  after_earlier();
  softmax_backward_of_held<C, T, Team, V, Held, log>(args, FusedRows<Work>{fused, params.at});
}

// What a gradient is computed from beside the inputs of its work: nothing, or what Normalize of
// batch_norm.h made of x in forward, and makes of it here.
struct NothingOfX {
  RUSH_FN NothingOfX() {}
  RUSH_FN NothingOfX(const BatchNormArgs&, i64) {}
};
template <class T, int V, int U, class Work, class OfX>
RUSH_FN Packs<T, V, U> fused_gradient(const FusedRows<Work>& rows, const OfX (&of_x)[V],
                                      const FusedRowPlace& place, const Packs<T, V, U>& x) {
  if constexpr (is_same<OfX, NothingOfX>) {
    return Work::template g<V, U>(rows.args, rows.params, place);
  } else {
    Packs<T, V, U> normal;
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
      for (int v = 0; v < V; ++v) normal.p[u].v[v] = of_x[v](x.p[u].v[v], x.p[u].v[v]);
    return Work::template g<V, U>(rows.args, rows.params, place, normal);
  }
}

// Channels-last images, whose rows are points. U rows are read before the first is written: the
// compiler does not know that results are no inputs.
template <int U, class T, int V, class Work, class Kind, class OfX>
RUSH_FN void fused_map_packs(const FusedRows<Work>& rows, const Kind (&kinds)[V],
                             const OfX (&of_x)[V], const FusedRowPlace& place) {
  Packs<T, V, U> x = Work::template x<V, U>(rows.args, rows.params, place), g;
  if constexpr (Kind::reads > 1) g = fused_gradient(rows, of_x, place, x);
#pragma unroll
  for (int u = 0; u < U; ++u)
#pragma unroll
    for (int v = 0; v < V; ++v)
      x.p[u].v[v] = kinds[v](x.p[u].v[v], Kind::reads > 1 ? g.p[u].v[v] : x.p[u].v[v]);
  Work::template y<V, U>(rows.args, rows.params, place, x);
}
template <int Most, class T, int V, class Work, class Kind, class OfX>
RUSH_FN void fused_map_some_packs(const FusedRows<Work>& fused, const Kind (&kinds)[V],
                                  const OfX (&of_x)[V], i64 channels, i64 first, i64 row, int lanes,
                                  int count) {
  if (count >= Most) {
    const i64 step = Most > 1 ? lanes * channels : 0;
    fused_map_packs<Most, T>(fused, kinds, of_x, {row * channels + first, row, first, step});
    count -= Most, row += Most * lanes;
  }
  if constexpr (Most > 1)
    if (count > 0)
      fused_map_some_packs<Most / 2, T>(fused, kinds, of_x, channels, first, row, lanes, count);
}
// Elements of V channels in the rows that this thread takes.
template <bool back, class T, int V, class Work, class Kind, class OfX>
RUSH_FN void fused_map_rows(const FusedRows<Work>& fused, const Kind (&kinds)[V],
                            const OfX (&of_x)[V], i64 channels, i64 first, const RowShare& rows) {
  constexpr int kMost = 4 / Kind::reads;
  rows.each<kMost, back>([&](i64 row, int count) {
    fused_map_some_packs<kMost, T>(fused, kinds, of_x, channels, first, row, rows.lanes, count);
  });
}

// By groups of channels.
template <class Work, class Kind, class T, int V>
__global__ void __launch_bounds__(kThreads)
    fused_group_map(GroupNormArgs args, FusedArgs fused, FusedParams<Work::kParams> params) {
  after_earlier();
  const SamplePart part(args);
  const i64 first = part.pack * V;
  if (first >= args.channels) return;
  const SampleArgs own(args, part.sample);
  Kind kinds[V];
#pragma unroll
  for (int v = 0; v < V; ++v) kinds[v] = Kind(own, first + v);
  const NothingOfX nothing[V];
  fused_map_rows<false, T>(FusedRows<Work>{fused, params.at}, kinds, nothing, args.channels, first,
                           part.rows());
}

// By channels over the batch, as channel_map_last of batch_norm.cu.
template <class Work, class Kind, class T, int V, class OfX = NothingOfX>
__global__ void __launch_bounds__(kThreads)
    fused_channel_map(BatchNormArgs args, FusedArgs fused, FusedParams<Work::kParams> params) {
  after_earlier();
  const int columns = args.columns;
  const i64 first = (i64(blockIdx.x) * columns + threadIdx.x % columns) * V;
  if (first >= args.channels) return;
  Kind kinds[V];
  OfX of_x[V];
#pragma unroll
  for (int v = 0; v < V; ++v) kinds[v] = Kind(args, first + v), of_x[v] = OfX(args, first + v);
  fused_map_rows<true, T>(FusedRows<Work>{fused, params.at}, kinds, of_x, args.channels, first,
                          share_of_rows(args));
}

// Adds a gradient that is computed here, in U rows.
template <int U, class T, class C, int V, class Work, class Kind, class OfX>
RUSH_FN void fused_add_rows(const FusedRows<Work>& rows, const Kind (&kinds)[V],
                            const OfX (&of_x)[V], PackSums<C, V>& sums,
                            const FusedRowPlace& place) {
  const Packs<T, V, U> x = Work::template x<V, U>(rows.args, rows.params, place);
  const Packs<T, V, U> g = fused_gradient(rows, of_x, place, x);
#pragma unroll
  for (int u = 0; u < U; ++u)
#pragma unroll
    for (int v = 0; v < V; ++v) kinds[v].add(sums.v[v], x.p[u].v[v], g.p[u].v[v]);
  Work::template y<V, U>(rows.args, rows.params, place, g);
}

// As channel_sums_last of batch_norm.cu: each thread adds in the same order.
template <class Work, class Kind, class T, class C, int V, class OfX = NothingOfX>
__global__ void __launch_bounds__(kThreads)
    fused_channel_sums(BatchNormArgs args, FusedArgs fused, FusedParams<Work::kParams> params) {
  after_earlier();
  const int columns = args.columns, lanes = kThreads / columns;
  const int lane = threadIdx.x / columns;
  const i64 first = (i64(blockIdx.x) * columns + threadIdx.x % columns) * V;
  Kind kinds[V];
  OfX of_x[V];
  PackSums<C, V> sums;
  if (first < args.channels) {
#pragma unroll
    for (int v = 0; v < V; ++v) kinds[v] = Kind(args, first + v), of_x[v] = OfX(args, first + v);
    const FusedRows<Work> rows{fused, params.at};
    const i64 channels = args.channels, step = lanes * channels;
    share_of_rows(args).each<kRowsAdded<Kind>, false>([&](i64 row, int count) {
      for (; count >= 2; count -= 2, row += 2 * lanes)
        fused_add_rows<2, T>(rows, kinds, of_x, sums, {row * channels + first, row, first, step});
      if (count > 0)
        fused_add_rows<1, T>(rows, kinds, of_x, sums, {row * channels + first, row, first, 0});
    });
  }
  finish_channels(args, kinds, sums, first, lane, lanes);
}

}  // namespace rush
