// fused_rows.h (NVRTC): what kernels are made of that take a step over rows with pointwise steps
// before and after it. Their sources are generated (cuda/pointwise/fused_source.cpp): a struct
// `Work`, whose functions x and g compute V elements of the step's operands, and y takes V elements
// of its result. The step itself is that of row_norm.h or softmax.h: the same sums in the same order.
#pragma once

#include "cuda/kernels/fused.h"
#include "cuda/kernels/group_map.h"
#include "cuda/kernels/row_norm.h"
#include "cuda/kernels/softmax.h"

namespace rush {

// Where some elements of a row are, for read() and write() of fused.h.
struct FusedRowPlace {
  i64 first, row, i;
  RUSH_FN i64 of(int) const { return 0; }
};

template <class Work>
struct FusedRows {
  const FusedArgs& args;
  const Number* params;
  static RUSH_FN FusedRowPlace at(const RowPlace& p) { return {p.at + p.i, p.row, p.i}; }
  template <int V>
  RUSH_FN auto x(const RowPlace& p) const {
    return Work::template x<V>(args, params, at(p));
  }
  template <int V>
  RUSH_FN auto g(const RowPlace& p) const {
    return Work::template g<V>(args, params, at(p));
  }
  template <int V, class T>
  RUSH_FN void y(const RowPlace& p, const Pack<T, V>& pack) const {
    Work::template y<V>(args, params, at(p), pack);
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

// Channels-last images, by groups of channels: a row is a point.
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
  const FusedRows<Work> rows{fused, params.at};
#pragma unroll 4 / Kind::reads
  for (i64 r = part.begin + part.lane; r < part.end; r += part.lanes) {
    const RowPlace place{r, r * args.channels, first};
    const Pack<T, V> x = rows.template x<V>(place);
    Pack<T, V> g = x, out;
    if constexpr (Kind::reads > 1) g = rows.template g<V>(place);
#pragma unroll
    for (int v = 0; v < V; ++v) out.v[v] = kinds[v](x.v[v], g.v[v]);
    rows.template y<V>(place, out);
  }
}

}  // namespace rush
