// reduce_loops.h: runs a fold (reduce_ops.h) along rows and down columns.
#pragma once

#include <cstring>

#include "cpu/kernels/reduce_ops.h"
#include "cpu/kernels/reduce_tables.h"
#include "cpu/kernels/reduce_vector.h"

namespace rush::RUSH_ISA {

// Vectors along a row. An op that does as little as adding is as fast as memory, and half a cache
// line a load keeps the prefetcher further ahead than a whole one: a sum over 16 MiB in the
// third-level cache takes a tenth less (Zen 4). Down columns, and for maxima, it is the reverse.
template <class Op>
inline constexpr int kRowBytes = Op::light && kVectorBytes > 32 ? 32 : kVectorBytes;
template <class Op>
using RowVector = Vector<typename Op::Element, kRowBytes<Op>>;

// Elements of a row that meet in their own type before they go into the wider acc: 32 steps per lane.
template <class T>
inline constexpr int64_t kRowBlock = 32 * 4 * (kVectorBytes > 32 ? 32 : kVectorBytes) / sizeof(T);
// Rows that do so down columns, and columns worked on at a time.
constexpr int64_t kColumnRows = kFewRows, kColumns = 512;

// So many rows of so many columns of T, beginning at column `first`.
template <class T>
struct ColumnBlock {
  const char* data;
  int64_t row_stride, first, columns, rows;
  const T* row(int64_t r) const {
    return reinterpret_cast<const T*>(data + r * row_stride) + first;
  }
};
template <class T, class F>
void for_column_blocks(const char* p, int64_t row_stride, int64_t rows, int64_t n, F f) {
  for (int64_t c = 0; c < n; c += kColumns) {
    const int64_t m = n - c < kColumns ? n - c : kColumns;
    for (int64_t r = 0; r < rows; r += kColumnRows)
      f(ColumnBlock<T>{p + r * row_stride, row_stride, c, m,
                       rows - r < kColumnRows ? rows - r : kColumnRows});
  }
}

// n elements, at least a vector's width, into one vector.
template <class Op>
RUSH_FN typename RowVector<Op>::type lanes_of(const typename Op::Element* x, int64_t n) {
  using T = typename Op::Element;
  using V = typename RowVector<Op>::type;
  constexpr int bytes = kRowBytes<Op>, width = RowVector<Op>::width;
  V lanes[4];
  for (V& lane : lanes) lane = V{} + Op::blank;
  int64_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    lanes[0] = Op::step(lanes[0], load<T, bytes>(x + i));
    lanes[1] = Op::step(lanes[1], load<T, bytes>(x + i + width));
    lanes[2] = Op::step(lanes[2], load<T, bytes>(x + i + 2 * width));
    lanes[3] = Op::step(lanes[3], load<T, bytes>(x + i + 3 * width));
  }
  // Up to three more, each for a lane of its own: short rows are mostly this.
  for (int lane = 0; lane < 3 && i + width <= n; ++lane, i += width)
    lanes[lane] = Op::step(lanes[lane], load<T, bytes>(x + i));
  if (i < n) lanes[3] = Op::step(lanes[3], load_rest<T, bytes>(x + n, n - i, Op::blank));
  return Op::join(Op::join(lanes[0], lanes[1]), Op::join(lanes[2], lanes[3]));
}

template <class Op>
typename Op::Element block(const typename Op::Element* x, int64_t n) {
  if (n >= RowVector<Op>::width) return across<Op, kRowBytes<Op>>(lanes_of<Op>(x, n));
  typename Op::Element few = Op::blank;
  for (int64_t i = 0; i < n; ++i) few = Op::step(few, x[i]);
  return few;
}

// float32 sums: 16 steps in float, then the lanes are widened to double. As exact as pairwise
// summation with blocks of 128, or better, and as fast as memory.
template <class Op>
int64_t fold_widening(const float* x, int64_t n, WideSum<float>& acc) {
  using V = typename RowVector<Op>::type;
  typedef float Part __attribute__((vector_size(kVectorBytes / 2)));
  typedef double Wide __attribute__((vector_size(kVectorBytes)));
  constexpr int bytes = kRowBytes<Op>, parts = 2 * bytes / kVectorBytes;
  constexpr int64_t width = RowVector<Op>::width, steps = 16;
  Wide total[parts] = {};
  int64_t i = 0;
  for (; i + steps * 4 * width <= n; i += steps * 4 * width) {
    V a = {}, b = {}, c = {}, d = {};
    const float* from = x + i;
    for (int64_t s = 0; s < steps; ++s, from += 4 * width) {
      a = Op::step(a, load<float, bytes>(from));
      b = Op::step(b, load<float, bytes>(from + width));
      c = Op::step(c, load<float, bytes>(from + 2 * width));
      d = Op::step(d, load<float, bytes>(from + 3 * width));
    }
    const V all = (a + b) + (c + d);
    Part part[parts];
    __builtin_memcpy(part, &all, sizeof all);
    for (int k = 0; k < parts; ++k) total[k] += __builtin_convertvector(part[k], Wide);
  }
  for (int k = 1; k < parts; ++k) total[0] += total[k];
  acc.add(across<SumFold<double>, kVectorBytes>(total[0]));
  return i;
}

// What has no wider acc need not be cut.
template <class Op>
inline constexpr int64_t kRowPiece =
    std::is_same_v<typename Op::Acc, typename Op::Element> ? int64_t(1) << 40
                                                           : kRowBlock<typename Op::Element>;

template <class Op>
void fold_row(const char* p, int64_t n, char* acc, double) {
  using T = typename Op::Element;
  const T* x = reinterpret_cast<const T*>(p);
  auto& into = *reinterpret_cast<typename Op::Acc*>(acc);
  if constexpr (std::is_same_v<typename Op::Acc, WideSum<float>>) {
    if (n > kRowBlock<T>) {
      const int64_t done = fold_widening<Op>(x, n, into);
      x += done;
      n -= done;
    }
  }
  for (int64_t i = 0; i < n; i += kRowPiece<Op>)
    Op::fold(into, block<Op>(x + i, n - i < kRowPiece<Op> ? n - i : kRowPiece<Op>));
}

// Rows of n elements each, every one into an acc of its own. As many rows as a vector has lanes
// meet at once, which takes a third of the instructions that one after the other would. A row's
// result does not depend on the rows beside it.
template <class Op>
void fold_rows(const char* p, int64_t row_stride, int64_t rows, int64_t n, char* accs,
               double param) {
  using T = typename Op::Element;
  using V = typename RowVector<Op>::type;
  constexpr int width = RowVector<Op>::width;
  auto* into = reinterpret_cast<typename Op::Acc*>(accs);
  if (width > 16 || n < width || n > kRowPiece<Op>) {
    for (int64_t r = 0; r < rows; ++r)
      fold_row<Op>(p + r * row_stride, n, reinterpret_cast<char*>(into + r), param);
    return;
  }
  if constexpr (width <= 16) {
    for (int64_t r = 0; r < rows; r += width) {
      const int64_t m = rows - r < width ? rows - r : width;
      V lanes[width];
      for (int64_t k = 0; k < m; ++k)
        lanes[k] = lanes_of<Op>(reinterpret_cast<const T*>(p + (r + k) * row_stride), n);
      for (int64_t k = m; k < width; ++k) lanes[k] = V{} + Op::blank;
      all_across<Op, width>(lanes);
      alignas(64) T results[width];
      __builtin_memcpy(results, lanes, sizeof results);
      for (int64_t k = 0; k < m; ++k) Op::fold(into[r + k], results[k]);
    }
  }
}

// Down columns: `rows` rows of m >= width columns into lanes[m]. The last vector overlaps the one
// before it, so that no column is left over.

// `count` vectors of columns, from the c-th on, stay in registers.
template <class Op, int count>
RUSH_FN void column_strip(const char* p, int64_t row_stride, int64_t rows, int64_t c, int64_t last,
                          typename Op::Element* lanes) {
  using T = typename Op::Element;
  using V = typename Vector<T>::type;
  constexpr int64_t width = Vector<T>::width;
  int64_t at[count];
  V lane[count];
  for (int k = 0; k < count; ++k) {
    at[k] = c + k * width < last ? c + k * width : last;
    lane[k] = V{} + Op::blank;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = reinterpret_cast<const T*>(p + r * row_stride);
    for (int k = 0; k < count; ++k) lane[k] = Op::step(lane[k], load(x + at[k]));
  }
  for (int k = 0; k < count; ++k) __builtin_memcpy(lanes + at[k], &lane[k], sizeof lane[k]);
}

// Four vectors a strip are best where columns are many, eight where a row is hardly longer.
constexpr int64_t kWide = 256;

template <class Op>
[[gnu::noinline]] void column_strips(const char* p, int64_t row_stride, int64_t rows, int64_t m,
                                     typename Op::Element* lanes) {
  constexpr int64_t width = Vector<typename Op::Element>::width;
  int64_t c = 0;
  if (m < kWide) {
    for (; m - c > 4 * width; c += 8 * width)
      column_strip<Op, 8>(p, row_stride, rows, c, m - width, lanes);
  }
  for (; c < m; c += 4 * width) column_strip<Op, 4>(p, row_stride, rows, c, m - width, lanes);
}

// Eight more rows: their streams are read side by side, which is best for what lies far away.
template <class Op>
[[gnu::noinline]] void eight_rows(const char* p, int64_t row_stride, int64_t m,
                                  typename Op::Element* lanes) {
  using T = typename Op::Element;
  using V = typename Vector<T>::type;
  constexpr int64_t width = Vector<T>::width;
  auto add = [&](int64_t c, V lane) {
    for (int r = 0; r < 8; ++r)
      lane = Op::step(lane, load(reinterpret_cast<const T*>(p + r * row_stride) + c));
    __builtin_memcpy(lanes + c, &lane, sizeof lane);
  };
  const V last = load(lanes + m - width);
  for (int64_t c = 0; c < m - width; c += width) add(c, load(lanes + c));
  add(m - width, last);
}

// At most kColumnRows rows of at most kColumns columns.
template <class Op>
RUSH_FN void column_block(const char* p, int64_t row_stride, int64_t rows, int64_t m, bool near,
                          typename Op::Element* lanes) {
  using T = typename Op::Element;
  if (m < Vector<T>::width) {
    for (int64_t j = 0; j < m; ++j) lanes[j] = Op::blank;
    for (int64_t r = 0; r < rows; ++r) {
      const T* x = reinterpret_cast<const T*>(p + r * row_stride);
      for (int64_t j = 0; j < m; ++j) lanes[j] = Op::step(lanes[j], x[j]);
    }
    return;
  }
  const int64_t first = near ? rows : rows % 8;
  column_strips<Op>(p, row_stride, first, m, lanes);
  for (int64_t r = first; r < rows; r += 8)
    eight_rows<Op>(p + r * row_stride, row_stride, m, lanes);
}

// Strips suit a narrow matrix, which they read end to end, and one that the caches hold.
inline bool lies_near(int64_t row_stride, int64_t rows, int64_t n) {
  constexpr int64_t kNearBytes = 8 << 20;
  return n < kWide || rows * row_stride <= kNearBytes;
}

template <class Op>
void fold_columns(const char* p, int64_t row_stride, int64_t rows, int64_t n, char* accs, double) {
  using T = typename Op::Element;
  auto* into = reinterpret_cast<typename Op::Acc*>(accs);
  const bool near = lies_near(row_stride, rows, n);
  alignas(64) T lanes[kColumns];
  for (int64_t c = 0; c < n; c += kColumns) {
    const int64_t m = n - c < kColumns ? n - c : kColumns;
    for (int64_t r = 0; r < rows; r += kColumnRows) {
      const char* x = p + r * row_stride + c * int64_t(sizeof(T));
      column_block<Op>(x, row_stride, rows - r < kColumnRows ? rows - r : kColumnRows, m, near,
                       lanes);
      for (int64_t j = 0; j < m; ++j) Op::fold(into[c + j], lanes[j]);
    }
  }
}

// The results of at most kColumnRows rows: no acc has to wait for more.
template <class Op>
void fold_few_rows(const char* p, int64_t row_stride, int64_t rows, int64_t n, char* out,
                   double count, double param) {
  using T = typename Op::Element;
  using Out = decltype(Op::finish(Op::blank_acc, count, param));
  Out* to = reinterpret_cast<Out*>(out);
  const bool near = lies_near(row_stride, rows, n);
  alignas(64) T lanes[kColumns];
  for (int64_t c = 0; c < n; c += kColumns) {
    const int64_t m = n - c < kColumns ? n - c : kColumns;
    column_block<Op>(p + c * int64_t(sizeof(T)), row_stride, rows, m, near, lanes);
    for (int64_t j = 0; j < m; ++j) {
      auto acc = Op::blank_acc;
      Op::fold(acc, lanes[j]);
      to[c + j] = Op::finish(acc, count, param);
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
  return {.acc_size = sizeof(typename Op::Acc),
          .blank = &kBlank<Op>,
          .row = Loops::row,
          .columns = Loops::columns,
          .merge = merge_accs<Op>,
          .finish = finish_accs<Op>};
}
template <class Op>
constexpr FoldKernel fold_kernel() {
  return {.acc_size = sizeof(typename Op::Acc),
          .blank = &kBlank<Op>,
          .row = fold_row<Op>,
          .rows = fold_rows<Op>,
          .columns = fold_columns<Op>,
          .few_rows = fold_few_rows<Op>,
          .merge = merge_accs<Op>,
          .finish = finish_accs<Op>};
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
    *reinterpret_cast<T*>(value) = block<Op>(reinterpret_cast<const T*>(x), n);
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
