// Draws by rejection on GPUs, through kernels/sampling_exact.cu.
#include "device/random.h"

#include "cuda/kernels/sampling_args.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"

namespace rush::cuda {
namespace {

constexpr uint64_t kDerivative = 3;  // after the members of SamplingFn
std::string spell_sampling(uint64_t key) {
  constexpr const char* names[] = {"sample<rush::samplers::Gamma>",
                                   "sample<rush::samplers::Poisson>",
                                   "sample<rush::samplers::Binomial>", "gamma_derivative<double>"};
  return concat("rush::", names[key]);
}
const KernelFamily kSampling{"sampling_exact.cu", spell_sampling};

void queue(uint64_t key, const Tensor& a, const Tensor& b, const Tensor& out, RandomCall call) {
  const int device = out.device().index;
  const RandomSource source = key == kDerivative ? RandomSource{} : random_source(call, device);
  const SamplingArgs args{
      out.numel(),        a.data<double>(), b.defined() ? b.data<double>() : nullptr,
      out.data<double>(), source.seed,      source.call,
      source.state};
  launch_each(kSampling, key, device, args.n, args);
}

const bool registered = [] {
  RandomLoops& loops = random_loops(DeviceType::CUDA);
  loops.sample = [](SamplingFn fn, const Tensor& a, const Tensor& b, const Tensor& out,
                    RandomCall call) { queue(uint64_t(fn), a, b, out, call); };
  loops.gamma_derivative = [](const Tensor& a, const Tensor& x, const Tensor& out) {
    queue(kDerivative, a, x, out, {});
  };
  return true;
}();

}  // namespace
}  // namespace rush::cuda
