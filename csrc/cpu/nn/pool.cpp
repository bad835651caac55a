// Pools on the CPU, through kernels/pool.cpp.
#include "device/nn/pool.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/interrupt.h"
#include "core/threads.h"
#include "cpu/isa_table.h"
#include "cpu/kernels/pool_tables.h"
#include "cpu/prepare.h"

namespace rush {

namespace {

template <class T>
const PoolTable<T>& kernels() {
  return kernels_in_use([]<Isa isa>() { return pool_table<isa, T>(); });
}

template <class F>
void for_type(const Tensor& x, F&& f) {
  dispatch<DType::Float32, DType::Float64, DType::Int64>("pool", x.dtype(), std::forward<F>(f));
}

// The windows of every dim, as the loops want them.
class Plan {
 public:
  Plan(const Tensor& in, const Tensor& out, const PoolWindows& w) {
    const size_t dims = size_t(in.dim() - 2), skip = 3 - dims;
    call.channels = in.sizes()[1];
    call.channels_last = !in.is_contiguous();
    call.divisor = w.divisor.value_or(0);
    for (size_t i = 0; i < 3; ++i) {
      const bool real = i >= skip;
      const size_t d = real ? i - skip : 0;
      const int64_t n = real ? in.sizes()[2 + d] : 1, m = real ? out.sizes()[2 + d] : 1;
      Lists& l = lists_[i];
      l.first.resize(size_t(m)), l.last.resize(size_t(m)), l.count.resize(size_t(m));
      const int64_t step = real && !w.dilation.empty() ? w.dilation[d] : 1;
      for (int64_t o = 0; o < m; ++o) {
        int64_t from, to, count;
        if (w.kernel.empty() || !real) {
          from = o * n / m;
          to = ((o + 1) * n + m - 1) / m;
          count = to - from;
        } else {
          from = o * w.stride[d] - w.padding[d];
          to = std::min(from + (w.kernel[d] - 1) * step + 1, n + w.padding[d]);
          count = to - from;
          if (from < 0) from += (-from + step - 1) / step * step;
          to = std::min(to, n);
          if (!w.count_include_pad) count = to - from;
        }
        l.first[size_t(o)] = from;
        l.last[size_t(o)] = to;
        l.count[size_t(o)] = count;
      }
      call.axis[i] = {n, m, step, l.first.data(), l.last.data(), l.count.data()};
      find_even(call.axis[i]);
    }
    batch = in.sizes()[0];
  }

  // Runs f(begin, end) over the jobs, see PoolCall.
  template <class F>
  void run(bool backward, F&& f) const {
    const int64_t blocks = (call.channels + kPoolBlock - 1) / kPoolBlock;
    const int64_t jobs = batch * (!call.channels_last ? call.channels
                                  : backward          ? blocks
                                                      : call.axis[0].out * call.axis[1].out);
    const int64_t work = batch * call.channels * std::max(call.in_points(), call.out_points());
    parallel_for(jobs, std::max<int64_t>(1, 8192 * jobs / std::max<int64_t>(work, 1)),
                 std::forward<F>(f));
  }

  PoolCall call;
  int64_t batch;

 private:
  static void find_even(PoolAxis& a) {
    int64_t width = 0;
    for (int64_t o = 0; o < a.out; ++o) width = std::max(width, a.last[o] - a.first[o]);
    if (width <= 0) return;
    a.taps = (width - 1) / a.step + 1;
    while (a.even < a.out && a.last[a.even] - a.first[a.even] != width) ++a.even;
    a.even_end = a.even;
    if (a.even + 1 < a.out) a.stride = a.first[a.even + 1] - a.first[a.even];
    // Windows that coincide (adaptive pools that enlarge) are no stretch: neighbouring lanes of the
    // backward loop would add to one place.
    if (a.stride <= 0) return;
    while (a.even_end < a.out && a.last[a.even_end] - a.first[a.even_end] == width &&
           a.first[a.even_end] == a.first[a.even] + (a.even_end - a.even) * a.stride)
      ++a.even_end;
  }
  struct Lists {
    std::vector<int64_t> first, last, count;
  };
  Lists lists_[3];
};

void max_pool_cpu(const Tensor& x, const PoolWindows& windows, const Tensor& y,
                  const Tensor& indices) {
  const Plan plan(x, y, windows);
  int64_t* places = indices.defined() ? indices.data<int64_t>() : nullptr;
  for_type(x, [&]<class T>() {
    plan.run(false, [&](int64_t begin, int64_t end) {
      kernels<T>().max(plan.call, x.data<T>(), y.data<T>(), places, begin, end);
    });
  });
}

void max_pool_values_cpu(const Tensor& x, const PoolWindows& windows, const Tensor& y) {
  if (x.dtype() != DType::UInt8 && x.dtype() != DType::Int8)
    return max_pool_cpu(x, windows, y, Tensor());
  const Plan plan(x, y, windows);
  dispatch<DType::UInt8, DType::Int8>("pool", x.dtype(), [&]<class T>() {
    plan.run(false, [&](int64_t begin, int64_t end) {
      kernels<T>().max(plan.call, x.data<T>(), y.data<T>(), nullptr, begin, end);
    });
  });
}

void average_pool_cpu(const Tensor& x, const PoolWindows& windows, const Tensor& y) {
  const Plan plan(x, y, windows);
  for_type(x, [&]<class T>() {
    plan.run(false, [&](int64_t begin, int64_t end) {
      kernels<T>().average(plan.call, x.data<T>(), y.data<T>(), begin, end);
    });
  });
}

void max_pool_backward_cpu(const Tensor& g, const Tensor& indices, const PoolWindows&,
                           const Tensor& gx) {
  const Plan plan(gx, g, PoolWindows{});
  const int64_t* places = indices.data<int64_t>();
  std::atomic<bool> inside = true;
  for_type(gx, [&]<class T>() {
    plan.run(true, [&](int64_t begin, int64_t end) {
      if (!kernels<T>().max_backward(plan.call, g.data<T>(), places, gx.data<T>(), begin, end))
        inside = false;
    });
  });
  check(inside, ErrorKind::Range, "max_pool", "an index lies outside an image of ",
        plan.call.in_points(), " elements");
}

void average_pool_backward_cpu(const Tensor& g, const PoolWindows& windows, const Tensor& gx) {
  const Plan plan(gx, g, windows);
  for_type(gx, [&]<class T>() {
    plan.run(true, [&](int64_t begin, int64_t end) {
      kernels<T>().average_backward(plan.call, g.data<T>(), gx.data<T>(), begin, end);
    });
  });
}

// Where the windows begin: steps of alpha on average, shifted by the sample, and the last one at
// the very end.
template <class T>
void window_starts(T sample, int64_t in, int64_t out, int64_t kernel, int64_t* starts) {
  if (out > 1) {
    const T alpha = T(in - kernel) / T(out - 1);
    for (int64_t i = 0; i + 1 < out; ++i)
      starts[i] = int64_t((T(i) + sample) * alpha) - int64_t(sample * alpha);
  }
  starts[out - 1] = in - kernel;
}

// All contiguous, float32 or float64.
void fractional_loop(const Tensor& x, IntList kernel, const Tensor& samples, const Tensor& y,
                     const Tensor& indices) {
  const size_t dims = kernel.size(), skip = 3 - dims;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, window[3] = {1, 1, 1};
  for (size_t d = 0; d < dims; ++d) {
    in[skip + d] = x.sizes()[2 + d];
    out[skip + d] = y.sizes()[2 + d];
    window[skip + d] = kernel[d];
  }
  const int64_t planes = x.sizes()[0] * x.sizes()[1];
  const int64_t area = in[0] * in[1] * in[2], points = out[0] * out[1] * out[2];
  dispatch<DType::Float32, DType::Float64>("fractional_max_pool", x.dtype(), [&]<class T>() {
    parallel_for(planes, std::max<int64_t>(1, 8192 / area), [&](int64_t p, int64_t end) {
      std::vector<int64_t> starts[3];
      for (int d = 0; d < 3; ++d) starts[d].assign(size_t(out[d]), 0);
      for (; p < end; ++p) {
        // The samples of a 2-d image come x first.
        for (size_t d = 0; d < dims; ++d)
          window_starts(samples.data<T>()[size_t(p) * dims + (dims == 2 ? 1 - d : d)], in[skip + d],
                        out[skip + d], window[skip + d], starts[skip + d].data());
        const T* from = x.data<T>() + p * area;
        InterruptCounter interrupts((1 << 18) / (window[0] * window[1] * window[2]) + 1);
        for (int64_t at = 0; at < points; ++at) {
          interrupts.add();
          const int64_t z0 = starts[0][size_t(at / (out[1] * out[2]))],
                        y0 = starts[1][size_t(at / out[2] % out[1])],
                        x0 = starts[2][size_t(at % out[2])];
          int64_t best = (z0 * in[1] + y0) * in[2] + x0;
          for (int64_t iz = z0; iz < z0 + window[0]; ++iz) {
            for (int64_t iy = y0; iy < y0 + window[1]; ++iy) {
              for (int64_t i = (iz * in[1] + iy) * in[2] + x0, e = i + window[2]; i < e; ++i) {
                if (from[i] > from[best] || from[i] != from[i]) best = i;
              }
            }
          }
          y.data<T>()[p * points + at] = from[best];
          indices.data<int64_t>()[p * points + at] = best;
        }
      }
    });
  });
}

void fractional_max_pool_cpu(const Tensor& x, IntList kernel, const Tensor& samples,
                             const Tensor& out, const Tensor& indices) {
  const bool direct = out.is_contiguous() && out.dtype() == compute_type(out.dtype());
  const Tensor y = direct ? out : make_tensor(out.sizes(), compute_type(out.dtype()));
  const Tensor places =
      indices.is_contiguous() ? indices : make_tensor(indices.sizes(), DType::Int64);
  fractional_loop(cpu::in_loop_type(x), kernel, cpu::in_loop_type(samples), y, places);
  if (!direct) copy_cpu(y, out);
  if (!places.is_same(indices)) copy_cpu(places, indices);
}

const bool registered = [] {
  pool_loops(DeviceType::CPU) = {max_pool_cpu,
                                 max_pool_values_cpu,
                                 max_pool_backward_cpu,
                                 average_pool_cpu,
                                 average_pool_backward_cpu,
                                 fractional_max_pool_cpu,
                                 true};
  return true;
}();

}  // namespace
}  // namespace rush
