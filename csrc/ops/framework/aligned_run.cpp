#include "ops/framework/aligned_run.h"

#include <cstring>

#include "core/shape.h"
#include "ops/framework/data.h"

namespace rush {
namespace {

// Blocks may count on the layout of their results, so it is kept where it is a dense one.
Tensor aligned_copy(const Tensor& t) {
  const Tensor copy = is_dense(t.sizes(), t.strides())
                          ? make_tensor(t.sizes(), t.strides(), t.dtype(), Device{})
                          : make_tensor(t.sizes(), t.dtype());
  copy_data(copy, t);
  return copy;
}

}  // namespace

Tensor AlignedCopies::of(const Tensor& t) {
  if (!t.defined() || !is_misaligned(t)) return t;
  for (const auto& [original, copy] : pairs_)
    if (original.is_same(t)) return copy;
  return pairs_.emplace_back(t, aligned_copy(t)).second;
}

std::vector<Tensor> AlignedCopies::of(TensorList ts) {
  std::vector<Tensor> out;
  for (const Tensor& t : ts) out.push_back(of(t));
  return out;
}

void AlignedCopies::write_back() const {
  // Two of them may be one place in memory, as in x.add_(x[:]): all are compared before one is
  // written.
  std::vector<bool> changed;
  for (const auto& [original, copy] : pairs_) {
    const Tensor before = aligned_copy(original);
    changed.push_back(std::memcmp(before.data(), copy.data(), size_t(copy.nbytes())) != 0);
  }
  for (size_t i = 0; i < pairs_.size(); ++i)
    if (changed[i]) copy_data(pairs_[i].first, pairs_[i].second);
}

}  // namespace rush
