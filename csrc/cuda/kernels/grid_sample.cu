// grid_sample.cu: images read at points that a grid names. A thread takes a point and goes through
// the channels. Points may share neighbours, so the image's gradient is added up atomically. T is
// the type of memory, C what is computed in.
#include "cuda/kernels/element.h"
#include "cuda/kernels/grid_sample_args.h"

namespace rush {

// The neighbours of a point in all dims.
template <class C, int Dims>
struct PointNeighbours {
  SampleNeighbours<C> x, y, z;

  template <class T>
  RUSH_FN PointNeighbours(const GridArgs& args, const T* grid)
      : x(convert<C>(grid[0]), args.size[2], args.how),
        y(convert<C>(grid[1]), args.size[1], args.how),
        z(Dims == 3 ? convert<C>(grid[Dims - 1]) : C(0), args.size[0], args.how) {
    if (Dims == 2) z.count = 1, z.place[0] = 0, z.weight[0] = 1;
  }
  // Calls f(place in the plane, a, b, c) for those inside; a, b, c: which along x, y, z.
  template <class F>
  RUSH_FN void each(const GridArgs& args, F f) const {
    for (int c = 0; c < z.count; ++c) {
      if (z.place[c] < 0) continue;
      for (int b = 0; b < y.count; ++b) {
        if (y.place[b] < 0) continue;
        for (int a = 0; a < x.count; ++a)
          if (x.place[a] >= 0)
            f((z.place[c] * args.size[1] + y.place[b]) * args.size[2] + x.place[a], a, b, c);
      }
    }
  }
};

// Calls f(point, sample, point in the sample, neighbours) for the points that are this thread's.
template <class C, class T, int Dims, class F>
RUSH_FN void each_point(const GridArgs& args, F f) {
  for (i64 n = thread_number(); n < args.batch * args.points; n += thread_count()) {
    const i64 b = n / args.points;
    f(n, b, n - b * args.points, PointNeighbours<C, Dims>(args, typed<T>(args.grid) + n * Dims));
  }
}

template <class C, class T, int Dims>
__global__ void __launch_bounds__(kThreads) grid_sample(GridArgs args) {
  after_earlier();
  const i64 area = args.size[0] * args.size[1] * args.size[2];
  each_point<C, T, Dims>(args, [&](i64, i64 b, i64 p, const PointNeighbours<C, Dims>& near) {
    for (i64 ch = 0; ch < args.channels; ++ch) {
      const T* plane = typed<T>(args.x) + (b * args.channels + ch) * area;
      C sum = 0;
      near.each(args, [&](i64 at, int i, int j, int k) {
        sum += near.z.weight[k] * near.y.weight[j] * near.x.weight[i] * convert<C>(plane[at]);
      });
      typed<T>(args.y)[(b * args.channels + ch) * args.points + p] = convert<T>(sum);
    }
  });
}

template <class C, class T, int Dims>
__global__ void __launch_bounds__(kThreads) grid_sample_backward(GridArgs args) {
  after_earlier();
  const i64 area = args.size[0] * args.size[1] * args.size[2];
  each_point<C, T, Dims>(args, [&](i64 n, i64 b, i64 p, const PointNeighbours<C, Dims>& near) {
    C along[3] = {0, 0, 0};
    for (i64 ch = 0; ch < args.channels; ++ch) {
      const i64 plane = b * args.channels + ch;
      const C g = convert<C>(typed<T>(args.g)[plane * args.points + p]);
      near.each(args, [&](i64 at, int i, int j, int k) {
        const C wx = near.x.weight[i], wy = near.y.weight[j], wz = near.z.weight[k];
        if (args.gx) atomicAdd(typed<C>(args.gx) + plane * area + at, wx * wy * wz * g);
        if (!args.ggrid) return;
        const C value = convert<C>(typed<T>(args.x)[plane * area + at]) * g;
        along[0] += value * near.x.slope[i] * wy * wz;
        along[1] += value * wx * near.y.slope[j] * wz;
        if (Dims == 3) along[2] += value * wx * wy * near.z.slope[k];
      });
    }
    if (args.ggrid)
      for (int d = 0; d < Dims; ++d)
        typed<T>(args.ggrid)[n * Dims + d] =
            convert<T>(args.how.mode == SampleMode::Nearest ? C(0) : along[d]);
  });
}

template <class C, class T>
__global__ void __launch_bounds__(kThreads) grid_places(GridPlaceArgs args) {
  after_earlier();
  for (i64 n = thread_number(); n < args.n; n += thread_count()) {
    const C x = convert<C>(typed<T>(args.in)[n]);
    const SamplePlace<C> p = sample_place(x, args.size[n % args.dims], args.how);
    typed<T>(args.places)[n] = convert<T>(p.at);
    typed<T>(args.slopes)[n] = convert<T>(p.slope);
  }
}

// The neighbour `offset` away from a place, or -1 where it counts as zero.
template <class C, class T>
__global__ void __launch_bounds__(kThreads) grid_neighbours(GridPlaceArgs args) {
  after_earlier();
  for (i64 n = thread_number(); n < args.n; n += thread_count()) {
    const C at = convert<C>(typed<T>(args.in)[n]);
    const C whole = args.how.mode == SampleMode::Nearest ? math::round(at) : math::floor(at);
    i64 found = -1;
    if (math::fabs(whole) < C(i64(1) << 40)) {
      found = i64(whole) + args.offset;
      if (args.how.mode == SampleMode::Cubic)
        found = padded_whole_place(found, args.size[0], args.how);
      else if (found < 0 || found >= args.size[0])
        found = -1;
    }
    args.neighbours[n] = found;
  }
}

}  // namespace rush
