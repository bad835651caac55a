// What of a queue need not be read: see Note [What is known without being read] in device/origin.h.
#include <algorithm>

#include "core/layout.h"
#include "core/modes.h"
#include "device/deferred_queue.h"
#include "device/origin.h"
#include "functors/activation.h"
#include "functors/ternary.h"

namespace rush::deferred {

namespace {

using Kind = FusedStep::Kind;

// Functors with numbers of their own are templates.
template <class F>
constexpr bool selects() {
  if constexpr (requires { F::selects; }) return F::selects;
  return false;
}
template <template <class> class F>
constexpr bool selects() {
  return selects<F<float>>();
}

// They compute nothing that could be contracted with what comes before.
bool is_activation(const Recipe& r) {
#define RUSH_UNARY(F) selects<functors::F>(),
  static constexpr bool known[] = {
#include "functors/unary_fns.inc"
  };
#undef RUSH_UNARY
  return r.kind == Kind::Unary && known[r.fn];
}
bool is_activation_backward(const Recipe& r) {
#define RUSH_BINARY(F) selects<functors::F>(),
  static constexpr bool known[] = {
#include "functors/binary_fns.inc"
  };
#undef RUSH_BINARY
  return r.kind == Kind::Binary && known[r.fn];
}

bool is_same_memory(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.data() == b.data() && a.dtype() == b.dtype() && a.numel() == b.numel();
}

// Has the backward step the numbers that forward had?
bool is_of_same_norm(const RowStep& back, const RowStep& made) {
  const bool adds = back.fn == RowOp::ChannelSums;
  return back.eps == made.eps && is_same_memory(back.with[adds ? 0 : 1], made.with[2]) &&
         is_same_memory(back.with[adds ? 1 : 2], made.with[3]) &&
         (adds || is_same_memory(back.with[0], made.with[0]));
}

}  // namespace

void find_known(const std::vector<Recipe>& steps, Plan& plan, const PerStep<uint32_t>& readers,
                const TensorImpl* asked) {
  for (size_t s = 0; s < steps.size(); ++s) {
    const Recipe& row = steps[s];
    if (!row.row || plan.group[s] < 0) continue;
    const bool adds = row.row->fn == RowOp::ChannelSums;
    const int at = adds || row.row->fn == RowOp::ChannelsBackward ? plan.maker(s, 0) : -1;
    if (at < 0 || plan.maker(s, 1) >= 0) continue;
    const auto gradient = size_t(at);
    const Recipe& r = steps[gradient];
    // What else reads the gradient in its pass would have to read the result of the activation.
    if (!is_activation_backward(r) || plan.maker(gradient, 1) >= 0 || readers[gradient] != 1)
      continue;
    auto origin = origin_of(r.operands[1], row.operands[1]);
    if (!origin || !is_of_same_norm(*row.row, origin->row)) continue;
    // The second pass computes it again, which costs what reading it would. Not where the gradient lies
    // otherwise: no pass takes that, and the step by itself would run twice.
    if (adds && asked && plan.wanted[gradient] && plan.maker(gradient, 0) < 0 &&
        lie_alike(r.operands[0], r.out) && r.out.impl() != asked && !holds_form(r))
      plan.stays[gradient] = 1;
    plan.known.push_back({uint16_t(s), uint16_t(gradient), std::move(origin)});
  }
}

const KnownInput* Plan::known_of(size_t row, const Group& own) const {
  const auto found = std::ranges::find_if(known, [&](const KnownInput& k) { return k.row == row; });
  if (found == known.end()) return nullptr;
  return std::ranges::find(own.steps, found->gradient) == own.steps.end() ? nullptr : &*found;
}

std::optional<FusedNormal> put_known(const KnownInput& known, const Plan& plan, const Tensor& x,
                                     std::vector<FusedStep>& steps, std::span<Tensor> inputs,
                                     std::span<FusedOutput> outputs) {
  const uint16_t input = steps[plan.place[known.gradient]].operands[1];
  int reads = 0;
  for (const FusedStep& s : steps)
    for (int i = 0; i < s.operand_count(); ++i) reads += s.operands[size_t(i)] == input;
  if (reads != 1 || steps.size() == kFusedSteps) return std::nullopt;
  // All values but the inputs are counted one further.
  for (FusedStep& s : steps)
    for (int i = 0; i < s.operand_count(); ++i)
      s.operands[size_t(i)] += s.operands[size_t(i)] >= inputs.size();
  for (FusedOutput& o : outputs) ++o.step;
  steps[plan.place[known.gradient]].operands[1] = uint16_t(inputs.size());
  steps.insert(steps.begin(), known.origin->activation);
  steps[0].operands = {input};
  inputs[input] = x;
  return FusedNormal{input, &known.origin->row};
}

void Queue::leave_origins(const Plan& plan) const {
  if (!leaves_recipes_ || !(t_modes & kDefer) || !grad_enabled() || !leaves_origins()) return;
  for (size_t s = 0; s < waiting_.size(); ++s) {
    const Recipe& r = waiting_[s];
    const int at = is_activation(r) && plan.kept[s] ? plan.maker(s, 0) : -1;
    if (at < 0) continue;
    const Recipe& norm = waiting_[size_t(at)];
    const bool is_norm = norm.row && norm.row->fn == RowOp::Channels;
    if (!is_norm || r.out.dtype() != norm.out.dtype() || !norm.operands[0].impl()->storage.load() ||
        !r.out.impl()->storage.load())
      continue;
    FusedStep step{.kind = r.kind,
                   .params_count = r.params_count,
                   .fn = r.fn,
                   .compute = r.compute,
                   .result = r.out.dtype()};
    step.params = r.params;
    leave_origin(r.out, norm.operands[0], *norm.row, step);
  }
}

}  // namespace rush::deferred
