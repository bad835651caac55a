// Resampling and patches on GPUs, through kernels/resample.cu.
#include <bit>

#include "cuda/kernels/resample_args.h"
#include "cuda/nn/rows.h"
#include "cuda/runtime/loops.h"
#include "device/nn/image.h"

namespace rush::cuda {
namespace {

enum Kernel : uint64_t { kRows, kTable, kBackwardTable, kUnfold, kFold, kImage, kDeepImage };

// Key: kernel, taps (of images), then the type (kUnfold: the log of its bytes).
std::string spell(uint64_t key) {
  const auto type = DType(key & 15);
  const auto taps = key >> 4 & 7;
  switch (const auto kernel = Kernel(key >> 7)) {
    case kRows:
      return concat("rush::resample<", type_pair(type), ">");
    case kTable:
    case kBackwardTable:
      return concat("rush::resample_table<", compute_name(type), ", ",
                    kernel == kTable ? "false>" : "true>");
    case kImage:
    case kDeepImage:
      return concat("rush::resample_image<", type_pair(type), ", ", taps, ", ",
                    kernel == kImage ? "false>" : "true>");
    case kUnfold:
      return concat("rush::unfold<", kernel_bytes(1 << (key & 15)), ">");
    default:
      return concat("rush::fold<", is_complex(type) ? kernel_type(type) : compute_name(type), ", ",
                    stored_type(type), ">");
  }
}
const KernelFamily kFamily{"resample.cu", spell};
uint64_t key_of(Kernel kernel, uint64_t type, uint64_t taps = 0) {
  return kernel << 7 | taps << 4 | type;
}

// As many blocks one above the other as fill the GPU, when `across` are beside each other.
unsigned blocks_down(int64_t across, int64_t outer, int device) {
  const int64_t wanted = int64_t(device_info(device).processors) * 16;
  return unsigned(std::clamp<int64_t>(wanted / std::max<int64_t>(across, 1), 1,
                                      std::min<int64_t>(outer, 65535)));
}

// x with these strides.
Tensor with_strides(const Tensor& x, const Dims& strides) {
  if (x.strides() == strides) return x;
  const Tensor out = make_tensor(x.sizes(), strides, x.dtype(), x.device());
  copy(x, out, false);
  return out;
}

void run(bool backward, const Tensor& given, int64_t dim, const Resampling& how, const Tensor& y) {
  // Both dense, with one order of dims.
  const Tensor x = with_strides(given, preserved_strides(given.sizes(), y.strides()));
  const int device = y.device().index;
  const size_t d = size_t(dim);
  ResampleTable table{};
  table.rows = y.sizes()[d];
  table.taps = most_taps(how, backward);
  const Tensor spans = make_tensor(Dims{table.rows, 2}, DType::Int32, y.device());
  const Tensor weights =
      make_tensor(Dims{table.rows, table.taps}, compute_dtype(y.dtype()), y.device());
  table.spans = static_cast<ResampleSpan*>(spans.data());
  table.weights = weights.data();
  launch_each(kFamily,
              key_of(backward ? kBackwardTable : kTable, uint64_t(compute_dtype(y.dtype()))),
              device, table.rows, ResampleTableArgs{table, how});

  ResampleArgs args{x.data(), y.data(), table, 1, x.sizes()[d], 1, 1, 1};
  // A dim of size 1 may have any stride.
  const Tensor& wide = args.in > 1 ? x : y;
  if (wide.sizes()[d] > 1) args.inner = wide.strides()[d];
  args.points = table.rows * args.inner;
  args.outer = y.numel() / args.points;
  args.side = i32(std::clamp<int64_t>(kThreads / args.points, 1, args.outer));
  const int64_t across = (args.points + kThreads - 1) / kThreads;
  const unsigned down = blocks_down(across, (args.outer + args.side - 1) / args.side, device);
  launch(kFamily, key_of(kRows, uint64_t(y.dtype())), device, {unsigned(across), down}, {kThreads},
         args);
}
void resample(const Tensor& x, int64_t dim, const Resampling& how, const Tensor& y) {
  run(false, x, dim, how, y);
}
void resample_backward(const Tensor& g, int64_t dim, const Resampling& how, const Tensor& gx) {
  run(true, g, dim, how, gx);
}

uint64_t taps_of(ResampleMode mode) {
  return mode == ResampleMode::Cubic ? 4 : mode == ResampleMode::Linear ? 2 : 1;
}

void resample_image(const Tensor& given, const Resampling* how, const Tensor& y) {
  const Dims& sizes = given.sizes();
  const Tensor x = with_strides(
      given, y.is_contiguous() ? contiguous_strides(sizes) : channels_last_strides(sizes));
  const int device = y.device().index;
  ResampleImageArgs args{};
  args.x = x.data();
  args.y = y.data();
  for (int d = 0; d < 3; ++d) args.how[d] = how[d];
  const uint64_t taps = taps_of(how[2].mode);
  for (Resampling& each : args.how) each.mode = how[2].mode;  // one place stays what it is in any
  const int64_t planes = y.sizes()[0] * y.sizes()[1], points = y.numel() / planes;
  args.inner = y.is_contiguous() ? 1 : y.sizes()[1];
  args.outer = planes / args.inner;
  args.n = points * args.inner;
  const int64_t across = (args.n + kThreads - 1) / kThreads;
  const bool deep = y.dim() == 5;
  launch(kFamily, key_of(deep ? kDeepImage : kImage, uint64_t(y.dtype()), taps), device,
         {unsigned(across), blocks_down(across, args.outer, device)}, {kThreads}, args);
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
  launch_each(kFamily, key_of(kernel, type), device, args.n, args);
}
void unfold(const PatchShape& s, const Tensor& x, const Tensor& columns) {
  patches(kUnfold, uint64_t(std::countr_zero(uint64_t(x.element_size()))), s, x, columns);
}
void fold(const PatchShape& s, const Tensor& columns, const Tensor& x) {
  patches(kFold, uint64_t(x.dtype()), s, columns, x);
}

const bool registered = [] {
  ImageLoops& loops = image_loops(DeviceType::CUDA);
  loops.resample = resample;
  loops.resample_backward = resample_backward;
  loops.resample_image = resample_image;
  loops.unfold = unfold;
  loops.fold = fold;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
