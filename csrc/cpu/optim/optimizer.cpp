// Steps of optimisers on the CPU, and loops over lists of tensors, through kernels/optimizer.cpp.
// The threads share out the elements of all tensors, so that neither many small ones nor a single
// large one leaves a thread idle.
#include "device/optim.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "core/cpu_features.h"
#include "core/threads.h"
#include "cpu/copy/copy.h"
#include "cpu/kernels/optimizer_tables.h"
#include "device/lists.h"

namespace rush {

namespace {

constexpr int64_t kGrain = 8192;   // elements a thread takes at least
constexpr int64_t kChunk = 1024;   // elements of a 16-bit type that are widened at a time
constexpr int64_t kPiece = 16384;  // elements whose partial norm is one number

struct Kernels {
  const OptimizerTable* steps[2];  // float, double
  const ListKernels* lists[2];
};
template <Isa isa>
void use(Kernels& k) {
  k.steps[0] = optimizer_table<isa, float>();
  k.steps[1] = optimizer_table<isa, double>();
  k.lists[0] = list_kernels<isa, float>();
  k.lists[1] = list_kernels<isa, double>();
}
const Kernels& kernels() {
  static const PerIsa<Kernels> k([]([[maybe_unused]] IsaLevel level) {
    Kernels found;
    use<Isa::baseline>(found);
#ifdef __x86_64__
    if (level >= IsaLevel::Avx2) use<Isa::avx2>(found);
    if (level >= IsaLevel::Avx512) use<Isa::avx512>(found);
#endif
    return found;
  });
  return k.now();
}

// A 16-bit stretch, through float buffers that stay in the first-level cache.
void widened_step(const OptimizerEntry& entry, DType dtype, char* const* ptrs, int64_t n,
                  const double* numbers) {
  alignas(64) float buffers[2 + kMaxOptimizerStates][kChunk];
  const ConvertFn widen = convert_fn(dtype, DType::Float32);
  const ConvertFn narrow = convert_fn(DType::Float32, dtype);
  const int operands = 2 + entry.states;
  char* wide[2 + kMaxOptimizerStates];
  for (int k = 0; k < operands; ++k) wide[k] = reinterpret_cast<char*>(buffers[k]);
  for (int64_t at = 0; at < n; at += kChunk) {
    const int64_t count = std::min(kChunk, n - at);
    for (int k = 0; k < operands; ++k) widen(wide[k], 4, ptrs[k] + at * 2, 2, count);
    entry.fn(wide, count, numbers);
    for (int k = 0; k < operands; ++k) {
      if (k != 1) narrow(ptrs[k] + at * 2, 2, wide[k], 4, count);
    }
  }
}

void step_range(OptimizerRule rule, const OptimizerTensor& t, int64_t begin, int64_t end) {
  const OptimizerEntry& entry = kernels().steps[t.dtype == DType::Float64]->rules[int(rule)];
  char* ptrs[2 + kMaxOptimizerStates];
  for (int k = 0; k < 2 + entry.states; ++k) ptrs[k] = t.ptrs[k] + begin * element_size(t.dtype);
  if (element_size(t.dtype) == 2)
    widened_step(entry, t.dtype, ptrs, end - begin, t.numbers);
  else
    entry.fn(ptrs, end - begin, t.numbers);
}

// Calls f(i, begin, end) for the parts of the tensors that a thread takes; each thread gets a
// stretch of the elements of all tensors laid end to end.
template <class T, class F>
void for_elements(std::span<const T> tensors, F&& f) {
  std::vector<int64_t> starts(tensors.size() + 1, 0);
  for (size_t i = 0; i < tensors.size(); ++i) starts[i + 1] = starts[i] + tensors[i].numel;
  parallel_for(starts.back(), kGrain, [&](int64_t begin, int64_t end) {
    const auto after = std::upper_bound(starts.begin(), starts.end(), begin);
    for (size_t i = size_t(after - starts.begin()) - 1; begin < end; ++i) {
      const int64_t stop = std::min(end, starts[i + 1]);
      if (begin < stop) f(i, begin - starts[i], stop - starts[i]);
      begin = std::max(begin, stop);
    }
  });
}

// Calls f with the elements of a stretch as floats or doubles; writes them back when it must.
template <class F>
void with_wide(const FlatTensor& t, int64_t begin, int64_t end, bool writes, F&& f) {
  const int64_t size = element_size(t.dtype);
  char* data = t.data + begin * size;
  if (size != 2) return f(*kernels().lists[t.dtype == DType::Float64], data, end - begin);
  alignas(64) float buffer[kChunk];
  char* wide = reinterpret_cast<char*>(buffer);
  for (int64_t at = 0; at < end - begin; at += kChunk) {
    const int64_t count = std::min(kChunk, end - begin - at);
    convert_fn(t.dtype, DType::Float32)(wide, 4, data + at * 2, 2, count);
    f(*kernels().lists[0], wide, count);
    if (writes) convert_fn(DType::Float32, t.dtype)(data + at * 2, 2, wide, 4, count);
  }
}

// The maximum (or minimum) that nan spreads through.
double extreme(double a, double b, bool largest) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  return largest ? std::max(a, b) : std::min(a, b);
}

void optimizer_step_cpu(OptimizerRule rule, std::span<const OptimizerTensor> tensors,
                        const OptimizerFormula*, Device) {
  for_elements(tensors, [&](size_t i, int64_t begin, int64_t end) {
    step_range(rule, tensors[i], begin, end);
  });
}

double norm_of_all(std::span<const FlatTensor> tensors, double p) {
  // Pieces depend on the tensors only, so that the sum is the same for any number of threads.
  struct Piece {
    size_t tensor;
    int64_t begin, end;
  };
  std::vector<Piece> pieces;
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (int64_t at = 0; at < tensors[i].numel; at += kPiece)
      pieces.push_back({i, at, std::min(at + kPiece, tensors[i].numel)});
  }
  if (pieces.empty()) return 0;
  const bool is_extreme = std::isinf(p);
  std::vector<double> parts(pieces.size(), 0);
  parallel_for(int64_t(pieces.size()), 1, [&](int64_t b, int64_t e) {
    for (int64_t k = b; k < e; ++k) {
      const Piece& piece = pieces[size_t(k)];
      bool first = true;
      with_wide(tensors[piece.tensor], piece.begin, piece.end, false,
                [&](const ListKernels& kernel, const char* x, int64_t n) {
                  const double part = kernel.sum_of_powers(x, n, p);
                  double& sum = parts[size_t(k)];
                  sum = !is_extreme ? sum + part : first ? part : extreme(sum, part, p > 0);
                  first = false;
                });
    }
  });
  double total = parts[0];
  for (size_t k = 1; k < parts.size(); ++k)
    total = is_extreme ? extreme(total, parts[k], p > 0) : total + parts[k];
  if (is_extreme || p == 0 || p == 1) return total;
  return p == 2 ? std::sqrt(total) : std::pow(total, 1 / p);
}

bool list_norm_cpu(std::span<const FlatTensor> tensors, double p, std::span<const Tensor> outs) {
  const size_t each = outs.size() == 1 ? tensors.size() : 1;
  for (size_t i = 0; i < outs.size(); ++i)
    store_scalar(outs[i].data(), outs[i].dtype(), norm_of_all(tensors.subspan(i, each), p));
  return true;
}

double number_in(const Tensor& t) { return load_scalar(t.data(), t.dtype()).to_double(); }

void list_scale_cpu(std::span<const FlatTensor> tensors, const Tensor& factor) {
  const double by = number_in(factor);
  if (by == 1) return;
  for_elements(tensors, [&](size_t i, int64_t begin, int64_t end) {
    with_wide(tensors[i], begin, end, true,
              [&](const ListKernels& k, char* x, int64_t n) { k.scale(x, n, by); });
  });
}

void list_unscale_cpu(std::span<const FlatTensor> tensors, const Tensor& factor,
                      const Tensor& found) {
  const double by = number_in(factor);
  std::atomic<bool> finite{true};
  for_elements(tensors, [&](size_t i, int64_t begin, int64_t end) {
    with_wide(tensors[i], begin, end, true, [&](const ListKernels& k, char* x, int64_t n) {
      if (!k.unscale(x, n, by)) finite.store(false, std::memory_order_relaxed);
    });
  });
  if (!finite.load()) store_scalar(found.data(), found.dtype(), Scalar(1.0));
}

const bool registered = [] {
  optim_loops(DeviceType::CPU) = {optimizer_step_cpu, false};
  ListLoops& lists = list_loops(DeviceType::CPU);
  lists.norm = list_norm_cpu;
  lists.scale = list_scale_cpu;
  lists.unscale = list_unscale_cpu;
  return true;
}();

}  // namespace
}  // namespace rush
