// Fractional max pools on GPUs, through kernels/fractional_pool.cu.
#include "cuda/kernels/fractional_pool_args.h"
#include "cuda/nn/rows.h"
#include "cuda/runtime/loops.h"
#include "device/nn/pool.h"

namespace rush::cuda {
namespace {

std::string spell(uint64_t key) {
  const auto type = DType(key);
  return concat("rush::fractional_max_pool<", type_pair(type), ">");
}
const KernelFamily kFamily{"fractional_pool.cu", spell};

// All contiguous.
void run(const Tensor& x, IntList kernel, const Tensor& samples, const Tensor& y,
         const Tensor& indices) {
  FractionalPoolArgs args{};
  const size_t dims = kernel.size(), skip = 3 - dims;
  args.n = y.numel();
  args.x = x.data();
  args.samples = samples.data();
  args.y = y.data();
  args.indices = indices.data<i64>();
  args.dims = int64_t(dims);
  for (size_t d = 0; d < 3; ++d) {
    const bool there = d >= skip;
    args.in[d] = there ? x.sizes()[2 + d - skip] : 1;
    args.out[d] = there ? y.sizes()[2 + d - skip] : 1;
    args.kernel[d] = there ? kernel[d - skip] : 1;
  }
  const int device = x.device().index;
  launch_each(kFamily, uint64_t(x.dtype()), device, args.n, args);
}

void fractional_max_pool(const Tensor& x, IntList kernel, const Tensor& samples, const Tensor& out,
                         const Tensor& indices) {
  const auto plain = [](const Tensor& t) {
    return t.is_contiguous() ? t : make_tensor(t.sizes(), t.dtype(), t.device());
  };
  const Tensor y = plain(out), i = plain(indices);
  run(contiguous(x), kernel, contiguous(samples), y, i);
  if (!y.is_same(out)) copy(y, out, false);
  if (!i.is_same(indices)) copy(i, indices, false);
}

const bool registered = [] {
  pool_loops(DeviceType::CUDA).fractional_max = fractional_max_pool;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
