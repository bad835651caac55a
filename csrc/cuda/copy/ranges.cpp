// Sequences of numbers on GPUs, through kernels/ranges_exact.cu.
#include "cuda/kernels/ranges_args.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "device/loops.h"

namespace rush::cuda {
namespace {

// Key: the kernel, then the type.
std::string spell_sequence(uint64_t key) {
  return concat(key >> 4 ? "rush::spread<" : "rush::count_up<", kernel_type(DType(key & 15)), ">");
}
constexpr KernelFamily kSequence{kCountingFamily, "ranges_exact.cu", spell_sequence};
constexpr uint64_t kCountUp = 0 << 4, kSpread = 1 << 4;

void count_up(const Tensor& out, const Scalar& start, const Scalar& step) {
  if (out.numel() == 0) return;
  CountUpArgs args{};
  args.n = out.numel();
  args.out = out.data();
  if (is_integral(out.dtype()))
    args.whole_first = start.to<int64_t>(), args.whole_step = step.to<int64_t>();
  args.first = start.to_double();
  args.step = step.to_double();
  const int device = out.device().index;
  launch(kSequence, kCountUp | uint64_t(out.dtype()), device, blocks_for(args.n, device),
         {kThreads}, args);
}

void spread(const Tensor& out, complex<double> first, complex<double> last, double base) {
  if (out.numel() == 0) return;
  const SpreadArgs args{out.numel(), out.data(), first.re, first.im, last.re, last.im, base};
  const int device = out.device().index;
  launch(kSequence, kSpread | uint64_t(out.dtype()), device, blocks_for(args.n, device), {kThreads},
         args);
}

const bool registered = [] {
  device_loops(DeviceType::CUDA).counting = {count_up, spread};
  return true;
}();

}  // namespace
}  // namespace rush::cuda
