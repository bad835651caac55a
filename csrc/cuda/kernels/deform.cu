// deform.cu: patches whose points are moved by offsets. T is the type of memory, C what is computed
// in.
#include "cuda/kernels/deform_args.h"
#include "cuda/kernels/element.h"

namespace rush {

// One point of the kernel at one place, for one of the parts (channels, or groups of them) of a
// sample; `plane` counts the parts of all samples.
struct DeformSpot {
  i64 sample, plane, part, point, place;

  RUSH_FN DeformSpot(const DeformShape& s, i64 n, i64 parts) {
    const i64 outer = n / s.places();
    plane = outer / s.points();
    sample = plane / parts;
    part = plane - sample * parts;
    point = outer - plane * s.points();
    place = n - outer * s.places();
  }
};

// The neighbours of a moved point: number k is k / 2 along y and k % 2 along x.
template <class C>
struct MovedPoint {
  DeformTap<C> y, x;
  C mask;

  template <class T>
  RUSH_FN MovedPoint(const DeformArgs& args, const DeformSpot& at, i64 group, const T* offset)
      : MovedPoint(args, at, offset + args.s.offset_at(at.sample, group, at.point, at.place),
                   typed<T>(args.mask), args.s.mask_at(at.sample, group, at.point, at.place)) {}
  template <class T>
  RUSH_FN MovedPoint(const DeformArgs& args, const DeformSpot& at, const T* offset, const T* masks,
                     i64 mask_at)
      : y(args.s, 0, at.point, at.place, convert<C>(offset[0])),
        x(args.s, 1, at.point, at.place, convert<C>(offset[args.s.places()])),
        mask(masks ? convert<C>(masks[mask_at]) : C(1)) {}
  // Calls f(k, place in the plane) for those inside.
  template <class F>
  RUSH_FN void each(const DeformShape& s, F f) const {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (y.index[k / 2] >= 0 && x.index[k % 2] >= 0)
        f(k, y.index[k / 2] * s.in[1] + x.index[k % 2]);
  }
  RUSH_FN C weight(int k) const { return y.weight[k / 2] * x.weight[k % 2]; }
};

// A thread takes one element of the patches.
template <class C, class T>
__global__ void __launch_bounds__(kThreads) deform_patches(DeformArgs args) {
  after_earlier();
  const DeformShape& s = args.s;
  const i64 count = s.batch * s.channels * s.points() * s.places();
  for (i64 n = thread_number(); n < count; n += thread_count()) {
    const DeformSpot at(s, n, s.channels);
    const MovedPoint<C> moved(args, at, at.part / (s.channels / s.groups), typed<T>(args.offset));
    C sum = 0;
    moved.each(s, [&](int k, i64 element) {
      sum += moved.weight(k) * convert<C>(typed<T>(args.x)[at.plane * s.area() + element]);
    });
    typed<T>(args.columns)[n] = convert<T>(sum * moved.mask);
  }
}

// A thread takes one point of the kernel at one place, and goes through the channels of its group.
template <class C, class T>
__global__ void __launch_bounds__(kThreads) deform_patches_backward(DeformArgs args) {
  after_earlier();
  const DeformShape& s = args.s;
  const i64 count = s.batch * s.groups * s.points() * s.places(), share = s.channels / s.groups;
  for (i64 n = thread_number(); n < count; n += thread_count()) {
    const DeformSpot at(s, n, s.groups);
    const MovedPoint<C> moved(args, at, at.part, typed<T>(args.offset));
    C by_y = 0, by_x = 0, by_mask = 0;
    for (i64 c = at.part * share; c < (at.part + 1) * share; ++c) {
      const C g = convert<C>(typed<T>(args.g)[s.column_at(at.sample, c, at.point, at.place)]);
      const i64 plane = (at.sample * s.channels + c) * s.area();
      moved.each(s, [&](int k, i64 element) {
        if (args.gx)
          atomicAdd(typed<C>(args.gx) + plane + element, moved.weight(k) * moved.mask * g);
        const C held = convert<C>(typed<T>(args.x)[plane + element]) * g;
        const C wy = moved.y.weight[k / 2], wx = moved.x.weight[k % 2];
        by_y += (k / 2 ? wx : -wx) * held;
        by_x += (k % 2 ? wy : -wy) * held;
        by_mask += wy * wx * held;
      });
    }
    if (args.goffset) {
      T* to = typed<T>(args.goffset) + s.offset_at(at.sample, at.part, at.point, at.place);
      to[0] = convert<T>(by_y * moved.mask);
      to[s.places()] = convert<T>(by_x * moved.mask);
    }
    if (args.gmask) typed<T>(args.gmask)[n] = convert<T>(by_mask);
  }
}

}  // namespace rush
