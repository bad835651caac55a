#include "ops/op.h"

#include "core/warn.h"
#include "ops/data.h"
#include "ops/ops.h"

namespace rush::op {

void check_in_place_result(const char* op, const Tensor& t, const Spec& spec) {
  check_shape(t.sizes() == spec.sizes, op, "in place, the result's shape ", spec.sizes,
              " must be the tensor's own shape ", t.sizes());
  check_dtype(can_cast(spec.dtype, t.dtype()), op, "the result is ", spec.dtype,
              " and cannot be written in place into a ", t.dtype(), " tensor");
}

void prepare_out(const char* op, const Tensor& out, const Spec& spec) {
  check_dtype(can_cast(spec.dtype, out.dtype()), op, "the result is ", spec.dtype,
              " and cannot be cast to out's dtype ", out.dtype());
  check(out.device() == spec.device, ErrorKind::Device, op, "out is on ", out.device(),
        ", the inputs are on ", spec.device);
  check(!out.storage()->read_only(), ErrorKind::Runtime, op, "out wraps read-only memory");
  out.storage()->note_write();  // and again by bump_version(), when it is done
  check(!out.impl()->has(TensorImpl::kInference) || t_modes & kInferenceMode, ErrorKind::Runtime,
        op,
        "out was made under inference_mode() and must not be written outside of it; clone() it");
  check(!has_internal_overlap(out), ErrorKind::Runtime, op,
        "more than one index of out refers to one memory location, as after expand()");
  if (out.sizes() == spec.sizes) return;
  if (out.numel() != 0) warn_resized_out(op, out, spec);
  set_geometry(out, spec.sizes,
               spec.strides.empty() ? contiguous_strides(spec.sizes) : spec.strides, out.offset());
}

void warn_resized_out(const char* op, const Tensor& out, const Spec& spec) {
  warn(concat(op, ": out had shape ", out.sizes(), " and was resized to the result's shape ",
              spec.sizes, "; give an out of that shape, or an empty one (out.resize_(0))"));
}

void check_no_grad_for_out(const char* op, bool any_requires_grad) {
  check(!any_requires_grad, ErrorKind::Runtime, op,
        "out= does not support automatic differentiation, but one of the arguments requires grad");
}

namespace {
[[noreturn, gnu::cold]] void fail_overlap(const char* op, const Tensor& out, const Tensor& input) {
  fail(ErrorKind::Runtime, op, "unsupported operation: the output (shape ", out.sizes(),
       ", strides ", out.strides(), ", offset ", out.offset(), ") and an input (shape ",
       input.sizes(), ", strides ", input.strides(), ", offset ", input.offset(),
       ") share some of their memory; clone() one of them first");
}
}  // namespace

bool overlaps(const char* op, const Tensor& out, const Tensor& input, bool exact_is_fine,
              bool refuse) {
  if (!(out.storage() == input.storage()) && !out.storage()->is_foreign()) [[likely]]
    return false;
  const Overlap o = overlap(out, input);
  if (refuse && o == Overlap::Partial) fail_overlap(op, out, input);
  return o == Overlap::Partial || o == Overlap::Unknown || (o == Overlap::Full && !exact_is_fine);
}

void refuse_any_overlap(const char* op, const Tensor& out, const Tensor& input) {
  if (!input.defined() || !(out.storage() == input.storage())) return;
  const Overlap o = overlap(out, input);
  if (o == Overlap::Partial || o == Overlap::Full) fail_overlap(op, out, input);
}

void write_back(const Tensor& out, const Tensor& result) { copy_data(out, result); }

void assign_in_place(const Tensor& self, const Tensor& result) { copy_(self, result); }

Tensor write_target_copy(const Tensor& self) {
  const Tensor copy = clone_data(self);
  if (const Ref<Node> node = requires_grad(self) ? grad_fn(self) : nullptr)
    set_history(copy, node, grad_meta(self).slot);
  if (forward_active()) carry_tangents(self, copy);
  return copy;
}

std::vector<Tensor> dummy_gradients(std::span<const Tensor> outs) {
  std::vector<Tensor> dummies;
  for (const Tensor& out : outs) {
    const DType dtype = is_differentiable(out.dtype()) ? out.dtype() : default_dtype();
    dummies.push_back(zeros(out.sizes(), dtype, std::nullopt, out.device()));
    set_requires_grad(dummies.back(), true);
  }
  return dummies;
}

std::vector<Tensor> transpose_again(const char* op, const Grads& back, GradSpan tangents,
                                    std::span<const Tensor> dummies, bool keep_graph) {
  std::vector<Tensor> roots, seeds;
  for (size_t i = 0; i < back.size() && i < tangents.size(); ++i) {
    if (!tangents[i].defined() || !back[i].defined() || !requires_grad(back[i])) continue;
    const ResultMeta meta{tangents[i].sizes(), tangents[i].dtype(), tangents[i].device()};
    roots.push_back(fit_gradient(back[i], meta, op));
    seeds.push_back(tangents[i]);
  }
  if (roots.empty()) return std::vector<Tensor>(dummies.size());
  BackwardOptions options;
  options.allow_unused = true;
  options.create_graph = options.retain_graph = keep_graph;
  return rush::grad(roots, seeds, dummies, options);
}

void store_tangent(const Tensor& t, int level, const Tensor& tangent) {
  if (!is_differentiable(t.dtype())) return;
  Tensor fitted = tangent;
  if (!fitted.defined()) {
    // A zero tangent; a tensor that had none needs none.
    if (!tangent_at(t, level).defined()) return;
    fitted = zeros(t.sizes(), t.dtype(), std::nullopt, t.device());
  }
  if (fitted.dtype() != t.dtype()) fitted = cast(fitted, t.dtype());
  if (!(fitted.sizes() == t.sizes())) fitted = expand(fitted, t.sizes());
  set_tangent(t, level, fitted);
}

void take_tangents(const Tensor& self, const Tensor& result) {
  for (int level = 1, last = visible_forward_level(); level <= last; ++level) {
    const LevelsBelow below(level);
    store_tangent(self, level, tangent_at(result, level));
  }
}

}  // namespace rush::op
