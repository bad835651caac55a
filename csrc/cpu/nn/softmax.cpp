// Softmax along rows, and cross entropy, on the CPU, through kernels/softmax.cpp.
#include "device/nn/softmax.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/layout.h"
#include "core/threads.h"
#include "cpu/lines.h"
#include "cpu/nn/softmax_kernels.h"
#include "cpu/prepare.h"
#include "device/deferred.h"
#include "device/nn/loss.h"

namespace rush {

namespace {

constexpr int64_t kGrain = 8192;  // elements that are worth a thread

template <class T>
const SoftmaxTable<T>& kernels() {
  return softmax_kernels<T>();
}

template <class F>
void for_type(const Tensor& x, F&& f) {
  dispatch<DType::Float32, DType::Float64>("softmax", x.dtype(), std::forward<F>(f));
}

template <class F>
void for_rows(int64_t count, int64_t n, F&& f) {
  parallel_for(count, std::max<int64_t>(1, kGrain / std::max<int64_t>(n, 1)),
               [&](int64_t i, int64_t end) {
                 for (; i < end; ++i) f(i);
               });
}

// Along the last dim of contiguous tensors every row is one stretch, and stays in the cache.
bool is_row_wise(const Tensor& x, int64_t dim) {
  return x.dim() > 0 && dim == x.dim() - 1 && x.is_contiguous() &&
         (x.dtype() == DType::Float32 || x.dtype() == DType::Float64);
}

bool softmax_cpu(const Tensor& x, int64_t dim, bool logarithm, const Tensor& y) {
  if (is_unborn(y)) {
    if (is_row_wise(x, dim) && deferred::take_softmax(x, dim, logarithm, y)) return true;
    y.storage();
  }
  if (!is_row_wise(x, dim) || !y.is_contiguous()) return false;
  const int64_t n = x.sizes().back();
  for_type(x, [&]<class T>() {
    const auto row = logarithm ? kernels<T>().log_softmax : kernels<T>().softmax;
    for_rows(x.numel() / n, n,
             [&](int64_t i) { row(x.data<T>() + i * n, y.data<T>() + i * n, n); });
  });
  return true;
}

// For results that are row-wise.
void softmax_backward_cpu(const Tensor& given, const Tensor& y, int64_t, bool logarithm,
                          const Tensor& gx) {
  if (is_unborn(gx) && deferred::take_softmax_backward(given, y, y.dim() - 1, logarithm, gx))
    return;
  const int64_t n = y.sizes().back();
  const Tensor g = cpu::contiguous(given);
  for_type(g, [&]<class T>() {
    const auto row = logarithm ? kernels<T>().log_softmax_backward : kernels<T>().softmax_backward;
    for_rows(g.numel() / n, n, [&](int64_t i) {
      row(g.data<T>() + i * n, y.data<T>() + i * n, gx.data<T>() + i * n, n);
    });
  });
}

// Scores (batch, classes, points), class indices (batch, points), all contiguous.
struct CrossEntropy {
  int64_t batch, classes, points;
  const int64_t* target;
  const void* weight;  // one number per class, of the scores' type, or null
  int64_t ignore_index;
  double smoothing;

  explicit CrossEntropy(const CrossEntropyCall& c)
      : batch(c.x.sizes()[0]),
        classes(c.x.sizes()[1]),
        points(c.x.sizes()[2]),
        target(c.target.data<int64_t>()),
        weight(c.weight.defined() ? c.weight.data() : nullptr),
        ignore_index(c.ignore_index),
        smoothing(c.smoothing) {}
};

// What one position's loss is made of: weight of its target (0: ignored), see
// losses_of_positions.
template <class T>
class Positions {
 public:
  explicit Positions(const CrossEntropy& c)
      : c_(c),
        weight_(static_cast<const T*>(c.weight)),
        by_class_(T(c.smoothing / double(c.classes))) {
    double all = weight_ ? 0 : double(c.classes);
    for (int64_t k = 0; k < c.classes && weight_; ++k) all += double(weight_[k]);
    weights_ = T(all);
  }
  bool counts(int64_t i) const { return c_.target[i] != c_.ignore_index; }
  T weight(int64_t i) const { return weight_ ? weight_[c_.target[i]] : T(1); }
  const T* class_weights() const { return weight_; }
  T by_class() const { return by_class_; }  // the smoothing's share of each class
  T sharp() const { return T(1 - c_.smoothing); }
  T all_weights() const { return weights_; }  // over the classes

 private:
  const CrossEntropy& c_;
  const T* weight_;
  T by_class_, weights_;
};

void check_targets(const char* op, const CrossEntropy& c) {
  const int64_t n = c.batch * c.points;
  bool good = true;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t t = c.target[i];
    good &= (uint64_t(t) < uint64_t(c.classes)) | (t == c.ignore_index);
  }
  for (int64_t i = 0; i < n && !good; ++i) {
    const int64_t t = c.target[i];
    check((t >= 0 && t < c.classes) || t == c.ignore_index, ErrorKind::Index, op, "target ", t,
          " is out of range for ", c.classes, " classes");
  }
}

// The weights of all targets that count, added up.
template <class T>
double weights_of_targets(const Positions<T>& p, int64_t n) {
  if (!p.class_weights()) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) count += p.counts(i);
    return double(count);
  }
  double all = 0;
  for (int64_t i = 0; i < n; ++i) all += p.counts(i) ? double(p.weight(i)) : 0;
  return all;
}

// The loss of one position: score_of gives that of its target.
template <class T, class F>
T loss_at(const Positions<T>& p, const CrossEntropy& c, int64_t i, T sum, T mean, F&& score_of) {
  if (!p.counts(i)) return 0;
  const T sharp = p.sharp() * p.weight(i) * (sum - score_of(c.target[i]));
  return c.smoothing > 0 ? sharp + p.by_class() * (p.all_weights() * sum - mean) : sharp;
}

// nll_loss: the targets' scores, looked up. Returns the weights of those that count.
template <class T>
double look_up(const char* op, const CrossEntropy& c, const T* x, T* loss) {
  constexpr int64_t kBlock = 8192;
  const T* weight = static_cast<const T*>(c.weight);
  const int64_t n = c.batch * c.points, blocks = (n + kBlock - 1) / kBlock;
  std::vector<double> weights(size_t(blocks), 0);
  std::atomic<bool> good = true;
  parallel_for(blocks, 1, [&](int64_t block, int64_t last) {
    for (; block < last; ++block) {
      bool bad = false;
      int64_t count = 0;
      double sum = 0;
      for (int64_t i = block * kBlock, end = std::min(n, i + kBlock); i < end;) {
        // Up to the end of an image, or of the block.
        const int64_t image = i / c.points, stop = std::min(end, (image + 1) * c.points);
        const T* scores = x + image * (c.classes - 1) * c.points;
        for (; i < stop; ++i) {
          const int64_t t = c.target[i];
          const bool counts = t != c.ignore_index, known = uint64_t(t) < uint64_t(c.classes);
          bad |= counts & !known;
          const int64_t k = known ? t : 0;
          const T w = weight ? weight[k] : T(1), value = w * (T(0) - scores[k * c.points + i]);
          loss[i] = counts ? value : T(0);
          count += counts;
          if (weight) sum += counts ? double(w) : 0;
        }
      }
      weights[size_t(block)] = weight ? sum : double(count);
      if (bad) good = false;
    }
  });
  if (!good) check_targets(op, c);
  double all = 0;
  for (const double w : weights) all += w;
  return all;
}

// The loss of each position, the log of its sum of exponentials (where `total` is defined; else the
// scores are log-probabilities already), and the sum of the weights. Raises on a target that is
// out of range.
double losses_of_positions(const char* op, const CrossEntropy& c, const Tensor& x,
                           const Tensor& loss, const Tensor& total) {
  double all = 0;
  if (!total.defined() && c.smoothing == 0) {
    if (c.batch * c.points * c.classes == 0) return check_targets(op, c), 0;
    for_type(x, [&]<class T>() { all = look_up<T>(op, c, x.data<T>(), loss.data<T>()); });
    return all;
  }
  check_targets(op, c);
  for_type(x, [&]<class T>() {
    const Positions<T> p(c);
    const T* from = x.data<T>();
    T* to = loss.data<T>();
    T* sums = total.defined() ? total.data<T>() : nullptr;
    const bool smooth = c.smoothing > 0;
    all = weights_of_targets(p, c.batch * c.points);
    if (c.points == 1) {
      const int64_t grain = kGrain / std::max<int64_t>(1, sums || smooth ? c.classes : 1);
      parallel_for(c.batch, std::max<int64_t>(1, grain), [&](int64_t i, int64_t end) {
        if (sums) kernels<T>().log_sum_exp(from + i * c.classes, end - i, c.classes, sums + i);
        for (; i < end; ++i) {
          const T* scores = from + i * c.classes;
          const T mean =
              smooth ? kernels<T>().weighted_sum(scores, p.class_weights(), c.classes) : T(0);
          to[i] = loss_at(p, c, i, sums ? sums[i] : T(0), mean,
                          [&](int64_t target) { return scores[target]; });
        }
      });
      return;
    }
    const int64_t blocks = (c.points + kColumns - 1) / kColumns;
    for_rows(c.batch * blocks, c.classes * std::min(c.points, kColumns), [&](int64_t job) {
      const int64_t b = job / blocks, first = job % blocks * kColumns;
      const int64_t n = std::min(kColumns, c.points - first), at = b * c.points + first;
      const T* scores = from + b * c.classes * c.points + first;
      if (sums) kernels<T>().column_log_sum_exp(scores, c.classes, c.points, n, sums + at);
      T mean[kColumns];  // over the classes, for the smoothing
      if (smooth) {
        std::fill_n(mean, n, T(0));
        for (int64_t k = 0; k < c.classes; ++k) {
          const T weight = p.class_weights() ? p.class_weights()[k] : T(1);
          line_kernels<T>().add(mean, scores + k * c.points, weight, n);
        }
      }
      for (int64_t i = 0; i < n; ++i)
        to[at + i] = loss_at(p, c, at + i, sums ? sums[at + i] : T(0), smooth ? mean[i] : T(0),
                             [&](int64_t target) { return scores[target * c.points + i]; });
    });
  });
  return all;
}

// Rows of a half type are widened a piece at a time, which stays in the first-level cache: a copy
// of all scores would be twice as large as they are.
class HalfRows {
 public:
  static bool serve(const CrossEntropyCall& c) {
    return is_reduced_float(c.x.dtype()) && c.scores && c.x.sizes()[2] == 1 && c.x.is_contiguous();
  }
  explicit HalfRows(const CrossEntropyCall& call)
      : c_(call),
        p_(c_),
        from_(call.x.data<const char>()),
        widen_(convert_fn(call.x.dtype(), DType::Float32)),
        narrow_(convert_fn(DType::Float32, call.x.dtype())) {}

  // As losses_of_positions does.
  double losses(const char* op, float* loss, float* sums) const {
    check_targets(op, c_);
    for_rows(c_.batch, c_.classes, [&](int64_t i) {
      constexpr int kParts = 64;
      float parts[kParts], mean = 0;  // the logarithm of each piece's sum
      int count = 0;
      for_pieces(i, [&](float* piece, int64_t at, int64_t n) {
        if (count == kParts) {
          kernels<float>().log_sum_exp(parts, 1, count, parts);
          count = 1;
        }
        kernels<float>().log_sum_exp(piece, 1, n, parts + count++);
        if (c_.smoothing > 0) mean += kernels<float>().weighted_sum(piece, weights_from(at), n);
      });
      kernels<float>().log_sum_exp(parts, 1, count, sums + i);
      loss[i] = loss_at(p_, c_, i, sums[i], mean, [&](int64_t target) {
        float score;
        widen_(reinterpret_cast<char*>(&score), sizeof score, place(i, target), kSize, 1);
        return score;
      });
    });
    return weights_of_targets(p_, c_.batch);
  }

  // As positions_backward does; `to` may be the scores.
  void backward(const float* sums, const float* g, int64_t step, double scale, char* to) const {
    for_rows(c_.batch, c_.classes, [&](int64_t i) {
      char* row = to + i * c_.classes * kSize;
      if (!p_.counts(i)) {
        std::fill_n(row, c_.classes * kSize, char(0));  // zeros of either type
        return;
      }
      const float own = float(double(g[i * step]) * scale), even = own * p_.by_class();
      const float sharp = own * p_.sharp() * p_.weight(i);
      for_pieces(i, [&](float* piece, int64_t at, int64_t n) {
        kernels<float>().scaled_softmax(piece, piece, n, sums[i], sharp + even * p_.all_weights(),
                                        even, weights_from(at));
        const int64_t target = c_.target[i] - at;
        if (target >= 0 && target < n) piece[target] -= sharp;
        narrow_(row + at * kSize, kSize, reinterpret_cast<const char*>(piece), sizeof(float), n);
      });
    });
  }

 private:
  static constexpr int64_t kSize = 2, kPiece = 4096;

  const char* place(int64_t row, int64_t k) const { return from_ + (row * c_.classes + k) * kSize; }
  const float* weights_from(int64_t k) const {
    return p_.class_weights() ? p_.class_weights() + k : nullptr;
  }
  template <class F>
  void for_pieces(int64_t row, F&& f) const {
    alignas(64) float piece[kPiece];
    for (int64_t at = 0; at < c_.classes; at += kPiece) {
      const int64_t n = std::min(kPiece, c_.classes - at);
      widen_(reinterpret_cast<char*>(piece), sizeof(float), place(row, at), kSize, n);
      f(piece, at, n);
    }
  }

  const CrossEntropy c_;
  const Positions<float> p_;
  const char* from_;
  ConvertFn widen_, narrow_;
};

double sum_of_losses(const Tensor& loss) {
  double all = 0;
  for_type(loss, [&]<class T>() {
    all = double(kernels<T>().weighted_sum(loss.data<T>(), nullptr, loss.numel()));
  });
  return all;
}

void cross_entropy_cpu(const CrossEntropyCall& call, const Tensor& out, const Tensor& total,
                       const Tensor& weights) {
  const char* op = call.scores ? "cross_entropy" : "nll_loss";
  const DType type = compute_type(call.x.dtype());
  const bool reduces = call.reduction != 0, direct = !reduces && out.dtype() == type;
  const Tensor loss = direct ? out : make_tensor(call.target.sizes(), type);
  const double all = HalfRows::serve(call)
                         ? HalfRows(call).losses(op, loss.data<float>(), total.data<float>())
                         : losses_of_positions(op, CrossEntropy(call), cpu::in_loop_type(call.x),
                                               loss, call.scores ? total : Tensor());
  *weights.data<double>() = all;
  if (direct) return;
  if (!reduces) return copy_cpu(loss, out);
  const double sum = sum_of_losses(loss);
  store_scalar(out.data(), out.dtype(), Scalar(call.reduction == 1 ? sum / all : sum));
}

// gx for the gradient of each position's loss, g[i * step] * scale.
void positions_backward(const CrossEntropy& c, const Tensor& x, const Tensor& total,
                        const Tensor& g, int64_t step, double scale, const Tensor& gx) {
  for_type(gx, [&]<class T>() {
    const Positions<T> p(c);
    const T* gradient = g.data<T>();
    const int64_t blocks = (c.points + kColumns - 1) / kColumns;
    for_rows(c.batch * blocks, c.classes * std::min(c.points, kColumns), [&](int64_t job) {
      const int64_t b = job / blocks, first = job % blocks * kColumns;
      const int64_t n = std::min(kColumns, c.points - first), at = b * c.points + first;
      const int64_t start = b * c.classes * c.points + first;
      T* to = gx.data<T>() + start;
      T a[kColumns], even[kColumns], sharp[kColumns];  // of softmax, of every class, of the target
      for (int64_t i = 0; i < n; ++i) {
        const bool counts = p.counts(at + i);
        const T own = counts ? T(double(gradient[(at + i) * step]) * scale) : T(0);
        sharp[i] = counts ? own * p.sharp() * p.weight(at + i) : T(0);
        even[i] = own * p.by_class();
        a[i] = total.defined() ? sharp[i] + even[i] * p.all_weights() : T(0);
      }
      const T* w = p.class_weights();
      if (!total.defined() && c.smoothing == 0) {  // x is not read
        if (c.points == 1)
          std::fill_n(to, c.classes, T(0));
        else
          for (int64_t k = 0; k < c.classes; ++k) std::fill_n(to + k * c.points, n, T(0));
      } else if (!total.defined()) {
        for (int64_t k = 0; k < c.classes; ++k) {
          for (int64_t i = 0; i < n; ++i) to[k * c.points + i] = -even[i] * (w ? w[k] : T(1));
        }
      } else if (c.points == 1 && !p.counts(at)) {
        std::fill_n(to, c.classes, T(0));
      } else if (c.points == 1) {
        kernels<T>().scaled_softmax(x.data<T>() + start, to, c.classes, total.data<T>()[at], a[0],
                                    even[0], w);
      } else {
        for (int64_t k = 0; k < c.classes; ++k)
          kernels<T>().column_scaled_softmax(x.data<T>() + start + k * c.points, to + k * c.points,
                                             n, total.data<T>() + at, a, w ? w[k] : T(1), even);
      }
      for (int64_t i = 0; i < n; ++i) {
        if (p.counts(at + i)) to[c.target[at + i] * c.points + i] -= sharp[i];
      }
    });
  });
}

void cross_entropy_backward_cpu(const CrossEntropyCall& call, const Tensor& g, const Tensor& total,
                                const Tensor& weights, const Tensor& out) {
  const double scale = call.reduction == 1 ? 1 / *weights.data<double>() : 1;
  const int64_t step = call.reduction == 0 ? 1 : 0;
  const Tensor wide_g = cpu::in_loop_type(g);
  if (HalfRows::serve(call) && out.is_contiguous())
    return HalfRows(call).backward(total.data<float>(), wide_g.data<float>(), step, scale,
                                   out.data<char>());
  const Tensor x = call.scores ? cpu::in_loop_type(call.x) : call.x;
  cpu::into(out, [&](const Tensor& gx) {
    positions_backward(CrossEntropy(call), x, call.scores ? total : Tensor(), wide_g, step, scale,
                       gx);
  });
}

const bool registered = [] {
  softmax_loops(DeviceType::CPU) = {softmax_cpu, is_row_wise, softmax_backward_cpu};
  LossLoops& losses = loss_loops(DeviceType::CPU);
  losses.cross_entropy = cross_entropy_cpu;
  losses.cross_entropy_backward = cross_entropy_backward_cpu;
  return true;
}();

}  // namespace
}  // namespace rush
