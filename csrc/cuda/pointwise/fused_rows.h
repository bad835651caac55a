// fused_rows.h: from a FusedWork with a step over rows to its kernel's instance and arguments.
#pragma once

#include <optional>

#include "core/export.h"
#include "cuda/kernels/fused_args.h"
#include "cuda/nn/row_choice.h"
#include "cuda/pointwise/fused_source.h"

namespace rush::cuda {

// The work must outlive it, and have at least one element.
class RUSH_API FusedRowsLaunch {
 public:
  // For a GPU of so many processors. None: there is no kernel for it.
  static std::optional<FusedRowsLaunch> of(const FusedWork& work, int64_t processors);

  const FusedForm& form() const { return form_; }
  const std::string& kernel() const { return kernel_; }
  std::string key() const { return kernel_ + fused_key(work_, form_); }
  GeneratedSource source() const { return fused_rows_source(work_, form_, kernel_); }

  const FusedArgs& args() const { return args_; }
  // Of RowNormArgs, SoftmaxArgs, GroupNormArgs or BatchNormArgs, whichever the kernel takes.
  void* row_args() {
    if (has_channels()) return &channels_;
    if (has_groups()) return &groups_;
    return is_softmax_ ? static_cast<void*>(&softmax_) : &norm_;
  }
  Grid grid() const { return grid_; }
  // For the backward pass of norms: the sums of its blocks, which are to be joined.
  int64_t blocks() const { return blocks_; }
  // For the sums of channels: as many parts, which the last block joins. It needs counters for that.
  int64_t segments() const { return row().fn == RowOp::ChannelSums ? int64_t(grid_.y) : 1; }
  void give_sums(const Tensor& partial, u32* counters = nullptr) {
    norm_.partial = channels_.partial = partial.data();
    channels_.counters = counters;
  }
  const RowStep& row() const { return *step_->row; }
  DType type() const { return step_->compute; }

 private:
  explicit FusedRowsLaunch(const FusedWork& work) : work_(work) {}
  bool look_at(size_t input);
  bool packs() const;
  bool choose(int64_t processors);
  int64_t narrowest(int64_t width) const;
  bool choose_groups(int64_t processors);
  bool choose_channels(int64_t processors);
  bool has_groups() const { return row().fn == RowOp::Groups || row().fn == RowOp::GroupsBackward; }
  bool has_channels() const { return row().fn >= RowOp::Channels; }

  const FusedWork& work_;
  const FusedStep* step_ = nullptr;
  FusedForm form_{};
  FusedArgs args_{};
  RowNormArgs norm_{};
  SoftmaxArgs softmax_{};
  GroupNormArgs groups_{};
  BatchNormArgs channels_{};
  bool is_softmax_ = false;
  std::string kernel_;
  Grid grid_{};
  int64_t blocks_ = 0;
};

// False: nothing was done.
bool run_fused_rows(const FusedWork& work);

}  // namespace rush::cuda
