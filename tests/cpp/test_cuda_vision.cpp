// The kernels for boxes and moved patches, without a GPU: see cuda_on_cpu.h.
#include "cuda_on_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "testing.h"

#include "cuda/kernels/deform.cu"
#include "cuda/kernels/nms.cu"
#include "cuda/kernels/roi.cu"

using namespace rush;

namespace {

constexpr Dim3 kBlock{kThreads}, kGrid{2};

std::vector<double> numbers(size_t n, unsigned seed, double low = -3, double high = 3) {
  std::vector<double> v(n);
  for (double& x : v) {
    seed = seed * 1664525u + 1013904223u;
    x = low + double(seed >> 8) / double(1 << 24) * (high - low);
  }
  return v;
}
double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}
bool near(double a, double b, double tolerance = 1e-9) {
  return std::abs(a - b) <= tolerance * (1 + std::abs(b));
}

constexpr i64 kBatch = 2, kHeight = 7, kWidth = 9, kRois = 5;
const std::vector<double> kBoxes{1, 1.2, 0.7, 6.4, 5.1, 0,  -2, -2, 3, 4, 0,   5.5, 2.5,
                                 8, 6.5, 1,   20,  20,  30, 30, 1,  2, 3, 2.5, 3.5};

RoiArgs roi_args(i64 channels, const std::vector<double>& x, std::vector<double>& y) {
  RoiArgs args{};
  args.s = {kBatch, channels, {kHeight, kWidth}, kRois, {2, 3}, 0.9, 2, true};
  args.n = i64(y.size());
  args.x = x.data();
  args.rois = kBoxes.data();
  args.y = y.data();
  return args;
}

// The mean of linear interpolations with the border's elements around the image.
double align_by_hand(const std::vector<double>& x, i64 plane, i64 roi, i64 p, i64 q) {
  const double* box = kBoxes.data() + roi * 5;
  const double scale = 0.9, left = box[1] * scale - 0.5, top = box[2] * scale - 0.5,
               high = (box[4] - box[2]) * scale / 2, wide = (box[3] - box[1]) * scale / 3;
  double sum = 0;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      double y = top + high * (double(p) + (i + 0.5) / 2),
             z = left + wide * (double(q) + (j + 0.5) / 2);
      if (y < -1 || y > kHeight || z < -1 || z > kWidth) continue;
      y = std::clamp(y, 0.0, double(kHeight - 1)), z = std::clamp(z, 0.0, double(kWidth - 1));
      const i64 a = i64(y), b = i64(z), a2 = std::min(a + 1, kHeight - 1),
                b2 = std::min(b + 1, kWidth - 1);
      const auto at = [&](i64 h, i64 w) { return x[size_t((plane * kHeight + h) * kWidth + w)]; };
      const double v = y - double(a), u = z - double(b);
      sum += (1 - v) * ((1 - u) * at(a, b) + u * at(a, b2)) +
             v * ((1 - u) * at(a2, b) + u * at(a2, b2));
    }
  return sum / 4;
}

template <bool ByPosition>
void check_align() {
  const i64 channels = ByPosition ? 12 : 3, outputs = ByPosition ? 2 : 3;
  const auto x = numbers(size_t(kBatch * channels * kHeight * kWidth), 1);
  std::vector<double> y(size_t(kRois * outputs * 6)), gx(x.size());
  IndexFault fault{~u64(0), 0, 0, 0};
  RoiArgs args = roi_args(channels, x, y);
  args.fault = &fault;
  launch(kGrid, kBlock, roi_align<double, double, ByPosition>, args);
  EXPECT(fault.launch == ~u64(0));
  for (i64 n = 0; n < args.n; ++n) {
    const i64 bin = n % 6, c = n / 6 % outputs, roi = n / 6 / outputs;
    const i64 plane = i64(kBoxes[size_t(roi * 5)]) * channels + (ByPosition ? c * 6 + bin : c);
    EXPECT(near(y[size_t(n)], align_by_hand(x, plane, roi, bin / 3, bin % 3)));
  }
  // The gradient is the transposed map.
  const auto g = numbers(y.size(), 2);
  args.x = g.data(), args.y = gx.data(), args.fault = nullptr;
  launch(kGrid, kBlock, roi_align_backward<double, double, ByPosition>, args);
  EXPECT(near(dot(g, y), dot(gx, x)));
}

}  // namespace

TEST(means_of_places) {
  check_align<false>();
  check_align<true>();
}

TEST(boxes_without_an_image) {
  const auto x = numbers(size_t(kBatch * 3 * kHeight * kWidth), 1);
  std::vector<double> y(size_t(kRois * 3 * 6), 7.0), boxes = kBoxes;
  boxes[10] = 2;
  IndexFault fault{~u64(0), 0, 0, 0};
  RoiArgs args = roi_args(3, x, y);
  args.rois = boxes.data(), args.fault = &fault, args.launch = 5;
  launch(kGrid, kBlock, roi_align<double, double, false>, args);
  EXPECT(fault.launch == 5 && fault.position == 2 && fault.value == 2);
  for (size_t i = 2 * 18; i < 3 * 18; ++i) EXPECT(y[i] == 0);
}

TEST(largest_elements_and_means) {
  const auto x = numbers(size_t(kBatch * 12 * kHeight * kWidth), 3);
  std::vector<double> y(size_t(kRois * 12 * 6)), means(size_t(kRois * 2 * 6)), gx(x.size());
  std::vector<i32> argmax(y.size());
  RoiArgs args = roi_args(12, x, y);
  args.argmax = argmax.data();
  launch(kGrid, kBlock, roi_pool<double, double>, args);
  for (i64 n = 0; n < args.n; ++n) {
    const i64 c = n / 6 % 12, roi = n / 72, q = n % 3, p = n / 3 % 2;
    const double* box = kBoxes.data() + roi * 5;
    const auto range = [&](double low, double high, i64 b, i64 bins, i64 size) {
      const double start = std::round(low * 0.9), end = std::round(high * 0.9);
      const double bin = std::max(end - start + 1, 1.0) / double(bins);
      return std::pair{std::clamp(i64(std::floor(double(b) * bin) + start), i64(0), size),
                       std::clamp(i64(std::ceil(double(b + 1) * bin) + start), i64(0), size)};
    };
    const auto [top, bottom] = range(box[2], box[4], p, 2, kHeight);
    const auto [left, right] = range(box[1], box[3], q, 3, kWidth);
    i64 best = -1;
    const double* plane = x.data() + (i64(box[0]) * 12 + c) * kHeight * kWidth;
    for (i64 h = top; h < bottom; ++h)
      for (i64 w = left; w < right; ++w)
        if (best < 0 || plane[h * kWidth + w] > plane[best]) best = h * kWidth + w;
    EXPECT(argmax[size_t(n)] == best);
    EXPECT(y[size_t(n)] == (best < 0 ? 0.0 : plane[best]));
  }
  args = roi_args(12, x, means);
  launch(kGrid, kBlock, roi_mean<double, double>, args);
  // The second box covers rows 0 to 3 and columns 0 to 2 of image 0, cut at 2 and 1; channel 1 of
  // the result reads planes 6 to 11.
  const double* last = x.data() + 11 * kHeight * kWidth;
  EXPECT(near(means[size_t((1 * 2 + 1) * 6 + 5)],
              (last[1 * kWidth + 1] + last[1 * kWidth + 2] + last[2 * kWidth + 1] +
               last[2 * kWidth + 2] + last[3 * kWidth + 1] + last[3 * kWidth + 2]) /
                  6));
  const auto g = numbers(means.size(), 4);
  args.x = g.data(), args.y = gx.data();
  launch(kGrid, kBlock, roi_mean_backward<double, double>, args);
  EXPECT(near(dot(g, means), dot(gx, x)));
}

TEST(boxes_that_are_kept) {
  for (const i64 n : {1, 63, 64, 65, 300}) {
    for (const double limit : {0.0, 0.3, 0.7}) {
      auto boxes = numbers(size_t(n * 4), unsigned(n), 0, 20);
      for (size_t i = 0; i < boxes.size(); i += 4)
        boxes[i + 2] += boxes[i], boxes[i + 3] += boxes[i + 1];
      const i64 words = (n + 63) / 64;
      std::vector<u64> bits(size_t(n * words)), gone(size_t(words), 0);
      std::vector<char> keep(size_t(n), 2), wanted(size_t(n), 1);
      NmsArgs args{n,           words,       boxes.data(),
                   bits.data(), gone.data(), reinterpret_cast<bool*>(keep.data()),
                   limit};
      launch(kGrid, kBlock, nms_overlaps<double, double>, args);
      launch_together({1}, kBlock, nms_keep<u32>, args);
      const auto box = [&](i64 i) {
        const double* b = boxes.data() + 4 * i;
        return BoxArea<double>(b[0], b[1], b[2], b[3]);
      };
      for (i64 i = 0; i < n; ++i)
        for (i64 j = 0; j < i; ++j)
          if (wanted[size_t(j)] && box(i).overlap(box(j)) > limit) wanted[size_t(i)] = 0;
      EXPECT(keep == wanted);
    }
  }
}

TEST(moved_patches) {
  const DeformShape s{2, 4, {5, 6}, {3, 5}, {2, 3}, {2, 1}, {1, 1}, {1, 1}, 2};
  const i64 count = s.batch * s.channels * s.points() * s.places();
  const auto x = numbers(size_t(s.batch * s.channels * s.area()), 1);
  auto offset = numbers(size_t(s.batch * s.groups * s.points() * 2 * s.places()), 2, -2, 2);
  auto mask = numbers(offset.size() / 2, 3, 0, 1);
  std::vector<double> columns(static_cast<size_t>(count));
  DeformArgs args{};
  args.s = s;
  args.columns = columns.data();
  const auto run = [&](const std::vector<double>& image, const std::vector<double>& moves,
                       const std::vector<double>& weights) {
    args.x = image.data(), args.offset = moves.data();
    args.mask = weights.empty() ? nullptr : weights.data();
    launch(kGrid, kBlock, deform_patches<double, double>, args);
  };
  // Without offsets they are the patches of an image with zeros around it.
  run(x, std::vector<double>(offset.size()), {});
  for (i64 n = 0; n < count; ++n) {
    const i64 place = n % s.places(), point = n / s.places() % s.points(),
              plane = n / s.places() / s.points();
    const i64 h = place / s.out[1] * 2 - 1 + point / 3, w = place % s.out[1] - 1 + point % 3;
    const bool inside = h >= 0 && h < s.in[0] && w >= 0 && w < s.in[1];
    EXPECT(columns[size_t(n)] == (inside ? x[size_t((plane * s.in[0] + h) * s.in[1] + w)] : 0.0));
  }
  // Each gradient against a small step.
  const auto g = numbers(columns.size(), 4);
  std::vector<double> gx(x.size()), goffset(offset.size()), gmask(mask.size());
  run(x, offset, mask);
  const double before = dot(g, columns), step = 1e-6;
  args.g = g.data(), args.gx = gx.data(), args.goffset = goffset.data(), args.gmask = gmask.data();
  launch(kGrid, kBlock, deform_patches_backward<double, double>, args);
  EXPECT(near(dot(gx, x), before) && near(dot(gmask, mask), before));
  for (size_t i = 0; i < offset.size(); i += 7) {
    offset[i] += step;
    run(x, offset, mask);
    EXPECT(near((dot(g, columns) - before) / step, goffset[i], 1e-4));
    offset[i] -= step;
  }
  for (size_t i = 0; i < mask.size(); i += 11) {
    mask[i] += step;
    run(x, offset, mask);
    EXPECT(near((dot(g, columns) - before) / step, gmask[i], 1e-4));
    mask[i] -= step;
  }
}
