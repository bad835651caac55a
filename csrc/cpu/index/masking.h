// masking.h: loops whose results are as long as the data says: nonzero, masked_select; and masked
// fills.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace rush {

// Where the elements that are not zero lie: counted once, in pieces, so that the pieces can be
// written in parallel. On any device; on a GPU nothing waits but total(), when it is first called.
class NonzeroCounts {
 public:
  explicit NonzeroCounts(const Tensor& x);  // contiguous; kept
  // Those of x, counted before by a GPU.
  NonzeroCounts(const Tensor& x, const Tensor& on_device) : x_(x), on_device_(on_device) {}
  int64_t total() const;
  const Tensor& on_device() const { return on_device_; }

  // positions[k * stride + d * dim_stride] = coordinate d of the k-th nonzero, in row-major order.
  void write_coordinates(const Tensor& positions, int64_t stride, int64_t dim_stride) const;
  void write_positions(const Tensor& positions) const;  // in the flattened tensor
  // out[k] = values at the k-th nonzero; values are contiguous with x's shape, of any type.
  void select(const Tensor& values, const Tensor& out) const;
  // out = self, with the k-th nonzero place taking source[k]. There must be enough of them; on a
  // GPU, too few are a fault, which raises later.
  void place(const char* op, const Tensor& source, const Tensor& out) const;

 private:
  static constexpr int64_t kPiece = 1 << 13;
  template <class F>
  void for_pieces(F&& f) const;

  Tensor x_;
  std::vector<int64_t> starts_;
  Tensor on_device_;
  mutable int64_t total_ = -1;
};

// out = mask ? value : self; mask (bool) and self have out's shape or broadcast to it.
void masked_fill_cpu(const Tensor& self, const Tensor& mask, const Scalar& value,
                     const Tensor& out);

}  // namespace rush
