// triangle.cu: the part of a matrix on one side of a diagonal, and where it lies.
#include "cuda/kernels/element.h"
#include "cuda/kernels/triangle_args.h"

namespace rush {

// Operands: out, x. Dim 0 of the nest is the column, dim 1 the row. Out may be x.
template <class W, class I>
__global__ void __launch_bounds__(kThreads) triangle(TriangleArgs args, Nest<I, 2> nest) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const Offsets<I, 2> o = offsets_of(nest, I(i));
    const I line = nest.sizes[0](I(i)), col = I(i) - line * nest.sizes[0].d;
    const I row = line - nest.sizes[1](line) * nest.sizes[1].d;
    const i64 beyond = i64(col) - i64(row) - args.diagonal;
    W value{};
    if (args.upper ? beyond >= 0 : beyond <= 0) value = typed<W>(args.x)[o.at[1]];
    typed<W>(args.out)[o.at[0]] = value;
  }
}

// The same where x and out lie end to end and rows are whole packs; dim 0 counts packs.
template <class W, int V, class I>
__global__ void __launch_bounds__(kThreads) triangle_packs(TriangleArgs args, Nest<I, 2> nest) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const I line = nest.sizes[0](I(i));
    const i64 col = i64(I(i) - line * nest.sizes[0].d) * V;
    const i64 row = i64(line - nest.sizes[1](line) * nest.sizes[1].d);
    const i64 beyond = col - row - args.diagonal;  // of the pack's first element
    const bool some = args.upper ? beyond + V > 0 : beyond <= 0;
    Pack<W, V> pack{};
    if (some) {
      pack = load_pack<V>(typed<W>(args.x) + i * V);
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (args.upper ? beyond + k < 0 : beyond + k > 0) pack.v[k] = W{};
    }
    store_pack<V>(typed<W>(args.out) + i * V, pack);
  }
}

// Elements of the triangle in the rows before r. A row has last - first columns, where the border
// r + diagonal moves with the row until it meets a side of the matrix.
RUSH_FN i64 clamped(i64 x, i64 lo, i64 hi) { return x < lo ? lo : (x > hi ? hi : x); }
RUSH_FN i64 lower_columns(i64 r, i64 cols,
                          i64 border) {  // sum of clamp(q + border, 0, cols), q < r
  const i64 grows = clamped(-border, 0, r), full = clamped(cols - border, grows, r);
  const i64 low = grows + border, high = full + border;  // over [grows, full): low, ..., high - 1
  return (high * (high - 1) - low * (low - 1)) / 2 + (r - full) * cols;
}
RUSH_FN i64 elements_before(const TriangleIndexArgs& args, i64 r) {
  if (args.upper) return r * args.cols - lower_columns(r, args.cols, args.diagonal);
  return lower_columns(r, args.cols, args.diagonal + 1);
}

template <class T>
__global__ void __launch_bounds__(kThreads) triangle_indices(TriangleIndexArgs args) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    i64 low = 0, high = args.rows - 1;  // the last row that begins at or before i
    while (low < high) {
      const i64 middle = (low + high + 1) / 2;
      if (elements_before(args, middle) <= i)
        low = middle;
      else
        high = middle - 1;
    }
    const i64 first = args.upper ? clamped(low + args.diagonal, 0, args.cols) : 0;
    typed<T>(args.out)[i] = T(low);
    typed<T>(args.out)[args.n + i] = T(first + i - elements_before(args, low));
  }
}

}  // namespace rush
