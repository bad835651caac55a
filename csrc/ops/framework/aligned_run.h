// aligned_run.h: a block whose tensors are misaligned runs over aligned copies of them. See Note
// [Misaligned memory] in core/misaligned.h.
#pragma once

#include <utility>
#include <vector>

#include "core/misaligned.h"
#include "ops/framework/value.h"

namespace rush {

// The copies of one call's misaligned tensors; others are handed on. A tensor that is passed twice
// has one copy.
class RUSH_API AlignedCopies {
 public:
  Tensor of(const Tensor& t);
  std::vector<Tensor> of(TensorList ts);
  template <class A>
  const A& of(const A& other) {
    return other;
  }
  // What the block changed, be it a result or an argument (running statistics), goes back to where
  // it belongs.
  void write_back() const;

 private:
  std::vector<std::pair<Tensor, Tensor>> pairs_;  // original, copy
};

template <class Op, class... A>
[[gnu::noinline, gnu::cold]] void run_aligned(const A&... args) {
  AlignedCopies copies;
  [&](const auto&... copy) { Op::run(copy...); }(copies.of(args)...);
  copies.write_back();
}

}  // namespace rush
