// gemm_vector.h: vectors of the compiler's own kind, as wide as the instruction set allows.
#pragma once

#include <cstring>

#include "cpu/kernels/vector_bytes.h"
#include "functors/types.h"

namespace rush::RUSH_ISA {

// W elements; wider than a register is fine, the compiler splits it.
template <class R, int W>
struct VectorOf {
  typedef R type __attribute__((vector_size(sizeof(R) * W)));
};

// Not by value: returning a vector wider than the registers would change the ABI.
template <class V, class R>
RUSH_FN void load(V& v, const R* p) {
  __builtin_memcpy(&v, p, sizeof v);
}
// bfloat16 is the upper half of a float.
template <class V>
RUSH_FN void load(V& v, const bfloat16* p) {
  constexpr int W = sizeof(V) / sizeof(float);
  typename VectorOf<u16, W>::type bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  const auto wide = __builtin_convertvector(bits, typename VectorOf<u32, W>::type) << 16;
  __builtin_memcpy(&v, &wide, sizeof v);
}
template <class V, class R>
RUSH_FN void store(R* p, const V& v) {
  __builtin_memcpy(p, &v, sizeof v);
}

}  // namespace rush::RUSH_ISA
