// Reading and writing at indices.
//
// Every op of the family is one of two loops. Reading (index, gather, index_select, take) is a
// plain loop nest over the result. Writing (index_put, scatter, index_add, ...) may hit one place
// twice, so it goes line by line: the lines are shared among threads, and along a line the
// positions are visited in order. So the last write wins and sums round the same way, for any
// number of threads.
#include "device/index.h"

#include <algorithm>
#include <cstring>

#include "core/interrupt.h"
#include "cpu/copy/copy.h"
#include "cpu/loop_nest.h"
#include "functors/accumulator.h"
#include "functors/complex.h"
#include "functors/stored.h"

namespace rush {
namespace {

[[noreturn, gnu::cold, gnu::noinline]] void bad_index(const IndexRange& r, int64_t i) {
  fail(ErrorKind::Range, r.op, "index ", i, " is out of bounds for dimension ", r.dim,
       " with size ", r.size);
}

inline bool in_range(const IndexRange& r, int64_t i) {
  return uint64_t(i) - uint64_t(r.lo()) < uint64_t(r.size) - uint64_t(r.lo());
}

// The place of a good index, counted from the start.
inline int64_t place(const IndexRange& r, int64_t i) {
  if (!in_range(r, i)) [[unlikely]]
    bad_index(r, i);
  return i < 0 ? i + r.size : i;
}

template <class T>
T& at(char* p, int64_t bytes) {
  return *reinterpret_cast<T*>(p + bytes);
}

// ---- reading ----

template <class W>
void copy_row(char* out, int64_t out_stride, const char* src, int64_t src_stride, int64_t n) {
  constexpr int64_t item = sizeof(W);
  if (out_stride == item && src_stride == item) {
    std::memcpy(out, src, size_t(n * item));
  } else {
    for (int64_t k = 0; k < n; ++k)
      at<W>(out, k * out_stride) = at<W>(const_cast<char*>(src), k * src_stride);
  }
}

template <class W>
void read_row(char* const* p, const int64_t* s, int64_t n, const void* context) {
  const IndexRange r = *static_cast<const IndexRange*>(context);
  const int64_t step = r.stride * int64_t(sizeof(W));
  char *out = p[0], *src = p[1], *index = p[2];
  if (s[2] == 0) {
    copy_row<W>(out, s[0], src + place(r, at<int64_t>(index, 0)) * step, s[1], n);
  } else if (s[0] == sizeof(W) && s[1] == 0 && s[2] == 8 && !r.wraps) {
    const auto size = uint64_t(r.size);
    const auto* indices = reinterpret_cast<const uint64_t*>(index);
    for (int64_t k = 0; k < n; ++k) {
      if (indices[k] >= size) [[unlikely]]
        bad_index(r, int64_t(indices[k]));
      reinterpret_cast<W*>(out)[k] = at<W>(src, int64_t(indices[k]) * step);
    }
  } else if (s[0] == sizeof(W) && s[1] == 0 && s[2] == 8) {
    for (int64_t k = 0; k < n; ++k)
      reinterpret_cast<W*>(out)[k] =
          at<W>(src, place(r, reinterpret_cast<int64_t*>(index)[k]) * step);
  } else {
    for (int64_t k = 0; k < n; ++k)
      at<W>(out, k * s[0]) = at<W>(src, k * s[1] + place(r, at<int64_t>(index, k * s[2])) * step);
  }
}

void check_row(char* const* p, const int64_t* s, int64_t n, const void* context) {
  const IndexRange r = *static_cast<const IndexRange*>(context);
  if (s[0] == 8) {  // a sign bit says that some index lies outside; without branches, two at a time
    const auto* indices = reinterpret_cast<const uint64_t*>(p[0]);
    const auto below = uint64_t(-r.lo()), last = uint64_t(r.size - 1);
    uint64_t bad = 0;
#pragma omp simd reduction(| : bad)
    for (int64_t k = 0; k < n; ++k) bad |= (indices[k] + below) | (last - indices[k]);
    if (int64_t(bad) >= 0) [[likely]]
      return;
  }
  for (int64_t k = 0; k < n; ++k) place(r, at<int64_t>(p[0], k * s[0]));
}

// Slices lie anywhere in memory: ask for the one that is needed this many slices later.
constexpr int64_t kAhead = 16;
constexpr int64_t kPerLook = 1 << 18;  // elements between looks for an interrupt

template <class Copy>
void copy_each(char* out, const char* source, const int64_t* index, int64_t n, int64_t row,
               Copy&& copy) {
  const int64_t far = std::max<int64_t>(0, n - kAhead);
#pragma GCC unroll 4
  for (int64_t j = 0; j < far; ++j) {
    const char* next = source + index[j + kAhead] * row;
    for (int64_t b = 0; b < std::min<int64_t>(row, 512); b += 64) __builtin_prefetch(next + b);
    copy(out + j * row, source + index[j] * row);
  }
  for (int64_t j = far; j < n; ++j) copy(out + j * row, source + index[j] * row);
}

// A row of a size that the compiler knows is a few plain moves.
template <int64_t row>
void copy_fixed(char* out, const char* source, const int64_t* index, int64_t n, bool prefetch) {
  auto copy = [](char* to, const char* from) { std::memcpy(to, from, row); };
  if (prefetch) return copy_each(out, source, index, n, row, copy);
  int64_t j = 0;
  if constexpr (row == 4) {  // stores are what is scarce: one for four elements
    typedef uint32_t Four __attribute__((vector_size(16)));
    const auto* from = reinterpret_cast<const uint32_t*>(source);
    for (; j + 4 <= n; j += 4) {
      const int64_t* i = index + j;
      const Four four = {from[i[0]], from[i[1]], from[i[2]], from[i[3]]};
      std::memcpy(out + j * row, &four, sizeof four);
    }
  }
#pragma GCC unroll 4
  for (; j < n; ++j) copy(out + j * row, source + index[j] * row);
}

void copy_slices(char* out, const char* source, const int64_t* index, int64_t n, int64_t row,
                 bool prefetch) {
  switch (row) {
    case 1:
      return copy_fixed<1>(out, source, index, n, prefetch);
    case 2:
      return copy_fixed<2>(out, source, index, n, prefetch);
    case 4:
      return copy_fixed<4>(out, source, index, n, prefetch);
    case 8:
      return copy_fixed<8>(out, source, index, n, prefetch);
    case 16:
      return copy_fixed<16>(out, source, index, n, prefetch);
    case 32:
      return copy_fixed<32>(out, source, index, n, prefetch);
    case 64:
      return copy_fixed<64>(out, source, index, n, prefetch);
    default:
      copy_each(out, source, index, n, row,
                [row](char* to, const char* from) { std::memcpy(to, from, size_t(row)); });
  }
}

void add_offsets_row(char* const* p, const int64_t* s, int64_t n, const void* context) {
  const IndexRange& r = *static_cast<const IndexRange*>(context);
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = at<int64_t>(p[1], k * s[1]);
    at<int64_t>(p[0], k * s[0]) += (i < 0 ? i + r.size : i) * r.stride;
  }
}

// ---- writing ----

template <ScatterFn fn, class T>
struct Combine {
  using A = accumulator<T>;
  A alpha;
  void operator()(stored<T>& to, T from) const {
    if constexpr (fn == ScatterFn::Set) {
      to = from;
    } else if constexpr (fn == ScatterFn::Add) {
      if constexpr (is_bool<T>)
        to = to || (from && alpha);
      else
        to = T(A(to) + alpha * A(from));
    } else if constexpr (fn == ScatterFn::Mul) {
      if constexpr (is_bool<T>)
        to = to && from;
      else
        to = T(A(to) * A(from));
    } else {  // NaN wins
      const opmath<T> a = to, b = from;
      const bool better = fn == ScatterFn::Max ? b > a : b < a;
      if (a == a && (better || b != b)) to = from;
    }
  }
};

struct LinesContext {
  const ScatterLines& lines;
  Scalar alpha;
};

template <ScatterFn fn, class T>
void scatter_row(char* const* p, const int64_t* s, int64_t n, const void* context) {
  using S = stored<T>;
  const auto& c = *static_cast<const LinesContext*>(context);
  const Combine<fn, T> combine{accumulator<T>(c.alpha.to<opmath<T>>())};
  const int64_t step = c.lines.range.stride * int64_t(sizeof(T)), size = c.lines.range.size;
  const int64_t index_step = c.lines.index_step * 8,
                src_step = c.lines.src_step * int64_t(sizeof(T));
  auto offset = [&](int64_t bytes) {
    const int64_t i = at<int64_t>(p[1], bytes);
    return (i < 0 ? i + size : i) * step;
  };
  InterruptCounter interrupts(kPerLook);
  if (n == 1 || s[0] > step) {  // lines lie one after the other
    // The places are far from each other: they are asked for early.
    const bool far = size > (1 << 20) / std::max<int64_t>(step, 1);
    for (int64_t k = 0; k < n; ++k) {
      char *dst = p[0] + k * s[0], *src = p[2] + k * s[2];
      in_steps(c.lines.length, kPerLook, [&](int64_t j, int64_t end) {
        for (; far && j < std::min(end, c.lines.length - kAhead); ++j) {
          __builtin_prefetch(dst + offset(k * s[1] + (j + kAhead) * index_step), 1);
          combine(at<S>(dst, offset(k * s[1] + j * index_step)), at<S>(src, j * src_step));
        }
        for (; j < end; ++j)
          combine(at<S>(dst, offset(k * s[1] + j * index_step)), at<S>(src, j * src_step));
      });
      interrupts.add(c.lines.length);
    }
  } else {  // lines lie side by side: across them first
    for (int64_t j = 0; j < c.lines.length; ++j) {
      interrupts.add(n);
      char* src = p[2] + j * src_step;
      if (s[1] == 0) {
        char* dst = p[0] + offset(j * index_step);
        if (s[0] == sizeof(T) && s[2] == sizeof(T)) {
          S* __restrict to = reinterpret_cast<S*>(dst);
          const S* from = reinterpret_cast<const S*>(src);
#pragma omp simd
          for (int64_t k = 0; k < n; ++k) combine(to[k], from[k]);
        } else {
          for (int64_t k = 0; k < n; ++k) combine(at<S>(dst, k * s[0]), at<S>(src, k * s[2]));
        }
      } else {
        for (int64_t k = 0; k < n; ++k)
          combine(at<S>(p[0], k * s[0] + offset(k * s[1] + j * index_step)), at<S>(src, k * s[2]));
      }
    }
  }
}

template <class T>
void divide_row(char* const* p, const int64_t* s, int64_t n, const void*) {
  for (int64_t k = 0; k < n; ++k) {
    T& x = at<T>(p[0], k * s[0]);
    const int64_t count = at<int64_t>(p[1], k * s[1]);
    if (count <= 1) continue;
    if constexpr (is_bool<T>) {
      x = false;
    } else if constexpr (is_int<T>) {
      const int64_t q = int64_t(x) / count;
      x = T(q - (q * count > int64_t(x)));
    } else if constexpr (is_complex_v<T>) {
      x = T(opmath<T>(x) / real_of<opmath<T>>(count));
    } else {
      x = T(opmath<T>(x) / opmath<T>(count));
    }
  }
}

template <ScatterFn fn, class T>
void run_lines(const LinesContext& c) {
  const ScatterLines& l = c.lines;
  const LoopOperand operands[] = {l.dst, l.index, l.src};
  const LoopNest nest(operands);
  nest.run_lines(scatter_row<fn, T>, &c,
                 std::max<int64_t>(1, kGrain / std::max<int64_t>(1, l.length)));
}

struct Bounds {
  ConvertFn widen;
  double lo, hi;
  const char *op, *rule;
};

void check_between_row(char* const* p, const int64_t* s, int64_t n, const void* context) {
  const Bounds& b = *static_cast<const Bounds*>(context);
  double wide[1024];
  for (int64_t done = 0; done < n; done += 1024) {
    const int64_t m = std::min<int64_t>(1024, n - done);
    b.widen(reinterpret_cast<char*>(wide), 8, p[0] + done * s[0], s[0], m);
    bool inside = true;
    for (int64_t k = 0; k < m; ++k) inside &= wide[k] >= b.lo && wide[k] <= b.hi;
    check(inside, ErrorKind::Runtime, b.op, b.rule);
  }
}

void check_between(const Tensor& x, double lo, double hi, const char* op, const char* rule) {
  if (x.numel() == 0) return;
  const Bounds bounds{convert_fn(x.dtype(), DType::Float64), lo, hi, op, rule};
  loop({x}, check_between_row, &bounds);
}

void check_all(const Tensor& index, const IndexRange& range) {
  if (index.numel() > 0) loop({index}, check_row, &range);
}

void read_at(const Tensor& out, const Tensor& source, const Tensor& index,
             const IndexRange& range) {
  if (out.numel() == 0) return;
  dispatch_width(out.dtype(),
                 [&]<typename W>() { loop({out, source, index}, read_row<W>, &range); });
}

void copy_slices(const Tensor& out, const Tensor& source, const Tensor& index, int64_t outer,
                 int64_t row, const IndexRange& range) {
  const int64_t n = index.numel();
  if (out.numel() == 0) return;
  check_all(index, range);
  const bool prefetch = range.size * row > (1 << 18);
  // Pieces of the outer dim and of the index; a piece never splits a row.
  const int64_t grain = std::max<int64_t>(1, kGrain * 4 / row);
  parallel_for(outer * n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const int64_t o = i / n, j = i % n, count = std::min(n - j, end - i);
      copy_slices(static_cast<char*>(out.data()) + i * row,
                  static_cast<const char*>(source.data()) + o * range.size * row,
                  index.data<int64_t>() + j, count, row, prefetch);
      i += count;
    }
  });
}

void add_offsets(const Tensor& offsets, const Tensor& index, int64_t size, int64_t stride) {
  const IndexRange range{"index", size, stride, 0};
  if (offsets.numel() > 0) loop({offsets, index}, add_offsets_row, &range);
}

void scatter(ScatterFn fn, const ScatterLines& lines, const Scalar& alpha) {
  if (lines.length == 0 || lines.dst.numel() == 0) return;
  const LinesContext c{lines, alpha};
  const DType t = lines.dst.dtype();
  switch (fn) {
    case ScatterFn::Set:
      return dispatch_width(t, [&]<typename W>() { run_lines<ScatterFn::Set, W>(c); });
    case ScatterFn::Add:
      return dispatch_all(lines.range.op, t,
                          [&]<typename T>() { run_lines<ScatterFn::Add, T>(c); });
    case ScatterFn::Mul:
      return dispatch_all(lines.range.op, t,
                          [&]<typename T>() { run_lines<ScatterFn::Mul, T>(c); });
    case ScatterFn::Max:
      return dispatch_real(lines.range.op, t,
                           [&]<typename T>() { run_lines<ScatterFn::Max, T>(c); });
    case ScatterFn::Min:
      return dispatch_real(lines.range.op, t,
                           [&]<typename T>() { run_lines<ScatterFn::Min, T>(c); });
  }
}

void divide_by_count(const Tensor& out, const Tensor& count) {
  if (out.numel() == 0) return;
  dispatch_all("mean", out.dtype(),
               [&]<typename T>() { loop({out, count}, divide_row<T>, nullptr); });
}

const bool registered = [] {
  IndexLoops& loops = index_loops(DeviceType::CPU);
  loops.check_indices = check_all;
  loops.check_between = check_between;
  loops.read_at = read_at;
  loops.copy_slices = copy_slices;
  loops.add_offsets = add_offsets;
  loops.scatter = scatter;
  loops.divide_by_count = divide_by_count;
  return true;
}();

}  // namespace
}  // namespace rush
