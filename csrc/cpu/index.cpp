#include "cpu/index.h"

#include <cstring>

#include "cpu/loop_nest.h"
#include "functors/complex.h"

namespace rush {
namespace {

[[noreturn, gnu::cold, gnu::noinline]] void bad_index(const IndexRange& r, int64_t i) {
  fail(ErrorKind::Range, r.op, "index ", i, " is out of bounds for dimension ", r.dim, " with size ", r.size);
}

inline bool in_range(const IndexRange& r, int64_t i) { return uint64_t(i) - uint64_t(r.lo()) < uint64_t(r.size) - uint64_t(r.lo()); }

// The place of a good index, counted from the start.
inline int64_t place(const IndexRange& r, int64_t i) {
  if (!in_range(r, i)) [[unlikely]] bad_index(r, i);
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
    for (int64_t k = 0; k < n; ++k) at<W>(out, k * out_stride) = at<W>(const_cast<char*>(src), k * src_stride);
  }
}

void check_row(char* const* p, const int64_t* s, int64_t n, const void* context) {
  const IndexRange r = *static_cast<const IndexRange*>(context);
  // A sign bit tells of a bad one: SSE2 has that, and no comparison of 64 bits.
  const uint64_t lo = uint64_t(r.lo()), last = uint64_t(r.size - 1);
  uint64_t signs = 0;
  if (s[0] == 8) {
    const auto* index = reinterpret_cast<const uint64_t*>(p[0]);
#pragma omp simd reduction(| : signs)
    for (int64_t k = 0; k < n; ++k) signs |= (index[k] - lo) | (last - index[k]);
  } else {
    for (int64_t k = 0; k < n; ++k) {
      const uint64_t i = at<uint64_t>(p[0], k * s[0]);
      signs |= (i - lo) | (last - i);
    }
  }
  if (!(signs >> 63)) [[likely]] return;
  for (int64_t k = 0; k < n; ++k) place(r, at<int64_t>(p[0], k * s[0]));
}

// From a line whose elements lie side by side, by indices that do so, too. Piece by piece, so that an index is still in the
// nearest cache when it is used after its check.
template <class W>
void read_line(W* out, const W* line, char* index, int64_t n, const IndexRange& r) {
  constexpr int64_t piece = 1024, step = 8;
  for (int64_t done = 0; done < n; done += piece) {
    const int64_t m = std::min(piece, n - done);
    char* from = index + done * step;
    if (!r.checked) check_row(&from, &step, m, &r);
    const auto* i = reinterpret_cast<const int64_t*>(from);
#pragma GCC unroll 4
    for (int64_t k = 0; k < m; ++k) out[done + k] = line[i[k]];
  }
}

template <class W>
void read_row(char* const* p, const int64_t* s, int64_t n, const void* context) {
  const IndexRange& r = *static_cast<const IndexRange*>(context);
  const int64_t step = r.stride * int64_t(sizeof(W));
  char *out = p[0], *src = p[1], *index = p[2];
  if (s[2] == 0) {
    copy_row<W>(out, s[0], src + place(r, at<int64_t>(index, 0)) * step, s[1], n);
  } else if (s[0] == sizeof(W) && s[1] == 0 && s[2] == 8 && r.stride == 1 && !r.wraps) {
    read_line(reinterpret_cast<W*>(out), reinterpret_cast<const W*>(src), index, n, r);
  } else if (s[0] == sizeof(W) && s[1] == 0 && s[2] == 8) {
    for (int64_t k = 0; k < n; ++k) reinterpret_cast<W*>(out)[k] = at<W>(src, place(r, reinterpret_cast<int64_t*>(index)[k]) * step);
  } else {
    for (int64_t k = 0; k < n; ++k) at<W>(out, k * s[0]) = at<W>(src, k * s[1] + place(r, at<int64_t>(index, k * s[2])) * step);
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

// What arithmetic happens in: floats as opmath says, integers where they wrap without being undefined.
template <class T>
struct Arith {
  using type = opmath<T>;
};
template <class T>
  requires is_int<T>
struct Arith<T> {
  using type = wrapping<T>;
};

template <ScatterFn fn, class T>
struct Combine {
  using A = typename Arith<T>::type;
  A alpha;
  void operator()(T& to, T from) const {
    if constexpr (fn == ScatterFn::Set) {
      to = from;
    } else if constexpr (fn == ScatterFn::Add) {
      if constexpr (is_bool<T>) to = to || (from && alpha);
      else to = T(A(to) + alpha * A(from));
    } else if constexpr (fn == ScatterFn::Mul) {
      if constexpr (is_bool<T>) to = to && from;
      else to = T(A(to) * A(from));
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
  const auto& c = *static_cast<const LinesContext*>(context);
  const Combine<fn, T> combine{typename Arith<T>::type(c.alpha.to<opmath<T>>())};
  const int64_t step = c.lines.range.stride * int64_t(sizeof(T)), size = c.lines.range.size;
  const int64_t index_step = c.lines.index_step * 8, src_step = c.lines.src_step * int64_t(sizeof(T));
  auto offset = [&](int64_t bytes) {
    const int64_t i = at<int64_t>(p[1], bytes);
    return (i < 0 ? i + size : i) * step;
  };
  if (n == 1 || s[0] > step) {  // lines lie one after the other
    for (int64_t k = 0; k < n; ++k) {
      char *dst = p[0] + k * s[0], *src = p[2] + k * s[2];
      for (int64_t j = 0; j < c.lines.length; ++j) combine(at<T>(dst, offset(k * s[1] + j * index_step)), at<T>(src, j * src_step));
    }
  } else {  // lines lie side by side: across them first
    for (int64_t j = 0; j < c.lines.length; ++j) {
      char* src = p[2] + j * src_step;
      if (s[1] == 0) {
        char* dst = p[0] + offset(j * index_step);
        if (s[0] == sizeof(T) && s[2] == sizeof(T)) {
          T* __restrict to = reinterpret_cast<T*>(dst);
          const T* from = reinterpret_cast<const T*>(src);
          for (int64_t k = 0; k < n; ++k) combine(to[k], from[k]);
        } else {
          for (int64_t k = 0; k < n; ++k) combine(at<T>(dst, k * s[0]), at<T>(src, k * s[2]));
        }
      } else {
        for (int64_t k = 0; k < n; ++k) combine(at<T>(p[0], k * s[0] + offset(k * s[1] + j * index_step)), at<T>(src, k * s[2]));
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
      x = x / real_of<T>(count);
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
  nest.run_parallel(scatter_row<fn, T>, &c, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, l.length)));
}

}  // namespace

void check_indices(const Tensor& index, const IndexRange& range) {
  if (index.numel() > 0) loop({index}, check_row, &range);
}

void read_at_cpu(const Tensor& out, const Tensor& source, const Tensor& index, const IndexRange& range) {
  if (out.numel() == 0) return;
  dispatch_width(out.dtype(), [&]<typename W>() { loop({out, source, index}, read_row<W>, &range); });
}

void add_offsets_cpu(const Tensor& offsets, const Tensor& index, int64_t size, int64_t stride) {
  const IndexRange range{"index", size, stride, 0};
  if (offsets.numel() > 0) loop({offsets, index}, add_offsets_row, &range);
}

void scatter_cpu(ScatterFn fn, const ScatterLines& lines, const Scalar& alpha) {
  if (lines.length == 0 || lines.dst.numel() == 0) return;
  const LinesContext c{lines, alpha};
  const DType t = lines.dst.dtype();
  switch (fn) {
    case ScatterFn::Set: return dispatch_width(t, [&]<typename W>() { run_lines<ScatterFn::Set, W>(c); });
    case ScatterFn::Add: return dispatch_all(lines.range.op, t, [&]<typename T>() { run_lines<ScatterFn::Add, T>(c); });
    case ScatterFn::Mul: return dispatch_all(lines.range.op, t, [&]<typename T>() { run_lines<ScatterFn::Mul, T>(c); });
    case ScatterFn::Max: return dispatch_real(lines.range.op, t, [&]<typename T>() { run_lines<ScatterFn::Max, T>(c); });
    case ScatterFn::Min: return dispatch_real(lines.range.op, t, [&]<typename T>() { run_lines<ScatterFn::Min, T>(c); });
  }
}

void divide_by_count_cpu(const Tensor& out, const Tensor& count) {
  if (out.numel() == 0) return;
  dispatch_all("mean", out.dtype(), [&]<typename T>() { loop({out, count}, divide_row<T>, nullptr); });
}

}  // namespace rush
