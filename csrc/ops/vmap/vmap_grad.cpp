// Reverse mode inside vmap; see Note [Inputs that samples share] in vmap.h.
#include "ops/framework/op.h"
#include "ops/framework/operators.h"
#include "ops/vmap/vmap.h"
#include "ops/vmap_ops.h"

namespace rush {

struct SpreadSamples {
  static constexpr const char* name = "spread_samples";
  static Geometry view(const Tensor& x, int64_t dim, int64_t size, int64_t) {
    Geometry g{x.sizes(), x.strides(), x.offset()};
    g.sizes.insert(uint32_t(dim), size);
    g.strides.insert(uint32_t(dim), 0);
    return g;
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, int64_t dim, int64_t,
                    int64_t level_id) {
    const int level = vmap_level_of(uint64_t(level_id));
    if (level == 0) return {sum(g, IntList(Dims{dim}))};
    return {add_batch_below(dim == 0 ? g : movedim(g, Dims{dim}, Dims{0}), level)};
  }
};

std::vector<Tensor> batched_grad(std::span<const Tensor> roots, std::span<const Tensor> grads,
                                 std::span<const Tensor> inputs, const BackwardOptions& options,
                                 bool for_each_sample) {
  int level = 0;
  for (const Tensor& t : roots) level = std::max<int>(level, t.impl()->vmap_level);
  for (const Tensor& t : inputs) level = std::max<int>(level, t.impl()->vmap_level);
  if (level == 0) return grad(roots, grads, inputs, options);
  std::vector<Tensor> own_roots, own_grads, own_inputs;
  bool shared = false;
  for (const Tensor& t : inputs) {
    const bool own = t.impl()->vmap_level == level;
    shared |= !own;
    check(own || for_each_sample, ErrorKind::Runtime, "grad", "inside vmap, an input (shape ",
          t.sizes(),
          ") is shared by all samples, so it has no gradient for each of them; use func.grad or "
          "func.vjp, which give every sample its own");
    own_inputs.push_back(without_batch(t, level));
  }
  for (size_t i = 0; i < roots.size(); ++i) {
    const bool own = roots[i].impl()->vmap_level == level;
    // What has no samples cannot depend on inputs that have.
    if (!own && !shared) continue;
    own_roots.push_back(without_batch(roots[i], level));
    if (i < grads.size() && grads[i].defined()) {
      check_shape(grads[i].sizes() == roots[i].sizes(), "grad", "the gradient has shape ",
                  grads[i].sizes(), ", its tensor has shape ", roots[i].sizes());
      own_grads.push_back(own ? with_all_samples(grads[i], level) : grads[i]);
    } else {
      check(roots[i].numel() == 1 && !roots[i].is_complex(), ErrorKind::Runtime, "grad",
            "grad can be created implicitly only for real scalar outputs; this tensor has shape ",
            roots[i].sizes(), " in each sample: pass grad_outputs");
      own_grads.push_back(ones_like(own_roots.back()));
    }
  }
  std::vector<Tensor> found(inputs.size());
  if (own_roots.empty())
    check(options.allow_unused, ErrorKind::Runtime, "grad",
          "the inputs were not used in the graph of the outputs. Pass allow_unused=True if that "
          "is meant");
  else
    found = batched_grad(own_roots, own_grads, own_inputs, options, for_each_sample);
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].defined() && inputs[i].impl()->vmap_level == level)
      found[i] = add_batch_below(found[i], level);
  }
  return found;
}

}  // namespace rush

#include "ops/vmap.inc"
