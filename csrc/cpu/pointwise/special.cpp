#include "cpu/kernels/special.h"
#include "core/cpu_features.h"
#include "core/threads.h"
#include "device/pointwise.h"

namespace rush {
namespace {

constexpr int64_t kGrain = 512;

const SpecialKernels& kernels() {
#if defined(__x86_64__)
  static const SpecialKernels& chosen = isa_level() == IsaLevel::Avx512 ? avx512::special_kernels
                                        : isa_level() == IsaLevel::Avx2 ? avx2::special_kernels
                                                                        : baseline::special_kernels;
  return chosen;
#else
  return baseline::special_kernels;
#endif
}

template <class T>
void run(SpecialLoop<T> loop, SpecialFn fn, const Tensor& x, const Tensor& y, const Tensor& out,
         double first, double second) {
  const T *a = x.data<T>(), *b = y.data<T>();
  T* to = out.data<T>();
  parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end) {
    loop(fn, a + begin, b + begin, to + begin, end - begin, first, second);
  });
}
void special(SpecialFn fn, const Tensor& x, const Tensor& y, const Tensor& out, double first,
             double second) {
  if (out.dtype() == DType::Float32)
    run<float>(kernels().single, fn, x, y, out, first, second);
  else
    run<double>(kernels().wide, fn, x, y, out, first, second);
}

const bool registered = [] {
  pointwise_loops(DeviceType::CPU).special = special;
  return true;
}();

}  // namespace
}  // namespace rush
