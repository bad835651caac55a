// Resampling and patches on GPUs, through kernels/resample.cu.
#include "cpu/resample.h"

#include <bit>

#include "cpu/device_nn_loops.h"
#include "cuda/kernels/resample_args.h"
#include "cuda/loops.h"
#include "cuda/rows.h"

namespace rush::cuda {
namespace {

enum Kernel : uint64_t { kForward, kBackward, kUnfold, kFold, kImage };

// Key: kernel, then the type (kUnfold: the log of its bytes).
std::string spell(uint64_t key) {
  const auto type = DType(key & 15);
  switch (Kernel(key >> 4)) {
    case kForward:
      return concat("rush::resample<", compute_name(type), ", ", kernel_type(type), ">");
    case kBackward:
      return concat("rush::resample_backward<", compute_name(type), ", ", kernel_type(type), ">");
    case kImage:
      return concat("rush::resample_image<", compute_name(type), ", ", kernel_type(type), ">");
    case kUnfold:
      return concat("rush::unfold<", kernel_bytes(1 << (key & 15)), ">");
    default:
      return concat("rush::fold<", is_complex(type) ? kernel_type(type) : compute_name(type), ", ",
                    kernel_type(type), ">");
  }
}
constexpr KernelFamily kFamily{kResampleFamily, "resample.cu", spell};

// x and y are dense and have one order of dims.
void run(Kernel kernel, const Tensor& x, int64_t dim, const Resampling& how, const Tensor& y) {
  const int device = y.device().index;
  ResampleArgs args{y.numel(), x.data(), y.data(), 1, how};
  // A dim of size 1 may have any stride.
  const Tensor& wide = x.sizes()[size_t(dim)] > 1 ? x : y;
  if (wide.sizes()[size_t(dim)] > 1) args.inner = wide.strides()[size_t(dim)];
  launch(kFamily, kernel << 4 | uint64_t(y.dtype()), device, blocks_for(args.n, device), {kThreads},
         args);
}
void resample(const Tensor& x, int64_t dim, const Resampling& how, const Tensor& y) {
  run(kForward, x, dim, how, y);
}
void resample_backward(const Tensor& g, int64_t dim, const Resampling& how, const Tensor& gx) {
  run(kBackward, g, dim, how, gx);
}

void resample_image(const Tensor& x, const Resampling* how, const Tensor& y) {
  const int device = y.device().index;
  ResampleImageArgs args{};
  args.x = x.data();
  args.y = y.data();
  for (int d = 0; d < 3; ++d) args.how[d] = how[d];
  const int64_t planes = y.sizes()[0] * y.sizes()[1], points = y.numel() / planes;
  args.inner = y.is_contiguous() ? 1 : y.sizes()[1];
  args.outer = planes / args.inner;
  args.n = points * args.inner;
  // Blocks side by side over a plane; one thread takes several planes, so that it works out its
  // neighbours once.
  const int64_t across = (args.n + kThreads - 1) / kThreads;
  const int64_t wanted = int64_t(device_info(device).processors) * 16;
  const int64_t down = std::clamp<int64_t>(wanted / std::max<int64_t>(across, 1), 1,
                                           std::min<int64_t>(args.outer, 65535));
  launch(kFamily, kImage << 4 | uint64_t(y.dtype()), device, {unsigned(across), unsigned(down)},
         {kThreads}, args);
}

void patches(Kernel kernel, uint64_t type, const PatchShape& s, const Tensor& x, const Tensor& y) {
  const int device = y.device().index;
  PatchArgs args{};
  args.n = y.numel();
  args.x = x.data();
  args.y = y.data();
  for (int d = 0; d < 2; ++d) {
    args.in[d] = s.in[d], args.out[d] = s.out[d], args.kernel[d] = s.kernel[d];
    args.dilation[d] = s.dilation[d], args.padding[d] = s.padding[d], args.stride[d] = s.stride[d];
  }
  launch(kFamily, kernel << 4 | type, device, blocks_for(args.n, device), {kThreads}, args);
}
void unfold(const PatchShape& s, const Tensor& x, const Tensor& columns) {
  patches(kUnfold, uint64_t(std::countr_zero(uint64_t(x.element_size()))), s, x, columns);
}
void fold(const PatchShape& s, const Tensor& columns, const Tensor& x) {
  patches(kFold, uint64_t(x.dtype()), s, columns, x);
}

const bool registered = [] {
  NnLoops& loops = device_nn_loops(DeviceType::CUDA);
  loops.resample = resample;
  loops.resample_backward = resample_backward;
  loops.resample_image = resample_image;
  loops.unfold = unfold;
  loops.fold = fold;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
