// dropout_exact.cu: random choices drawn and applied in one pass; and choices applied again, for
// the backward pass.
//
// Choice i is the Bernoulli number i that random_exact.cu gives for the same call: word i % 4 of
// Philox block i / 4. T is the type of memory, C what is computed in.
#include "cuda/kernels/element.h"
#include "functors/random.h"

namespace rush {

// `affine`: with shift and floor; otherwise a dropped element is x * 0, and -0 stays what it is.
template <class C, bool affine>
RUSH_FN C dropped(const DropoutArgs& args, C x, bool kept) {
  const C y = x * (kept ? C(args.scale) : C(0));
  return affine ? y + (kept ? C(args.shift) : C(args.floor)) : y;
}

// A thread takes the four elements of a Philox block, in packs where memory is aligned to them.
template <class C, class T, bool packs, bool affine>
__global__ void __launch_bounds__(kThreads) dropout(DropoutArgs args, const u64* state) {
  after_earlier();
  const RandomKey from = random_key(args.seed, args.call, state);
  const i64 blocks = (args.n + 3) / 4;
  const float keep = float(args.keep);
  for (i64 b = thread_number(); b < blocks; b += thread_count()) {
    const Philox4 words = philox(from.seed, from.call, u64(b));
    Pack<bool, 4> kept;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      kept.v[k] = functors::RandomBernoulli{}(words.v[k], keep, 0.0f) != 0.0f;
    const T* x = typed<T>(args.x) + 4 * b;
    T* y = typed<T>(args.y) + 4 * b;
    if (packs && 4 * b + 4 <= args.n) {
      constexpr int W = sizeof(T) == 8 ? 2 : 4;
#pragma unroll
      for (int at = 0; at < 4; at += W) {
        Pack<T, W> pack = load_pack<W>(x + at);
#pragma unroll
        for (int k = 0; k < W; ++k)
          pack.v[k] = convert<T>(dropped<C, affine>(args, convert<C>(pack.v[k]), kept.v[at + k]));
        store_pack(y + at, pack);
      }
      store_pack(args.mask + 4 * b, kept);
    } else {
      for (int k = 0; k < 4 && 4 * b + k < args.n; ++k) {
        y[k] = convert<T>(dropped<C, affine>(args, convert<C>(x[k]), kept.v[k]));
        args.mask[4 * b + k] = kept.v[k];
      }
    }
  }
}

// Choices that are known: the operands lie alike, and are aligned to packs.
template <class C, class T, int V, bool affine>
__global__ void __launch_bounds__(kThreads) masked_flat(DropoutArgs args) {
  after_earlier();
  const i64 packs = args.n / V;
  for (i64 p = thread_number(); p < packs; p += thread_count()) {
    Pack<T, V> pack = load_pack<V>(typed<T>(args.x) + p * V);
    const Pack<bool, V> kept = load_pack<V>(static_cast<const bool*>(args.mask) + p * V);
#pragma unroll
    for (int k = 0; k < V; ++k)
      pack.v[k] = convert<T>(dropped<C, affine>(args, convert<C>(pack.v[k]), kept.v[k]));
    store_pack(typed<T>(args.y) + p * V, pack);
  }
  for (i64 i = packs * V + thread_number(); i < args.n; i += thread_count())
    typed<T>(args.y)[i] =
        convert<T>(dropped<C, affine>(args, convert<C>(typed<T>(args.x)[i]), args.mask[i]));
}

// Any layout, a mask that is repeated too. Operands: y, x, mask.
template <class C, class T, class I, bool affine>
__global__ void __launch_bounds__(kThreads) masked_strided(DropoutArgs args, Nest<I, 3> nest) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    const Offsets<I, 3> o = offsets_of(nest, I(i));
    typed<T>(args.y)[o.at[0]] = convert<T>(
        dropped<C, affine>(args, convert<C>(typed<T>(args.x)[o.at[1]]), args.mask[o.at[2]]));
  }
}

}  // namespace rush
