// sampling_exact.cu: draws by rejection, with the formulas, the words and the bits of the CPU.
#include "cuda/kernels/element.h"
#include "cuda/kernels/sampling_args.h"
#include "functors/sampling.h"

namespace rush {

namespace samplers {
struct Gamma {
  static RUSH_FN double draw(const SamplingArgs& args, i64 i, functors::Draws& draws) {
    return functors::draw_gamma(args.a[i], draws);
  }
};
struct Poisson {
  static RUSH_FN double draw(const SamplingArgs& args, i64 i, functors::Draws& draws) {
    return functors::draw_poisson(args.a[i], draws);
  }
};
struct Binomial {
  static RUSH_FN double draw(const SamplingArgs& args, i64 i, functors::Draws& draws) {
    return functors::draw_binomial(args.a[i], args.b[i], draws);
  }
};
}  // namespace samplers

template <class Sampler>
__global__ void __launch_bounds__(kThreads) sample(SamplingArgs args) {
  after_earlier();
  const RandomKey key = random_key(args.seed, args.call, args.state);
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    functors::Draws draws(key.seed, key.call, u64(i));
    args.out[i] = Sampler::draw(args, i, draws);
  }
}

// (A template, as every kernel is: it is named by its instance.)
template <class T>
__global__ void __launch_bounds__(kThreads) gamma_derivative(SamplingArgs args) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count())
    args.out[i] = T(functors::gamma_draw_derivative(args.a[i], args.b[i]));
}

}  // namespace rush
