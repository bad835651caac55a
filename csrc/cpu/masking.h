// masking.h: loops whose results are as long as the data says: nonzero, masked_select; and masked
// fills.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace rush {

// Where the elements that are not zero lie: counted once, in pieces, so that the pieces can be
// written in parallel.
class NonzeroCounts {
 public:
  explicit NonzeroCounts(const Tensor& x);  // contiguous; kept
  int64_t total() const { return starts_.back(); }

  // positions[k * stride + d * dim_stride] = coordinate d of the k-th nonzero, in row-major order.
  void write_coordinates(int64_t* positions, int64_t stride, int64_t dim_stride) const;
  void write_positions(int64_t* positions) const;  // in the flattened tensor
  // out[k] = values at the k-th nonzero; values are contiguous with x's shape, of any type.
  void select(const Tensor& values, const Tensor& out) const;
  // out = self, with the k-th nonzero place taking source[k].
  void place(const Tensor& source, const Tensor& out) const;

 private:
  static constexpr int64_t kPiece = 1 << 13;
  template <class F>
  void for_pieces(F&& f) const;

  Tensor x_;
  std::vector<int64_t> starts_;
};

// out = mask ? value : self; mask (bool) and self have out's shape or broadcast to it.
void masked_fill_cpu(const Tensor& self, const Tensor& mask, const Scalar& value,
                     const Tensor& out);

}  // namespace rush
