#include "cpu/kernels/softmax_tables.h"

#include <algorithm>

#include "core/interrupt.h"
#include "functors/math.h"

namespace rush {

namespace RUSH_ISA {
namespace {

// Sums of float32 are taken in float32 over pieces of this many elements, in double across them.
constexpr int64_t kPiece = 4096;
constexpr int64_t kPerLook = 1 << 20;  // elements between looks for an interrupt

template <class T>
struct Softmax {
  static constexpr int64_t kVector = 64 / int64_t(sizeof(T));

  // NaN is passed over here; it comes back through the sum of exponentials.
  static T largest(const T* x, int64_t n) {
    T most = -limits<T>::inf;
    in_steps(n, kPerLook, [&](int64_t begin, int64_t end) {
      const T part = largest_of(x + begin, end - begin);
      most = part > most ? part : most;
    });
    return most;
  }
  static T largest_of(const T* x, int64_t n) {
    T most = -limits<T>::inf;
    const int64_t whole = n < kVector ? n : n / kVector * kVector;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < whole; ++i) most = x[i] > most ? x[i] : most;
    if (whole == n) return most;
    x += n - kVector;  // some of them once more
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < kVector; ++i) most = x[i] > most ? x[i] : most;
    return most;
  }
  // Where the largest is infinite, differences from it would be NaN.
  static T shift_for(T most) {
    return most == -limits<T>::inf || most == limits<T>::inf ? T(0) : most;
  }

  // Note [Short rows]
  // The compiler finishes a vector loop with single elements, each of which costs a whole
  // exponential: more than the vectors before it, where rows are short. So the last vector of a row
  // ends with the row and begins inside the one before; elements that were there already count 0.
  // Rows shorter than a vector, and rows that are overwritten, go through a buffer that is filled
  // up with -inf, whose exponential is 0.
  struct Tail {
    alignas(64) T v[kVector];
    int64_t n;
    Tail(const T* x, int64_t count) : n(count) {
      for (int64_t i = 0; i < kVector; ++i) v[i] = -limits<T>::inf;
      for (int64_t i = 0; i < n; ++i) v[i] = x[i];
    }
    void put(T* y) const {
      for (int64_t i = 0; i < n; ++i) y[i] = v[i];
    }
  };

  // e^x for what a row holds less its largest element. Where that one is +inf and the shift is 0
  // instead, only `any` will do.
  template <bool any>
  static T exponential(T x) {
    if constexpr (any)
      return math::exp(x);
    else
      return math::exp_negative(x);
  }

  // The sum of e^(x - shift) over at most kPiece elements, which are put into y if there is one.
  template <bool keep, bool any = false>
  static T exponentials(const T* x, T* y, int64_t n, T shift) {
    const int64_t whole = n / kVector * kVector;
    T sum = 0, rest = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < whole; ++i) {
      const T e = exponential<any>(x[i] - shift);
      if constexpr (keep) y[i] = e;
      sum += e;
    }
    if (whole == n) return sum;
    if (whole > 0 && !keep) {
      const int64_t seen = kVector - (n - whole);
      x += n - kVector;
#pragma omp simd reduction(+ : rest)
      for (int64_t i = 0; i < kVector; ++i) {
        const T e = exponential<any>(x[i] - shift);
        rest += i < seen ? T(0) : e;
      }
      return sum + rest;
    }
    Tail last(x + whole, n - whole);
#pragma omp simd reduction(+ : rest)
    for (int64_t i = 0; i < kVector; ++i) {
      last.v[i] = exponential<any>(last.v[i] - shift);
      rest += last.v[i];
    }
    if constexpr (keep) last.put(y + whole);
    return sum + rest;
  }

  static void softmax(const T* x, T* y, int64_t n) {
    const T most = largest(x, n);
    double all = 0;
    in_steps(n, kPerLook, [&](int64_t at, int64_t end) {
      for (; at < end; at += kPiece)
        all += double(exponentials<true>(x + at, y + at, std::min(kPiece, end - at), most));
    });
    const T by = T(1 / all);
    in_steps(n, kPerLook, [&](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) y[i] = y[i] * by;
    });
  }

  template <bool any>
  static double sum_of_exponentials(const T* x, int64_t n, T shift) {
    double all = 0;
    in_steps(n, kPerLook, [&](int64_t at, int64_t end) {
      for (; at < end; at += kPiece)
        all += double(exponentials<false, any>(x + at, nullptr, std::min(kPiece, end - at), shift));
    });
    return all;
  }
  // Less the largest, which goes to shift.
  static double sum_of_exponentials(const T* x, int64_t n, T* shift) {
    const T most = largest(x, n);
    *shift = shift_for(most);
    if (most == limits<T>::inf) [[unlikely]]
      return sum_of_exponentials<true>(x, n, *shift);
    return sum_of_exponentials<false>(x, n, *shift);
  }

  // Some rows at a time, so that their logarithms are one vector's work.
  static void log_sum_exp(const T* x, int64_t rows, int64_t n, T* out) {
    constexpr int64_t kRows = 32;
    T sums[kRows], shifts[kRows];
    for (int64_t first = 0; first < rows; first += kRows) {
      const int64_t count = std::min(kRows, rows - first);
      for (int64_t r = 0; r < count; ++r, x += n) {
        sums[r] = T(sum_of_exponentials(x, n, shifts + r));
      }
      std::fill(sums + count, sums + kRows, T(1));
      std::fill(shifts + count, shifts + kRows, T(0));
#pragma omp simd
      for (int64_t r = 0; r < kRows; ++r) sums[r] = math::log(sums[r]) + shifts[r];
      std::copy_n(sums, count, out + first);
    }
  }

  static void log_softmax(const T* x, T* y, int64_t n) {
    T shift;
    const T sum = T(sum_of_exponentials(x, n, &shift));
    const T total = math::log(sum) + shift;
    in_steps(n, kPerLook, [&](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) y[i] = x[i] - total;
    });
  }

  static void softmax_backward(const T* g, const T* y, T* gx, int64_t n) {
    const T total = weighted_sum(g, y, n);
    in_steps(n, kPerLook, [&](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) gx[i] = y[i] * (g[i] - total);
    });
  }

  static void log_softmax_backward(const T* g, const T* y, T* gx, int64_t n) {
    const T total = weighted_sum(g, nullptr, n);
    const int64_t whole = n / kVector * kVector;
    in_steps(whole, kPerLook, [&](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) gx[i] = g[i] - math::exp_negative(y[i]) * total;
    });
    if (whole == n) return;
    Tail last(y + whole, n - whole);
#pragma omp simd
    for (int64_t i = 0; i < kVector; ++i) last.v[i] = math::exp_negative(last.v[i]) * total;
    for (int64_t i = whole; i < n; ++i) gx[i] = g[i] - last.v[i - whole];
  }

  static T weighted_sum(const T* x, const T* w, int64_t n) {
    double all = 0;
    InterruptCounter interrupts(kPerLook);
    for (int64_t at = 0; at < n; at += kPiece) {
      interrupts.add(kPiece);
      const int64_t end = std::min(at + kPiece, n);
      T sum = 0;
      if (w) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = at; i < end; ++i) sum += x[i] * w[i];
      } else {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = at; i < end; ++i) sum += x[i];
      }
      all += double(sum);
    }
    return T(all);
  }

  static void scaled_softmax(const T* x, T* y, int64_t n, T shift, T a, T b, const T* w) {
    const int64_t whole = n / kVector * kVector;
    scale_from(x, y, whole, shift, a, b, w);
    if (whole == n) return;
    if (whole > 0 && x != y) {
      const int64_t at = n - kVector;
      return scale_from(x + at, y + at, kVector, shift, a, b, w ? w + at : w);
    }
    Tail last(x + whole, n - whole);
#pragma omp simd
    for (int64_t i = 0; i < kVector; ++i) last.v[i] = a * math::exp_negative(last.v[i] - shift);
    for (int64_t i = whole; i < n; ++i) y[i] = last.v[i - whole] - (w ? b * w[i] : b);
  }
  static void scale_from(const T* x, T* y, int64_t n, T shift, T a, T b, const T* w) {
    if (w && b != 0) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = a * math::exp_negative(x[i] - shift) - b * w[i];
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = a * math::exp_negative(x[i] - shift) - b;
    }
  }

  static void column_log_sum_exp(const T* x, int64_t classes, int64_t stride, int64_t n, T* out) {
    T most[kColumns], sum[kColumns];
    std::copy_n(x, n, most);
    for (int64_t c = 1; c < classes; ++c) {
      const T* row = x + c * stride;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) most[i] = row[i] > most[i] ? row[i] : most[i];
    }
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      sum[i] = most[i] == limits<T>::inf ? limits<T>::inf : T(0);
      most[i] = fabs(most[i]) == limits<T>::inf ? T(0) : most[i];
    }
    for (int64_t c = 0; c < classes; ++c) {
      const T* row = x + c * stride;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const T d = row[i] - most[i];
        sum[i] += math::exp_negative(d > T(0) ? T(0) : d);  // above 0 only where the sum is inf
      }
    }
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = math::log(sum[i]) + most[i];
  }

  static void column_scaled_softmax(const T* x, T* y, int64_t n, const T* shift, const T* a, T w,
                                    const T* b) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = a[i] * math::exp_negative(x[i] - shift[i]) - w * b[i];
  }

  static T fabs(T x) { return x < 0 ? -x : x; }

  static constexpr SoftmaxTable<T> table = {
      softmax,      log_softmax,    softmax_backward,   log_softmax_backward, log_sum_exp,
      weighted_sum, scaled_softmax, column_log_sum_exp, column_scaled_softmax};
};

}  // namespace
}  // namespace RUSH_ISA

template <>
const SoftmaxTable<float>* softmax_table<Isa::RUSH_ISA, float>() {
  return &RUSH_ISA::Softmax<float>::table;
}
template <>
const SoftmaxTable<double>* softmax_table<Isa::RUSH_ISA, double>() {
  return &RUSH_ISA::Softmax<double>::table;
}

}  // namespace rush
