// Draws by rejection. Compiled for each instruction set because of the fused multiply-adds, which
// are slow calls without the instruction; the numbers are the same everywhere.
#include "cpu/kernels/sampling.h"

#include "functors/sampling.h"

namespace rush::RUSH_ISA {
namespace {

template <class Draw>
void each(double* out, int64_t first, int64_t n, RandomCall call, Draw draw) {
  for (int64_t i = 0; i < n; ++i) {
    functors::Draws draws(call.seed, call.call, u64(first + i));
    out[i] = draw(i, draws);
  }
}

void gamma(const double* a, const double*, double* out, int64_t first, int64_t n, RandomCall call) {
  each(out, first, n, call,
       [&](int64_t i, auto& draws) { return functors::draw_gamma(a[i], draws); });
}
void poisson(const double* a, const double*, double* out, int64_t first, int64_t n,
             RandomCall call) {
  each(out, first, n, call,
       [&](int64_t i, auto& draws) { return functors::draw_poisson(a[i], draws); });
}
void binomial(const double* a, const double* b, double* out, int64_t first, int64_t n,
              RandomCall call) {
  each(out, first, n, call,
       [&](int64_t i, auto& draws) { return functors::draw_binomial(a[i], b[i], draws); });
}
void gamma_derivative(const double* a, const double* x, double* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = functors::gamma_draw_derivative(a[i], x[i]);
}

}  // namespace

extern const SamplingKernels sampling_kernels = {{gamma, poisson, binomial}, gamma_derivative};

}  // namespace rush::RUSH_ISA
