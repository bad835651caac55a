// Sequences of numbers on GPUs, through kernels/ranges_exact.cu.
#include "cuda/kernels/ranges_args.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "device/copy.h"

namespace rush::cuda {
namespace {

// Key: the kernel, then the type.
std::string spell_sequence(uint64_t key) {
  return concat(key >> 5 ? "rush::linspace<" : "rush::arange<", kernel_type(DType(key & 31)), ">");
}
const KernelFamily kSequence{"ranges_exact.cu", spell_sequence};
constexpr uint64_t kArange = 0 << 5, kLinspace = 1 << 5;

template <class Args>
void launch_sequence(uint64_t kernel, const Tensor& out, const Args& args) {
  if (args.n == 0) return;
  const int device = out.device().index;
  launch_each(kSequence, kernel | uint64_t(out.dtype()), device, args.n, args);
}

void range(const Tensor& out, double start, double step) {
  ArangeArgs args{};
  args.n = out.numel();
  args.out = out.data();
  args.first = start;
  args.step = step;
  launch_sequence(kArange, out, args);
}

void arange(const Tensor& out, const Scalar& start, const Scalar& step) {
  if (!is_integral(out.dtype())) return range(out, start.to_double(), step.to_double());
  ArangeArgs args{};
  args.n = out.numel();
  args.out = out.data();
  args.exact = true;
  args.whole_first = start.to<int64_t>();
  args.whole_step = step.to<int64_t>();
  launch_sequence(kArange, out, args);
}

void linspace(const Tensor& out, complex<double> first, complex<double> last) {
  launch_sequence(
      kLinspace, out,
      LinspaceArgs{out.numel(), out.data(), first.re, first.im, last.re, last.im, 0, 0});
}

void logspace(const Tensor& out, complex<double> first, complex<double> last, double base) {
  launch_sequence(
      kLinspace, out,
      LinspaceArgs{out.numel(), out.data(), first.re, first.im, last.re, last.im, base, true});
}

const bool registered = [] {
  CopyLoops& cuda = copy_loops(DeviceType::CUDA);
  cuda.arange = arange;
  cuda.range = range;
  cuda.linspace = linspace;
  cuda.logspace = logspace;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
