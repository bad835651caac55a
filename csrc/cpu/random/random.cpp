#include "device/random.h"

#include <algorithm>

#include "core/cpu_features.h"
#include "core/threads.h"
#include "cpu/copy/copy.h"
#include "cpu/kernels/random.h"

namespace rush {
namespace {

const RandomKernels& kernels() {
#if defined(__x86_64__)
  if (isa_level() == IsaLevel::Avx512) return avx512::random_kernels;
  if (isa_level() == IsaLevel::Avx2) return avx2::random_kernels;
#endif
  return baseline::random_kernels;
}

constexpr int64_t kChunk = 4096;
static_assert(kChunk % kRandomBatch == 0);

// Draws numbers of type T in chunks and converts each into `out`; any layout goes through a
// contiguous copy.
template <class T, class Draw>
void fill_chunks(const Tensor& out, Draw draw) {
  if (!out.is_contiguous()) {
    const Tensor contiguous = make_tensor(out.sizes(), out.dtype(), out.device());
    fill_chunks<T>(contiguous, draw);
    copy_cpu(contiguous, out);
    return;
  }
  char* base = static_cast<char*>(out.data());
  const int64_t item = out.element_size(), n = out.numel();
  const bool direct = out.dtype() == dtype_of<T>;
  const ConvertFn convert = direct ? nullptr : convert_fn(dtype_of<T>, out.dtype());
  parallel_for((n + kChunk - 1) / kChunk, 4, [&](int64_t begin, int64_t end) {
    alignas(64) T buffer[kChunk];
    for (int64_t c = begin; c < end; ++c) {
      const int64_t first = c * kChunk, count = std::min(kChunk, n - first);
      if (direct) {
        draw(reinterpret_cast<T*>(base) + first, first, count);
      } else {
        draw(buffer, first, count);
        convert(base + first * item, item, reinterpret_cast<char*>(buffer), sizeof(T), count);
      }
    }
  });
}

void fill(RandomFn fn, const Tensor& out, RandomCall call, double a, double b) {
  const int k = static_cast<int>(fn);
  if (out.dtype() == DType::Float64 || out.dtype() == DType::Complex128) {
    fill_chunks<double>(out, [&](double* p, int64_t first, int64_t n) {
      kernels().f64[k](p, first, n, call, a, b);
    });
    return;
  }
  // A uniform number below 1 must stay below 1 in the target's few bits.
  const bool narrow = fn == RandomFn::Uniform && is_reduced_float(out.dtype());
  const uint32_t mask = !narrow ? ~0u : ~0u << (32 - (out.dtype() == DType::Float16 ? 11 : 8));
  fill_chunks<float>(out, [&](float* p, int64_t first, int64_t n) {
    kernels().f32[k](p, first, n, call, a, b, mask);
  });
}

void fill_int(const Tensor& out, RandomCall call, int64_t from, uint64_t range) {
  fill_chunks<int64_t>(out, [&](int64_t* p, int64_t first, int64_t n) {
    kernels().integers(p, first, n, call, from, range);
  });
}

const bool registered = [] {
  random_loops(DeviceType::CPU).fill = fill;
  random_loops(DeviceType::CPU).fill_int = fill_int;
  return true;
}();

}  // namespace
}  // namespace rush
