// Losses of input and target on the CPU, through kernels/loss.cpp.
#include "device/nn/loss.h"

#include <algorithm>
#include <vector>

#include "core/threads.h"
#include "cpu/isa_table.h"
#include "cpu/kernels/loss_tables.h"

namespace rush {

namespace {

constexpr int64_t kGrain = 16384;

template <class T>
const LossEntry<T>& kernel(LossFn fn) {
  return kernels_in_use([]<Isa isa>() { return loss_table<isa, T>(); }).entries[int(fn)];
}

template <class F>
void for_type(const Tensor& x, F&& f) {
  dispatch<DType::Float32, DType::Float64>("loss", x.dtype(), std::forward<F>(f));
}

void element_loss_cpu(LossFn fn, const Tensor& x, const Tensor& t, double parameter,
                      const Tensor& out) {
  for_type(x, [&]<class T>() {
    parallel_for(x.numel(), kGrain, [&](int64_t i, int64_t end) {
      kernel<T>(fn).each(x.data<T>() + i, t.data<T>() + i, out.data<T>() + i, end - i,
                         T(parameter));
    });
  });
}

void element_loss_sum_cpu(LossFn fn, const Tensor& x, const Tensor& t, double parameter,
                          double divisor, const Tensor& out) {
  // Blocks of one size, added up in order: the same sum for any number of threads.
  const int64_t n = x.numel(), blocks = (n + kGrain - 1) / kGrain;
  std::vector<double> sums(size_t(blocks), 0.0);
  for_type(x, [&]<class T>() {
    parallel_for(blocks, 1, [&](int64_t b, int64_t end) {
      for (; b < end; ++b) {
        const int64_t at = b * kGrain;
        sums[size_t(b)] = kernel<T>(fn).sum(x.data<T>() + at, t.data<T>() + at,
                                            std::min(kGrain, n - at), T(parameter));
      }
    });
  });
  double all = 0;
  for (double s : sums) all += s;
  store_scalar(out.data(), out.dtype(), Scalar(all / divisor));
}

void element_loss_backward_cpu(LossFn fn, const Tensor& x, const Tensor& t, double parameter,
                               const Tensor& g, double scale, const Tensor& gx) {
  for_type(x, [&]<class T>() {
    const int64_t step = g.numel() == x.numel() ? 1 : 0;
    parallel_for(x.numel(), kGrain, [&](int64_t i, int64_t end) {
      kernel<T>(fn).slope(x.data<T>() + i, t.data<T>() + i, g.data<T>() + i * step, step, T(scale),
                          gx.data<T>() + i, end - i, T(parameter));
    });
  });
}

const bool registered = [] {
  LossLoops& loops = loss_loops(DeviceType::CPU);
  loops.element = element_loss_cpu;
  loops.element_sum = element_loss_sum_cpu;
  loops.element_backward = element_loss_backward_cpu;
  return true;
}();

}  // namespace
}  // namespace rush
