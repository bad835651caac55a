// Pools on GPUs, through kernels/pool.cu.
#include "device/nn/pool.h"

#include <bit>

#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"

namespace rush::cuda {
namespace {

enum PoolKernel : uint64_t { kMax, kMaxScatter, kMaxGather, kAverage, kAverageBackward };

// A key: kernel, whether 64 bits count, the pack's width, the type.
std::string spell(uint64_t key) {
  constexpr const char* names[] = {"max_pool", "max_pool_scatter", "max_pool_gather",
                                   "average_pool", "average_pool_backward"};
  return concat("rush::", names[key >> 8], "<", kernel_type(DType(key & 15)), ", ",
                key >> 7 & 1 ? "rush::u64" : "rush::u32", ", ", 1 << (key >> 4 & 7), ">");
}
const KernelFamily kPool{"pool.cu", spell};

// The geometry of one pool, before it is known how wide the counting must be.
struct Pool {
  PoolKernel kernel;
  const Tensor &in, &out;   // of the forward pass
  const Tensor &from, &to;  // what is read, what is written
  const PoolWindows& windows;
  const Tensor* indices = nullptr;
};

template <class I>
PoolArgs<I> args_for(const Pool& p, int width) {
  PoolArgs<I> args{};
  const size_t dims = size_t(p.in.dim() - 2), skip = 3 - dims;
  const PoolWindows& w = p.windows;
  args.channels = I(p.in.sizes()[1]);
  args.packs = Divider<I>::of(args.channels / I(width));
  args.channels_last = !p.in.is_contiguous();
  args.adaptive = w.kernel.empty();
  args.include_pad = w.count_include_pad;
  args.divisor = double(w.divisor.value_or(0));
  for (size_t i = 0; i < 3; ++i) {
    args.in[i] = args.out[i] = Divider<I>::of(1);
    args.kernel[i] = args.stride[i] = args.dilation[i] = 1;
    if (i < skip) continue;
    const size_t d = i - skip;
    args.in[i] = Divider<I>::of(I(p.in.sizes()[2 + d]));
    args.out[i] = Divider<I>::of(I(p.out.sizes()[2 + d]));
    if (args.adaptive) continue;
    args.kernel[i] = i32(w.kernel[d]);
    args.stride[i] = i32(w.stride[d]);
    args.padding[i] = i32(w.padding[d]);
    if (!w.dilation.empty()) args.dilation[i] = i32(w.dilation[d]);
  }
  args.x = p.from.data();
  args.y = p.to.data();
  args.indices = p.indices ? p.indices->data<i64>() : nullptr;
  return args;
}

// Channels that one thread takes: as many as one read holds where they lie side by side.
int pack_width(const Pool& p) {
  // (Atomic additions of neighbouring threads to neighbouring channels go together.)
  if (p.in.is_contiguous() || p.kernel == kMaxScatter) return 1;
  int width = int(16 / p.in.element_size());
  while (p.in.sizes()[1] % width) width /= 2;
  for (const Tensor* t : {&p.from, &p.to})
    while (reinterpret_cast<uintptr_t>(t->data()) % uintptr_t(width * t->element_size()))
      width /= 2;
  if (p.indices && reinterpret_cast<uintptr_t>(p.indices->data()) % 16) width = 1;
  return width;
}

template <class I>
void run_counting(const Pool& p) {
  const int width = pack_width(p), device = p.to.device().index;
  PoolArgs<I> args = args_for<I>(p, width);
  const bool gathers = p.kernel == kAverageBackward || p.kernel == kMaxGather;
  args.n = (gathers ? p.in : p.out).numel() / width;
  launch_each(kPool,
              p.kernel << 8 | uint64_t(sizeof(I) == 8) << 7 |
                  uint64_t(std::countr_zero(unsigned(width))) << 4 | uint64_t(p.to.dtype()),
              device, args.n, args);
}

void run(const Pool& p) {
  if (p.in.numel() == 0 || p.out.numel() == 0) {  // no windows, or nothing in them: sizes of 0
    if (p.to.numel() != 0) fill(p.to, 0);
    return;
  }
  constexpr int64_t kShort = int64_t(1) << 31;
  if (p.in.numel() < kShort && p.out.numel() < kShort)
    run_counting<u32>(p);
  else
    run_counting<u64>(p);
}

void max_pool(const Tensor& x, const PoolWindows& windows, const Tensor& y, const Tensor& indices) {
  run({kMax, x, y, x, y, windows, &indices});
}

// Does an input lie in so few windows that it had better look into each of them? Else the outputs add
// to the inputs, in any order.
bool gathers(const PoolWindows& w) {
  constexpr double kMost = 4;
  double windows = w.kernel.empty() ? kMost + 1 : 1;
  for (size_t d = 0; d < w.kernel.size(); ++d) {
    windows *= std::max(1.0, double(w.kernel[d]) / double(w.stride[d]));
    if (!w.dilation.empty() && w.dilation[d] != 1) return false;
  }
  return windows <= kMost;
}
void max_pool_backward(const Tensor& g, const Tensor& indices, const PoolWindows& windows,
                       const Tensor& gx) {
  if (gathers(windows)) return run({kMaxGather, gx, g, g, gx, windows, &indices});
  fill(gx, 0);
  run({kMaxScatter, gx, g, g, gx, PoolWindows{}, &indices});
}

void average_pool(const Tensor& x, const PoolWindows& windows, const Tensor& y) {
  run({kAverage, x, y, x, y, windows});
}

void average_pool_backward(const Tensor& g, const PoolWindows& windows, const Tensor& gx) {
  run({kAverageBackward, gx, g, g, gx, windows});
}

const bool registered = [] {
  PoolLoops& loops = pool_loops(DeviceType::CUDA);
  loops.max = max_pool;
  loops.max_backward = max_pool_backward;
  loops.average = average_pool;
  loops.average_backward = average_pool_backward;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
