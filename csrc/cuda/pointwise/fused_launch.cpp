#include "cuda/pointwise/fused_launch.h"

#include <algorithm>

#include "cuda/runtime/loops.h"

namespace rush::cuda {

namespace {

bool is_aligned(const void* p, int64_t bytes) {
  return (reinterpret_cast<uintptr_t>(p) & uintptr_t(bytes - 1)) == 0;
}

}  // namespace

FusedLaunch::FusedLaunch(const FusedWork& work) : work_(work), out_(work.outputs[0].out) {
  args_.n = out_.numel();
  for (size_t o = 0; o < work.outputs.size(); ++o) args_.out[o] = work.outputs[o].out.data();
  for (size_t i = 0; i < work.inputs.size(); ++i) look_at(i);
  if (form_.nest || work.join) lie_in_nest();
  choose_width();
}

void FusedLaunch::look_at(size_t input) {
  const Tensor& x = work_.inputs[input];
  if (!x.is_cuda() && (out_.is_cuda() || x.is_wrapped_number())) {  // it travels with the launch
    args_.numbers[input] = to_number(x.item());
    form_.lies[input] = InputLies::Number;
    return;
  }
  args_.in[input] = x.data();
  const bool same =
      part(input) == 0 && (x.is_contiguous() && out_.is_contiguous()
                               ? x.numel() == out_.numel()
                               : x.sizes() == out_.sizes() && x.strides() == out_.strides());
  form_.lies[input] = same ? InputLies::Flat : x.numel() == 1 ? InputLies::Single : InputLies::Row;
  form_.nest = form_.nest || form_.lies[input] == InputLies::Row;
}

// Some input lies otherwise than the outputs, or its strides look so.
void FusedLaunch::lie_in_nest() {
  std::array<const TensorImpl*, kOperands> operands{out_.impl()};
  for (size_t i = 0; i < work_.inputs.size(); ++i) {
    const bool moves = reads(i) && form_.lies[i] != InputLies::Single;
    operands[i + 1] = moves ? work_.inputs[i].impl() : nullptr;
  }
  if (work_.join)
    walk_over_join(operands);
  else
    walk_ = walk_over<kOperands>(operands);
  form_.nest = work_.join != nullptr;
  for (size_t i = 0; i < work_.inputs.size(); ++i) {
    if (form_.lies[i] != InputLies::Row || part(i) > 0) continue;
    bool same = true;
    for (size_t d = 0; d < size_t(walk_.dims); ++d)
      same = same && walk_.strides[d][i + 1] == walk_.strides[d][0];
    if (same) form_.lies[i] = InputLies::Flat;
    form_.nest = form_.nest || !same;
  }
  form_.long_nest = form_.nest && !walk_.is_short();
}

// The dim of the join is one more input, whose address is the index. Parts are addressed as if they
// had all of it.
void FusedLaunch::walk_over_join(const std::array<const TensorImpl*, kOperands>& operands) {
  const FusedJoin& join = *work_.join;
  const Dims& sizes = out_.sizes();
  const size_t inputs = work_.inputs.size(), dim = size_t(join.dim);
  for (size_t d = 0; d < sizes.size(); ++d) {
    std::array<int64_t, kOperands> steps;
    for (size_t o = 0; o < steps.size(); ++o) steps[o] = stride_along(operands[o], d, sizes.size());
    steps[inputs + 1] = d == dim;
    walk_.add(sizes[d], steps);
  }
  walk_.coalesce();
  args_.numbers[inputs] = to_number(join.second);
  for (size_t i = 0; i < inputs; ++i) {
    if (part(i) != 2 || !operands[i + 1]) continue;
    const int64_t step = stride_along(operands[i + 1], dim, sizes.size());
    args_.in[i] = reinterpret_cast<const void*>(
        reinterpret_cast<uintptr_t>(args_.in[i]) -
        uintptr_t(join.second * step * work_.inputs[i].element_size()));
  }
}

// Can packs of this width be taken along the innermost dim?
bool FusedLaunch::fits(int64_t width) const {
  if (work_.join && walk_.strides[0][work_.inputs.size() + 1] != 0 && work_.join->second % width)
    return false;
  for (const FusedOutput& o : work_.outputs)
    if (!is_aligned(o.out.data(), width * o.out.element_size())) return false;
  if (form_.nest && (form_.long_nest || walk_.dims > kNestDims || walk_.sizes[0] % width))
    return false;
  for (size_t i = 0; i < work_.inputs.size(); ++i) {
    const bool row = form_.lies[i] == InputLies::Row;
    if (!row && form_.lies[i] != InputLies::Flat) continue;
    if (row && walk_.strides[0][i + 1] == 0) continue;
    if (!is_aligned(args_.in[i], width * work_.inputs[i].element_size())) return false;
    if (row && walk_.strides[0][i + 1] != 1) return false;
    for (size_t d = 1; row && d < size_t(walk_.dims); ++d)
      if (walk_.strides[d][i + 1] % width) return false;
  }
  return true;
}

// Packs are 16 bytes of the widest operand.
void FusedLaunch::choose_width() {
  int64_t widest = 1;
  for (const FusedOutput& o : work_.outputs) widest = std::max(widest, o.out.element_size());
  for (size_t i = 0; i < work_.inputs.size(); ++i)
    if (reads(i)) widest = std::max(widest, work_.inputs[i].element_size());
  const int64_t width = 16 / widest;
  if (width == 1 || !fits(width)) return;
  form_.width = int(width);
  if (!form_.nest) return;
  for (size_t i = 0; i < work_.inputs.size(); ++i) {
    if (form_.lies[i] == InputLies::Row && walk_.strides[0][i + 1] == 0)
      form_.lies[i] = InputLies::Column;
  }
  args_.n /= width;
  walk_.numel /= width;
  walk_.sizes[0] /= width;
  for (int64_t& step : walk_.strides[0]) step *= width;
}

FusedArgs FusedLaunch::part(const Offsets& offsets, int64_t count) const {
  FusedArgs out = args_;
  out.n = count;
  if (work_.join) {
    const size_t dim = work_.inputs.size();
    out.numbers[dim] = to_number(work_.join->second - offsets[dim + 1]);
  }
  for (size_t o = 0; o < work_.outputs.size(); ++o)
    out.out[o] = static_cast<char*>(out.out[o]) + offsets[0] * work_.outputs[o].out.element_size();
  for (size_t i = 0; i < work_.inputs.size(); ++i) {
    if (reads(i))
      out.in[i] =
          static_cast<const char*>(out.in[i]) + offsets[i + 1] * work_.inputs[i].element_size();
  }
  return out;
}

}  // namespace rush::cuda
