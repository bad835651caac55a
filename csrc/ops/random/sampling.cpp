// Draws whose parameters differ from element to element: Poisson, binomial, gamma.
#include "device/random.h"

#include "device/index.h"
#include "ops/copy/creation.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {
namespace {

Tensor as_doubles(const Tensor& t, IntList sizes) {
  return contiguous_data(convert_data(expand(t, sizes), DType::Float64));
}

void check_floating(const char* op, const Tensor& self) {
  check(is_floating(self.dtype()), ErrorKind::DType, op, "needs a floating tensor, got ",
        self.dtype());
}

void draw(SamplingFn fn, const Tensor& a, const Tensor& b, const Tensor& out, Generator* g) {
  if (out.numel() == 0) return;
  NoGradGuard no_grad;
  const RandomCall call = (g ? *g : default_generator()).next();
  const Tensor draws = make_tensor(out.sizes(), DType::Float64, out.device());
  random_loops(draws).sample(fn, as_doubles(a, out.sizes()),
                             b.defined() ? as_doubles(b, out.sizes()) : Tensor(), draws, call);
  copy_data(out, draws);
}

// The smallest normal number: a gamma draw is positive, however small its shape.
double least_positive(DType t) {
  switch (t) {
    case DType::Float16:
      return 6.103515625e-05;
    case DType::Float64:
      return 2.2250738585072014e-308;
    default:
      return 1.1754943508222875e-38;
  }
}

}  // namespace

struct Poisson {
  static constexpr bool any_device = true;
  static constexpr const char* name = "poisson";
  static Spec check(const Tensor& self, Generator*) {
    check_floating(name, self);
    if (!self.is_meta())
      index_loops(self).check_between(self, 0, limits<double>::inf, name, "expects all rates >= 0");
    return like(self);
  }
  static void run(const Tensor& self, Generator* g, const Tensor& out) {
    draw(SamplingFn::Poisson, self, Tensor(), out, g);
  }
  static constexpr uint32_t needs[] = {0};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, Generator*) {
    return {zeros_like(g)};  // counts do not move with the rate
  }
};

struct Binomial {
  static constexpr bool any_device = true;
  static constexpr const char* name = "binomial";
  static Spec check(const Tensor& count, const Tensor& prob, Generator*) {
    check_floating(name, count), check_floating(name, prob);
    rush::check(count.dtype() == prob.dtype(), ErrorKind::DType, name,
                "count and prob must have one dtype, got ", count.dtype(), " and ", prob.dtype());
    return pointwise(name, count, prob, count.dtype());
  }
  static void run(const Tensor& count, const Tensor& prob, Generator* g, const Tensor& out) {
    draw(SamplingFn::Binomial, count, prob, out, g);
  }
  static constexpr uint32_t needs[] = {0, 0};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor&, Generator*) {
    return {c.wants(0) ? zeros_like(g) : Tensor(), c.wants(1) ? zeros_like(g) : Tensor()};
  }
};

struct StandardGamma {
  static constexpr bool any_device = true;
  static constexpr const char* name = "_standard_gamma";
  static Spec check(const Tensor& self, Generator*) {
    check_floating(name, self);
    return like(self);
  }
  static void run(const Tensor& self, Generator* g, const Tensor& out) {
    draw(SamplingFn::Gamma, self, Tensor(), out, g);
    NoGradGuard no_grad;
    clamp_(out, Scalar(least_positive(out.dtype())), std::nullopt);
  }
  static constexpr uint32_t needs[] = {in(0) | kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& self, Generator*) {
    return {g * _standard_gamma_grad(self, c.out())};
  }
};

struct StandardGammaGrad {
  static constexpr bool any_device = true;
  static constexpr const char* name = "_standard_gamma_grad";
  static Spec check(const Tensor& self, const Tensor& output) {
    check_floating(name, self), check_floating(name, output);
    return pointwise(name, self, output, result_type(self, output));
  }
  static void run(const Tensor& self, const Tensor& output, const Tensor& out) {
    if (out.numel() == 0) return;
    NoGradGuard no_grad;
    const Tensor found = make_tensor(out.sizes(), DType::Float64, out.device());
    random_loops(found).gamma_derivative(as_doubles(self, out.sizes()),
                                         as_doubles(output, out.sizes()), found);
    copy_data(out, found);
  }
};

}  // namespace rush

#include "ops/sampling.inc"
