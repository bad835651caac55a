#include "cpu/pointwise/fused_rows.h"

#include "cpu/nn/norm_blocks.h"
#include "cpu/nn/softmax_kernels.h"

namespace rush {

namespace {

// The numbers of a row, or as many equal ones where there are none.
template <class T>
class RowNumbers {
 public:
  RowNumbers(const Tensor& t, int64_t width, T missing)
      : made_(t.defined() ? 0 : size_t(width), missing),
        at_(t.defined() ? t.data<T>() : made_.data()) {}
  const T* get() const { return at_; }

 private:
  std::vector<T> made_;
  const T* at_;
};

template <class T>
class Norm : public FusedRows {
 public:
  explicit Norm(const RowStep& s)
      : step_(s), weight_(s.with[0], s.width, T(1)), bias_(s.with[1], s.width, T(0)) {
    width_ = s.width;
  }
  void run(char* out, const char* a, const char*, int64_t first, int64_t n) override {
    const int64_t row = first / width_;
    norms::kernels<T>().rows(reinterpret_cast<const T*>(a), reinterpret_cast<T*>(out), n / width_,
                             width_, weight_.get(), bias_.get(), step_.centred, step_.eps,
                             step_.beside[0].template data<T>() + row,
                             step_.beside[1].template data<T>() + row);
  }

 private:
  const RowStep& step_;
  RowNumbers<T> weight_, bias_;
};

template <class T>
class NormBackward : public FusedRows {
 public:
  NormBackward(const RowStep& s, int64_t rows)
      : step_(s),
        weight_(s.with[0], s.width, T(1)),
        summed_(s.beside[0].defined() || s.beside[1].defined()),
        sums_(summed_ ? rows : 0, s.width) {
    width_ = s.width;
    if (summed_) unit_ = sums_.block;
  }
  void run(char* out, const char* a, const char* b, int64_t first, int64_t n) override {
    const int64_t row = first / width_;
    T* to = summed_ ? sums_.of_block(row / unit_) : nullptr;
    norms::kernels<T>().rows_backward(
        reinterpret_cast<const T*>(a), reinterpret_cast<const T*>(b), weight_.get(),
        reinterpret_cast<T*>(out), n / width_, width_, step_.with[1].template data<T>() + row,
        step_.with[2].template data<T>() + row, step_.centred, to, to ? to + width_ : nullptr);
  }
  void finish() override {
    if (summed_) sums_.add_up(step_.beside[0], step_.beside[1]);
  }

 private:
  const RowStep& step_;
  RowNumbers<T> weight_;
  bool summed_;
  norms::RowSums<T> sums_;
};

template <class T>
class Softmax : public FusedRows {
 public:
  explicit Softmax(const RowStep& s)
      : row_(s.fn == RowOp::Softmax ? softmax_kernels<T>().softmax
                                    : softmax_kernels<T>().log_softmax) {
    width_ = s.width;
  }
  void run(char* out, const char* a, const char*, int64_t, int64_t n) override {
    for (int64_t at = 0; at < n; at += width_)
      row_(reinterpret_cast<const T*>(a) + at, reinterpret_cast<T*>(out) + at, width_);
  }

 private:
  void (*row_)(const T*, T*, int64_t);
};

template <class T>
class SoftmaxBackward : public FusedRows {
 public:
  explicit SoftmaxBackward(const RowStep& s)
      : row_(s.fn == RowOp::SoftmaxBackward ? softmax_kernels<T>().softmax_backward
                                            : softmax_kernels<T>().log_softmax_backward) {
    width_ = s.width;
  }
  void run(char* out, const char* a, const char* b, int64_t, int64_t n) override {
    for (int64_t at = 0; at < n; at += width_)
      row_(reinterpret_cast<const T*>(a) + at, reinterpret_cast<const T*>(b) + at,
           reinterpret_cast<T*>(out) + at, width_);
  }

 private:
  void (*row_)(const T*, const T*, T*, int64_t);
};

// Of points whose channels lie end to end, or of planes.
template <class T>
class Scale : public FusedRows {
 public:
  explicit Scale(const RowStep& s)
      : step_(s),
        centre_(s.with[0].data<T>()),
        scale_(s.with[1].data<T>()),
        shift_(s.with[2].data<T>()) {
    width_ = s.width;
  }
  void run(char* out, const char* a, const char*, int64_t first, int64_t n) override {
    const T* x = reinterpret_cast<const T*>(a);
    T* y = reinterpret_cast<T*>(out);
    const int64_t begin = first / width_, end = begin + n / width_;
    for (int64_t row = begin; row < end;) {
      const int64_t at = (row - begin) * width_;
      if (step_.planes) {
        const int64_t c = row % step_.shared;
        kernels_.plane(x + at, y + at, width_, centre_[c], scale_[c], shift_[c]);
        ++row;
        continue;
      }
      const int64_t sample = row / step_.shared, k = sample * width_;
      const int64_t count = std::min(end, (sample + 1) * step_.shared) - row;
      kernels_.last(x + at, y + at, count, width_, centre_ + k, scale_ + k, shift_ + k);
      row += count;
    }
  }

 private:
  const RowStep& step_;
  const NormTable<T>& kernels_ = norms::kernels<T>();
  const T *centre_, *scale_, *shift_;
};

template <class T>
std::unique_ptr<FusedRows> made(const RowStep& s, int64_t elements) {
  switch (s.fn) {
    case RowOp::Norm:
      return std::make_unique<Norm<T>>(s);
    case RowOp::NormBackward:
      return std::make_unique<NormBackward<T>>(s, elements / s.width);
    case RowOp::Softmax:
    case RowOp::LogSoftmax:
      return std::make_unique<Softmax<T>>(s);
    case RowOp::SoftmaxBackward:
    case RowOp::LogSoftmaxBackward:
      return std::make_unique<SoftmaxBackward<T>>(s);
    default:
      return std::make_unique<Scale<T>>(s);
  }
}

}  // namespace

std::unique_ptr<FusedRows> FusedRows::make(const RowStep& step, DType type, int64_t elements) {
  return type == DType::Float64 ? made<double>(step, elements) : made<float>(step, elements);
}

}  // namespace rush
