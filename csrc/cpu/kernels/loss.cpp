#include <algorithm>

#include "cpu/kernels/loss_tables.h"
#include "functors/math.h"

namespace rush {

namespace RUSH_ISA {
namespace {

template <class T>
T magnitude(T d) {
  return d < 0 ? -d : d;
}
template <class T>
T sign(T d) {  // NaN stays NaN
  return d > 0 ? T(1) : d < 0 ? T(-1) : d;
}

template <class T>
struct L1 {
  static T value(T x, T t, T) { return magnitude(x - t); }
  static T slope(T x, T t, T) { return sign(x - t); }
};
template <class T>
struct Mse {
  static T value(T x, T t, T) { return (x - t) * (x - t); }
  static T slope(T x, T t, T) { return T(2) * (x - t); }
};
template <class T>
struct SmoothL1 {
  static T value(T x, T t, T beta) {
    const T d = magnitude(x - t);
    return d < beta ? T(0.5) * d * d / beta : d - T(0.5) * beta;
  }
  static T slope(T x, T t, T beta) {
    const T d = x - t;
    return magnitude(d) < beta ? d / beta : sign(d);
  }
};
template <class T>
struct Huber {
  static T value(T x, T t, T delta) {
    const T d = magnitude(x - t);
    return d < delta ? T(0.5) * d * d : delta * (d - T(0.5) * delta);
  }
  static T slope(T x, T t, T delta) {
    const T d = x - t;
    return magnitude(d) < delta ? d : delta * sign(d);
  }
};
template <class T>
struct BinaryLogits {
  // -(t log sigmoid(x) + (1 - t) log sigmoid(-x)), without overflow.
  static T value(T x, T t, T) {
    const T positive = x > 0 ? x : T(0);
    return (positive - x * t) + math::log1p(math::exp(-magnitude(x)));
  }
  static T slope(T x, T t, T) { return math::sigmoid(x) - t; }
};

template <class F, class T>
struct Loops {
  static void each(const T* x, const T* t, T* out, int64_t n, T parameter) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = F::value(x[i], t[i], parameter);
  }
  static double sum(const T* x, const T* t, int64_t n, T parameter) {
    constexpr int64_t kPiece = 2048;  // float32 sums stay short
    double all = 0;
    for (int64_t at = 0; at < n; at += kPiece) {
      const int64_t end = std::min(at + kPiece, n);
      T part = 0;
#pragma omp simd reduction(+ : part)
      for (int64_t i = at; i < end; ++i) part += F::value(x[i], t[i], parameter);
      all += double(part);
    }
    return all;
  }
  static void slope(const T* x, const T* t, const T* g, int64_t step, T scale, T* gx, int64_t n,
                    T parameter) {
    if (step == 0) {
      const T factor = *g * scale;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) gx[i] = F::slope(x[i], t[i], parameter) * factor;
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) gx[i] = F::slope(x[i], t[i], parameter) * (g[i] * scale);
    }
  }
  static constexpr LossEntry<T> entry = {each, sum, slope};
};

template <class T>
constexpr LossTable<T> kTable = {{Loops<L1<T>, T>::entry, Loops<Mse<T>, T>::entry,
                                  Loops<SmoothL1<T>, T>::entry, Loops<Huber<T>, T>::entry,
                                  Loops<BinaryLogits<T>, T>::entry}};

}  // namespace
}  // namespace RUSH_ISA

template <>
const LossTable<float>* loss_table<Isa::RUSH_ISA, float>() {
  return &RUSH_ISA::kTable<float>;
}
template <>
const LossTable<double>* loss_table<Isa::RUSH_ISA, double>() {
  return &RUSH_ISA::kTable<double>;
}

}  // namespace rush
