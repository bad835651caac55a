#include "device/deferred_plan.h"

#include <algorithm>
#include <bit>

#include "core/layout.h"
#include "device/copy.h"
#include "device/deferred.h"
#include "device/nn/norm.h"
#include "device/nn/softmax.h"
#include "device/reduce.h"

namespace rush::deferred {

namespace {

using Kind = FusedStep::Kind;

void run_rows_alone(const Recipe& r, std::span<const Tensor> x, const Tensor& out,
                    std::span<const Tensor> beside) {
  const RowStep& row = *r.row;
  const int64_t last = out.dim() - 1;
  switch (row.fn) {
    case RowOp::Norm:
      return norm_loops(out).row_norm(x[0], row.width, row.with[0], row.with[1], row.centred,
                                      row.eps, out, beside[0], beside[1]);
    case RowOp::NormBackward:
      return norm_loops(out).row_norm_backward(x[0], x[1], row.width, row.with[0], row.with[1],
                                               row.with[2], row.centred, out, beside[0], beside[1]);
    case RowOp::Softmax:
    case RowOp::LogSoftmax:
      softmax_loops(out).softmax(x[0], last, row.fn == RowOp::LogSoftmax, out);
      return;
    case RowOp::SoftmaxBackward:
    case RowOp::LogSoftmaxBackward:
      return softmax_loops(out).backward(x[0], x[1], last, row.fn == RowOp::LogSoftmaxBackward,
                                         out);
    case RowOp::Fold: {
      const auto seen = [&](const Tensor& t, int64_t width) {
        return make_tensor(t.storage(), Dims{row.rows, width}, Dims{width, 1}, t.offset(),
                           t.dtype());
      };
      return reduce(row.fold, seen(x[0], row.width), seen(beside[0], 1));
    }
    case RowOp::Groups:
    case RowOp::GroupsBackward:
      return norm_loops(out).scale_groups(row, x, out);
    case RowOp::Channels:
    case RowOp::ChannelsBackward:
      return norm_loops(out).scale_channels(row, x, out);
    case RowOp::ChannelSums:
      return norm_loops(out).channel_sums(row, x, beside);
    case RowOp::Scale: {  // has no loops of its own
      FusedStep step;
      step.kind = Kind::Rows;
      step.fn = r.fn;
      step.compute = step.result = r.compute;
      step.row = &row;
      const FusedOutput output{0, out};
      const bool done = fused_loops(out).run({out.sizes(), x, {&step, 1}, {&output, 1}, true});
      internal_assert(done, "a step over channels could not be run by itself");
    }
  }
}

bool same_layout(const Tensor& a, const Tensor& b) {
  return a.device() == b.device() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

// Not in a group yet.
constexpr int16_t kLive = kMostWaiting;

// Who is wanted, and who is not computed at all (group -1; all others have kLive). Returns how many
// steps read each.
PerStep<uint32_t> find_live(const std::vector<Recipe>& steps, Plan& plan) {
  const size_t n = steps.size();
  std::fill_n(plan.kept.begin(), n, 0);
  std::fill_n(plan.group.begin(), n, -1);
  PerStep<uint32_t> readers, held;  // held by the recipes: as a result, by readers
  std::fill_n(readers.begin(), n, 0);
  std::fill_n(held.begin(), n, 1);
  const auto count = [&](size_t s, PerStep<uint32_t>& of) {
    for (int i = 0; i < steps[s].operand_count(); ++i)
      if (const int at = plan.maker(s, i); at >= 0) ++of[size_t(at)];
  };
  for (size_t s = 0; s < n; ++s) count(s, held);
  for (size_t s = 0; s < n; ++s)
    plan.wanted[s] = steps[s].out.impl()->use_count() > held[s] + holds_form(steps[s]);
  std::copy_n(plan.wanted.begin(), n, plan.held.begin());
  for (size_t s = 0; s < n; ++s) {
    plan.again[s] = plan.leaves_recipes && !plan.wanted[s] && pays_again(steps, s, plan.held);
    if (!plan.again[s] && holds_form(steps[s])) plan.wanted[s] = plan.held[s] = 1;
  }
  for (size_t s = n; s-- > 0;) {
    if (!plan.wanted[s] && readers[s] == 0 && !steps[s].is_wanted_beside()) continue;
    plan.group[s] = kLive;
    count(s, readers);
  }
  return readers;
}

// Which steps come with a join: those of an operand's shape that nobody else reads. A variable of the program's
// may hold such a result without ever using it again. So, unless it is what is asked for, one step from
// memory comes all the same, and waits on: if it is wanted later, it is computed then.
void find_parts(const std::vector<Recipe>& steps, Plan& plan, const PerStep<uint32_t>& readers,
                const TensorImpl* asked) {
  std::fill_n(plan.join.begin(), steps.size(), -1);
  std::fill_n(plan.part.begin(), steps.size(), 0);
  std::fill_n(plan.stays.begin(), steps.size(), 0);
  const auto may_stay = [&](size_t s) {
    if (!asked || steps[s].out.impl() == asked || holds_form(steps[s])) return false;
    for (int i = 0; i < steps[s].operand_count(); ++i)
      if (plan.maker(s, i) >= 0) return false;
    return true;
  };
  for (size_t s = steps.size(); s-- > 0;) {
    const bool joins = steps[s].kind == Kind::Join && plan.group[s] >= 0;
    for (int i = 0; (joins || plan.join[s] >= 0) && i < steps[s].operand_count(); ++i) {
      const int at = plan.maker(s, i);
      if (at < 0) continue;
      const Recipe& r = steps[size_t(at)];
      const bool wanted = plan.wanted[size_t(at)];
      const bool alone = readers[size_t(at)] == 1 && (!wanted || may_stay(size_t(at)));
      const bool fits = joins || r.out.sizes() == steps[s].out.sizes();
      if (!alone || !fits || r.kind == Kind::Rows || r.kind == Kind::Join) continue;
      plan.stays[size_t(at)] = wanted;
      plan.join[size_t(at)] = joins ? int16_t(s) : plan.join[s];
      plan.part[size_t(at)] = joins ? uint8_t(i + 1) : plan.part[s];
    }
  }
}

// Calls f with the step, after those that come with it.
template <class F>
void each_with(const std::vector<Recipe>& steps, const Plan& plan, size_t s, F&& f) {
  for (size_t other = 0; steps[s].kind == Kind::Join && other < s; ++other)
    if (plan.join[other] == int(s)) f(other);
  f(s);
}

// Calls f for what the steps, this one and those that come with it, read from elsewhere.
template <class F>
void each_input(const std::vector<Recipe>& steps, const Plan& plan, size_t s, F&& f) {
  each_with(steps, plan, s, [&](size_t own) {
    for (int i = 0; i < steps[own].operand_count(); ++i) {
      const int at = plan.maker(own, i);
      if (at < 0 || plan.join[size_t(at)] < 0) f(at, plan.input_of(steps[own], own, i));
    }
  });
}

// Calls f for each of these that group number g neither gives nor reads already.
template <class F>
void each_new_input(const std::vector<Recipe>& steps, const Plan& plan, int g, size_t s, F&& f) {
  const auto& known = plan.groups[size_t(g)].inputs;
  each_input(steps, plan, s, [&](int at, const GroupInput& input) {
    if (at >= 0 && plan.group[size_t(at)] == g) return;
    if (std::ranges::find(known, input) == known.end()) f(input);
  });
}

// Which of the groups may the step join, whose inputs come from the groups `needs`? -1: none.
int group_for(const std::vector<Recipe>& steps, const Plan& plan, size_t s, uint64_t needs) {
  const std::vector<Group>& groups = plan.groups;
  // It need not be written if it shares the pass of the step that it is for.
  const bool awaits_row =
      std::ranges::any_of(plan.known, [&](const KnownInput& k) { return k.gradient == s; });
  for (int g = int(groups.size()) - 1; g >= 0; --g) {
    const Group& group = groups[size_t(g)];
    if (!same_layout(steps[group.last()].out, steps[s].out)) continue;
    const bool joins = steps[s].kind == Kind::Join;
    if ((group.has_rows || group.has_join) && (steps[s].row || joins)) continue;
    if (group.has_rows && awaits_row) continue;
    size_t count = group.steps.size();
    each_with(steps, plan, s, [&](size_t) { ++count; });
    if (count > kFusedSteps) continue;
    bool in_between = false;  // is there a group that needs this one, and that the step needs?
    for (uint64_t left = needs & ~(uint64_t(1) << g); left && !in_between; left &= left - 1)
      in_between = groups[size_t(std::countr_zero(left))].after >> g & 1;
    if (in_between) continue;
    size_t inputs = group.inputs.size() + (joins || group.has_join);
    each_new_input(steps, plan, g, s, [&](const GroupInput&) { ++inputs; });
    if (inputs <= kFusedInputs) return g;
  }
  return -1;
}

void join(const std::vector<Recipe>& steps, Plan& plan, int joined, size_t s, uint64_t needs) {
  std::vector<Group>& groups = plan.groups;
  Group& group = groups[size_t(joined)];
  uint64_t after = group.after;
  for (uint64_t left = needs & ~(uint64_t(1) << joined); left; left &= left - 1) {
    const int g = std::countr_zero(left);
    after |= uint64_t(1) << g | groups[size_t(g)].after;
  }
  group.after = after;
  for (Group& other : groups) {
    if (other.after >> joined & 1) other.after |= after;
  }
  each_new_input(steps, plan, joined, s,
                 [&](const GroupInput& input) { group.inputs.push_back(input); });
  each_with(steps, plan, s, [&](size_t own) {
    plan.group[own] = int16_t(joined);
    plan.place[own] = uint16_t(group.steps.size());
    group.steps.push_back(uint16_t(own));
  });
  group.has_rows |= steps[s].row != nullptr;
  group.has_join |= steps[s].kind == Kind::Join;
}

}  // namespace

bool Recipe::gives(const TensorImpl* form) const {
  if (out.impl() == form) return true;
  return row && std::ranges::any_of(row->beside, [&](const Tensor& t) { return t.impl() == form; });
}

bool Recipe::is_wanted_beside() const {
  return row && std::ranges::any_of(row->beside, [](const Tensor& t) {
           return t.defined() && t.impl()->use_count() > 1;
         });
}

bool lie_alike(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() &&
         (a.strides() == b.strides() ||
          (is_contiguous(a.sizes(), a.strides()) && is_contiguous(b.sizes(), b.strides())));
}

std::string name_of(const Recipe& r) {
  if (r.sums) return "sum";
  if (r.product) return r.product->name;
  if (r.kind == Kind::Rows) {
    static constexpr const char* names[] = {"layer_norm",
                                            "layer_norm_backward",
                                            "softmax",
                                            "log_softmax",
                                            "softmax_backward",
                                            "log_softmax_backward",
                                            "batch_or_group_norm",
                                            "",
                                            "batch_or_group_norm",
                                            "batch_or_group_norm_backward",
                                            "batch_or_group_norm",
                                            "batch_or_group_norm_backward",
                                            "batch_norm_sums"};
    if (r.row->fn == RowOp::Fold) return r.row->name;
    if (!r.row->centred && r.row->fn == RowOp::Norm) return "rms_norm";
    if (!r.row->centred && r.row->fn == RowOp::NormBackward) return "rms_norm_backward";
    return names[int(r.row->fn)];
  }
  if (r.kind == Kind::Join) return "cat";
  const char* camel = r.kind == Kind::Unary     ? info(UnaryFn(r.fn)).name
                      : r.kind == Kind::Binary  ? info(BinaryFn(r.fn)).name
                      : r.kind == Kind::Ternary ? info(TernaryFn(r.fn)).name
                                                : "Convert";
  return op_name_of(camel);
}

void run_alone(const Recipe& r, std::span<const Tensor> operands, const Tensor& out,
               std::span<const Tensor> beside) {
  if (r.sums) return list_loops(out).column_sums({r.sums.get(), 1}, {&out, 1});
  if (r.product) {
    r.product->run(r.operands, out, false);  // its operands have memory, in every thread
    return;
  }
  const PointwiseLoops& loops = pointwise_loops(out);
  switch (r.kind) {
    case Kind::Convert:
      return copy_elements(operands[0], out);
    case Kind::Unary:
      return loops.unary(UnaryFn(r.fn), operands[0], out, r.params_span(), r.compute);
    case Kind::Binary:
      return loops.binary(BinaryFn(r.fn), operands[0], operands[1], out, r.params_span(),
                          r.compute);
    case Kind::Ternary:
      return loops.ternary(TernaryFn(r.fn), operands[0], operands[1], operands[2], out,
                           r.params_span(), r.compute);
    case Kind::Rows:
      return run_rows_alone(r, operands, out, beside);
    case Kind::Join:
      return copy_loops(out).cat(operands, r.dim, out);
  }
}

void make_groups(const std::vector<Recipe>& steps, Plan& plan, const TensorImpl* asked) {
  const PerStep<uint32_t> readers = find_live(steps, plan);
  find_parts(steps, plan, readers, asked);
  find_known(steps, plan, readers, asked);
  std::vector<Group>& groups = plan.groups;
  for (size_t s = 0; s < steps.size(); ++s) {
    if (plan.group[s] < 0 || plan.join[s] >= 0) continue;
    uint64_t needs = 0;  // groups that this step's inputs come from
    each_input(steps, plan, s, [&](int at, const GroupInput&) {
      if (at >= 0) needs |= uint64_t(1) << plan.group[size_t(at)];
    });
    int joined = group_for(steps, plan, s, needs);
    if (joined < 0) {
      joined = int(groups.size());
      groups.emplace_back();
    }
    join(steps, plan, joined, s, needs);
  }
  for (size_t s = 0; s < steps.size(); ++s) {
    if (plan.group[s] < 0) continue;
    plan.kept[s] = plan.kept[s] || (plan.wanted[s] && !plan.stays[s]);
    for (int i = 0; i < steps[s].operand_count(); ++i) {
      const int at = plan.maker(s, i);
      if (at >= 0 && plan.group[size_t(at)] != plan.group[s]) plan.kept[size_t(at)] = 1;
    }
  }
  for (size_t s = 0; s < steps.size(); ++s) plan.stays[s] = plan.stays[s] && !plan.kept[s];
  // A group comes when all that it needs have come.
  uint64_t done = 0;
  while (plan.order.size() < groups.size()) {
    for (size_t g = 0; g < groups.size(); ++g) {
      if (done >> g & 1 || (groups[g].after & ~done)) continue;
      plan.order.push_back(uint8_t(g));
      done |= uint64_t(1) << g;
    }
  }
}

}  // namespace rush::deferred
