#include "ops/framework/op.h"

#include "ops/framework/data.h"
#include "ops/ops.h"

namespace rush::op {

void check_in_place_result(const char* op, const Tensor& t, const Spec& spec) {
  check_shape(t.sizes() == spec.sizes, op, "in place, the result's shape ", spec.sizes,
              " must be the tensor's own shape ", t.sizes());
  check_dtype(can_cast(spec.dtype, t.dtype()), op, "the result is ", spec.dtype,
              " and cannot be written in place into a ", t.dtype(), " tensor");
  check(t.device() == spec.device, ErrorKind::Device, op, "the result is on ", spec.device,
        " and cannot be written in place into a tensor on ", t.device());
}

void check_no_grad_for_out(const char* op, bool any_requires_grad) {
  check(!any_requires_grad, ErrorKind::Runtime, op,
        "out= does not support automatic differentiation, but one of the arguments requires grad");
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

void fail_for_float8(const char* op, DType t) {
  fail(ErrorKind::DType, op, "not implemented for ", t,
       " tensors, which are stored and converted but not computed in: use .to(dtype) first");
}

}  // namespace rush::op
