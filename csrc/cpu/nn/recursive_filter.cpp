// Filters that feed back what they gave, on the CPU. Each sample waits for the one before it, so
// threads share the lines only.
#include "device/nn/recursive_filter.h"

#include <algorithm>

#include "core/interrupt.h"
#include "core/threads.h"
#include "cpu/prepare.h"

namespace rush {

namespace {

template <class T>
void filter_line(const T* x, const T* feedback, const T* before, int64_t order, T* y, int64_t n) {
  InterruptCounter interrupts(1 << 20);
  for (int64_t i = 0; i < n; ++i) {
    interrupts.add(order + 1);
    T sum = x[i];
    for (int64_t k = 0; k < order; ++k) {
      const int64_t at = i - order + k;
      sum -= feedback[k] * (at < 0 ? before[order + at] : y[at]);
    }
    y[i] = sum;
  }
}

void recursive_filter_cpu(const Tensor& given, const Tensor& given_feedback,
                          const Tensor& given_before, const Tensor& out) {
  const Tensor x = cpu::in_loop_type(given), feedback = cpu::in_loop_type(given_feedback),
               before = cpu::in_loop_type(given_before);
  const int64_t channels = x.sizes()[1], time = x.sizes()[2], order = feedback.sizes()[1];
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, time));
  cpu::into(out, [&](const Tensor& y) {
    dispatch<DType::Float32, DType::Float64>("recursive_filter", y.dtype(), [&]<class T>() {
      parallel_for(x.sizes()[0] * channels, grain, [&](int64_t line, int64_t end) {
        for (; line < end; ++line)
          filter_line(x.data<T>() + line * time, feedback.data<T>() + line % channels * order,
                      before.data<T>() + line * order, order, y.data<T>() + line * time, time);
      });
    });
  });
}

const bool registered = [] {
  recursive_filter_loops(DeviceType::CPU).forward = recursive_filter_cpu;
  return true;
}();

}  // namespace
}  // namespace rush
