// softmax.cu: softmax and its logarithm, forward and backward, along one dim of dense tensors.
//
// - Rows (the dim lies along memory): a team of threads takes a row. A row of up to `Held` packs a
//   thread is read once and kept in registers; a longer one is read twice, the first time to find
//   the largest number and the sum of exponentials together.
// - Columns (the tensor is (outer, width, inner)): neighbouring threads take neighbouring columns,
//   and `Lanes` threads share one where columns are few.
// - T is the type of memory, C what is computed in.
#include "cuda/kernels/softmax.h"

namespace rush {

template <class C, bool log>
struct SoftmaxOf {
  C shift, scale;
  RUSH_FN SoftmaxOf(const Exponentials<C>& e)
      : shift(log ? e.top + math::log(e.sum) : e.top), scale(C(1) / e.sum) {}
  RUSH_FN C operator()(C x) const { return log ? x - shift : math::exp(x - shift) * scale; }
};

// ---- rows ----

template <class C, class T, int Team, int V, int Held, bool log>
__global__ void __launch_bounds__(kThreads) softmax_held(SoftmaxArgs args) {
  after_earlier();
  softmax_of_held<C, T, Team, V, Held, log>(args, RowsInMemory<T, SoftmaxArgs>{args});
}

template <class C, class T, int Team, int V, bool log>
__global__ void __launch_bounds__(kThreads) softmax_rows(SoftmaxArgs args) {
  after_earlier();
  const TeamRow<Team> team(args);
  const T* x = typed<T>(args.x) + team.at;
  T* y = typed<T>(args.y) + team.at;
  Exponentials<C> mine = Exponentials<C>::none();
  for (i64 i = i64(team.lane) * V; i < team.width; i += i64(Team) * V)
    mine.add(load_pack<V>(x + i));
  const SoftmaxOf<C, log> result(join_team<Team>(mine, JoinExponentials{}));
  // From the end: that part was read last and is still in a cache.
  const i64 steps = (team.width + i64(Team) * V - 1) / (i64(Team) * V);
  for (i64 k = steps - 1; k >= 0; --k) {
    const i64 i = (k * Team + team.lane) * V;
    if (i >= team.width) continue;
    Pack<T, V> pack = load_pack<V>(x + i);
#pragma unroll
    for (int j = 0; j < V; ++j) pack.v[j] = convert<T>(result(convert<C>(pack.v[j])));
    store_pack(y + i, pack);
  }
}

template <class C, class T, int Team, int V, int Held, bool log>
__global__ void __launch_bounds__(kThreads) softmax_backward_held(SoftmaxArgs args) {
  after_earlier();
  softmax_backward_of_held<C, T, Team, V, Held, log>(args, RowsInMemory<T, SoftmaxArgs>{args});
}

template <class C, class T, int Team, int V, bool log>
__global__ void __launch_bounds__(kThreads) softmax_backward_rows(SoftmaxArgs args) {
  after_earlier();
  const TeamRow<Team> team(args);
  const T *y = typed<T>(args.x) + team.at, *g = typed<T>(args.g) + team.at;
  T* gx = typed<T>(args.y) + team.at;
  C sum = 0;
  for (i64 i = i64(team.lane) * V; i < team.width; i += i64(Team) * V) {
    const Pack<T, V> a = load_pack<V>(y + i), b = load_pack<V>(g + i);
#pragma unroll
    for (int j = 0; j < V; ++j) sum += softmax_term<C, log>(convert<C>(a.v[j]), convert<C>(b.v[j]));
  }
  sum = join_team<Team>(sum, JoinSum{});
  const i64 steps = (team.width + i64(Team) * V - 1) / (i64(Team) * V);
  for (i64 k = steps - 1; k >= 0; --k) {
    const i64 i = (k * Team + team.lane) * V;
    if (i >= team.width) continue;
    Pack<T, V> a = load_pack<V>(y + i);
    const Pack<T, V> b = load_pack<V>(g + i);
#pragma unroll
    for (int j = 0; j < V; ++j)
      a.v[j] = convert<T>(softmax_slope<C, log>(convert<C>(a.v[j]), convert<C>(b.v[j]), sum));
    store_pack(gx + i, a);
  }
}

// ---- columns ----

template <int Lanes>
struct Column {
  static constexpr int columns = kThreads / Lanes;
  int lane = threadIdx.x / columns;
  i64 at;     // of its first element
  i64 width;  // 0: there is no such column
  RUSH_FN explicit Column(const SoftmaxArgs& args) {
    const i64 c = i64(blockIdx.x) * columns + threadIdx.x % columns;
    const bool works = c < args.rows;
    const i64 outer = works ? c / args.inner : 0;
    at = works ? outer * args.width * args.inner + (c - outer * args.inner) : 0;
    width = works ? args.width : 0;
  }
};

// Elements of a column that are on their way at a time.
inline constexpr int kAhead = 8;

template <class C, class T, int Lanes, bool log>
__global__ void __launch_bounds__(kThreads) softmax_columns(SoftmaxArgs args) {
  after_earlier();
  const Column<Lanes> column(args);
  const T* x = typed<T>(args.x) + column.at;
  T* y = typed<T>(args.y) + column.at;
  Exponentials<C> mine = Exponentials<C>::none();
  i64 i = column.lane;
  for (; i + i64(kAhead - 1) * Lanes < column.width; i += i64(kAhead) * Lanes) {
    Pack<T, kAhead> pack;
#pragma unroll
    for (int k = 0; k < kAhead; ++k) pack.v[k] = x[(i + k * Lanes) * args.inner];
    mine.add(pack);
  }
  for (; i < column.width; i += Lanes) mine.add(Pack<T, 1>{{x[i * args.inner]}});
  const SoftmaxOf<C, log> result(join_column<Lanes>(mine, JoinExponentials{}));
#pragma unroll 4
  for (i64 k = column.lane; k < column.width; k += Lanes)
    y[k * args.inner] = convert<T>(result(convert<C>(x[k * args.inner])));
}

template <class C, class T, int Lanes, bool log>
__global__ void __launch_bounds__(kThreads) softmax_backward_columns(SoftmaxArgs args) {
  after_earlier();
  const Column<Lanes> column(args);
  const T *y = typed<T>(args.x) + column.at, *g = typed<T>(args.g) + column.at;
  T* gx = typed<T>(args.y) + column.at;
  C sum = 0;
#pragma unroll 4
  for (i64 i = column.lane; i < column.width; i += Lanes)
    sum += softmax_term<C, log>(log ? C(0) : convert<C>(y[i * args.inner]),
                                convert<C>(g[i * args.inner]));
  sum = join_column<Lanes>(sum, JoinSum{});
#pragma unroll 4
  for (i64 i = column.lane; i < column.width; i += Lanes) {
    const C a = convert<C>(y[i * args.inner]), b = convert<C>(g[i * args.inner]);
    gx[i * args.inner] = convert<T>(softmax_slope<C, log>(a, b, sum));
  }
}

}  // namespace rush
