// Pools on GPUs, through kernels/pool.cu.
#include "cpu/pool.h"

#include "cpu/device_loops.h"
#include "cuda/launch.h"
#include "cuda/loops.h"

namespace rush::cuda {
namespace {

enum PoolKernel : uint64_t { kMax, kMaxBackward, kAverage, kAverageBackward };

std::string spell(uint64_t key) {
  constexpr const char* names[] = {"max_pool", "max_pool_backward", "average_pool",
                                   "average_pool_backward"};
  return concat("rush::", names[key >> 4], "<", kernel_type(DType(key & 15)), ">");
}
constexpr KernelFamily kPool{kPoolFamily, "pool.cu", spell};

PoolArgs args_for(const Tensor& in, const Tensor& out, const PoolWindows& w) {
  PoolArgs args{};
  const size_t dims = size_t(in.dim() - 2), skip = 3 - dims;
  args.channels = in.sizes()[1];
  args.channels_last = !in.is_contiguous();
  args.adaptive = w.kernel.empty();
  args.include_pad = w.count_include_pad;
  args.divisor = double(w.divisor.value_or(0));
  for (size_t i = 0; i < 3; ++i) {
    args.in[i] = args.out[i] = args.kernel[i] = args.stride[i] = args.dilation[i] = 1;
    if (i < skip) continue;
    const size_t d = i - skip;
    args.in[i] = i32(in.sizes()[2 + d]);
    args.out[i] = i32(out.sizes()[2 + d]);
    if (args.adaptive) continue;
    args.kernel[i] = i32(w.kernel[d]);
    args.stride[i] = i32(w.stride[d]);
    args.padding[i] = i32(w.padding[d]);
    if (!w.dilation.empty()) args.dilation[i] = i32(w.dilation[d]);
  }
  return args;
}

void run(PoolKernel kernel, PoolArgs& args, const Tensor& from, const Tensor& to, int64_t n) {
  args.x = from.data();
  args.y = to.data();
  args.n = n;
  const int device = to.device().index;
  launch(kPool, kernel << 4 | uint64_t(to.dtype()), device, blocks_for(n, device), {kThreads},
         args);
}

void max_pool(const Tensor& x, const PoolWindows& windows, const Tensor& y, const Tensor& indices) {
  PoolArgs args = args_for(x, y, windows);
  args.indices = indices.data<i64>();
  run(kMax, args, x, y, y.numel());
}

void max_pool_backward(const Tensor& g, const Tensor& indices, const Tensor& gx) {
  PoolArgs args = args_for(gx, g, PoolWindows{});
  args.indices = indices.data<i64>();
  fill(gx, 0);
  run(kMaxBackward, args, g, gx, g.numel());
}

void average_pool(const Tensor& x, const PoolWindows& windows, const Tensor& y) {
  PoolArgs args = args_for(x, y, windows);
  run(kAverage, args, x, y, y.numel());
}

void average_pool_backward(const Tensor& g, const PoolWindows& windows, const Tensor& gx) {
  PoolArgs args = args_for(gx, g, windows);
  run(kAverageBackward, args, g, gx, gx.numel());
}

const bool registered = [] {
  device_loops(DeviceType::CUDA).pools = {max_pool, max_pool_backward, average_pool,
                                          average_pool_backward};
  return true;
}();

}  // namespace
}  // namespace rush::cuda
