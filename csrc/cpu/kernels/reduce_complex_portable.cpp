// reduce_complex_portable.cpp: sums, means and products of complex tensors.
#include "cpu/kernels/reduce_tables.h"
#include "functors/complex.h"

namespace rush {

namespace RUSH_ISA {
namespace {

template <class T, bool product, bool mean>
struct ComplexLoops {
  using Acc = complex<double>;
  using Z = complex<T>;
  static constexpr Acc blank = Acc(product ? 1 : 0, 0);

  static void fold(Acc& acc, Acc x) {
    if constexpr (product)
      acc = acc * x;
    else
      acc = acc + x;
  }
  static Acc wide(Z z) { return Acc(double(z.re), double(z.im)); }
  static void row(const char* p, int64_t n, char* acc, double) {
    const Z* x = reinterpret_cast<const Z*>(p);
    auto& into = *reinterpret_cast<Acc*>(acc);
    for (int64_t i = 0; i < n; i += 1024) {  // blocks, so that double sums too meet in pairs
      Acc part = blank;
      const int64_t end = n - i < 1024 ? n : i + 1024;
      for (int64_t k = i; k < end; ++k) fold(part, wide(x[k]));
      fold(into, part);
    }
  }
  static void columns(const char* p, int64_t row_stride, int64_t rows, int64_t n, char* accs,
                      double) {
    Acc* into = reinterpret_cast<Acc*>(accs);
    for (int64_t r = 0; r < rows; ++r) {
      const Z* x = reinterpret_cast<const Z*>(p + r * row_stride);
      for (int64_t j = 0; j < n; ++j) fold(into[j], wide(x[j]));
    }
  }
  static void merge(char* into, const char* from, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      fold(reinterpret_cast<Acc*>(into)[i], reinterpret_cast<const Acc*>(from)[i]);
  }
  static void finish(const char* accs, char* out, int64_t n, double count, double) {
    const Acc* a = reinterpret_cast<const Acc*>(accs);
    const double divisor = mean ? count : 1;
    for (int64_t i = 0; i < n; ++i)
      reinterpret_cast<Z*>(out)[i] = Z(T(a[i].re / divisor), T(a[i].im / divisor));
  }
  static constexpr FoldKernel kernel() {
    return {.acc_size = sizeof(Acc),
            .blank = &blank,
            .row = row,
            .columns = columns,
            .merge = merge,
            .finish = finish};
  }
};

template <class T>
constexpr FoldTable make() {
  FoldTable t;
  t.folds[static_cast<int>(ReduceFn::Sum)] = ComplexLoops<T, false, false>::kernel();
  t.folds[static_cast<int>(ReduceFn::Mean)] = ComplexLoops<T, false, true>::kernel();
  t.folds[static_cast<int>(ReduceFn::Prod)] = ComplexLoops<T, true, false>::kernel();
  return t;
}
constexpr FoldTable k_c64 = make<float>(), k_c128 = make<double>();

}  // namespace
}  // namespace RUSH_ISA

template <>
const FoldTable* fold_table<Isa::RUSH_ISA, complex<float>>() {
  return &RUSH_ISA::k_c64;
}
template <>
const FoldTable* fold_table<Isa::RUSH_ISA, complex<double>>() {
  return &RUSH_ISA::k_c128;
}

}  // namespace rush
