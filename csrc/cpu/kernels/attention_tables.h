// attention_tables.h: attention of one head, by blocks that stay in the cache.
//
// Forward: scores of a block of queries against a block of keys, their softmax as it stands so far
// (a running maximum and sum a row), its product with the values. Nothing of the size queries x
// keys is ever kept. Backward computes the scores again from the saved logarithm of each row's sum.
//
// Everything is computed in the accumulator's type A: float, or double for double.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/generator.h"
#include "cpu/kernels/tables.h"
#include "cpu/linalg/product.h"

namespace rush {

enum class MaskKind : uint8_t { None, Bool, Additive };

// What all heads share.
struct AttentionShape {
  int64_t queries, keys, width, value_width;
  double scale;
  int64_t before, after;  // query i sees the keys from i - before to i + after
  double dropout;         // the probability that a weight becomes zero
  RandomCall call;        // where its random numbers come from
  MaskKind mask_kind;     // additive masks are of type A
};

// Rows of one head; elements of a row lie end to end.
template <class T>
struct Rows {
  T* data;
  int64_t step;
  T* at(int64_t i) const { return data + i * step; }
};

template <class T>
struct AttentionHead {
  int64_t index;  // among the heads of queries; random numbers depend on it
  Rows<const T> q, k, v;
  const void* mask;
  int64_t mask_row, mask_col;  // strides, 0 where it is repeated
};

// What backward reads and writes besides; gradients are written by `finish`, those of queries by
// `backward` itself unless q_sums asks for them unfinished.
template <class T>
struct AttentionGrads {
  Rows<const T> g, out;       // the incoming gradient, and the forward result
  const Accumulator<T>* lse;  // one a query
  Rows<T> gq;
  Accumulator<T>* q_sums;  // (queries, width), rows end to end, or null
};

template <class T>
struct AttentionTable {
  using A = Accumulator<T>;
  using Shape = AttentionShape;

  int64_t block_queries, block_keys;

  // Sizes in elements of A. `packed` serves all queries of a head that share keys and values.
  int64_t (*forward_packed)(const Shape& s);
  int64_t (*forward_scratch)(const Shape& s);
  int64_t (*backward_packed)(const Shape& s, int64_t keys);
  int64_t (*backward_scratch)(const Shape& s);

  // Few queries read keys and values where they lie, and need no packing.
  bool (*packs)(const Shape& s);
  void (*forward_pack)(const Shape& s, Rows<const T> k, Rows<const T> v, A* packed);
  // Queries [begin, end), at most block_queries of them.
  void (*forward)(const Shape& s, const AttentionHead<T>& h, int64_t begin, int64_t end,
                  const A* packed, A* scratch, Rows<T> out, A* lse);

  // Keys [begin, end); packs and clears the sums of their gradients.
  void (*backward_pack)(const Shape& s, Rows<const T> k, Rows<const T> v, int64_t begin,
                        int64_t end, A* packed);
  // All queries of a head against the keys [begin, end), whose sums grow in `packed`.
  void (*backward)(const Shape& s, const AttentionHead<T>& h, const AttentionGrads<T>& g,
                   int64_t begin, int64_t end, A* packed, A* scratch);
  void (*finish)(const Shape& s, int64_t begin, int64_t end, const A* packed, Rows<T> gk,
                 Rows<T> gv);
  // to = from as T
  void (*narrow)(int64_t n, const A* from, T* to);

  // Weights of queries [begin, end) from their logarithms of sums, after dropout; see forward.
  void (*weights)(const Shape& s, const AttentionHead<T>& h, int64_t begin, int64_t end,
                  const A* packed, A* scratch, const A* lse, A factor, bool add, Rows<A> to);

  // For each of n keys of a query: 0 where dropout takes the weight away, else 1 / (1 - dropout).
  void (*kept)(const Shape& s, int64_t head, int64_t query, int64_t n, A* to);
};

template <Isa isa, class T>
const AttentionTable<T>* attention_table();

}  // namespace rush
