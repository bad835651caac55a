// roi.cu: what images hold in the bins of boxes. A thread takes a bin of one channel. Boxes
// overlap, so gradients are added up atomically. T is the type of memory, C what is computed in;
// ByPosition: each bin has input channels of its own.
#include "cuda/kernels/element.h"
#include "cuda/kernels/fault.h"
#include "cuda/kernels/roi_args.h"

namespace rush {

// A bin of one channel of the result.
template <class C>
struct RoiBin {
  i64 plane;  // of the images; negative: there is no such image
  i64 row, column;
  C x1, y1, x2, y2;

  template <class T>
  RUSH_FN RoiBin(const RoiArgs& args, i64 n, bool by_position, const T* rois) {
    const RoiShape& s = args.s;
    const i64 bins = s.bins[0] * s.bins[1], channels = by_position ? s.channels / bins : s.channels;
    const i64 outer = n / bins, bin = n - outer * bins, roi = outer / channels,
              channel = outer - roi * channels;
    row = bin / s.bins[1];
    column = bin - row * s.bins[1];
    const T* box = rois + roi * 5;
    const C number = convert<C>(box[0]);
    const i64 image = roi_image(number, s.batch);
    if (image < 0 && args.fault) report(args.fault, args.launch, roi, whole_place(number));
    plane =
        image < 0 ? i64(-1) : image * s.channels + (by_position ? channel * bins + bin : channel);
    x1 = convert<C>(box[1]), y1 = convert<C>(box[2]);
    x2 = convert<C>(box[3]), y2 = convert<C>(box[4]);
  }
};

// Calls f(place in the plane, weight) for the elements that a bin's places are mixed from; the
// number of places.
template <class C, class F>
RUSH_FN i64 each_place(const RoiShape& s, const RoiBin<C>& bin, F f) {
  const RoiAxis<C> y(bin.y1, bin.y2, s.bins[0], s), x(bin.x1, bin.x2, s.bins[1], s);
  for (i64 i = 0; i < y.samples; ++i) {
    RoiTap<C> v;
    if (!v.find(y.place(bin.row, i), s.size[0])) continue;
    for (i64 j = 0; j < x.samples; ++j) {
      RoiTap<C> u;
      if (!u.find(x.place(bin.column, j), s.size[1])) continue;
#pragma unroll
      for (int k = 0; k < 4; ++k)
        f(v.index[k / 2] * s.size[1] + u.index[k % 2], v.weight[k / 2] * u.weight[k % 2]);
    }
  }
  return y.samples * x.samples;
}

// Calls f(number of the bin, bin) for the bins that are this thread's.
template <class C, class T, class F>
RUSH_FN void each_bin(const RoiArgs& args, bool by_position, F f) {
  for (i64 n = thread_number(); n < args.n; n += thread_count())
    f(n, RoiBin<C>(args, n, by_position, typed<T>(args.rois)));
}

template <class C, class T, bool ByPosition>
__global__ void __launch_bounds__(kThreads) roi_align(RoiArgs args) {
  after_earlier();
  each_bin<C, T>(args, ByPosition, [&](i64 n, const RoiBin<C>& bin) {
    C sum = 0;
    if (bin.plane >= 0) {
      const T* plane = typed<T>(args.x) + bin.plane * args.s.size[0] * args.s.size[1];
      const i64 places =
          each_place(args.s, bin, [&](i64 at, C weight) { sum += weight * convert<C>(plane[at]); });
      // (By position, bins without places have no mean: 0 / 0.)
      sum /= C(places > 0 || ByPosition ? places : i64(1));
    }
    typed<T>(args.y)[n] = convert<T>(sum);
  });
}

template <class C, class T, bool ByPosition>
__global__ void __launch_bounds__(kThreads) roi_align_backward(RoiArgs args) {
  after_earlier();
  each_bin<C, T>(args, ByPosition, [&](i64 n, const RoiBin<C>& bin) {
    if (bin.plane < 0) return;
    const RoiAxis<C> y(bin.y1, bin.y2, args.s.bins[0], args.s),
        x(bin.x1, bin.x2, args.s.bins[1], args.s);
    const C part = convert<C>(typed<T>(args.x)[n]) / C(y.samples * x.samples);
    C* plane = typed<C>(args.y) + bin.plane * args.s.size[0] * args.s.size[1];
    each_place(args.s, bin, [&](i64 at, C weight) { atomicAdd(plane + at, weight * part); });
  });
}

// ---- whole elements ----

// What a bin covers, in elements of all planes; nothing where there is no image.
template <class C>
struct RoiWindow {
  i64 plane, width, top, bottom, left, right;

  RUSH_FN RoiWindow(const RoiShape& s, const RoiBin<C>& bin, bool with_end)
      : plane(bin.plane * s.size[0] * s.size[1]), width(s.size[1]) {
    const RoiWindows<C> y(bin.y1, bin.y2, s.bins[0], s.scale, with_end),
        x(bin.x1, bin.x2, s.bins[1], s.scale, with_end);
    const i64 last_y = s.size[0] - !with_end, last_x = s.size[1] - !with_end;
    top = y.begin(bin.row, last_y), bottom = y.end(bin.row, last_y);
    left = x.begin(bin.column, last_x), right = x.end(bin.column, last_x);
    if (bin.plane < 0) bottom = top;
  }
  RUSH_FN i64 count() const {
    return top < bottom && left < right ? (bottom - top) * (right - left) : i64(0);
  }
  // Calls f(place in the plane).
  template <class F>
  RUSH_FN void each(F f) const {
    for (i64 i = top; i < bottom; ++i)
      for (i64 j = left; j < right; ++j) f(i * width + j);
  }
};

template <class C, class T>
__global__ void __launch_bounds__(kThreads) roi_pool(RoiArgs args) {
  after_earlier();
  each_bin<C, T>(args, false, [&](i64 n, const RoiBin<C>& bin) {
    const RoiWindow<C> window(args.s, bin, true);
    C best = window.count() > 0 ? limits<C>::lowest : C(0);
    i64 found = -1;
    window.each([&](i64 at) {
      const C value = convert<C>(typed<T>(args.x)[window.plane + at]);
      if (value > best) best = value, found = at;
    });
    typed<T>(args.y)[n] = convert<T>(best);
    args.argmax[n] = i32(found);
  });
}

template <class C, class T>
__global__ void __launch_bounds__(kThreads) roi_mean(RoiArgs args) {
  after_earlier();
  each_bin<C, T>(args, true, [&](i64 n, const RoiBin<C>& bin) {
    const RoiWindow<C> window(args.s, bin, false);
    C sum = 0;
    window.each([&](i64 at) { sum += convert<C>(typed<T>(args.x)[window.plane + at]); });
    if (window.count() > 0) sum /= C(window.count());
    typed<T>(args.y)[n] = convert<T>(sum);
  });
}

template <class C, class T>
__global__ void __launch_bounds__(kThreads) roi_mean_backward(RoiArgs args) {
  after_earlier();
  each_bin<C, T>(args, true, [&](i64 n, const RoiBin<C>& bin) {
    const RoiWindow<C> window(args.s, bin, false);
    const C part = convert<C>(typed<T>(args.x)[n]) / C(window.count());
    window.each([&](i64 at) { atomicAdd(typed<C>(args.y) + window.plane + at, part); });
  });
}

}  // namespace rush
