// folds.h (NVRTC): the folds that only GPUs have, and how a thread folds a stretch of memory.
#pragma once

#include "cuda/kernels/element.h"
#include "functors/fold.h"

namespace rush {

namespace folds {

// A fold (those that the CPU shares are in functors/fold.h): T is what an element is converted to,
// Acc the running result. Some take several elements in a row (chunk) for less than one by one
// (step), or all elements of a word (word).
template <class E>
struct Sum {
  using T = E;
  using Acc = E;
  static RUSH_FN Acc blank() { return Acc(0); }
  static RUSH_FN void step(Acc& acc, T x, i64) { acc = functors::wrap_add(acc, x); }
  static RUSH_FN void merge(Acc& acc, const Acc& other) { acc = functors::wrap_add(acc, other); }
  static RUSH_FN T finish(const Acc& acc, double) { return acc; }
};

template <class E>
struct Mean : Sum<E> {
  static RUSH_FN E finish(const E& acc, double count) { return acc / real_of<E>(count); }
};

template <class E>
struct Prod : Sum<E> {
  static RUSH_FN E blank() { return E(1); }
  static RUSH_FN void step(E& acc, E x, i64) { acc = functors::wrap_mul(acc, x); }
  static RUSH_FN void merge(E& acc, const E& other) { acc = functors::wrap_mul(acc, other); }
};

template <class T, bool largest>
RUSH_FN T weakest() {
  if constexpr (is_float<T>)
    return largest ? -limits<T>::inf : limits<T>::inf;
  else
    return largest ? limits<T>::lowest : limits<T>::max;
}

template <class E, bool largest>
struct Extreme {  // NaN wins
  using T = E;
  using Acc = E;
  static RUSH_FN Acc blank() { return weakest<T, largest>(); }
  static RUSH_FN void step(Acc& acc, T x, i64) {
    if constexpr (largest)
      acc = functors::Maximum{}(acc, x);
    else
      acc = functors::Minimum{}(acc, x);
  }
  static RUSH_FN void merge(Acc& acc, const Acc& other) { step(acc, other, 0); }
  static RUSH_FN T finish(const Acc& acc, double) { return acc; }
};
template <class E>
using Max = Extreme<E, true>;
template <class E>
using Min = Extreme<E, false>;

// The highest bit of each byte that is not zero.
RUSH_FN u32 nonzero_bytes(u32 word) {
  constexpr u32 kLow = 0x7f7f7f7fu;
  return (((word & kLow) + kLow) | word) & ~kLow;
}

template <bool any>
struct Truth {
  using T = bool;
  using Acc = bool;
  static RUSH_FN Acc blank() { return !any; }
  static RUSH_FN void step(Acc& acc, T x, i64) { acc = any ? acc | x : acc & x; }
  static RUSH_FN void word(Acc& acc, u32 bytes) {
    step(acc, any ? bytes != 0 : nonzero_bytes(bytes) == 0x80808080u, 0);
  }
  static RUSH_FN void merge(Acc& acc, const Acc& other) { step(acc, other, 0); }
  static RUSH_FN T finish(const Acc& acc, double) { return acc; }
};
using Any = Truth<true>;
using All = Truth<false>;

struct CountNonzero {
  using T = bool;
  using Acc = i64;
  static RUSH_FN Acc blank() { return 0; }
  static RUSH_FN void step(Acc& acc, T x, i64) { acc += x; }
  static RUSH_FN void word(Acc& acc, u32 bytes) { acc += __popc(nonzero_bytes(bytes)); }
  static RUSH_FN void merge(Acc& acc, const Acc& other) { acc += other; }
  static RUSH_FN i64 finish(const Acc& acc, double) { return acc; }
};

// Norms. Squares are added in double: float would overflow where the norm itself does not.
template <class E>
struct Norm1 : Sum<E> {
  static RUSH_FN void step(E& acc, E x, i64) { acc += math::fabs(x); }
};
template <class E>
struct Norm2 {
  using T = E;
  using Acc = double;
  static RUSH_FN Acc blank() { return 0; }
  static RUSH_FN void step(Acc& acc, T x, i64) { acc += double(x) * double(x); }
  static RUSH_FN void merge(Acc& acc, const Acc& other) { acc += other; }
  static RUSH_FN T finish(const Acc& acc, double) { return T(math::sqrt(acc)); }
};
template <class E>
struct NormInf : Extreme<E, true> {
  static RUSH_FN E blank() { return E(0); }
  static RUSH_FN void step(E& acc, E x, i64) { Extreme<E, true>::step(acc, math::fabs(x), 0); }
};
template <class E>
struct NormNegInf : Extreme<E, false> {
  static RUSH_FN void step(E& acc, E x, i64) { Extreme<E, false>::step(acc, math::fabs(x), 0); }
};

}  // namespace folds

inline constexpr int kWays = 4;

template <class Fold>
inline constexpr bool has_positions = requires { Fold::kPositions; };

// How many running results take turns, when there are n: those that take chunks need one.
template <class Fold, int n>
inline constexpr int kTurns = requires(typename Fold::Acc& acc, const typename Fold::T (&x)[n]) {
  Fold::chunk(acc, x, i64(0), i64(0));
} ? 1 : n;

// Some elements of one output, apart by `apart` from `first` on, into `acc`, or into a running
// result for each.
template <class Fold, int n>
RUSH_FN void fold_few(typename Fold::Acc* acc, bool one_each, const typename Fold::T (&x)[n],
                      i64 first, i64 apart) {
  if constexpr (kTurns<Fold, n> == 1) {
    Fold::chunk(*acc, x, first, apart);
  } else {
#pragma unroll
    for (int k = 0; k < n; ++k) Fold::step(acc[one_each ? k : 0], x[k], first + k * apart);
  }
}

// All elements of a pack of bytes, a word at a time.
template <class Fold, class X, int V>
RUSH_FN void fold_words(typename Fold::Acc& acc, const Pack<X, V>& pack) {
  struct Words {
    u32 w[V / 4];
  };
  const Words words = bit_cast<Words>(pack);
#pragma unroll
  for (int k = 0; k < V / 4; ++k) Fold::word(acc, words.w[k]);
}

// Elements [begin, end) of one output, dealt out to the lanes. at(i) reads element i.
template <class Fold, class At>
RUSH_FN typename Fold::Acc fold_lane(i64 begin, i64 end, int lane, int lanes, At at) {
  constexpr int kResults = kTurns<Fold, kWays>;
  typename Fold::Acc ways[kResults];
#pragma unroll
  for (int w = 0; w < kResults; ++w) ways[w] = Fold::blank();
  i64 i = begin + lane;
  for (; i + i64(kWays - 1) * lanes < end; i += i64(kWays) * lanes) {
    typename Fold::T x[kWays];
#pragma unroll
    for (int w = 0; w < kWays; ++w) x[w] = at(i + i64(w) * lanes);
    fold_few<Fold>(ways, true, x, i, lanes);
  }
  for (; i < end; i += lanes) Fold::step(ways[0], at(i), i);
#pragma unroll
  for (int w = 1; w < kResults; ++w) Fold::merge(ways[0], ways[w]);
  return ways[0];
}

// The same for a stretch of memory, a pack at a time (V > 1); what is left goes one by one.
template <class Fold, int V, class X>
RUSH_FN typename Fold::Acc fold_stretch(const X* x, i64 begin, i64 end, int lane, int lanes) {
  using T = typename Fold::T;
  constexpr int kResults = kTurns<Fold, V>;
  typename Fold::Acc ways[kResults];
#pragma unroll
  for (int k = 0; k < kResults; ++k) ways[k] = Fold::blank();
  const auto fold_pack = [&](const Pack<X, V>& pack, i64 first) {
    T few[V];
#pragma unroll
    for (int k = 0; k < V; ++k) few[k] = convert<T>(pack.v[k]);
    fold_few<Fold>(ways, true, few, first, 1);
  };
  const i64 last = begin + (end - begin) / V * V, next = i64(lanes) * V;
  i64 i = begin + i64(lane) * V;
  for (; i + (kWays - 1) * next < last; i += kWays * next) {  // several loads under way
    Pack<X, V> packs[kWays];
#pragma unroll
    for (int w = 0; w < kWays; ++w) packs[w] = load_pack<V>(x + i + w * next);
    if constexpr (kResults == 1 && !has_positions<Fold> && V <= 8) {
      constexpr int kChunk = kWays * V < 16 ? kWays * V : 16;
#pragma unroll
      for (int first = 0; first < kWays * V; first += kChunk) {
        T few[kChunk];
#pragma unroll
        for (int k = 0; k < kChunk; ++k)
          few[k] = convert<T>(packs[(first + k) / V].v[(first + k) % V]);
        Fold::chunk(ways[0], few, i, 0);
      }
    } else if constexpr (sizeof(X) == 1 && requires { Fold::word(ways[0], 0u); }) {
#pragma unroll
      for (int w = 0; w < kWays; ++w) fold_words<Fold>(ways[w], packs[w]);
    } else {
#pragma unroll
      for (int w = 0; w < kWays; ++w) fold_pack(packs[w], i + w * next);
    }
  }
  for (; i < last; i += next) fold_pack(load_pack<V>(x + i), i);
  for (i = last + lane; i < end; i += lanes) Fold::step(ways[0], convert<T>(x[i]), i);
#pragma unroll
  for (int k = 1; k < kResults; ++k) Fold::merge(ways[0], ways[k]);
  return ways[0];
}

}  // namespace rush
