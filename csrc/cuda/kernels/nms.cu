// nms.cu: which of boxes, the best first, overlap with none that is kept before them. First all
// pairs, 64 to a word; then one block goes through the boxes, 64 at a time.
#include "cuda/kernels/element.h"
#include "cuda/kernels/roi_args.h"

namespace rush {

template <class C, class T>
RUSH_FN BoxArea<C> box_at(const NmsArgs& args, i64 i) {
  const T* b = typed<T>(args.boxes) + 4 * i;
  return BoxArea<C>(convert<C>(b[0]), convert<C>(b[1]), convert<C>(b[2]), convert<C>(b[3]));
}

// A thread takes one box and 64 others; neighbours among threads take the same others.
template <class C, class T>
__global__ void __launch_bounds__(kThreads) nms_overlaps(NmsArgs args) {
  after_earlier();
  for (i64 k = thread_number(); k < args.n * args.words; k += thread_count()) {
    const i64 word = k / args.n, i = k - word * args.n, first = word * 64;
    const i64 end = first + 64 < args.n ? first + 64 : args.n;
    const BoxArea<C> own = box_at<C, T>(args, i);
    u64 bits = 0;
    for (i64 j = first > i ? first : i + 1; j < end; ++j)
      if (own.overlap(box_at<C, T>(args, j)) > C(args.limit)) bits |= u64(1) << (j - first);
    args.bits[i * args.words + word] = bits;
  }
}

// I: of the table of bits.
template <class I>
__global__ void __launch_bounds__(kThreads) nms_keep(NmsArgs args) {
  after_earlier();
  __shared__ u64 among[64];  // the overlaps of the 64 boxes with each other
  __shared__ u64 kept;
  const I words = I(args.words), n = I(args.n), thread = I(threadIdx.x);
  for (I word = 0; word < words; ++word) {
    const I first = word * 64, count = n - first < 64 ? n - first : I(64);
    if (thread < count) among[thread] = args.bits[(first + thread) * words + word];
    __syncthreads();
    if (thread == 0) {
      u64 gone = args.gone[word], found = 0;
      for (I k = 0; k < count; ++k) {
        if (gone >> k & 1) continue;
        found |= u64(1) << k;
        gone |= among[k];
      }
      kept = found;
    }
    __syncthreads();
    if (thread < count) args.keep[first + thread] = (kept >> thread & 1) != 0;
    for (I w = word + 1 + thread; w < words; w += kThreads) {
      u64 gone = args.gone[w];
      for (I k = 0; k < count; ++k)
        if (kept >> k & 1) gone |= args.bits[(first + k) * words + w];
      args.gone[w] = gone;
    }
    __syncthreads();
  }
}

}  // namespace rush
