// group_map.h (NVRTC): what group norm does with the elements of channels-last images once sums are
// known, by itself (group_norm.cu) or with other steps (fused_rows.h).
#pragma once

#include "cuda/kernels/channel_sums.h"
#include "cuda/kernels/norm_rows.h"

namespace rush {

template <class C, class W>
RUSH_FN C parameter(const void* from, i64 i, C missing) {
  return from ? convert<C>(typed<W>(from)[i]) : missing;
}

// The part of a block: `columns` packs of channels (blockIdx.y) of a segment of a sample (blockIdx.x).
struct SamplePart {
  i64 sample, segment, begin, end;  // rows, counted over the batch
  int column, lane, lanes;
  i64 pack;
  RUSH_FN explicit SamplePart(const GroupNormArgs& args)
      : sample(quotient(blockIdx.x, args.segments)), segment(blockIdx.x - sample * args.segments) {
    const i64 from = segment * args.segment, to = from + args.segment;
    begin = sample * args.inner + from;
    end = sample * args.inner + (to < args.inner ? to : args.inner);
    lanes = kThreads / args.columns;
    column = threadIdx.x % args.columns;
    lane = threadIdx.x / args.columns;
    pack = i64(blockIdx.y) * args.columns + column;
  }
  RUSH_FN RowShare rows() const { return {begin, end, lane, lanes}; }
};
// What kinds are made from.
struct SampleArgs : GroupNormArgs {
  i64 sample;
  RUSH_FN SampleArgs(const GroupNormArgs& args, i64 sample) : GroupNormArgs(args), sample(sample) {}
  RUSH_FN i64 row_of(i64 channel) const {
    return sample * groups + quotient(channel, quotient(channels, groups));
  }
};

// What an element needs of its channel.
template <class T, class W, class C>
struct GroupNormalize {
  static constexpr int reads = 1;
  C mean = 0, scale = 0, shift = 0;
  RUSH_FN GroupNormalize() {}
  RUSH_FN GroupNormalize(const SampleArgs& a, i64 c) {
    const i64 row = a.row_of(c);
    mean = typed<C>(a.mean)[row];
    scale = typed<C>(a.rstd)[row] * parameter<C, W>(a.weight, c, C(1));
    shift = parameter<C, W>(a.bias, c, C(0));
  }
  RUSH_FN T operator()(T x, T) const { return convert<T>((convert<C>(x) - mean) * scale + shift); }
};
template <class T, class W, class C>
struct GroupInputGrad {
  static constexpr int reads = 2;
  C mean = 0, scale = 0, along = 0, plain = 0;
  RUSH_FN GroupInputGrad() {}
  RUSH_FN GroupInputGrad(const SampleArgs& a, i64 c) {
    const i64 row = a.row_of(c);
    const PairSum<C> means = typed<PairSum<C>>(a.means)[row];
    const C rstd = typed<C>(a.rstd)[row];
    mean = typed<C>(a.mean)[row];
    scale = rstd * parameter<C, W>(a.weight, c, C(1));
    along = rstd * rstd * means.along;
    plain = rstd * means.plain;
  }
  RUSH_FN T operator()(T x, T g) const {
    return convert<T>(scale * convert<C>(g) - along * (convert<C>(x) - mean) - plain);
  }
};

}  // namespace rush
