#include <algorithm>

#include "cpu/kernels/loss_tables.h"
#include "functors/loss.h"

namespace rush {

namespace RUSH_ISA {
namespace {

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
constexpr LossTable<T> kTable = {
    {Loops<losses::L1<T>, T>::entry, Loops<losses::Mse<T>, T>::entry,
     Loops<losses::SmoothL1<T>, T>::entry, Loops<losses::Huber<T>, T>::entry,
     Loops<losses::BinaryLogits<T>, T>::entry, Loops<losses::Binary<T>, T>::entry}};

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
