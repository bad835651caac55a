#include "cpu/sampling.h"

#include "core/threads.h"
#include "functors/sampling.h"

namespace rush {
namespace {

constexpr int64_t kGrain = 512;  // a draw costs as much as dozens of additions

template <class Draw>
void each(const Tensor& out, RandomCall call, Draw draw) {
  double* p = out.data<double>();
  parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      functors::Draws draws(call.seed, call.call, uint64_t(i));
      p[i] = draw(i, draws);
    }
  });
}

}  // namespace

void sample_cpu(SamplingFn fn, const Tensor& a, const Tensor& b, const Tensor& out,
                RandomCall call) {
  const double* pa = a.data<double>();
  if (fn == SamplingFn::Gamma) {
    each(out, call, [&](int64_t i, auto& draws) { return functors::draw_gamma(pa[i], draws); });
  } else if (fn == SamplingFn::Poisson) {
    each(out, call, [&](int64_t i, auto& draws) { return functors::draw_poisson(pa[i], draws); });
  } else {
    const double* pb = b.data<double>();
    each(out, call,
         [&](int64_t i, auto& draws) { return functors::draw_binomial(pa[i], pb[i], draws); });
  }
}

void gamma_derivative_cpu(const Tensor& a, const Tensor& x, const Tensor& out) {
  const double *pa = a.data<double>(), *px = x.data<double>();
  double* p = out.data<double>();
  parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) p[i] = functors::gamma_draw_derivative(pa[i], px[i]);
  });
}

}  // namespace rush
