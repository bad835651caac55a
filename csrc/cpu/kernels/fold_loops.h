// fold_loops.h: runs a fold (fold_ops.h) along rows and down columns.
#pragma once

#include <cstring>

#include "cpu/kernels/fold_ops.h"
#include "cpu/kernels/reduce_tables.h"

namespace rush::RUSH_ISA {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <class T>
struct Vector {
  typedef T type __attribute__((vector_size(kVectorBytes)));
  static constexpr int width = kVectorBytes / sizeof(T);
};

// Elements of a row that meet in their own type before they go into the wider acc: 64 steps a lane.
template <class T>
inline constexpr int64_t kRowBlock = 64 * 4 * Vector<T>::width;
// Rows that do so down columns, and columns worked on at a time.
constexpr int64_t kColumnRows = 64, kColumns = 512;

template <class T>
RUSH_FN typename Vector<T>::type load(const T* p) {
  typename Vector<T>::type v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class Op>
typename Op::Element block(const typename Op::Element* x, int64_t n) {
  using T = typename Op::Element;
  using V = typename Vector<T>::type;
  constexpr int width = Vector<T>::width;
  T rest = Op::blank;
  int64_t i = 0;
  if (n >= width) {
    V lanes[4];
    for (V& lane : lanes) lane = V{} + Op::blank;
    for (; i + 4 * width <= n; i += 4 * width) {
      lanes[0] = Op::step(lanes[0], load(x + i));
      lanes[1] = Op::step(lanes[1], load(x + i + width));
      lanes[2] = Op::step(lanes[2], load(x + i + 2 * width));
      lanes[3] = Op::step(lanes[3], load(x + i + 3 * width));
    }
    for (; i + width <= n; i += width) lanes[0] = Op::step(lanes[0], load(x + i));
    const V all = Op::join(Op::join(lanes[0], lanes[1]), Op::join(lanes[2], lanes[3]));
    T parts[width];
    __builtin_memcpy(parts, &all, sizeof all);
    for (int half = width / 2; half > 0; half /= 2) {
      for (int k = 0; k < half; ++k) parts[k] = Op::join(parts[k], parts[k + half]);
    }
    rest = parts[0];
  }
  for (; i < n; ++i) rest = Op::step(rest, x[i]);
  return rest;
}

template <class Op>
void fold_row(const char* p, int64_t n, char* acc, double) {
  using T = typename Op::Element;
  const T* x = reinterpret_cast<const T*>(p);
  auto& into = *reinterpret_cast<typename Op::Acc*>(acc);
  for (int64_t i = 0; i < n; i += kRowBlock<T>)
    Op::fold(into, block<Op>(x + i, n - i < kRowBlock<T> ? n - i : kRowBlock<T>));
}

template <class Op>
void fold_columns(const char* p, int64_t row_stride, int64_t rows, int64_t n, char* accs, double) {
  using T = typename Op::Element;
  auto* into = reinterpret_cast<typename Op::Acc*>(accs);
  auto row = [&](int64_t r, int64_t c) { return reinterpret_cast<const T*>(p + r * row_stride) + c; };
  for (int64_t c = 0; c < n; c += kColumns) {
    const int64_t m = n - c < kColumns ? n - c : kColumns;
    for (int64_t begin = 0; begin < rows; begin += kColumnRows) {
      const int64_t end = rows - begin < kColumnRows ? rows : begin + kColumnRows;
      alignas(64) T lanes[kColumns];
      for (int64_t j = 0; j < m; ++j) lanes[j] = Op::blank;
      int64_t r = begin;
      for (; r + 4 <= end; r += 4) {
        const T *x0 = row(r, c), *x1 = row(r + 1, c), *x2 = row(r + 2, c), *x3 = row(r + 3, c);
#pragma omp simd
        for (int64_t j = 0; j < m; ++j) {
          const T first = Op::step(Op::step(lanes[j], x0[j]), x1[j]);
          lanes[j] = Op::step(Op::step(first, x2[j]), x3[j]);
        }
      }
      for (; r < end; ++r) {
        const T* x = row(r, c);
#pragma omp simd
        for (int64_t j = 0; j < m; ++j) lanes[j] = Op::step(lanes[j], x[j]);
      }
      for (int64_t j = 0; j < m; ++j) Op::fold(into[c + j], lanes[j]);
    }
  }
}

template <class Op>
void merge_accs(char* into, const char* from, int64_t n) {
  auto* a = reinterpret_cast<typename Op::Acc*>(into);
  auto* b = reinterpret_cast<const typename Op::Acc*>(from);
  for (int64_t i = 0; i < n; ++i) Op::merge(a[i], b[i]);
}

template <class Op>
void finish_accs(const char* accs, char* out, int64_t n, double count, double param) {
  auto* a = reinterpret_cast<const typename Op::Acc*>(accs);
  using Out = decltype(Op::finish(a[0], count, param));
  Out* to = reinterpret_cast<Out*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = Op::finish(a[i], count, param);
}

template <class Op>
inline constexpr typename Op::Acc kBlank = Op::blank_acc;

// For an op with loops of its own (Loops::row, Loops::columns).
template <class Op, class Loops>
constexpr FoldKernel custom_kernel() {
  return {sizeof(typename Op::Acc), false, &kBlank<Op>, Loops::row, Loops::columns, merge_accs<Op>,
          finish_accs<Op>};
}
template <class Op>
constexpr FoldKernel fold_kernel() {
  return {sizeof(typename Op::Acc), false, &kBlank<Op>, fold_row<Op>, fold_columns<Op>,
          merge_accs<Op>, finish_accs<Op>};
}

// ---- winners with their positions ----

template <class T, bool largest>
struct ArgLoops {
  using Op = ExtremeFold<T, largest>;
  // As wide as T, so that the comparison's mask selects both.
  using Index = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

  static bool beats(const char* a, const char* b) {
    const T x = *reinterpret_cast<const T*>(a), y = *reinterpret_cast<const T*>(b);
    return wins(x, y);
  }
  RUSH_FN static bool wins(T x, T y) {
    const bool better = largest ? x > y : x < y;
    return (better | (x != x)) & (y == y);
  }
  static void extreme(const char* x, int64_t n, char* value) {
    T best = Op::blank;
    for (int64_t i = 0; i < n; i += kRowBlock<T>)
      best = Op::join(best, block<Op>(reinterpret_cast<const T*>(x) + i,
                                      n - i < kRowBlock<T> ? n - i : kRowBlock<T>));
    *reinterpret_cast<T*>(value) = best;
  }
  static int64_t find(const char* p, int64_t n, const char* value) {
    const T* x = reinterpret_cast<const T*>(p);
    const T v = *reinterpret_cast<const T*>(value);
    int64_t i = 0;
    if (v != v) {
      while (i < n && x[i] == x[i]) ++i;
    } else {
      while (i < n && x[i] != v) ++i;
    }
    return i;
  }
  static void columns(const char* p, int64_t row_stride, int64_t rows, int64_t n, char* values,
                      int64_t* indices, int64_t first) {
    T* best = reinterpret_cast<T*>(values);
    for (int64_t c = 0; c < n; c += kColumns) {
      const int64_t m = n - c < kColumns ? n - c : kColumns;
      alignas(64) Index at[kColumns];
      for (int64_t j = 0; j < m; ++j) at[j] = -1;
      for (int64_t r = 0; r < rows; ++r) {
        const T* x = reinterpret_cast<const T*>(p + r * row_stride) + c;
        const Index here = Index(r);
        T* b = best + c;
#pragma omp simd
        for (int64_t j = 0; j < m; ++j) {
          const bool won = wins(x[j], b[j]);
          b[j] = won ? x[j] : b[j];
          at[j] = won ? here : at[j];
        }
      }
      for (int64_t j = 0; j < m; ++j) indices[c + j] = at[j] < 0 ? indices[c + j] : first + at[j];
    }
  }
  static constexpr ArgKernel kernel() { return {columns, extreme, find, beats}; }
};

}  // namespace rush::RUSH_ISA
