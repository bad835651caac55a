// copy.h: moving, filling and counting elements, by device.
#pragma once

#include <span>

#include "device/runtime.h"
#include "functors/complex.h"

namespace rush {

struct CopyLoops {
  // dst[...] = src[...], broadcast and converted. One of them is on this device, the other perhaps
  // on the host. `non_blocking`: a copy from pinned memory is not waited for.
  void (*copy)(const Tensor& src, const Tensor& dst, bool non_blocking) = nullptr;
  void (*fill)(const Tensor& dst, const Scalar& value) = nullptr;
  // The tensors one after the other along dim of out, converted; empty vectors add nothing.
  void (*cat)(std::span<const Tensor> tensors, int64_t dim, const Tensor& out) = nullptr;

  // out = x where column - row <= diagonal (lower) or >= diagonal (upper), else zero; over the last
  // two dims. Out may be x itself.
  void (*triangle)(const Tensor& x, int64_t diagonal, bool upper, const Tensor& out) = nullptr;
  // out (2, n), int32 or int64: rows and columns of what such a triangle keeps, row by row.
  void (*triangle_indices)(int64_t rows, int64_t cols, int64_t diagonal, bool upper,
                           const Tensor& out) = nullptr;

  // Numbers that follow from their position: out is a contiguous vector.
  // start + i * step, in 64-bit integers for integral dtypes, else in double.
  void (*arange)(const Tensor& out, const Scalar& start, const Scalar& step) = nullptr;
  // The same in double for all dtypes.
  void (*range)(const Tensor& out, double start, double step) = nullptr;
  // From first to last, evenly; both ends are exact.
  void (*linspace)(const Tensor& out, complex<double> first, complex<double> last) = nullptr;
  // Powers of base with these exponents.
  void (*logspace)(const Tensor& out, complex<double> first, complex<double> last,
                   double base) = nullptr;
};
extern DeviceTable<CopyLoops> copy_loops;

// From any device to any: a device whose memory is its own copies from and to the host.
inline void copy_elements(const Tensor& src, const Tensor& dst, bool non_blocking = false) {
  copy_loops(device_traits(src).separate_memory ? src : dst).copy(src, dst, non_blocking);
}

}  // namespace rush
