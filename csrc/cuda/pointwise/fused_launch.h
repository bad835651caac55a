// fused_launch.h: from a FusedWork to the form and the arguments of its kernel.
#pragma once

#include "core/export.h"
#include "cuda/kernels/fused_args.h"
#include "cuda/pointwise/fused_source.h"
#include "cuda/runtime/nest.h"

namespace rush::cuda {

static_assert(kMostFusedInputs == kFusedInputs && kMostFusedOutputs == kFusedOutputs &&
              kMostFusedSteps == kFusedSteps);

// The work must outlive it, and have an output of at least one element.
class RUSH_API FusedLaunch {
 public:
  static constexpr int kOperands = kMostFusedInputs + 1;  // the outputs count as one
  using Offsets = std::array<int64_t, kOperands>;

  explicit FusedLaunch(const FusedWork& work);

  const FusedForm& form() const { return form_; }
  const FusedArgs& args() const { return args_; }
  const Walk<kOperands>& walk() const { return walk_; }  // over packs; only where form() is a nest
  // The arguments for a part of the nest, whose first elements are at these offsets.
  FusedArgs part(const Offsets& offsets, int64_t count) const;

 private:
  bool reads(size_t input) const { return form_.lies[input] != InputLies::Number; }
  // See Note [Parts of a join].
  int part(size_t input) const { return work_.join ? work_.join->part[input] : 0; }
  void look_at(size_t input);
  void lie_in_nest();
  void walk_over_join(const std::array<const TensorImpl*, kOperands>& operands);
  bool fits(int64_t width) const;
  void choose_width();

  const FusedWork& work_;
  const Tensor& out_;
  FusedArgs args_{};
  FusedForm form_{};
  Walk<kOperands> walk_;
};

}  // namespace rush::cuda
