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

// Choices of a Philox block: number u of 24 bits is below keep * 2^24 where uniform_float(u) is below
// `keep`, and a comparison of integers needs no conversion.
RUSH_FN u32 keep_limit(float keep) { return u32(math::ceil(keep * 16777216.0f)); }
RUSH_FN Pack<truth, 4> draw(const RandomKey& from, i64 block, u32 limit) {
  const Philox4 words = philox(from.seed, from.call, u64(block));
  Pack<truth, 4> kept;
#pragma unroll
  for (int k = 0; k < 4; ++k) kept.v[k] = words.v[k] >> 8 < limit;
  return kept;
}

// The elements of U Philox blocks, in packs; they are under way while numbers are drawn.
template <class C, class T, bool affine, int U>
RUSH_FN void choose_blocks(const DropoutArgs& args, const RandomKey& from, u32 limit, i64 first,
                           i64 step) {
  constexpr int W = sizeof(T) == 8 ? 2 : 4;
  KeptPack<T, W> x[U][4 / W];
#pragma unroll
  for (int u = 0; u < U; ++u)
#pragma unroll
    for (int at = 0; at < 4; at += W)
      x[u][at / W] = KeptPack<T, W>(typed<T>(args.x) + 4 * (first + u * step) + at);
#pragma unroll
  for (int u = 0; u < U; ++u) {
    const i64 block = first + u * step;
    const Pack<truth, 4> kept = draw(from, block, limit);
#pragma unroll
    for (int at = 0; at < 4; at += W) {
      Pack<T, W> pack = x[u][at / W].pack();
#pragma unroll
      for (int k = 0; k < W; ++k)
        pack.v[k] = convert<T>(dropped<C, affine>(args, convert<C>(pack.v[k]), kept.v[at + k]));
      store_pack(typed<T>(args.y) + 4 * block + at, pack);
    }
    store_pack(args.mask + 4 * block, kept);
  }
}

// A thread takes the four elements of a Philox block, in packs where memory is aligned to them.
template <class C, class T, bool packs, bool affine>
__global__ void __launch_bounds__(kThreads) dropout(DropoutArgs args, const u64* state) {
  after_earlier();
  const RandomKey from = random_key(args.seed, args.call, state);
  const i64 blocks = (args.n + 3) / 4, whole = packs ? args.n / 4 : 0, step = thread_count();
  const u32 limit = keep_limit(float(args.keep));
  constexpr int U = sizeof(T) == 2 ? 4 : 2;  // keys of Philox's rounds are found once for all
  i64 b = thread_number();
  for (; b + (U - 1) * step < whole; b += U * step)
    choose_blocks<C, T, affine, U>(args, from, limit, b, step);
  for (; b < blocks; b += step) {
    if (b < whole) {
      choose_blocks<C, T, affine, 1>(args, from, limit, b, step);
      continue;
    }
    const Pack<truth, 4> kept = draw(from, b, limit);
    for (int k = 0; k < 4 && 4 * b + k < args.n; ++k) {
      const C x = convert<C>(typed<T>(args.x)[4 * b + k]);
      typed<T>(args.y)[4 * b + k] = convert<T>(dropped<C, affine>(args, x, kept.v[k]));
      args.mask[4 * b + k] = kept.v[k];
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
    const Pack<truth, V> kept = load_pack<V>(args.mask + p * V);
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
