// vmap_rules.h: what the files with batching rules share.
#pragma once

#include "ops/ops.h"
#include "ops/vmap/batch_rules.h"
#include "ops/vmap/vmap.h"

namespace rush {

// The tensors of an argument.
template <class F>
void visit(const Value& v, F&& f) {
  if (v.tag() == Value::Tag::Tensor) f(v.tensor());
  if (v.tag() == Value::Tag::Tensors) {
    for (const Tensor& t : v.tensors()) {
      if (t.defined()) f(t);
    }
  }
}

// The same argument once more; what it borrows stays borrowed.
Value copy_of(const Value& v);

// [B, s...] as [B, 1, ..., s...], so that a sample has `rank` dimensions.
inline Tensor padded(const Tensor& physical, int64_t rank) {
  Tensor out = physical;
  while (out.dim() - 1 < rank) out = unsqueeze(out, 1);
  return out;
}

inline Dims with_first(int64_t first, IntList rest) {
  Dims out{first};
  for (const int64_t x : rest) out.push_back(x);
  return out;
}

inline Tensor repeated(const Tensor& t, int64_t size) {
  return expand(t, with_first(size, t.sizes()));
}

// [B, ..., s, ...], s the size of a sample's dimension `dim`, which holds `outer` blocks: the
// samples go inside of these, as [..., outer * B * s / outer, ...].
Tensor folded(const Tensor& t, int64_t dim, int64_t outer = 1);
// The way back.
Tensor unfolded(const Tensor& t, int64_t samples, int64_t dim, int64_t outer = 1);

}  // namespace rush
