// reduce_int_narrow.cpp: reductions of int64, to which narrower integers are widened on the way,
// and of truth values.
#include "cpu/kernels/reduce_loops.h"

namespace rush {

namespace RUSH_ISA {
namespace {

// Sums and products wrap around, so they run over unsigned bits.
template <template <class> class Op>
constexpr FoldKernel wrapping_kernel() {
  return fold_kernel<Op<uint64_t>>();
}

constexpr FoldTable make_i64() {
  FoldTable t;
  auto at = [&](ReduceFn f) -> FoldKernel& { return t.folds[static_cast<int>(f)]; };
  at(ReduceFn::Sum) = wrapping_kernel<SumFold>();
  at(ReduceFn::Prod) = wrapping_kernel<ProdFold>();
  at(ReduceFn::Max) = fold_kernel<ExtremeFold<int64_t, true>>();
  at(ReduceFn::Min) = fold_kernel<ExtremeFold<int64_t, false>>();
  t.arg_max = ArgLoops<int64_t, true>::kernel();
  t.arg_min = ArgLoops<int64_t, false>::kernel();
  return t;
}
constexpr FoldTable k_i64 = make_i64();

// uint64 sums are sums of the same bits; above 2^63 only the order differs.
constexpr FoldTable make_u64() {
  FoldTable t;
  t.folds[static_cast<int>(ReduceFn::Max)] = fold_kernel<ExtremeFold<uint64_t, true>>();
  t.folds[static_cast<int>(ReduceFn::Min)] = fold_kernel<ExtremeFold<uint64_t, false>>();
  t.arg_max = ArgLoops<uint64_t, true>::kernel();
  t.arg_min = ArgLoops<uint64_t, false>::kernel();
  return t;
}
constexpr FoldTable k_u64 = make_u64();

// How many of the bytes are not 0.
struct CountLoops {
  using Acc = int64_t;
  static void row(const char* p, int64_t n, char* acc, double) {
    using V = typename Vector<uint8_t>::type;
    constexpr int64_t width = Vector<uint8_t>::width, most = 255;  // that a byte counts
    const uint8_t* x = reinterpret_cast<const uint8_t*>(p);
    int64_t total = 0, i = 0;
    while (i + width <= n) {
      const int64_t end = n - i < most * width ? n : i + most * width;
      V lanes{};
      for (; i + width <= end; i += width) lanes -= V(load<uint8_t>(x + i) != 0);
      for (int k = 0; k < width; ++k) total += lanes[k];
    }
    for (; i < n; ++i) total += x[i] != 0;
    *reinterpret_cast<Acc*>(acc) += total;
  }
  static void columns(const char* p, int64_t row_stride, int64_t rows, int64_t n, char* accs,
                      double) {
    Acc* into = reinterpret_cast<Acc*>(accs);
    for (int64_t r = 0; r < rows; ++r) {
      const uint8_t* x = reinterpret_cast<const uint8_t*>(p + r * row_stride);
      for (int64_t j = 0; j < n; ++j) into[j] += x[j] != 0;
    }
  }
};

constexpr FoldTable make_truth() {
  FoldTable t;
  auto at = [&](ReduceFn f) -> FoldKernel& { return t.folds[static_cast<int>(f)]; };
  at(ReduceFn::Any) = fold_kernel<TruthFold<true>>();
  at(ReduceFn::All) = fold_kernel<TruthFold<false>>();
  at(ReduceFn::CountNonzero) = custom_kernel<SumFold<int64_t>, CountLoops>();
  at(ReduceFn::CountNonzero).whole_result = true;
  return t;
}
constexpr FoldTable k_truth = make_truth();

}  // namespace
}  // namespace RUSH_ISA

template <>
const FoldTable* fold_table<Isa::RUSH_ISA, int64_t>() {
  return &RUSH_ISA::k_i64;
}
template <>
const FoldTable* fold_table<Isa::RUSH_ISA, uint64_t>() {
  return &RUSH_ISA::k_u64;
}
template <>
const FoldTable* fold_table<Isa::RUSH_ISA, bool>() {
  return &RUSH_ISA::k_truth;
}

}  // namespace rush
