// A step over rows with pointwise steps before and after it, by one kernel.
#include "cuda/pointwise/fused_rows.h"

#include "cuda/nn/channel_choice.h"
#include "cuda/nn/group_choice.h"
#include "cuda/runtime/compile_thread.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"

namespace rush::cuda {

namespace {

bool is_backward(RowOp fn) {
  return fn == RowOp::NormBackward || fn == RowOp::SoftmaxBackward ||
         fn == RowOp::LogSoftmaxBackward;
}

DType parameter_type(const RowStep& row, DType type) {
  const bool backward = row.fn == RowOp::NormBackward;
  const Tensor& other = backward ? row.beside[0] : row.with[1];
  return row.with[0].defined() ? row.with[0].dtype() : other.defined() ? other.dtype() : type;
}

}  // namespace

std::optional<FusedRowsLaunch> FusedRowsLaunch::of(const FusedWork& work, int64_t processors) {
  FusedRowsLaunch l(work);
  for (const FusedStep& s : work.steps)
    if (s.row) l.step_ = &s;
  const Tensor& out = work.lying();
  // Rows of the program's, or points with their channels.
  const bool along = is_contiguous(out.sizes(), out.strides());
  const bool points = l.has_groups() || l.has_channels();
  if (points ? along || out.dim() != 4 || out.strides()[1] != 1 : !along) return {};
  l.args_.n = out.numel();
  for (size_t o = 0; o < work.outputs.size(); ++o) l.args_.out[o] = work.outputs[o].out.data();
  for (size_t i = 0; i < work.inputs.size(); ++i)
    if (!l.look_at(i)) return {};
  for (int i = 0; i < l.step_->operand_count(); ++i) {
    const size_t value = l.step_->operands[size_t(i)];
    if (value < work.inputs.size() && l.form_.lies[value] != InputLies::Flat) return {};
  }
  if (l.has_channels() ? !l.choose_channels(processors)
      : l.has_groups() ? !l.choose_groups(processors)
                       : !l.choose(processors))
    return {};
  return l;
}

// Along rows, one element per row, one for all, or like the outputs.
bool FusedRowsLaunch::look_at(size_t input) {
  const Tensor& x = work_.inputs[input];
  const int64_t n = args_.n, width = step_->row->width;
  if (work_.normal && work_.normal->input == input) {
    form_.lies[input] = InputLies::Normal;
    return row().fn == RowOp::ChannelsBackward || row().fn == RowOp::ChannelSums;
  }
  if (!x.is_cuda() && (work_.lying().is_cuda() || x.is_wrapped_number())) {
    args_.numbers[input] = to_number(x.item());
    form_.lies[input] = InputLies::Number;
    return true;
  }
  args_.in[input] = x.data();
  if (has_groups() || has_channels()) {
    const Tensor& out = work_.lying();
    const bool flat = x.sizes() == out.sizes() && x.strides() == out.strides();
    form_.lies[input] = flat ? InputLies::Flat : InputLies::Single;
    return flat || x.numel() == 1;
  }
  int64_t last = 1;  // elements of the last dims of the outputs that make up a row
  size_t row_dims = 0;
  while (last < width && row_dims < work_.sizes.size())
    last *= work_.sizes[work_.sizes.size() - ++row_dims];
  const size_t dims = size_t(x.dim()), missing = work_.sizes.size() - dims;
  const auto spans = [&](size_t from, size_t to) {  // has it the outputs' sizes there?
    for (size_t d = from; d < to; ++d)
      if ((d < missing ? 1 : x.sizes()[d - missing]) != work_.sizes[d]) return false;
    return true;
  };
  const auto is_one = [&](size_t from, size_t to) {
    for (size_t d = std::max(from, missing); d < to; ++d)
      if (x.sizes()[d - missing] != 1) return false;
    return true;
  };
  const size_t all = work_.sizes.size(), split = all - row_dims;
  InputLies& lies = form_.lies[input];
  if (x.numel() == 1)
    lies = InputLies::Single;
  else if (!x.is_contiguous() || last != width)
    return false;
  else if (x.numel() == n && spans(0, all))
    lies = InputLies::Flat;
  else if (spans(split, all) && is_one(0, split))
    lies = InputLies::Along;
  else if (spans(0, split) && is_one(split, all))
    lies = InputLies::Across;
  else
    return false;
  return true;
}

// Would the step by itself read packs? All others have to be aligned to them, too.
bool FusedRowsLaunch::packs() const {
  const RowStep& row = *step_->row;
  const int64_t width = pack_of(step_->compute);
  if (row.width % width != 0) return false;
  const size_t parameters = row.fn == RowOp::Norm ? 2 : row.fn == RowOp::NormBackward ? 1 : 0;
  for (size_t i = 0; i < parameters; ++i)
    if (!aligned({data_or_null(row.with[i])})) return false;
  for (int i = 0; i < step_->operand_count(); ++i) {
    const size_t value = step_->operands[size_t(i)];
    if (value < work_.inputs.size() && !aligned({args_.in[value]})) return false;
  }
  return true;
}

bool FusedRowsLaunch::choose(int64_t processors) {
  const RowStep& row = *step_->row;
  const DType type = step_->compute;
  const int64_t rows = args_.n / row.width, width = packs() ? pack_of(type) : 1;
  const bool backward = is_backward(row.fn);
  is_softmax_ = row.fn != RowOp::Norm && row.fn != RowOp::NormBackward;
  for (size_t i = 0; i < work_.inputs.size(); ++i) {
    const InputLies lies = form_.lies[i];
    if ((lies == InputLies::Flat || lies == InputLies::Along) &&
        !aligned({args_.in[i]}, width * work_.inputs[i].element_size()))
      return false;
  }
  form_.width = int(width);
  RowChoice choice;
  if (row.fn == RowOp::NormBackward) {
    const WholeChoice whole = row_norm_whole_choice(type, rows, row.width, processors);
    choice = {whole.team, whole.held};
    blocks_ = whole.blocks;
    grid_ = {unsigned(whole.blocks)};
  } else {
    choice = is_softmax_ ? softmax_choice(type, row.width)
                         : row_norm_choice(type, rows, row.width, processors);
    grid_ = blocks_of_teams(rows, choice.team);
  }
  if (choice.held == 0) return false;
  const bool flag = is_softmax_ ? row.fn == RowOp::LogSoftmax || row.fn == RowOp::LogSoftmaxBackward
                                : row.centred;
  const std::string parameters =
      is_softmax_ ? std::string() : concat(", ", kernel_type(parameter_type(row, type)));
  kernel_ =
      concat("rush::fused_", is_softmax_ ? "softmax" : "row_norm", backward ? "_backward" : "",
             "<rush::Work, ", type_pair(type), parameters, ", ", kTeams[choice.team], ", ", width,
             ", ", choice.held / width, flag ? ", true>" : ", false>");
  if (is_softmax_) {
    softmax_ = {nullptr, nullptr, nullptr, rows, row.width, 1};
    return true;
  }
  norm_.weight = data_or_null(row.with[0]);
  norm_.bias = backward ? nullptr : data_or_null(row.with[1]);
  const Tensor &mean = backward ? row.with[1] : row.beside[0],
               &rstd = backward ? row.with[2] : row.beside[1];
  norm_.mean = const_cast<void*>(data_or_null(mean));
  norm_.rstd = rstd.data();
  norm_.rows = rows;
  norm_.width = row.width;
  norm_.eps = row.eps;
  return true;
}

// What all inputs and outputs are aligned to, at most `width`.
int64_t FusedRowsLaunch::narrowest(int64_t width) const {
  const auto narrow = [&](const void* place, int64_t bytes) {
    while (!aligned({place}, width * bytes)) width /= 2;
  };
  for (size_t i = 0; i < work_.inputs.size(); ++i)
    if (form_.lies[i] == InputLies::Flat) narrow(args_.in[i], work_.inputs[i].element_size());
  for (const FusedOutput& o : work_.outputs) narrow(o.out.data(), o.out.element_size());
  return width;
}

// Blocks share an image as they do in group_norm.cu; no sums are taken, so packs may be narrower.
bool FusedRowsLaunch::choose_groups(int64_t processors) {
  const DType type = step_->compute;
  const Tensor& x = work_.outputs[0].out;  // it lies as the operands do
  groups_ = group_args(row(), x);
  const int64_t width = narrowest(widest_pack(type, groups_.channels, {}));
  form_.width = int(width);
  grid_ = cut_into_parts(groups_, width, kMapParts, processors);
  const char* kind = row().fn == RowOp::Groups ? "GroupNormalize" : "GroupInputGrad";
  const char *t = kernel_type(type), *w = kernel_type(group_parameters(row(), type));
  kernel_ = concat("rush::fused_group_map<rush::Work, rush::", kind, "<", t, ", ", w, ", ",
                   compute_name(type), ">, ", t, ", ", width, ">");
  return true;
}

// As batch_norm.cpp does. Sums have its packs, or their order would be another.
bool FusedRowsLaunch::choose_channels(int64_t processors) {
  const DType type = step_->compute;
  channels_ = channel_args(row(), work_.lying());
  const bool adds = row().fn == RowOp::ChannelSums;
  const int64_t columns = adds ? kNormColumns : kMapColumns;
  const ChannelShape widest(type, channels_, {}, columns);
  const ChannelShape shape(channels_, int(narrowest(widest.width)), columns);
  if (adds && shape.width != widest.width) return false;
  form_.width = shape.width;
  channels_.columns = i32(shape.columns);
  const char *t = kernel_type(type), *c = compute_name(type);
  const char* w = kernel_type(channel_parameters(row(), row().beside, type));
  std::string of_x;  // see FusedNormal
  if (work_.normal) {
    const RowStep& made = *work_.normal->row;
    channels_.weight = data_or_null(made.with[0]);
    channels_.bias = data_or_null(made.with[1]);
    of_x = concat(", rush::Normalize<", t, ", ", kernel_type(channel_parameters(made, {}, type)),
                  ", ", kernel_type(channel_moments(made)), ", ", c, ">");
  }
  if (adds) {
    const auto& beside = row().beside;
    channels_.sums = beside[0].data();
    channels_.gw = const_cast<void*>(data_or_null(beside[1]));
    channels_.gb = const_cast<void*>(data_or_null(beside[2]));
    grid_ = {unsigned(shape.tiles),
             unsigned((channels_.rows + channels_.segment - 1) / channels_.segment)};
    kernel_ = concat("rush::fused_channel_sums<rush::Work, rush::GradSums<", t, ", ", w, ", ", c,
                     ">, ", t, ", ", c, ", ", shape.width, of_x, ">");
    return true;
  }
  grid_ = map_grid(shape, channels_, processors);
  const char* kind = row().fn == RowOp::Channels ? "Normalize" : "InputGrad";
  kernel_ =
      concat("rush::fused_channel_map<rush::Work, rush::", kind, "<", t, ", ", w, ", ",
             kernel_type(channel_moments(row())), ", ", c, ">, ", t, ", ", shape.width, of_x, ">");
  return true;
}

bool run_fused_rows(const FusedWork& work) {
  const Device on = work.lying().device();
  std::optional<FusedRowsLaunch> l = FusedRowsLaunch::of(work, processors_of(work.lying()));
  if (!l) return false;
  const CUfunction kernel =
      CompileThread::get().find(l->key(), on.index, work.wait, [&] { return l->source(); });
  if (!kernel) return false;
  std::array<Number, 4 * kFusedSteps> params;
  size_t count = 0;
  for (const FusedStep& s : work.steps)
    for (size_t i = 0; i < s.params_count; ++i) params[count++] = to_number(s.params[i]);
  const RowStep& row = l->row();
  Tensor partial;
  if (l->blocks() > 0) {
    partial = make_tensor(Dims{l->blocks(), 2, row.width}, compute_dtype(l->type()), on);
    l->give_sums(partial);
  } else if (l->segments() > 1) {
    partial = make_tensor(Dims{l->segments(), 2, row.width}, compute_dtype(l->type()), on);
    l->give_sums(partial, stream_counters(on.index, l->grid().x));
  }
  FusedArgs args = l->args();
  void* all[] = {l->row_args(), &args, params.data()};
  launch(kernel, on.index, l->grid(), {kThreads}, all);
  if (l->blocks() > 0)
    join_row_sums(partial, l->blocks(), row.width, l->type(), row.beside[0], row.beside[1],
                  on.index);
  return true;
}

}  // namespace rush::cuda
