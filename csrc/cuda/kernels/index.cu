// index.cu: reading and writing elements at positions that a tensor of indices names.
//
// - Reading (gather, index_select, take, and `index` through offsets) is one kernel over the
//   result: out[i] = source[i + index[i] * stride]. Source and index have out's shape, with stride
//   0 where they are repeated. Only the width of an element counts.
// - A bad index reads nothing: its element becomes zero, and the fault record keeps the first
//   offender (lowest launch, then lowest position), so that the error is the same every time. The
//   lock is taken only by threads that would improve the record.
// - Writing may hit one place twice. As on the CPU, a line of writes belongs to one thread and is
//   done in order: the last write wins and sums round the same way, every time.
#include "cuda/kernels/element.h"

namespace rush {

RUSH_FN bool earlier(const volatile IndexFault* f, u64 launch, i64 position) {
  return launch < f->launch || (launch == f->launch && position < f->position);
}

RUSH_FN void report(IndexFault* fault, u64 launch, i64 position, i64 value) {
  bool done = !earlier(fault, launch, position);
  while (!done) {
    if (atomicCAS(&fault->lock, 0u, 1u) != 0u) continue;
    __threadfence();
    volatile IndexFault* f = fault;
    if (earlier(f, launch, position)) {
      f->launch = launch;
      f->position = position;
      f->value = value;
    }
    __threadfence();
    atomicExch(&fault->lock, 0u);
    done = true;
  }
}

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
    if constexpr (is_bool<T>) {
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
    if constexpr (is_bool<T>)
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

// For each line i and each j < length: out[i + index[i + j] * stride] = fn(that, source[i + j]).
// Operands: out, source, index. The indices have been checked by a launch before.
template <template <class> class Fn, class T, class I>
__global__ void __launch_bounds__(kThreads)
    scatter(ScatterArgs args, Nest<I, 3> nest, const IndexFault* fault) {
  if (fault->launch != ~u64(0)) return;
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
