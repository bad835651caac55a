// loops.h: the seam between ops and devices: one table of loops a device.
#pragma once

#include <span>

#include "core/generator.h"
#include "core/tensor.h"
#include "functors/fns.h"

namespace rush {

enum class ReduceFn : uint8_t;
enum class ScanFn : uint8_t;
enum class RandomFn : uint8_t;
enum class ScatterFn : uint8_t;
struct IndexRange;
struct ScatterLines;
using ParamSpan = std::span<const Scalar>;

// See cpu/copy/triangle.h.
struct TriangleLoops {
  void (*copy)(const Tensor& x, int64_t diagonal, bool upper, const Tensor& out) = nullptr;
  void (*indices)(int64_t rows, int64_t cols, int64_t diagonal, bool upper,
                  const Tensor& out) = nullptr;
};

// See cpu/sort/sort.h and cpu/sort/unique.h.
enum class Rank : uint8_t;
struct OrderLoops {
  void (*sort)(const Tensor& x, bool descending, const Tensor& values,
               const Tensor& indices) = nullptr;
  void (*topk)(const Tensor& x, int64_t k, bool largest, const Tensor& values,
               const Tensor& indices) = nullptr;
  void (*select)(const Tensor& x, Rank rank, int64_t k, const Tensor& values,
                 const Tensor& indices) = nullptr;
  void (*mode)(const Tensor& x, const Tensor& values, const Tensor& indices) = nullptr;
  // starts[i] = 1 where slice i differs from the one before; both in the order given, if any.
  void (*mark_runs)(const Tensor& slices, int64_t count, const Tensor& order,
                    const Tensor& starts) = nullptr;
  // The positions of the slices, sorted; stable. `order` holds 0, 1, 2, ... when it comes.
  void (*sort_slices)(const Tensor& slices, int64_t count, const Tensor& order) = nullptr;
};

// See cpu/index/masking.h. `starts` is what count() returned for the same mask.
struct MaskLoops {
  // How many elements are not zero before each piece of x; the last entry counts them all.
  Tensor (*count)(const Tensor& x) = nullptr;
  void (*write_coordinates)(const Tensor& x, const Tensor& starts, const Tensor& positions,
                            int64_t stride, int64_t dim_stride) = nullptr;
  void (*select)(const Tensor& x, const Tensor& starts, const Tensor& values,
                 const Tensor& out) = nullptr;
  // A source that is too short is a fault, which raises later.
  void (*place)(const char* op, const Tensor& x, const Tensor& starts, const Tensor& source,
                const Tensor& out) = nullptr;
};

// See cpu/sort/search.h.
struct SearchLoops {
  void (*search_sorted)(const Tensor& sorted, const Tensor& values, const Tensor& sorter,
                        bool right, const Tensor& out) = nullptr;
  // counts[bin of x] += weight, or 1; edges, counts: float64.
  void (*histogram)(const Tensor& x, const Tensor& weights, const Tensor& edges, bool even,
                    const Tensor& counts) = nullptr;
  // counts[x[i]] += weights[i], or 1; x: int64.
  void (*count)(const Tensor& x, const Tensor& weights, const Tensor& counts) = nullptr;
};

// See cpu/random/sampling.h.
enum class SamplingFn : uint8_t;
struct SamplingLoops {
  void (*sample)(SamplingFn, const Tensor& a, const Tensor& b, const Tensor& out,
                 RandomCall) = nullptr;
  void (*gamma_derivative)(const Tensor& a, const Tensor& x, const Tensor& out) = nullptr;
};

// Numbers that follow from their position: out is a contiguous vector.
struct CountingLoops {
  void (*count_up)(const Tensor& out, const Scalar& start, const Scalar& step) = nullptr;
  // From first to last, evenly; base != 0: powers of it.
  void (*spread)(const Tensor& out, complex<double> first, complex<double> last,
                 double base) = nullptr;
};

// `compute` is the type the functor works in, already settled (never float16 or bfloat16).
struct DeviceLoops {
  void (*unary)(UnaryFn, const Tensor& x, const Tensor& out, ParamSpan, DType compute) = nullptr;
  void (*binary)(BinaryFn, const Tensor& a, const Tensor& b, const Tensor& out, ParamSpan,
                 DType compute) = nullptr;
  void (*ternary)(TernaryFn, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& out,
                  ParamSpan, DType compute) = nullptr;
  // Either of them is on this device, the other perhaps on the host.
  void (*copy)(const Tensor& src, const Tensor& dst, bool non_blocking) = nullptr;
  void (*fill)(const Tensor& dst, const Scalar& value) = nullptr;
  void (*reduce)(ReduceFn, const Tensor& x, const Tensor& out, ParamSpan) = nullptr;
  void (*reduce_var)(const Tensor& x, const Tensor& out, double correction, bool take_sqrt,
                     const Tensor* mean_out) = nullptr;
  void (*reduce_arg)(ReduceFn, const Tensor& x, const Tensor& values, const Tensor& indices,
                     int64_t dim) = nullptr;
  void (*scan)(ScanFn, const Tensor& x, const Tensor& out, const Tensor* indices,
               int64_t dim) = nullptr;
  void (*random)(RandomFn, const Tensor& out, RandomCall, double a, double b) = nullptr;
  void (*random_int)(const Tensor& out, RandomCall, int64_t from, uint64_t range) = nullptr;
  void (*check_indices)(const Tensor& index, const IndexRange& range) = nullptr;
  // Raises "op: rule" at the next wait for an element outside [lo, hi], or a NaN.
  void (*check_between)(const Tensor& x, double lo, double hi, const char* op,
                        const char* rule) = nullptr;
  void (*check_nonzero)(const Tensor& x, const char* op, const char* rule) = nullptr;
  void (*read_at)(const Tensor& out, const Tensor& source, const Tensor& index,
                  const IndexRange& range) = nullptr;
  void (*add_offsets)(const Tensor& offsets, const Tensor& index, int64_t size,
                      int64_t stride) = nullptr;
  void (*scatter)(ScatterFn, const ScatterLines& lines, const Scalar& alpha) = nullptr;
  // The tensors one after the other along dim of out, converted; empty vectors add nothing.
  void (*join)(std::span<const Tensor> tensors, int64_t dim, const Tensor& out) = nullptr;
  TriangleLoops triangles;
  OrderLoops orders;
  MaskLoops masks;
  SearchLoops searches;
  SamplingLoops sampling;
  CountingLoops counting;
};

namespace detail {
extern DeviceLoops g_device_loops[kDeviceTypeCount];
}
inline DeviceLoops& device_loops(DeviceType type) {
  return detail::g_device_loops[static_cast<int>(type)];
}

}  // namespace rush
