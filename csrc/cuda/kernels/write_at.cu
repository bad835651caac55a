// write_at.cu: writes along one index, as a model's cache is written: out[i + index * stride] =
// source[i]. A bad index writes nothing, and is noted (fault.h).
//
// Two writes may share a launch: keys and values. The second is not done when the first was bad, as
// if it had come later. Only the width of an element counts.
#include "cuda/kernels/element.h"
#include "cuda/kernels/fault.h"
#include "cuda/kernels/write_at_args.h"

namespace rush {

// Where the write goes, counted from the start; -1: nowhere.
RUSH_FN i64 write_place(const WriteAtArgs::Write& w) {
  const i64 index = *w.index;
  if (index < (w.wraps ? -w.size : 0) || index >= w.size) return -1;
  return index < 0 ? index + w.size : index;
}

template <class W>
RUSH_FN void write_lines(const WriteAtArgs::Write& w, i64 place, i64 block, i64 blocks) {
  for (i64 i = block * kThreads + threadIdx.x; i < w.lines; i += blocks * kThreads) {
    const Offsets<u32, 2> o = offsets_of(w.nest, u32(i));
    typed<W>(w.out)[o.at[0] + place * w.stride] = typed<W>(w.source)[o.at[1]];
  }
}

template <class W>
__global__ void __launch_bounds__(kThreads) write_at(WriteAtArgs args) {
  after_earlier();
  const WriteAtArgs::Write &a = args.writes[0], &b = args.writes[1];
  // What another block has just found wrong with the second write is none of the first's business.
  const u64 before = args.fault->launch;
  if (before != ~u64(0) && (args.count == 1 || before != b.launch)) return;
  const bool is_first = args.count == 1 || blockIdx.x < b.first;
  const i64 first = write_place(a), second = args.count == 1 ? 0 : write_place(b);
  if (thread_number() == 0) {
    if (first < 0)
      report(args.fault, a.launch, 0, *a.index);
    else if (second < 0)
      report(args.fault, b.launch, 0, *b.index);
  }
  if (first < 0) return;
  if (is_first)
    write_lines<W>(a, first, blockIdx.x, args.count == 1 ? gridDim.x : b.first);
  else if (second >= 0)
    write_lines<W>(b, second, blockIdx.x - b.first, gridDim.x - b.first);
}

}  // namespace rush
