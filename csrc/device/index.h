// index.h: reading and writing elements at positions that a tensor of indices or a mask names, by
// device.
#pragma once

#include "device/table.h"

namespace rush {

// How an index turns into an address. Indices run over [lo, size), where lo is -size if negative
// ones count from the end.
struct IndexRange {
  const char* op;
  int64_t size;    // of the indexed dim
  int64_t stride;  // of the indexed dim, in elements
  int64_t dim;     // for the message
  bool wraps = false;

  int64_t lo() const { return wraps ? -size : 0; }
};

enum class ScatterFn : uint8_t { Set, Add, Mul, Max, Min };

// Lines of writes: for each i of the common shape and each j < length,
//   dst[i + index[i + j * index_step] * range.stride] = fn(that, src[i + j * src_step]).
// The indices have been checked, or there is only one. Steps are in elements.
struct ScatterLines {
  Tensor dst, index, src;
  int64_t length, index_step, src_step;
  IndexRange range;
  bool checked = true;
};

// A device that is not waited for notes a bad index or value, and raises at the next wait.
struct IndexLoops {
  // Raises RangeError unless every index (int64) lies in the range.
  void (*check_indices)(const Tensor& index, const IndexRange& range) = nullptr;
  // Raises "op: rule" for an element outside [lo, hi], or a NaN; x is real.
  void (*check_between)(const Tensor& x, double lo, double hi, const char* op,
                        const char* rule) = nullptr;

  // out[i] = source[i + index[i] * stride]. Source and index have out's shape (stride 0 where they
  // are repeated); indices are checked.
  void (*read_at)(const Tensor& out, const Tensor& source, const Tensor& index,
                  const IndexRange& range) = nullptr;
  // out = source's slices in the order that index says, for contiguous tensors: `outer` times,
  // index.numel() runs of `row` bytes each; indices are checked.
  void (*copy_slices)(const Tensor& out, const Tensor& source, const Tensor& index, int64_t outer,
                      int64_t row, const IndexRange& range) = nullptr;
  // offsets[i] += index[i] * stride, negative indices counted from `size`. All checked, all int64,
  // of one shape.
  void (*add_offsets)(const Tensor& offsets, const Tensor& index, int64_t size,
                      int64_t stride) = nullptr;
  void (*scatter)(ScatterFn, const ScatterLines& lines, const Scalar& alpha) = nullptr;
  bool scatter_checks_one = false;  // an index that has not been checked
  // out /= count (int64, of out's shape), where count is above 1; integers round down.
  void (*divide_by_count)(const Tensor& out, const Tensor& count) = nullptr;

  // out = mask ? value : self; mask (bool) and self have out's shape or broadcast to it. The value
  // is one number of self's dtype, on the host or on the device.
  void (*masked_fill)(const Tensor& self, const Tensor& mask, const Tensor& value,
                      const Tensor& out) = nullptr;

  // The elements of x that are not zero, see NonzeroCounts. How many there are before each piece of
  // x, and in all: int64, the pieces are the device's own.
  Tensor (*nonzero_counts)(const Tensor& x) = nullptr;
  void (*nonzero_coordinates)(const Tensor& x, const Tensor& counts, const Tensor& positions,
                              int64_t stride, int64_t dim_stride) = nullptr;
  void (*masked_select)(const Tensor& mask, const Tensor& counts, const Tensor& values,
                        const Tensor& out) = nullptr;
  void (*masked_scatter)(const char* op, const Tensor& mask, const Tensor& counts,
                         const Tensor& source, const Tensor& out) = nullptr;
};
extern DeviceTable<IndexLoops> index_loops;

inline void check_indices(const Tensor& index, const IndexRange& range) {
  index_loops(index).check_indices(index, range);
}

// Where the elements that are not zero lie: counted once, in pieces, so that the pieces can be
// written in parallel. Nothing waits for a device but total(), when it is first called.
class NonzeroCounts {
 public:
  explicit NonzeroCounts(const Tensor& x)  // contiguous; kept
      : x_(x), counts_(index_loops(x).nonzero_counts(x)) {}
  // Those of x, counted before.
  NonzeroCounts(const Tensor& x, const Tensor& counts) : x_(x), counts_(counts) {}
  int64_t total() const;
  const Tensor& counts() const { return counts_; }

  // positions[k * stride + d * dim_stride] = coordinate d of the k-th nonzero, in row-major order.
  void write_coordinates(const Tensor& positions, int64_t stride, int64_t dim_stride) const;
  void write_positions(const Tensor& positions) const;  // in the flattened tensor
  // out[k] = values at the k-th nonzero; values are contiguous with x's shape, of any type. From
  // here on x is a mask: bool or uint8.
  void select(const Tensor& values, const Tensor& out) const;
  // out = self, with the k-th nonzero place taking source[k]. There must be enough of them; a
  // device that is not waited for tells later.
  void place(const char* op, const Tensor& source, const Tensor& out) const;

 private:
  Tensor x_, counts_;
  mutable int64_t total_ = -1;
};

}  // namespace rush
