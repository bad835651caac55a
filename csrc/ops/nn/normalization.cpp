// Normalisations. One pass forward, one backward; where the backward pass is itself differentiated,
// the formulas composed of ops take its place (a test holds the two equal).
#include <cmath>
#include <limits>

#include "autograd/snapshot.h"
#include "device/deferred.h"
#include "device/nn/norm.h"
#include "ops/framework/data.h"
#include "ops/framework/differentiated.h"
#include "ops/framework/op.h"
#include "ops/framework/op_name.h"
#include "ops/framework/operators.h"
#include "ops/framework/rows.h"

namespace rush {

namespace {

Dims image_strides(const Tensor& x) {
  return x.is_channels_last() ? channels_last_strides(x.sizes()) : Dims{};
}
// Contiguous or channels-last, without a copy where it already is.
Tensor as_image(const Tensor& x) { return x.is_channels_last() ? x : contiguous_data(x); }
// The values of g with the strides of x.
Tensor lying_like(const Tensor& x, const Tensor& g) {
  if (g.strides() == x.strides()) return g;
  const Tensor out = make_tensor(x.sizes(), x.strides(), g.dtype(), g.device());
  copy_data(out, g);
  return out;
}
Tensor flat(const Tensor& t) { return t.defined() ? contiguous_data(t) : t; }

// Half precision is too coarse for sums of squares: statistics are of the compute_type.
Tensor widened(const Tensor& t) {
  return t.defined() && is_reduced_float(t.dtype())
             ? to(t, DType::Float32, false, false, std::nullopt)
             : t;
}
Tensor narrowed(const Tensor& t, DType dtype) {
  return t.dtype() == dtype ? t : to(t, dtype, false, false, std::nullopt);
}
// As the device of x wants it.
Tensor for_loop(const Tensor& x, const Tensor& t) {
  return norm_loops(x).takes_halves ? t : widened(t);
}
// weight and bias in one dtype.
struct Parameters {
  Tensor weight, bias;
  Parameters(const Tensor& x, const Tensor& w, const Tensor& b)
      : weight(for_loop(x, w)), bias(for_loop(x, b)) {
    if (weight.defined() && bias.defined() && weight.dtype() != bias.dtype())
      weight = widened(weight), bias = widened(bias);
  }
};

Dims channel_dims(const Tensor& x) {  // all but the channels
  Dims dims{0};
  for (int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}
Tensor per_channel(const Tensor& t, const Tensor& x) {
  Dims shape(uint32_t(x.dim() - 1), 1);
  shape[0] = t.numel();
  return reshape(t, shape);
}
Tensor average(const Tensor& x, IntList dims) { return mean(x, dims, true, std::nullopt); }
Tensor scaled(const Tensor& g, const Tensor& weight) { return weight.defined() ? g * weight : g; }

// x normalised over dims, over ops; and the gradient of x for g, the gradient of that.
struct Composed {
  Tensor rstd, normal;
  Dims dims;
  bool centred;

  Composed(const Tensor& x, const Dims& over, bool centre, double eps)
      : dims(over), centred(centre) {
    const Tensor d = centre ? x - average(x, dims) : x;
    rstd = rsqrt(average(d * d, dims) + Scalar(eps));
    normal = d * rstd;
  }
  Tensor input_grad(const Tensor& g) const {
    const Tensor rest = g - normal * average(g * normal, dims);
    return rstd * (centred ? rest - average(g, dims) : rest);
  }
};

}  // namespace

// --- batch_norm
// -----------------------------------------------------------------------------------

namespace {

Spec channel_spec(const Tensor& x, DType dtype) { return {Dims{x.sizes()[1]}, dtype, x.device()}; }

// The gradients of an image, a weight and a bias, only called where no graph is wanted. Beside the
// statistics comes a number: the eps of batch_norm, the groups of group_norm.
template <OpName N, class Number, auto loop>
struct ImageNormBackward : RunsAnywhere {
  static constexpr const char* name = N.text;
  static constexpr bool differentiable = false;
  static std::array<Spec, 3> check(const Tensor&, const Tensor& x, const Tensor& weight,
                                   const Tensor&, const Tensor&, Number) {
    const Spec vector = channel_spec(x, weight.defined() ? weight.dtype() : x.dtype());
    return {Spec{x.sizes(), x.dtype(), x.device(), image_strides(x)}, vector, vector};
  }
  static void run(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                  const Tensor& spread, Number number, const Tensor& gx, const Tensor& gw,
                  const Tensor& gb) {
    if (x.numel() == 0) return fill_data(gw, 0), fill_data(gb, 0);
    const Tensor image = as_image(x);
    (norm_loops(x).*loop)(lying_like(image, g), image, flat(weight), mean, spread, number, gx, gw,
                          gb);
  }
};

}  // namespace

struct BatchNormBackward
    : ImageNormBackward<"native_batch_norm_backward", double, &NormLoops::batch_norm_backward> {
  static constexpr bool deferrable = true;
  static void run(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                  const Tensor& var, double eps, const Tensor& gx, const Tensor& gw,
                  const Tensor& gb) {
    if (!norm_loops(x).scale_channels) g.storage(), gx.storage();
    ImageNormBackward::run(g, x, weight, mean, var, eps, gx, gw, gb);
  }
};

namespace {

// The result of a norm over channels waits only where the device can scale channels later.
void settle_scaled(const Tensor& out, RowOp fn = RowOp::Scale) {
  if (!is_unborn(out)) return;
  const auto takes = fused_loops(out).takes_rows;
  if (!takes || !takes({.fn = fn}, out.dtype())) out.storage();
}

// Beside the result come mean and 1 / std, which backward reads and nobody differentiates.
struct KeepsStatistics {
  static constexpr bool any_device = true;
  static constexpr uint32_t non_differentiable = 0b110;
  static constexpr bool takes_undefined = true;
};

}  // namespace

struct BatchNorm_ : KeepsStatistics {
  static constexpr const char* name = "native_batch_norm";
  static constexpr bool any_layout = true;
  static constexpr bool deferrable = true;
  static std::array<Spec, 3> check(const Tensor& x, const Tensor&, const Tensor&, const Tensor&,
                                   const Tensor&, const Tensor&, double, double) {
    const Spec vector = channel_spec(x, compute_type(x.dtype()));
    return {Spec{x.sizes(), x.dtype(), x.device(), image_strides(x)}, vector, vector};
  }
  static void run(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_var, const Tensor& batches,
                  double momentum, double eps, const Tensor& out, const Tensor& mean,
                  const Tensor& var) {
    if (x.numel() == 0) return fill_data(mean, 0), fill_data(var, 0);
    settle_scaled(out, norm_loops(x).scale_channels ? RowOp::Channels : RowOp::Scale);
    const RunningMoments running{running_mean, running_var, batches, momentum};
    norm_loops(x).batch_norm(as_image(x), flat(weight), flat(bias), running, eps, out, mean, var);
  }
  static constexpr uint32_t needs[] = {
      in(0) | in(1) | result(1) | result(2), in(0) | in(1) | result(1) | result(2), 0, 0, 0, 0};
  static Grads grad(const Ctx& c, GradSpan grads, const Tensor& x, const Tensor& weight,
                    const Tensor&, const Tensor&, const Tensor&, const Tensor&, double,
                    double eps) {
    const Tensor& g = grads[0];
    Grads out(6);
    if (!g.defined()) return out;
    if (!c.wants(0) && !c.wants(1)) {
      out[2] = sum(g, channel_dims(g));
      return out;
    }
    if (!is_differentiated(g, x, weight)) {
      auto [gx, gw, gb] = _batch_norm_backward(g, x, weight, c.out(1), c.out(2), eps);
      if (c.wants(0)) out[0] = gx;
      if (c.wants(1)) out[1] = gw;
      if (c.wants(2)) out[2] = gb;
      return out;
    }
    const Composed n(widened(x), channel_dims(x), true, eps);
    const Tensor wide = widened(g);
    const Tensor w = weight.defined() ? per_channel(widened(weight), x) : weight;
    if (c.wants(0)) out[0] = narrowed(n.input_grad(scaled(wide, w)), x.dtype());
    if (c.wants(1)) out[1] = narrowed(sum(wide * n.normal, n.dims), weight.dtype());
    if (c.wants(2)) out[2] = sum(g, n.dims);
    return out;
  }
};

struct BatchNormEval {
  static constexpr const char* name = "native_batch_norm";
  static constexpr bool any_layout = true;
  static constexpr bool deferrable = true;
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                    double) {
    return {x.sizes(), x.dtype(), x.device(), image_strides(x)};
  }
  static void run(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                  const Tensor& var, double eps, const Tensor& out) {
    if (x.numel() == 0) return;
    settle_scaled(out, norm_loops(x).scale_channels ? RowOp::Channels : RowOp::Scale);
    norm_loops(x).batch_norm_eval(as_image(x), flat(weight), flat(bias), flat(mean), flat(var), eps,
                                  out);
  }
  static constexpr uint32_t needs[] = {in(1) | in(4), in(0) | in(3) | in(4), 0, in(1) | in(4),
                                       in(0) | in(1) | in(3) | in(4)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, const Tensor& weight,
                    const Tensor&, const Tensor& mean, const Tensor& var, double eps) {
    Grads out(5);
    const Dims dims = channel_dims(g);
    if (!c.wants(0) && !c.wants(1) && !c.wants(3) && !c.wants(4)) {  // no statistics were kept
      out[2] = sum(g, dims);
      return out;
    }
    const Tensor rstd = rsqrt(var + Scalar(eps)), scale = scaled(rstd, weight);
    if (c.wants(0)) out[0] = g * per_channel(scale, g);
    if (!is_differentiated(g, x, mean, var) && c.wants(1) && c.wants(2) && mean.is_contiguous() &&
        var.is_contiguous()) {
      // The same sums as in training, from one pass over both.
      auto [unused, gw, gb] = _batch_norm_backward(g, x, weight, mean, var, eps);
      out[1] = gw;
      out[2] = gb;
    } else {
      if (c.wants(1)) out[1] = sum(g * (x - per_channel(mean, g)), dims) * rstd;
      if (c.wants(2)) out[2] = sum(g, dims);
    }
    if (c.wants(3)) out[3] = -(sum(g, dims) * scale);
    if (c.wants(4))
      out[4] = sum(g * (x - per_channel(mean, g)), dims) * scale * rstd * rstd * Scalar(-0.5);
    return out;
  }
};

// --- group_norm
// -----------------------------------------------------------------------------------

struct GroupNormBackward
    : ImageNormBackward<"native_group_norm_backward", int64_t, &NormLoops::group_norm_backward> {
  static constexpr bool deferrable = true;
  static void run(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                  const Tensor& rstd, int64_t groups, const Tensor& gx, const Tensor& gw,
                  const Tensor& gb) {
    if (!norm_loops(x).scale_groups) g.storage(), gx.storage();
    ImageNormBackward::run(g, x, weight, mean, rstd, groups, gx, gw, gb);
  }
};

struct GroupNorm_ : KeepsStatistics {
  static constexpr const char* name = "native_group_norm";
  static constexpr bool any_layout = true;
  static constexpr bool deferrable = true;
  static std::array<Spec, 3> check(const Tensor& x, const Tensor&, const Tensor&, int64_t groups,
                                   double) {
    const Spec stats{Dims{x.sizes()[0], groups}, compute_type(x.dtype()), x.device()};
    return {Spec{x.sizes(), x.dtype(), x.device(), image_strides(x)}, stats, stats};
  }
  static void run(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups,
                  double eps, const Tensor& out, const Tensor& mean, const Tensor& rstd) {
    if (x.numel() == 0) return fill_data(mean, 0), fill_data(rstd, 0);
    settle_scaled(out, norm_loops(x).scale_groups ? RowOp::Groups : RowOp::Scale);
    norm_loops(x).group_norm(as_image(x), flat(weight), flat(bias), groups, eps, out, mean, rstd);
  }
  static constexpr uint32_t needs[] = {in(0) | in(1) | result(1) | result(2),
                                       in(0) | in(1) | result(1) | result(2), 0};
  static Grads grad(const Ctx& c, GradSpan grads, const Tensor& x, const Tensor& weight,
                    const Tensor&, int64_t groups, double eps) {
    const Tensor& g = grads[0];
    if (!g.defined()) return Grads(3);
    const Dims dims = channel_dims(g);
    if (!c.wants(0) && !c.wants(1)) return {Tensor(), Tensor(), sum(g, dims)};
    if (!is_differentiated(g, x, weight)) {
      auto [gx, gw, gb] = _group_norm_backward(g, x, weight, c.out(1), c.out(2), groups);
      return {c.wants(0) ? gx : Tensor(), c.wants(1) ? gw : Tensor(), c.wants(2) ? gb : Tensor()};
    }
    const Dims sizes = x.sizes();
    const Dims split{sizes[0], groups, x.numel() / std::max<int64_t>(1, sizes[0] * groups)};
    const Composed n(reshape(widened(x), split), Dims{2}, true, eps);
    const Tensor w = weight.defined() ? per_channel(widened(weight), x) : weight;
    const Tensor wide = widened(g);
    return {c.wants(0) ? reshape(n.input_grad(reshape(scaled(wide, w), split)), sizes) : Tensor(),
            c.wants(1) ? sum(wide * reshape(n.normal, sizes), dims) : Tensor(),
            c.wants(2) ? sum(wide, dims) : Tensor()};
  }
};

// --- layer_norm, rms_norm
// -------------------------------------------------------------------------

namespace {

Dims last_dims(int64_t count) {
  Dims dims;
  for (int64_t d = -count; d < 0; ++d) dims.push_back(d);
  return dims;
}
Dims row_sizes(const Tensor& x, int64_t dims) {
  return Dims(IntList(x.sizes()).last(size_t(dims)));
}
// One number a row; the normalised dims stay as 1.
Dims stat_sizes(const Tensor& x, int64_t dims) {
  Dims sizes = x.sizes();
  for (int64_t d = x.dim() - dims; d < x.dim(); ++d) sizes[size_t(d)] = 1;
  return sizes;
}
Tensor sum_leading(const Tensor& g, int64_t keep) {
  Dims dims;
  for (int64_t d = 0; d < g.dim() - keep; ++d) dims.push_back(d);
  return dims.empty() ? g : sum(g, dims);
}

}  // namespace

struct RowNormBackward {
  static constexpr const char* name = "native_layer_norm_backward";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;
  static constexpr bool deferrable = true;
  static std::array<Spec, 3> check(const Tensor& g, const Tensor& x, const Tensor& weight,
                                   const Tensor&, const Tensor&, int64_t dims, bool) {
    op::settle_layout(g);
    op::settle_layout(x);
    const Spec row{row_sizes(x, dims), weight.defined() ? weight.dtype() : x.dtype(), x.device()};
    return {Spec{x.sizes(), x.dtype(), x.device()}, row, row};
  }
  static void run(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                  const Tensor& rstd, int64_t, bool centred, const Tensor& gx, const Tensor& gw,
                  const Tensor& gb) {
    if (x.numel() == 0) return fill_data(gw, 0), fill_data(gb, 0);
    norm_loops(x).row_norm_backward(contiguous_data(g), contiguous_data(x), gw.numel(),
                                    flat(weight), mean, rstd, centred, gx, gw, gb);
  }
};

struct RowNorm : KeepsStatistics {
  static constexpr const char* name = "native_layer_norm";
  static constexpr bool deferrable = true;
  static std::array<Spec, 3> check(const Tensor& x, const Tensor&, const Tensor&, int64_t dims,
                                   bool, double) {
    op::settle_layout(x);
    const Spec stats{stat_sizes(x, dims), compute_type(x.dtype()), x.device()};
    return {Spec{x.sizes(), x.dtype(), x.device()}, stats, stats};
  }
  static void run(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t dims,
                  bool centred, double eps, const Tensor& out, const Tensor& mean,
                  const Tensor& rstd) {
    if (x.numel() == 0) return fill_data(mean, 0), fill_data(rstd, 0);
    norm_loops(x).row_norm(contiguous_data(x), numel(row_sizes(x, dims)), flat(weight), flat(bias),
                           centred, eps, out, mean, rstd);
  }
  static constexpr uint32_t needs[] = {in(0) | in(1) | result(1) | result(2),
                                       in(0) | in(1) | result(1) | result(2), 0};
  static Grads grad(const Ctx& c, GradSpan grads, const Tensor& x, const Tensor& weight,
                    const Tensor&, int64_t dims, bool centred, double eps) {
    const Tensor& g = grads[0];
    if (!g.defined()) return Grads(3);
    if (!c.wants(0) && !c.wants(1)) return {Tensor(), Tensor(), sum_leading(g, dims)};
    if (!is_differentiated(g, x, weight)) {
      auto [gx, gw, gb] = _row_norm_backward(g, x, weight, c.out(1), c.out(2), dims, centred);
      return {c.wants(0) ? gx : Tensor(), c.wants(1) ? gw : Tensor(), c.wants(2) ? gb : Tensor()};
    }
    const Composed n(widened(x), last_dims(dims), centred, eps);
    const Tensor wide = widened(g);
    return {c.wants(0) ? n.input_grad(scaled(wide, widened(weight))) : Tensor(),
            c.wants(1) ? sum_leading(wide * n.normal, dims) : Tensor(),
            c.wants(2) ? sum_leading(wide, dims) : Tensor()};
  }
};

// --- what users call
// ------------------------------------------------------------------------------

namespace {

void check_parameter(const char* op, const char* what, const Tensor& x, const Tensor& t,
                     IntList sizes) {
  if (!t.defined()) return;
  check_shape(equal(t.sizes(), sizes), op, what, " must have shape ", sizes, ", got ", t.sizes());
  check(t.dtype() == x.dtype() || (is_reduced_float(x.dtype()) && t.dtype() == DType::Float32),
        ErrorKind::Runtime, op, what, " must have the input's dtype ", x.dtype(), ", got ",
        t.dtype());
  check(t.device() == x.device(), ErrorKind::Device, op, what, " is on ", t.device(),
        ", the input is on ", x.device());
}

void check_image(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_shape(x.dim() >= 2, op, "input needs a batch and a channel dim, got shape ", x.sizes());
  check_dtype(is_floating(x.dtype()), op, "not implemented for ", x.dtype(), " tensors");
  const bool channels_last = x.dim() > 2 && weight.defined() && weight.dim() == 1 &&
                             weight.numel() != x.sizes()[1] && weight.numel() == x.sizes().back();
  check_shape(!channels_last, op, "weight has ", weight.defined() ? weight.numel() : 0,
              " channels, input of shape ", x.sizes(), " has ", x.sizes()[1],
              "; its channels seem to be last: input.movedim(-1, 1) puts them first");
  check_parameter(op, "weight", x, weight, Dims{x.sizes()[1]});
  check_parameter(op, "bias", x, bias, Dims{x.sizes()[1]});
}

// running = (1 - momentum) * running + momentum * value, in place.
void move_towards(const Tensor& running, const Tensor& value, double momentum) {
  if (!running.defined()) return;
  NoGradGuard no_grad;
  mul_(running, wrap_number(1 - momentum));
  add_(running, narrowed(value, running.dtype()), momentum);
}

int64_t check_rows(const char* op, const Tensor& x, IntList shape, const Tensor& weight,
                   const Tensor& bias) {
  check_shape(!shape.empty(), op, "normalized_shape must name at least one dim, got []");
  check_shape(
      x.dim() >= int64_t(shape.size()) && equal(IntList(x.sizes()).last(shape.size()), shape), op,
      "the last dims of the input must be normalized_shape ", shape, ", got an input of shape ",
      x.sizes());
  check_shape(!weight.defined() || equal(weight.sizes(), shape), op, "weight must have shape ",
              shape, ", got ", weight.defined() ? weight.sizes() : Dims{});
  check_shape(!bias.defined() || equal(bias.sizes(), shape), op, "bias must have shape ", shape,
              ", got ", bias.defined() ? bias.sizes() : Dims{});
  common_device(op, {&x, &weight, &bias});
  return int64_t(shape.size());
}

}  // namespace

namespace {

// Whether a kernel may write it behind the back of everything that watches writes.
bool is_plain_state(const Tensor& t, const Tensor& x, DType dtype) {
  return !t.defined() ||
         (t.dtype() == dtype && t.device() == x.device() && t.is_contiguous() && !requires_grad(t));
}

// Normalises by the batch's moments and moves the running ones towards them; counts the batch.
Tensor normalize_batch(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var, const Tensor& batches,
                       double momentum, double eps) {
  constexpr const char* name = BatchNorm_::name;
  const bool direct = norm_loops(x).takes_halves;
  const Tensor wide = direct ? x : widened(x), w = direct ? weight : widened(weight),
               b = direct ? bias : widened(bias);
  const DType kept = running_mean.defined() ? running_mean.dtype() : wide.dtype();
  const bool plain = !any_interceptor() && !(t_modes & kForward) && x.numel() > 0 &&
                     (direct || kept == wide.dtype()) && is_plain_state(running_mean, x, kept) &&
                     is_plain_state(running_var, x, kept) &&
                     is_plain_state(batches, x, DType::Int64) &&
                     (!w.defined() || !b.defined() || w.dtype() == b.dtype());
  if (plain) {
    const Tensor* const moved[] = {&running_mean, &running_var, &batches};
    deferred::flush_readers_of(moved, "batch_norm moves its statistics");
    for (const Tensor* t : moved)
      if (t->defined()) before_write(*t);
    auto [y, mean, var] =
        _batch_norm(wide, w, b, running_mean, running_var, batches, momentum, eps);
    for (const Tensor* t : moved)
      if (t->defined()) t->bump_version(name);
    return narrowed(y, x.dtype());
  }
  auto [y, mean, var] = _batch_norm(wide, w, b, Tensor(), Tensor(), Tensor(), 0, eps);
  const Tensor result = narrowed(y, x.dtype());
  NoGradGuard no_grad;
  if (x.numel() > 0) {
    const double n = double(x.numel() / x.sizes()[1]);
    move_towards(running_mean, mean, momentum);
    if (running_var.defined()) move_towards(running_var, var * Scalar(n / (n - 1)), momentum);
  }
  if (batches.defined()) add_(batches, wrap_number(1));
  return result;
}

void check_batch_norm(const char* name, const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Tensor& running_mean, const Tensor& running_var) {
  check_image(name, x, weight, bias);
  check_parameter(name, "running_mean", x, running_mean, Dims{x.sizes()[1]});
  check_parameter(name, "running_var", x, running_var, Dims{x.sizes()[1]});
}

}  // namespace

struct BatchNorm {
  static constexpr const char* name = "batch_norm";
  static Tensor call(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Tensor& running_mean, const Tensor& running_var, bool training,
                     double momentum, double eps, bool) {
    check_batch_norm(name, x, weight, bias, running_mean, running_var);
    if (training)
      return normalize_batch(x, weight, bias, running_mean, running_var, Tensor(), momentum, eps);
    check(running_mean.defined() && running_var.defined(), ErrorKind::Runtime, name,
          "outside training running_mean and running_var must be given");
    return narrowed(_batch_norm_eval(widened(x), widened(weight), widened(bias),
                                     widened(running_mean), widened(running_var), eps),
                    x.dtype());
  }
};

struct BatchNormCounted {
  static constexpr const char* name = "batch_norm";
  static Tensor call(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Tensor& running_mean, const Tensor& running_var, const Tensor& batches,
                     double momentum, double eps) {
    check_batch_norm(name, x, weight, bias, running_mean, running_var);
    return normalize_batch(x, weight, bias, running_mean, running_var, batches, momentum, eps);
  }
};

struct InstanceNorm {
  static constexpr const char* name = "instance_norm";
  static Tensor call(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Tensor& running_mean, const Tensor& running_var, bool use_input_stats,
                     double momentum, double eps, bool enabled) {
    check_image(name, x, weight, bias);
    check_parameter(name, "running_mean", x, running_mean, Dims{x.sizes()[1]});
    check_parameter(name, "running_var", x, running_var, Dims{x.sizes()[1]});
    if (!use_input_stats) {
      check(running_mean.defined() && running_var.defined(), ErrorKind::Runtime, name,
            "running_mean and running_var must be given when use_input_stats is False");
      return batch_norm(x, weight, bias, running_mean, running_var, false, momentum, eps, enabled);
    }
    const Tensor wide = for_loop(x, x);
    const Parameters p(x, weight, bias);
    auto [y, mean_of, rstd] = _group_norm(wide, p.weight, p.bias, x.sizes()[1], eps);
    if (x.numel() > 0 && (running_mean.defined() || running_var.defined())) {
      NoGradGuard no_grad;
      Dims points;
      for (int64_t d = 2; d < x.dim(); ++d) points.push_back(d);
      move_towards(running_mean, mean(mean_of, IntList(Dims{0}), false, std::nullopt), momentum);
      move_towards(
          running_var,
          mean(var(widened(x), points, Scalar(1), false), IntList(Dims{0}), false, std::nullopt),
          momentum);
    }
    return narrowed(contiguous(y, MemoryFormat::Contiguous), x.dtype());
  }
};

struct GroupNorm {
  static constexpr const char* name = "group_norm";
  static Tensor call(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                     double eps, bool) {
    check_image(name, x, weight, bias);
    check_shape(groups > 0 && x.sizes()[1] % groups == 0, name, x.sizes()[1],
                " channels cannot be divided into ", groups, " groups; the input has shape ",
                x.sizes());
    const Parameters p(x, weight, bias);
    auto [y, mean, rstd] = _group_norm(for_loop(x, x), p.weight, p.bias, groups, eps);
    return narrowed(y, x.dtype());
  }
};

struct LayerNorm {
  static constexpr const char* name = "layer_norm";
  static Tensor call(const Tensor& x, IntList shape, const Tensor& weight, const Tensor& bias,
                     double eps, bool) {
    const int64_t dims = check_rows(name, x, shape, weight, bias);
    check_dtype(is_floating(x.dtype()), name, "not implemented for ", x.dtype(), " tensors");
    check_parameter(name, "weight", x, weight, shape);
    check_parameter(name, "bias", x, bias, shape);
    const Parameters p(x, weight, bias);
    auto [y, mean, rstd] = _row_norm(for_loop(x, x), p.weight, p.bias, dims, true, eps);
    return narrowed(y, x.dtype());
  }
};

struct RmsNorm {
  static constexpr const char* name = "rms_norm";
  static Tensor call(const Tensor& x, IntList shape, const Tensor& weight,
                     std::optional<double> eps) {
    const int64_t dims = check_rows(name, x, shape, weight, Tensor());
    check_dtype(is_differentiable(x.dtype()), name, "not implemented for ", x.dtype(), " tensors");
    const bool is_double = to_real(x.dtype()) == DType::Float64;
    const double small = eps         ? *eps
                         : is_double ? std::numeric_limits<double>::epsilon()
                                     : double(std::numeric_limits<float>::epsilon());
    if (x.is_complex() ||  // too rare for a kernel
        (weight.defined() && compute_type(weight.dtype()) != compute_type(x.dtype()))) {
      const Tensor wide = widened(x), w = widened(weight);
      const Tensor normal = wide * rsqrt(average(wide * wide, last_dims(dims)) + Scalar(small));
      return narrowed(scaled(normal, w), x.dtype());
    }
    auto [y, mean, rstd] =
        _row_norm(for_loop(x, x), for_loop(x, weight), Tensor(), dims, false, small);
    return narrowed(y, x.dtype());
  }
};

}  // namespace rush

#include "ops/normalization.inc"
