// Reductions. Loops are in cpu/reduce.*; here: dims, types, gradients.
#include "ops/reduction.h"

#include "cpu/reduce.h"
#include "ops/operators.h"

namespace rush {

ReducedDims::ReducedDims(const char* op, const Tensor& x, const std::optional<IntList>& dims) {
  if (!dims || dims->empty()) {
    for (int64_t d = 0; d < x.dim(); ++d) mask_.set(size_t(d));
    return;
  }
  for (int64_t d : *dims) {
    const auto w = size_t(wrap_dim(op, d, x.dim()));
    check(!mask_[w], ErrorKind::Runtime, op, "dim ", int64_t(w), " appears more than once in ", *dims);
    mask_.set(w);
  }
  if (x.dim() == 0) mask_.reset();
}

Dims ReducedDims::shape(const Tensor& x, bool keepdim) const {
  Dims out;
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (!has(d)) out.push_back(x.sizes()[size_t(d)]);
    else if (keepdim) out.push_back(1);
  }
  return out;
}

Tensor ReducedDims::keepdim_view(const Tensor& x, const Tensor& out) const {
  if (out.dim() == x.dim()) return out;
  Dims sizes(uint32_t(x.dim()), 1), strides(uint32_t(x.dim()), 0);
  for (int64_t d = 0, k = 0; d < x.dim(); ++d) {
    if (has(d)) continue;
    sizes[size_t(d)] = out.sizes()[size_t(k)];
    strides[size_t(d)] = out.strides()[size_t(k++)];
  }
  return out.alias(sizes, strides, out.offset());
}

int64_t ReducedDims::folded(const Tensor& x) const {
  int64_t n = 1;
  for (int64_t d = 0; d < x.dim(); ++d) n *= has(d) ? x.sizes()[size_t(d)] : 1;
  return n;
}

Tensor restore_dims(const Tensor& reduced, int64_t rank, const char* op, const std::optional<IntList>& dims, bool keepdim) {
  if (keepdim || rank == 0) return reduced;
  Dims sizes(uint32_t(rank), 1);
  std::bitset<kMaxDims> folded;
  if (!dims || dims->empty()) folded.set();
  else for (int64_t d : *dims) folded.set(size_t(wrap_dim(op, d, rank)));
  for (int64_t d = 0, k = 0; d < rank; ++d) {
    if (!folded[size_t(d)]) sizes[size_t(d)] = reduced.sizes()[size_t(k++)];
  }
  return reshape(reduced, sizes);
}

struct Sum {
  static constexpr const char* name = "sum";
  static Spec check(const Tensor& x, const std::optional<IntList>& dim, bool keepdim, std::optional<DType> dtype) {
    const bool exact = category(x.dtype()) <= Category::Integer;
    return {ReducedDims(name, x, dim).shape(x, keepdim), dtype.value_or(exact ? DType::Int64 : x.dtype()), x.device()};
  }
  static void run(const Tensor& x, const std::optional<IntList>& dim, bool, std::optional<DType>, const Tensor& out) {
    reduce(ReduceFn::Sum, x, ReducedDims(name, x, dim).keepdim_view(x, out));
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const std::optional<IntList>& dim, bool keepdim, std::optional<DType>) {
    return {expand(restore_dims(g, c.sizes(0).size(), name, dim, keepdim), c.sizes(0))};
  }
};

}  // namespace rush

#include "ops/reduction.inc"
