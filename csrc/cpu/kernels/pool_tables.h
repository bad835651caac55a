// pool_tables.h: the loops of pools, over up to three spatial dims.
#pragma once

#include <cstdint>

#include "cpu/kernels/tables.h"

namespace rush {

// The windows along one dim: output i sees the inputs first[i], first[i] + step, ... below last[i],
// and counts as count[i] elements in an average. The outputs from even to even_end are those of
// whole windows, `taps` inputs each, that begin `stride` apart.
struct PoolAxis {
  int64_t in, out, step;
  const int64_t *first, *last, *count;
  int64_t even = 0, even_end = 0, stride = 1, taps = 0;
};

// Jobs: contiguous tensors have one a plane (image and channel). Channels-last ones have one a row
// of outputs going forward, one an image and block of kPoolBlock channels going back.
struct PoolCall {
  PoolAxis axis[3];
  int64_t channels;
  bool channels_last;
  int64_t divisor;  // of averages, 0: as the windows count

  int64_t in_points() const { return axis[0].in * axis[1].in * axis[2].in; }
  int64_t out_points() const { return axis[0].out * axis[1].out * axis[2].out; }
};
inline constexpr int64_t kPoolBlock = 32;

template <class T>
struct PoolTable {
  // Without indices where they are null.
  void (*max)(const PoolCall&, const T* x, T* y, int64_t* indices, int64_t begin, int64_t end);
  void (*average)(const PoolCall&, const T* x, T* y, int64_t begin, int64_t end);
  // gx is overwritten. False: an index lies outside.
  bool (*max_backward)(const PoolCall&, const T* g, const int64_t* indices, T* gx, int64_t begin,
                       int64_t end);
  void (*average_backward)(const PoolCall&, const T* g, T* gx, int64_t begin, int64_t end);
};

template <Isa isa, class T>
const PoolTable<T>* pool_table();

}  // namespace rush
