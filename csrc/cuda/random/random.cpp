// Random numbers on GPUs: the bits of the CPU, since element i depends on (seed, call, i) only.
#include "device/random.h"

#include "cuda/runtime/graph.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"

namespace rush::cuda {
namespace {

bool draws_double(DType t) { return t == DType::Float64 || t == DType::Complex128; }

// Key: which numbers, then the type they become.
std::string spell_random(uint64_t key) {
  const DType type = DType(key & 15);
  const auto fn = RandomFn(key >> 4);
  const char* draw = draws_double(type) ? "double" : "float";
  if (fn == RandomFn::Normal || fn == RandomFn::LogNormal)
    return concat("rush::random_normal<", draw, ", ", kernel_type(type), ", ",
                  fn == RandomFn::LogNormal ? "true" : "false", ">");
  const char* name = fn == RandomFn::Uniform       ? "Uniform"
                     : fn == RandomFn::Exponential ? "Exponential"
                     : fn == RandomFn::Cauchy      ? "Cauchy"
                     : fn == RandomFn::Geometric   ? "Geometric"
                                                   : "Bernoulli";
  return concat("rush::random_fill<rush::functors::Random", name, ", ", draw, ", ",
                kernel_type(type), ">");
}
std::string spell_int(uint64_t key) {
  return concat("rush::random_int<", kernel_type(DType(key)), ">");
}
const KernelFamily kRandom{"random_exact.cu", spell_random};
const KernelFamily kRandomInt{"random_exact.cu", spell_int};

// Numbers are drawn in row-major order; any other layout goes through a contiguous copy.
template <class F>
void into_contiguous(const Tensor& out, F f) {
  if (out.numel() == 0) return;
  if (out.is_contiguous()) return f(out);
  const Tensor contiguous = make_tensor(out.sizes(), out.dtype(), out.device());
  f(contiguous);
  copy(contiguous, out, false);
}

void random(RandomFn fn, const Tensor& out, RandomCall call, double a, double b) {
  // A uniform number below 1 must stay below 1 in the target's few bits.
  const bool narrow = fn == RandomFn::Uniform && is_reduced_float(out.dtype());
  const uint32_t mask = !narrow ? ~0u : ~0u << (32 - (out.dtype() == DType::Float16 ? 11 : 8));
  into_contiguous(out, [&](const Tensor& t) {
    const int device = t.device().index;
    const RandomSource from = random_source(call, device);
    const RandomArgs args{t.numel(), t.data(), from.seed, from.call, a, b, mask, from.state};
    const int64_t per_thread = draws_double(t.dtype()) ? 2 : 4;
    launch_each(kRandom, uint64_t(fn) << 4 | uint64_t(t.dtype()), device,
                (t.numel() + per_thread - 1) / per_thread, args);
  });
}

void random_int(const Tensor& out, RandomCall call, int64_t from, uint64_t range) {
  into_contiguous(out, [&](const Tensor& t) {
    const int device = t.device().index;
    const RandomSource source = random_source(call, device);
    const RandomIntArgs args{t.numel(), t.data(), source.seed, source.call,
                             from,      range,    source.state};
    launch_each(kRandomInt, uint64_t(t.dtype()), device, t.numel(), args);
  });
}

const bool registered = [] {
  random_loops(DeviceType::CUDA).fill = random;
  random_loops(DeviceType::CUDA).fill_int = random_int;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
