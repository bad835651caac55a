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

template <class T, int bytes = kVectorBytes>
struct Vector {
  typedef T type __attribute__((vector_size(bytes)));
  static constexpr int width = bytes / sizeof(T);
};

// Elements of a row that meet in their own type before they go into the wider acc: 32 steps a lane.
template <class T>
inline constexpr int64_t kRowBlock = 32 * 4 * Vector<T>::width;
// Rows that do so down columns, and columns worked on at a time.
constexpr int64_t kColumnRows = 32, kColumns = 512;

template <class T>
RUSH_FN typename Vector<T>::type load(const T* p) {
  typename Vector<T>::type v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <int bytes>
struct LaneInt;
template <>
struct LaneInt<1> {
  using type = int8_t;
};
template <>
struct LaneInt<4> {
  using type = int32_t;
};
template <>
struct LaneInt<8> {
  using type = int64_t;
};

// 0, 1, 2, ... in integers as wide as T.
template <class T>
struct LaneNumbers {
  using Lane = typename LaneInt<sizeof(T)>::type;
  Lane lane[Vector<T>::width];
  constexpr LaneNumbers() : lane() {
    for (int i = 0; i < Vector<T>::width; ++i) lane[i] = Lane(i);
  }
};
template <class T>
inline constexpr LaneNumbers<T> kLaneNumbers;

// The last `rest` elements before `end`, in the upper lanes of a vector whose others are blank. A
// whole vector lies before `end`.
template <class T>
RUSH_FN typename Vector<T>::type load_rest(const T* end, int64_t rest, T blank) {
  using Lane = typename LaneInt<sizeof(T)>::type;
  const auto number = load<Lane>(kLaneNumbers<T>.lane);
  const auto others = typename Vector<T>::type{} + blank;
  return number >= Lane(Vector<T>::width - rest) ? load(end - Vector<T>::width) : others;
}

// All lanes of a vector into one, by halves.
template <class Op, int bytes>
RUSH_FN typename Op::Element across(typename Vector<typename Op::Element, bytes>::type v) {
  using T = typename Op::Element;
  if constexpr (bytes > 16) {
    typename Vector<T, bytes / 2>::type halves[2];
    __builtin_memcpy(halves, &v, sizeof v);
    return across<Op, bytes / 2>(Op::join(halves[0], halves[1]));
  } else {
    constexpr int width = bytes / int(sizeof(T));
    T parts[width];
    __builtin_memcpy(parts, &v, sizeof v);
    for (int half = width / 2; half > 0; half /= 2) {
      for (int k = 0; k < half; ++k) parts[k] = Op::join(parts[k], parts[k + half]);
    }
    return parts[0];
  }
}

template <class Op>
typename Op::Element block(const typename Op::Element* x, int64_t n) {
  using T = typename Op::Element;
  using V = typename Vector<T>::type;
  constexpr int width = Vector<T>::width;
  if (n < width) {
    T few = Op::blank;
    for (int64_t i = 0; i < n; ++i) few = Op::step(few, x[i]);
    return few;
  }
  V lanes[4];
  for (V& lane : lanes) lane = V{} + Op::blank;
  int64_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    lanes[0] = Op::step(lanes[0], load(x + i));
    lanes[1] = Op::step(lanes[1], load(x + i + width));
    lanes[2] = Op::step(lanes[2], load(x + i + 2 * width));
    lanes[3] = Op::step(lanes[3], load(x + i + 3 * width));
  }
  // Up to three more, each for a lane of its own: short rows are mostly this.
  for (int lane = 0; lane < 3 && i + width <= n; ++lane, i += width)
    lanes[lane] = Op::step(lanes[lane], load(x + i));
  if (i < n) lanes[3] = Op::step(lanes[3], load_rest<T>(x + n, n - i, Op::blank));
  return across<Op, kVectorBytes>(
      Op::join(Op::join(lanes[0], lanes[1]), Op::join(lanes[2], lanes[3])));
}

// float32 sums: 16 steps in float, then the lanes are widened to double. As exact as pairwise
// summation with blocks of 128, or better, and as fast as memory.
template <class Op>
int64_t fold_widening(const float* x, int64_t n, WideSum<float>& acc) {
  using V = typename Vector<float>::type;
  typedef float Half __attribute__((vector_size(kVectorBytes / 2)));
  typedef double Wide __attribute__((vector_size(kVectorBytes)));
  constexpr int64_t width = Vector<float>::width, steps = 16;
  Wide total[2] = {};
  int64_t i = 0;
  for (; i + steps * 4 * width <= n; i += steps * 4 * width) {
    V a = {}, b = {}, c = {}, d = {};
    const float* from = x + i;
    for (int64_t s = 0; s < steps; ++s, from += 4 * width) {
      a = Op::step(a, load(from));
      b = Op::step(b, load(from + width));
      c = Op::step(c, load(from + 2 * width));
      d = Op::step(d, load(from + 3 * width));
    }
    const V all = (a + b) + (c + d);
    Half halves[2];
    __builtin_memcpy(halves, &all, sizeof all);
    total[0] += __builtin_convertvector(halves[0], Wide);
    total[1] += __builtin_convertvector(halves[1], Wide);
  }
  acc.add(across<SumFold<double>, kVectorBytes>(total[0] + total[1]));
  return i;
}

template <class Op>
void fold_row(const char* p, int64_t n, char* acc, double) {
  using T = typename Op::Element;
  const T* x = reinterpret_cast<const T*>(p);
  auto& into = *reinterpret_cast<typename Op::Acc*>(acc);
  if constexpr (std::is_same_v<typename Op::Acc, WideSum<float>>) {
    if (n >= 64 * Vector<T>::width) {
      const int64_t done = fold_widening<Op>(x, n, into);
      x += done;
      n -= done;
    }
  }
  for (int64_t i = 0; i < n; i += kRowBlock<T>)
    Op::fold(into, block<Op>(x + i, n - i < kRowBlock<T> ? n - i : kRowBlock<T>));
}

template <class Op>
void fold_columns(const char* p, int64_t row_stride, int64_t rows, int64_t n, char* accs, double) {
  using T = typename Op::Element;
  auto* into = reinterpret_cast<typename Op::Acc*>(accs);
  auto row = [&](int64_t r, int64_t c) {
    return reinterpret_cast<const T*>(p + r * row_stride) + c;
  };
  for (int64_t c = 0; c < n; c += kColumns) {
    const int64_t m = n - c < kColumns ? n - c : kColumns;
    for (int64_t begin = 0; begin < rows; begin += kColumnRows) {
      const int64_t end = rows - begin < kColumnRows ? rows : begin + kColumnRows;
      alignas(64) T lanes[kColumns];
      for (int64_t j = 0; j < m; ++j) lanes[j] = Op::blank;
      int64_t r = begin;
      for (; r + 8 <= end; r += 8) {  // the more at a time, the less goes through `lanes`
        const T *x0 = row(r, c), *x1 = row(r + 1, c), *x2 = row(r + 2, c), *x3 = row(r + 3, c);
        const T *x4 = row(r + 4, c), *x5 = row(r + 5, c), *x6 = row(r + 6, c), *x7 = row(r + 7, c);
#pragma omp simd
        for (int64_t j = 0; j < m; ++j) {
          T lane = Op::step(Op::step(lanes[j], x0[j]), x1[j]);
          lane = Op::step(Op::step(lane, x2[j]), x3[j]);
          lane = Op::step(Op::step(lane, x4[j]), x5[j]);
          lanes[j] = Op::step(Op::step(lane, x6[j]), x7[j]);
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
  return {sizeof(typename Op::Acc), false,          &kBlank<Op>,    Loops::row,
          Loops::columns,           merge_accs<Op>, finish_accs<Op>};
}
template <class Op>
constexpr FoldKernel fold_kernel() {
  return {sizeof(typename Op::Acc), false,          &kBlank<Op>,    fold_row<Op>,
          fold_columns<Op>,         merge_accs<Op>, finish_accs<Op>};
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
