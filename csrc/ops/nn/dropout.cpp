// Dropout: random choices are kept as bool, one byte per element, and applied in one pass.
#include "device/nn/dropout.h"
#include "device/deferred.h"
#include "device/random.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"
#include "ops/vmap/vmap.h"

namespace rush {

namespace {

// x * (mask * scale), as two steps that wait; false: they do not.
bool queue_masked(const Tensor& x, const Tensor& mask, double scale, const Tensor& out) {
  const DType type = compute_type(out.dtype());
  const Tensor factor = make_pending(out.sizes(), out.strides(), type, out.device());
  const Tensor number = wrap_number(scale);
  const auto multiply = [&](const Tensor& a, const Tensor& b, const Tensor& to) {
    const Tensor* operands[] = {&a, &b};
    return deferred::queue_step(FusedStep::Kind::Binary, unsigned(BinaryFn::Mul), operands, to, {},
                                type);
  };
  return multiply(mask, number, factor) && multiply(x, factor, out);
}

}  // namespace

struct MaskedScale {
  static constexpr const char* name = "dropout";
  static constexpr bool any_device = true;
  static constexpr bool any_layout = true;
  static constexpr bool deferrable = true;
  static Spec check(const Tensor& x, const Tensor& mask, double) {
    return {x.sizes(), x.dtype(), common_device(name, {&x, &mask}),
            is_dense(x.sizes(), x.strides()) ? x.strides() : Dims{}};
  }
  static void run(const Tensor& x, const Tensor& mask, double scale, const Tensor& out) {
    if (is_unborn(out) && queue_masked(x, mask, scale, out)) return;
    dropout_loops(out).masked(placed(x, out.device()), placed(mask, out.device()), {1, scale, 0, 0},
                              out);
  }
  static constexpr uint32_t needs[] = {in(1), 0};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, const Tensor& mask, double scale) {
    return {_masked_scale(g, mask, scale), Tensor()};
  }
};

// Draws the choices and applies them: y = x * scale + shift where an element is kept, floor
// elsewhere. That is one pass where the device can.
struct Drop {
  static constexpr const char* name = "dropout";
  static constexpr bool any_device = true;
  static constexpr uint32_t non_differentiable = 0b10;
  static std::array<Spec, 2> check(const Tensor& x, IntList shape, double, double, double, double,
                                   Generator*) {
    check_dtype(is_floating(x.dtype()), name, "expects a floating point input, got ", x.dtype());
    expand_strides(name, shape, contiguous_strides(shape), x.sizes());
    return {like(x), Spec{Dims(shape), DType::Bool, x.device()}};
  }
  static void run(const Tensor& x, IntList, double p, double scale, double shift, double floor,
                  Generator* generator, const Tensor& out, const Tensor& mask) {
    if (out.numel() == 0) return;
    const RandomCall call = (generator ? *generator : default_generator()).next();
    const DropoutRule rule{1 - p, scale, shift, floor};
    const DropoutLoops& loops = dropout_loops(out);
    if (loops.draw && mask.sizes() == x.sizes() && x.is_contiguous() && out.is_contiguous())
      return loops.draw(x, call, rule, out, mask);
    random_loops(mask).fill(RandomFn::Bernoulli, mask, call, 1 - p, 0);
    loops.masked(x, mask, rule, out);
  }
  static constexpr uint32_t needs[] = {result(1)};
  static Grads grad(const Ctx& c, GradSpan g, const Tensor&, IntList, double, double scale, double,
                    double, Generator*) {
    if (!g[0].defined()) return Grads(1);
    return {_masked_scale(g[0], expand(c.out(1), g[0].sizes(), false), scale)};
  }
};

struct DropoutOp {
  static constexpr const char* name = "dropout";
  static Tensor call(const Tensor& x, IntList shape, double p) {
    // In compiled functions choices are drawn first, and applied with what follows.
    const bool waits = t_modes & kDefer && equal(shape, x.sizes());
    if (dropout_loops(x).draw && is_floating(x.dtype()) && !waits)
      return std::get<0>(_drop(x, shape, p, 1 / (1 - p), 0, 0, nullptr));
    Tensor keep = empty(shape, DType::Bool, std::nullopt, x.device());
    {
      const ModeGuard at_once(kDefer, false);  // nothing that waits reads a new tensor
      if (vmap_level() == 0)
        bernoulli_(keep, 1 - p, nullptr);
      else
        keep = bernoulli(keep, 1 - p, nullptr);  // a new tensor may have choices for each sample
    }
    const bool looped = is_floating(x.dtype());
    if (looped && equal(shape, x.sizes())) return _masked_scale(x, keep, 1 / (1 - p));
    // Whole channels, and complex numbers: the factor is small or rare.
    return x * (cast(keep, x.dtype()) * Scalar(1 / (1 - p)));
  }
};

}  // namespace rush

#include "ops/dropout.inc"
