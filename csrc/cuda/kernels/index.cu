// index.cu: reading and writing elements at positions that a tensor of indices names.
//
// - Reading (gather, index_select, take, and `index` through offsets) is one kernel over the
//   result: out[i] = source[i + index[i] * stride]. Source and index have out's shape, with stride
//   0 where they are repeated. Only the width of an element counts.
// - A bad index reads nothing: its element becomes zero, and fault.h notes it.
// - Writing may hit one place twice. `scatter`: as on the CPU, a line of writes belongs to one
//   thread and is done in order: the last write wins and sums round the same way, every time. Lines
//   can be few and long, so `scatter_each` gives every write a thread of its own: sums are atomic
//   and round in the order in which they happen, and of several writes to one place any may win.
#include "cuda/kernels/element.h"
#include "cuda/kernels/fault.h"

namespace rush {

// The place that an index names, counted from the start; false: there is none.
RUSH_FN bool find_place(const IndexArgs& args, i64 position, i64 index, i64& place) {
  const i64 lo = args.wraps ? -args.size : 0;
  if (index < lo || index >= args.size) {
    report(args.fault, args.launch, position, index);
    return false;
  }
  place = index < 0 ? index + args.size : index;
  return true;
}

// Operands: out, source, index.
template <class W, class I>
__global__ void __launch_bounds__(kThreads) read_at(IndexArgs args, Nest<I, 3> nest) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const Offsets<I, 3> o = offsets_of(nest, I(i));
    i64 place = 0;
    W x{};
    if (find_place(args, i, args.index[o.at[2]], place))
      x = typed<W>(args.source)[o.at[1] + place * args.stride];
    typed<W>(args.out)[o.at[0]] = x;
  }
}

// offsets[i] += index[i] * stride: several index tensors add up to one. Operands: offsets, index.
template <class I>
__global__ void __launch_bounds__(kThreads) add_offsets(IndexArgs args, Nest<I, 2> nest) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const Offsets<I, 2> o = offsets_of(nest, I(i));
    i64 place = 0;
    if (find_place(args, i, args.index[o.at[1]], place))
      typed<i64>(args.out)[o.at[0]] += place * args.stride;
  }
}

// Before a write, so that nothing is written when an index is bad; the writes test the record.
template <class I>
__global__ void __launch_bounds__(kThreads) check_indices(IndexArgs args, Nest<I, 1> nest) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    i64 place = 0;
    find_place(args, i, args.index[offsets_of(nest, I(i)).at[0]], place);
  }
}

// ---- writing ----

template <class T>
struct ScatterSet {
  RUSH_FN void operator()(T& to, T from, opmath<T>) const { to = from; }
};
template <class T>
struct ScatterAdd {
  RUSH_FN void operator()(T& to, T from, opmath<T> alpha) const {
    if constexpr (is_same<T, truth>) {
      to = to || (from && alpha);
    } else if constexpr (is_int<T>) {
      using W = wrapping<T>;
      to = static_cast<T>(W(to) + W(alpha) * W(from));
    } else {
      to = convert<T>(convert<opmath<T>>(to) + alpha * convert<opmath<T>>(from));
    }
  }
};
template <class T>
struct ScatterMul {
  RUSH_FN void operator()(T& to, T from, opmath<T>) const {
    if constexpr (is_same<T, truth>)
      to = to && from;
    else if constexpr (is_int<T>)
      to = static_cast<T>(wrapping<T>(to) * wrapping<T>(from));
    else
      to = convert<T>(convert<opmath<T>>(to) * convert<opmath<T>>(from));
  }
};
template <class T, bool largest>
struct ScatterExtreme {  // NaN wins
  RUSH_FN void operator()(T& to, T from, opmath<T>) const {
    const opmath<T> a = convert<opmath<T>>(to), b = convert<opmath<T>>(from);
    if (a == a && ((largest ? b > a : b < a) || b != b)) to = from;
  }
};
template <class T>
using ScatterMax = ScatterExtreme<T, true>;
template <class T>
using ScatterMin = ScatterExtreme<T, false>;

// Elements outside [lo, hi] and NaNs are faults; or zeros are.
template <class T, class I>
__global__ void __launch_bounds__(kThreads) check_between(BetweenArgs args, Nest<I, 1> nest) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const double x = double(convert<opmath<T>>(typed<T>(args.x)[offsets_of(nest, I(i)).at[0]]));
    const bool fits = args.nonzero ? x != 0 : x >= args.lo && x <= args.hi;
    if (!fits) report(args.fault, args.launch, i, bit_cast<i64>(x));
  }
}

// The word of 4 or 8 bytes that holds an element, for atomic updates.
template <class T>
using WordOf = conditional<sizeof(T) == 8, unsigned long long, unsigned>;

template <template <class> class Fn, class T>
RUSH_FN void update_atomically(T& to, T from, opmath<T> alpha) {
  static_assert(sizeof(T) <= 8);
  using W = WordOf<T>;
  const u64 address = reinterpret_cast<u64>(&to);
  W* word = reinterpret_cast<W*>(address & ~u64(sizeof(W) - 1));
  const int shift = int(address & (sizeof(W) - 1)) * 8;
  using U = unsigned_of<T>;
  const W mask =
      sizeof(T) == sizeof(W) ? ~W(0) : W((W(1) << (8 * sizeof(T) % (8 * sizeof(W)))) - 1);
  W seen = *static_cast<volatile W*>(word);
  for (;;) {
    T x = bit_cast<T>(U(seen >> shift & mask));
    Fn<T>{}(x, from, alpha);
    const W wanted = (seen & ~(mask << shift)) | (W(bit_cast<U>(x)) << shift);
    const W before = atomicCAS(word, seen, wanted);
    if (before == seen) return;
    seen = before;
  }
}

template <template <class> class Fn, class T>
RUSH_FN void update(T& to, T from, opmath<T> alpha) {
  if constexpr (is_same<Fn<T>, ScatterSet<T>>) {
    to = from;
  } else if constexpr (is_same<Fn<T>, ScatterAdd<T>> && is_float<T>) {
    atomicAdd(&to, alpha * from);
  } else if constexpr (is_same<Fn<T>, ScatterAdd<T>> && is_complex_v<T> && sizeof(T) > 4) {
    const T x = alpha * from;
    atomicAdd(&to.re, x.re);
    atomicAdd(&to.im, x.im);
  } else {
    update_atomically<Fn>(to, from, alpha);
  }
}

// As `scatter`, with a thread for each (line, place along it).
template <template <class> class Fn, class T, class I>
__global__ void __launch_bounds__(kThreads)
    scatter_each(ScatterArgs args, Nest<I, 3> nest, IndexFault* fault) {
  after_earlier();
  if (fault->launch != ~u64(0)) return;
  const opmath<T> alpha = value_of<opmath<T>>(args.alpha);
  const i64 n = args.lines * args.length;
  for (i64 t = thread_number(); t < n; t += thread_count()) {
    // Neighbouring threads take neighbouring lines: those mostly lie side by side.
    const i64 j = t / args.lines, i = t - j * args.lines;
    const Offsets<I, 3> o = offsets_of(nest, I(i));
    const i64 k = args.index[o.at[2] + j * args.index_step];
    update<Fn>(typed<T>(args.out)[o.at[0] + (k < 0 ? k + args.size : k) * args.stride],
               typed<T>(args.source)[o.at[1] + j * args.source_step], alpha);
  }
}

// For each line i and each j < length: out[i + index[i + j] * stride] = fn(that, source[i + j]).
// Operands: out, source, index. The indices have been checked by a launch before, or there is one.
template <template <class> class Fn, class T, class I>
__global__ void __launch_bounds__(kThreads)
    scatter(ScatterArgs args, Nest<I, 3> nest, IndexFault* fault) {
  after_earlier();
  if (fault->launch != ~u64(0)) return;
  if (args.is_unchecked) {
    const i64 only = *args.index;
    if (only < (args.wraps ? -args.size : 0) || only >= args.size) {
      if (thread_number() == 0) report(fault, args.launch, 0, only);
      return;
    }
  }
  const opmath<T> alpha = value_of<opmath<T>>(args.alpha);
  const Fn<T> fn{};
  for (i64 i = thread_number(); i < args.lines; i += thread_count()) {
    const Offsets<I, 3> o = offsets_of(nest, I(i));
    T* out = typed<T>(args.out) + o.at[0];
    const T* source = typed<T>(args.source) + o.at[1];
    const i64* index = args.index + o.at[2];
    for (i64 j = 0; j < args.length; ++j) {
      const i64 k = index[j * args.index_step];
      fn(out[(k < 0 ? k + args.size : k) * args.stride], source[j * args.source_step], alpha);
    }
  }
}

}  // namespace rush
