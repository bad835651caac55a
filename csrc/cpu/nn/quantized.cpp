// Quantized tensors on the CPU: loops through kernels/quantized.cpp, products and convolutions by
// oneDNN.
#include "device/nn/quantized.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/interrupt.h"
#include "core/threads.h"
#include "cpu/copy/copy.h"
#include "cpu/isa_table.h"
#include "cpu/kernels/quantized_tables.h"
#include "cpu/nn/rnn_plan.h"
#include "cpu/scratch.h"
#include "cpu/vendor/onednn_matmul.h"
#include "cpu/vendor/onednn_quantized.h"

namespace rush {

namespace {

constexpr int64_t kGrain = 1 << 15;  // elements of a piece
constexpr int64_t kMostOfSeven = 127;

const QuantizedTables& tables() {
  return kernels_in_use([]<Isa isa>() { return quantized_tables<isa>(); });
}
template <class T>
const QuantizedTable<T>& kernels() {
  if constexpr (std::is_signed_v<T>)
    return tables().signed_bytes;
  else
    return tables().unsigned_bytes;
}

FloatSteps in_floats(Steps s) { return {float(s.scale), float(s.zero)}; }

template <class F>
void for_type(const Tensor& integers, F&& f) {
  dispatch<DType::UInt8, DType::Int8>("quantize", integers.dtype(), std::forward<F>(f));
}

void quantize_cpu(const Tensor& x, Steps steps, const Tensor& out) {
  for_type(out, [&]<class T>() {
    constexpr auto kMost = float(std::numeric_limits<T>::max());
    parallel_for(x.numel(), kGrain, [&](int64_t begin, int64_t end) {
      kernels<T>().quantize(x.data<float>() + begin, end - begin, in_floats(steps), kMost, false,
                            out.data<T>() + begin);
    });
  });
}

void dequantize_cpu(const Tensor& x, Steps steps, const Tensor& out) {
  for_type(x, [&]<class T>() {
    parallel_for(x.numel(), kGrain, [&](int64_t begin, int64_t end) {
      kernels<T>().dequantize(x.data<T>() + begin, end - begin, in_floats(steps),
                              out.data<float>() + begin);
    });
  });
}

void combine_cpu(bool multiply, bool relu, const Tensor& a, Steps of_a, const Tensor& b, Steps of_b,
                 const Tensor& out, Steps of_out) {
  for_type(out, [&]<class T>() {
    const auto loop = multiply ? kernels<T>().multiply : kernels<T>().add;
    parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end) {
      loop(a.data<T>() + begin, in_floats(of_a), b.data<T>() + begin, in_floats(of_b), end - begin,
           relu, in_floats(of_out), out.data<T>() + begin);
    });
  });
}

// See adds_bytes_exactly. x lies end to end.
bool sums_are_exact(const Tensor& x) {
  if (!onednn::available()) return false;
  if (onednn::adds_bytes_exactly()) return true;
  if (x.dtype() != DType::UInt8) return false;
  std::atomic<bool> seven{true};
  parallel_for(x.numel(), kGrain, [&](int64_t begin, int64_t end) {
    if (tables().bits(x.data<uint8_t>() + begin, end - begin) > kMostOfSeven)
      seven.store(false, std::memory_order_relaxed);
  });
  return seven;
}

bool linear_cpu(const Tensor& x, Steps of_x, const IntegerWeight& w, bool relu, const Tensor& out,
                Steps of_out) {
  if (!sums_are_exact(x)) return false;
  return onednn::multiply_integers({x.data(), x.dtype() == DType::Int8, of_x, w, x.sizes()[0],
                                    w.w.sizes()[0], w.w.sizes()[1], relu, out.data(), out.dtype(),
                                    of_out, false});
}

// Lowers, or raises, what several threads look at. NaN stays.
template <class Better>
void improve(std::atomic<float>& best, float own, Better better) {
  float now = best.load(std::memory_order_relaxed);
  while (!std::isnan(now) && (std::isnan(own) || better(own, now)) &&
         !best.compare_exchange_weak(now, own, std::memory_order_relaxed)) {
  }
}

Range range_of(const float* x, int64_t n) {
  std::atomic<float> low{INFINITY}, high{-INFINITY};
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    const Range own = tables().range(x + begin, end - begin);
    improve(low, own.low, std::less<float>());
    improve(high, own.high, std::greater<float>());
  });
  return {low, high};
}

// Rows of numbers as integers of seven bits, in the steps that they need.
Steps quantize_rows(const float* x, int64_t n, uint8_t* to) {
  const Range range = range_of(x, n);
  const Steps steps = steps_for(range.low, range.high, kMostOfSeven);
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    kernels<uint8_t>().quantize(x + begin, end - begin, in_floats(steps), float(kMostOfSeven), true,
                                to + begin);
  });
  return steps;
}

struct Rows {
  const float* x;
  int64_t count;
  Scratch<uint8_t>& integers;  // room for them
};
bool multiply_rows(const Rows& rows, const IntegerWeight& w, bool relu, float* out,
                   bool accumulate) {
  const int64_t n = w.w.sizes()[0], k = w.w.sizes()[1];
  const Steps steps = quantize_rows(rows.x, rows.count * k, rows.integers.get());
  return onednn::multiply_integers({rows.integers.get(), false, steps, w, rows.count, n, k, relu,
                                    out, DType::Float32, Steps{1, 0}, accumulate});
}

bool dynamic_linear_cpu(const Tensor& x, const IntegerWeight& w, bool relu, const Tensor& out) {
  if (!onednn::available()) return false;
  Scratch<uint8_t> integers(x.numel());
  return multiply_rows({x.data<float>(), x.sizes()[0], integers}, w, relu, out.data<float>(),
                       false);
}

// The values of x with the channels last.
Tensor channels_last(const Tensor& x) {
  const Dims strides = strides_of_last_channels(x.sizes());
  bool lies_so = true;
  for (size_t d = 0; d < strides.size(); ++d)
    lies_so = lies_so && (x.sizes()[d] == 1 || x.strides()[d] == strides[d]);
  if (lies_so) return x;
  const Tensor out = make_tensor(x.sizes(), strides, x.dtype(), {});
  copy_cpu(x, out);
  return out;
}

bool convolve_cpu(ConvKind kind, const ConvShape& shape, const Tensor& x, Steps of_x,
                  const IntegerWeight& w, bool relu, const Tensor& out, Steps of_out) {
  const Tensor image = channels_last(x);
  if (!sums_are_exact(image)) return false;
  return onednn::convolve_integers(kind, shape, image, of_x, w, relu, out, of_out);
}

bool recurrent_layer_cpu(const Tensor& x, const IntegerWeight& w_input,
                         const IntegerWeight& w_state, bool reverse, const Tensor& h,
                         const Tensor& c, const Tensor& out) {
  if (!onednn::available()) return false;
  const int64_t steps = x.sizes()[0], batch = x.sizes()[1], units = h.sizes()[1];
  const int64_t row = 4 * units;
  Scratch<float> sums(steps * batch * row);
  Scratch<uint8_t> integers(std::max(x.numel(), batch * units));
  const IntegerWeight plain{w_input.w, w_input.scales, {}};  // cells add the bias
  if (!multiply_rows({x.data<float>(), steps * batch, integers}, plain, false, sums.get(), false))
    return false;
  const std::vector<float> none(w_input.bias.defined() ? 0 : size_t(row), 0.0f);
  CellForward<float> cell{};
  cell.units = units;
  cell.sums_row = row;
  cell.sums_gate = cell.gate = units;
  cell.bias = w_input.bias.defined() ? w_input.bias.data<float>() : none.data();
  cell.c_row = cell.h_row = cell.out_row = units;
  const auto run_cell = rnn_kernels<float>().forward[int(RnnMode::Lstm)];
  InterruptCounter interrupts(16);
  for (int64_t i = 0; i < steps; ++i) {
    interrupts.add();
    const int64_t t = reverse ? steps - 1 - i : i;
    float* const at = sums.get() + t * batch * row;
    if (!multiply_rows({h.data<float>(), batch, integers}, w_state, false, at, true)) return false;
    parallel_for(batch, std::max<int64_t>(1, kGrain / 8 / row), [&](int64_t begin, int64_t end) {
      CellForward<float> part = cell;
      part.rows = end - begin;
      part.sums = at + begin * row;
      part.c = c.data<float>() + begin * units;
      part.h = h.data<float>() + begin * units;
      part.out = out.data<float>() + (t * batch + begin) * units;
      run_cell(part);
    });
  }
  return true;
}

const bool registered = [] {
  quantized_loops(DeviceType::CPU) = {quantize_cpu,       dequantize_cpu,     combine_cpu,
                                      linear_cpu,         dynamic_linear_cpu, convolve_cpu,
                                      recurrent_layer_cpu};
  return true;
}();

}  // namespace

}  // namespace rush
