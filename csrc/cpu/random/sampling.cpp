#include "device/random.h"

#include "core/cpu_features.h"
#include "core/threads.h"
#include "cpu/kernels/sampling.h"

namespace rush {
namespace {

constexpr int64_t kGrain = 512;  // a draw costs as much as dozens of additions

const SamplingKernels& kernels() {
#if defined(__x86_64__)
  static const SamplingKernels& chosen = isa_level() == IsaLevel::Avx512 ? avx512::sampling_kernels
                                         : isa_level() == IsaLevel::Avx2
                                             ? avx2::sampling_kernels
                                             : baseline::sampling_kernels;
  return chosen;
#else
  return baseline::sampling_kernels;
#endif
}

void sample(SamplingFn fn, const Tensor& a, const Tensor& b, const Tensor& out, RandomCall call) {
  const double* pa = a.data<double>();
  const double* pb = b.defined() ? b.data<double>() : nullptr;
  double* p = out.data<double>();
  const SampleFn draw = kernels().samples[int(fn)];
  parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end) {
    draw(pa + begin, pb ? pb + begin : nullptr, p + begin, begin, end - begin, call);
  });
}

void gamma_derivative(const Tensor& a, const Tensor& x, const Tensor& out) {
  const double *pa = a.data<double>(), *px = x.data<double>();
  double* p = out.data<double>();
  parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end) {
    kernels().gamma_derivative(pa + begin, px + begin, p + begin, end - begin);
  });
}

const bool registered = [] {
  random_loops(DeviceType::CPU).sample = sample;
  random_loops(DeviceType::CPU).gamma_derivative = gamma_derivative;
  return true;
}();

}  // namespace
}  // namespace rush
