// Boxes in images on the CPU.
//
// - Interpolation is a product of two one-dimensional ones, so the places of a bin become weights
//   of rows and of columns. Rows are added up first, then each bin takes its columns: an element is
//   read once per row of bins, however densely a box is sampled.
// - Boxes overlap, so backward passes give each thread channels of its own.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/interrupt.h"
#include "core/threads.h"
#include "cpu/lines.h"
#include "cpu/prepare.h"
#include "device/nn/vision.h"

namespace rush {

namespace {

constexpr int64_t kGrain = 32768;     // elements read
constexpr int64_t kFewChannels = 64;  // of a box that one thread takes at a time

template <class T>
struct Box {
  int64_t image;
  T x1, y1, x2, y2;
};
template <class T>
std::vector<Box<T>> boxes_of(const char* op, const RoiShape& s, const Tensor& rois) {
  std::vector<Box<T>> boxes;
  boxes.reserve(size_t(s.rois));
  const T* r = rois.data<T>();
  for (int64_t i = 0; i < s.rois; ++i, r += 5) {
    const int64_t image = roi_image(r[0], s.batch);
    check(image >= 0, ErrorKind::Range, op, "box ", i, " names image ", r[0], ", input has ",
          s.batch);
    boxes.push_back({image, r[1], r[2], r[3], r[4]});
  }
  return boxes;
}

// What the bins of a box read along one dim: weights of elements from `first` to `end`.
template <class T>
class Bands {
 public:
  Bands(int64_t bins, int64_t size)
      : first_(size_t(bins), size),
        end_(size_t(bins), 0),
        weight_(size_t(bins * size), T(0)),
        size_(size) {}
  void fill(const RoiAxis<T>& axis) {
    for (int64_t b = 0; b < int64_t(first_.size()); ++b) {
      T* w = weight_.data() + b * size_;
      int64_t &first = first_[size_t(b)], &end = end_[size_t(b)];
      if (first < end) std::fill(w + first, w + end, T(0));
      first = size_, end = 0;
      InterruptCounter interrupts(1 << 20);
      for (int64_t i = 0; i < axis.samples; ++i) {
        interrupts.add();
        RoiTap<T> tap;
        if (!tap.find(axis.place(b, i), size_)) continue;
        for (int k = 0; k < 2; ++k) w[tap.index[k]] += tap.weight[k];
        first = std::min(first, tap.index[0]);
        end = std::max(end, tap.index[1] + 1);
      }
    }
  }
  int64_t first(int64_t b) const { return first_[size_t(b)]; }
  int64_t end(int64_t b) const { return end_[size_t(b)]; }
  int64_t count(int64_t b) const { return std::max<int64_t>(0, end(b) - first(b)); }
  const T* weights(int64_t b) const { return weight_.data() + b * size_; }
  // Of all bins.
  int64_t lowest() const { return *std::min_element(first_.begin(), first_.end()); }
  int64_t highest() const { return *std::max_element(end_.begin(), end_.end()); }

 private:
  std::vector<int64_t> first_, end_;
  std::vector<T> weight_;
  int64_t size_;
};

// The places of one box after the other.
template <class T>
class Places {
 public:
  Places(const RoiShape& s, bool by_position)
      : s_(s),
        by_position_(by_position),
        rows_(s.bins[0], s.size[0]),
        columns_(s.bins[1], s.size[1]),
        line_(size_t(s.size[1])) {}

  void fill(const Box<T>& box) {
    const RoiAxis<T> y(box.y1, box.y2, s_.bins[0], s_), x(box.x1, box.x2, s_.bins[1], s_);
    rows_.fill(y);
    columns_.fill(x);
    low_ = columns_.lowest();
    width_ = std::max<int64_t>(0, columns_.highest() - low_);
    // (By position, bins without places have no mean: 0 / 0.)
    const int64_t places = y.samples * x.samples;
    count_ = T(by_position_ ? places : std::max<int64_t>(1, places));
  }

  // One channel of the result: planes lie end to end, one per bin by position.
  void read(const T* planes, T* out) {
    const LinesTable<T>& lines = line_kernels<T>();
    const int64_t area = s_.size[0] * s_.size[1];
    for (int64_t p = 0; p < s_.bins[0]; ++p) {
      for (int64_t q = 0; q < s_.bins[1]; ++q) {
        const T* plane = by_position_ ? planes + (p * s_.bins[1] + q) * area : planes;
        if (by_position_ || q == 0) add_rows(plane, p, by_position_ ? q : -1);
        T& sum = out[p * s_.bins[1] + q];
        sum = columns_.count(q) == 0
                  ? T(0)
                  : lines.dot(line_.data() + columns_.first(q),
                              columns_.weights(q) + columns_.first(q), columns_.count(q));
        sum /= count_;
      }
    }
  }

  void spread(const T* g, T* planes) {
    const LinesTable<T>& lines = line_kernels<T>();
    const int64_t area = s_.size[0] * s_.size[1];
    for (int64_t p = 0; p < s_.bins[0]; ++p) {
      if (!by_position_) std::fill_n(line_.data() + low_, width_, T(0));
      for (int64_t q = 0; q < s_.bins[1]; ++q) {
        const int64_t from = columns_.first(q), n = columns_.count(q);
        if (n == 0) continue;
        const T part = g[p * s_.bins[1] + q] / count_;
        if (!by_position_) {
          lines.add(line_.data() + from, columns_.weights(q) + from, part, n);
          continue;
        }
        T* plane = planes + (p * s_.bins[1] + q) * area;
        for (int64_t y = rows_.first(p); y < rows_.end(p); ++y)
          lines.add(plane + y * s_.size[1] + from, columns_.weights(q) + from,
                    part * rows_.weights(p)[y], n);
      }
      if (by_position_) continue;
      for (int64_t y = rows_.first(p); y < rows_.end(p) && width_ > 0; ++y)
        lines.add(planes + y * s_.size[1] + low_, line_.data() + low_, rows_.weights(p)[y], width_);
    }
  }

 private:
  // Into the line: the rows of bin p, as far as bin q reaches along them; -1: all bins.
  void add_rows(const T* plane, int64_t p, int64_t q) {
    const int64_t from = q < 0 ? low_ : columns_.first(q), n = q < 0 ? width_ : columns_.count(q);
    if (n == 0) return;
    std::fill_n(line_.data() + from, n, T(0));
    for (int64_t y = rows_.first(p); y < rows_.end(p); ++y)
      line_kernels<T>().add(line_.data() + from, plane + y * s_.size[1] + from, rows_.weights(p)[y],
                            n);
  }

  const RoiShape& s_;
  bool by_position_;
  Bands<T> rows_, columns_;
  std::vector<T> line_;
  int64_t low_ = 0, width_ = 0;
  T count_ = 1;
};

// How planes of the images belong to channels of the result.
struct Channels {
  int64_t count, planes, bins, area;
  Channels(const RoiShape& s, bool by_position)
      : count(by_position ? s.channels / (s.bins[0] * s.bins[1]) : s.channels),
        planes(by_position ? s.bins[0] * s.bins[1] : 1),
        bins(s.bins[0] * s.bins[1]),
        area(s.size[0] * s.size[1]) {}
  int64_t in(int64_t image, int64_t c) const { return (image * count + c) * planes * area; }
  int64_t out(int64_t roi, int64_t c) const { return (roi * count + c) * bins; }
};

// Calls f(boxes, data of `from`, data of a tensor like out), all in the loop's type; then fills out.
template <class F>
void with_boxes(const char* op, const RoiShape& s, const Tensor& from, const Tensor& rois,
                const Tensor& out, F f) {
  const Tensor x = cpu::in_loop_type(from), corners = cpu::in_loop_type(rois);
  cpu::into(out, [&](const Tensor& y) {
    dispatch<DType::Float32, DType::Float64>(op, y.dtype(), [&]<class T>() {
      f(boxes_of<T>(op, s, corners), x.data<const T>(), y.data<T>());
    });
  });
}

void roi_align_cpu(const RoiShape& s, bool by_position, const Tensor& given, const Tensor& rois,
                   const Tensor& out) {
  const Channels channels(s, by_position);
  const int64_t parts = (channels.count + kFewChannels - 1) / kFewChannels;
  const auto read = [&]<class T>(const std::vector<Box<T>>& boxes, const T* x, T* y) {
    parallel_for(s.rois * parts, 1, [&](int64_t job, int64_t end) {
      Places<T> places(s, by_position);
      for (; job < end; ++job) {
        const int64_t roi = job / parts, c0 = job % parts * kFewChannels;
        const Box<T>& box = boxes[size_t(roi)];
        places.fill(box);
        for (int64_t c = c0; c < std::min(c0 + kFewChannels, channels.count); ++c)
          places.read(x + channels.in(box.image, c), y + channels.out(roi, c));
      }
    });
  };
  with_boxes(by_position ? "ps_roi_align" : "roi_align", s, given, rois, out, read);
}

// Calls f(reader, roi, channel) for all results, with a copy of the reader filled for the box. Each
// thread has channels of its own.
template <class T, class Reader, class F>
void share_channels(const Channels& channels, const std::vector<Box<T>>& boxes, const Reader& blank,
                    F f) {
  const int64_t count = channels.count;
  const int64_t share = std::max<int64_t>(1, (count + num_threads() - 1) / num_threads());
  parallel_for((count + share - 1) / share, 1, [&](int64_t job, int64_t end) {
    Reader reader = blank;
    InterruptCounter interrupts(kGrain);
    for (; job < end; ++job) {
      for (int64_t roi = 0; roi < int64_t(boxes.size()); ++roi) {
        reader.fill(boxes[size_t(roi)]);
        for (int64_t c = job * share; c < std::min(count, (job + 1) * share); ++c) {
          interrupts.add(channels.bins);
          f(reader, roi, c);
        }
      }
    }
  });
}

void roi_align_backward_cpu(const RoiShape& s, bool by_position, const Tensor& given,
                            const Tensor& rois, const Tensor& out) {
  const Channels channels(s, by_position);
  const auto spread = [&]<class T>(const std::vector<Box<T>>& boxes, const T* g, T* gx) {
    std::fill_n(gx, out.numel(), T(0));
    const auto add = [&](Places<T>& places, int64_t roi, int64_t c) {
      places.spread(g + channels.out(roi, c), gx + channels.in(boxes[size_t(roi)].image, c));
    };
    share_channels(channels, boxes, Places<T>(s, by_position), add);
  };
  with_boxes("roi_align_backward", s, given, rois, out, spread);
}

// ---- whole elements ----

// The bins of one box after the other, in elements.
template <class T>
class Windows {
 public:
  Windows(const RoiShape& s, bool with_end) : s_(s), with_end_(with_end) {}
  void fill(const Box<T>& box) {
    fill(rows_, box.y1, box.y2, 0);
    fill(columns_, box.x1, box.x2, 1);
  }
  // Calls f(bin, y begin, y end, x begin, x end) for all bins, empty ones too.
  template <class F>
  void each(F f) const {
    int64_t bin = 0;
    for (const auto& [y0, y1] : rows_)
      for (const auto& [x0, x1] : columns_) f(bin++, y0, y1, x0, x1);
  }

 private:
  using Ranges = std::vector<std::pair<int64_t, int64_t>>;
  void fill(Ranges& ranges, T low, T high, int dim) {
    const RoiWindows<T> windows(low, high, s_.bins[dim], s_.scale, with_end_);
    // (Without its end a box does not reach the last element, as torchvision has it.)
    const int64_t last = s_.size[dim] - (with_end_ ? 0 : 1);
    ranges.clear();
    for (int64_t b = 0; b < s_.bins[dim]; ++b)
      ranges.emplace_back(windows.begin(b, last), windows.end(b, last));
  }
  const RoiShape& s_;
  bool with_end_;
  Ranges rows_, columns_;
};

// Calls f(windows, roi, channel) for all results, shared among threads.
template <class T, class F>
void each_result(const RoiShape& s, bool with_end, int64_t channels,
                 const std::vector<Box<T>>& boxes, F f) {
  parallel_for(s.rois * channels, kFewChannels, [&](int64_t job, int64_t end) {
    Windows<T> windows(s, with_end);
    for (int64_t last = -1; job < end; ++job) {
      const int64_t roi = job / channels;
      if (roi != last) windows.fill(boxes[size_t(roi)]);
      last = roi;
      f(windows, roi, job % channels);
    }
  });
}

void roi_pool_cpu(const RoiShape& s, const Tensor& given, const Tensor& rois, const Tensor& out,
                  const Tensor& argmax) {
  const Channels channels(s, false);
  const int64_t width = s.size[1];
  int32_t* places = argmax.data<int32_t>();
  const auto choose = [&]<class T>(const std::vector<Box<T>>& boxes, const T* x, T* y) {
    each_result(s, true, s.channels, boxes, [&](const Windows<T>& windows, int64_t roi, int64_t c) {
      const T* plane = x + channels.in(boxes[size_t(roi)].image, c);
      const int64_t to = channels.out(roi, c);
      windows.each([&](int64_t bin, int64_t y0, int64_t y1, int64_t x0, int64_t x1) {
        T best = y0 < y1 && x0 < x1 ? std::numeric_limits<T>::lowest() : T(0);
        int32_t at = -1;
        for (int64_t h = y0; h < y1; ++h) {
          const T* row = plane + h * width;
          for (int64_t w = x0; w < x1;
               ++w) {  // without a branch: which is larger cannot be guessed
            const bool better = row[w] > best;
            best = better ? row[w] : best;
            at = better ? int32_t(h * width + w) : at;
          }
        }
        y[to + bin] = best;
        places[to + bin] = at;
      });
    });
  };
  with_boxes("roi_pool", s, given, rois, out, choose);
}

void roi_mean_cpu(const RoiShape& s, const Tensor& given, const Tensor& rois, const Tensor& out) {
  const Channels channels(s, true);
  const auto average = [&]<class T>(const std::vector<Box<T>>& boxes, const T* x, T* y) {
    each_result(s, false, channels.count, boxes,
                [&](const Windows<T>& windows, int64_t roi, int64_t c) {
                  const T* planes = x + channels.in(boxes[size_t(roi)].image, c);
                  const int64_t to = channels.out(roi, c);
                  windows.each([&](int64_t bin, int64_t y0, int64_t y1, int64_t x0, int64_t x1) {
                    T sum = 0;
                    for (int64_t h = y0; h < y1; ++h)
                      for (int64_t w = x0; w < x1; ++w)
                        sum += planes[bin * channels.area + h * s.size[1] + w];
                    const bool is_empty = y0 >= y1 || x0 >= x1;
                    y[to + bin] = is_empty ? T(0) : sum / T((y1 - y0) * (x1 - x0));
                  });
                });
  };
  with_boxes("ps_roi_pool", s, given, rois, out, average);
}

void roi_mean_backward_cpu(const RoiShape& s, const Tensor& given, const Tensor& rois,
                           const Tensor& out) {
  const Channels channels(s, true);
  const auto spread = [&]<class T>(const std::vector<Box<T>>& boxes, const T* g, T* gx) {
    std::fill_n(gx, out.numel(), T(0));
    const auto add = [&](const Windows<T>& windows, int64_t roi, int64_t c) {
      T* planes = gx + channels.in(boxes[size_t(roi)].image, c);
      const T* from = g + channels.out(roi, c);
      windows.each([&](int64_t bin, int64_t y0, int64_t y1, int64_t x0, int64_t x1) {
        const T part = from[bin] / T((y1 - y0) * (x1 - x0));
        for (int64_t h = y0; h < y1; ++h)
          for (int64_t w = x0; w < x1; ++w) planes[bin * channels.area + h * s.size[1] + w] += part;
      });
    };
    share_channels(channels, boxes, Windows<T>(s, false), add);
  };
  with_boxes("ps_roi_pool_backward", s, given, rois, out, spread);
}

// ---- non-maximum suppression ----

void nms_cpu(const Tensor& given, double threshold, const Tensor& keep) {
  const Tensor boxes = cpu::in_loop_type(given);
  const int64_t n = keep.numel();
  bool* kept = keep.data<bool>();
  std::fill_n(kept, n, true);
  dispatch<DType::Float32, DType::Float64>("nms", boxes.dtype(), [&]<class T>() {
    std::vector<BoxArea<T>> all;
    all.reserve(size_t(n));
    for (int64_t i = 0; i < n; ++i) {
      const T* b = boxes.data<T>() + 4 * i;
      all.emplace_back(b[0], b[1], b[2], b[3]);
    }
    const T limit = at_most<T>(threshold);
    for (int64_t i = 0; i < n; ++i) {
      if (!kept[i]) continue;
      const BoxArea<T> best = all[size_t(i)];
      parallel_for(n - i - 1, kGrain, [&](int64_t j, int64_t end) {
        for (j += i + 1, end += i + 1; j < end; ++j)
          kept[j] = kept[j] && !(best.overlap(all[size_t(j)]) > limit);
      });
    }
  });
}

const bool registered = [] {
  VisionLoops& loops = vision_loops(DeviceType::CPU);
  loops.roi_align = roi_align_cpu;
  loops.roi_align_backward = roi_align_backward_cpu;
  loops.roi_pool = roi_pool_cpu;
  loops.roi_mean = roi_mean_cpu;
  loops.roi_mean_backward = roi_mean_backward_cpu;
  loops.nms = nms_cpu;
  return true;
}();

}  // namespace
}  // namespace rush
