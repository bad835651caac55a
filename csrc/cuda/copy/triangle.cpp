// Triangles of matrices on GPUs, through kernels/triangle.cu.
#include <algorithm>
#include <bit>

#include "cuda/kernels/triangle_args.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "cuda/runtime/nest.h"
#include "device/copy.h"

namespace rush::cuda {
namespace {

// Key: an element's width (log 2) and whether indices are long; or the index type.
constexpr uint64_t kIndices = 128, kPacks = 64;
std::string spell_triangle(uint64_t key) {
  if (key & kIndices)
    return concat("rush::triangle_indices<", kernel_type(DType(key - kIndices)), ">");
  if (const uint64_t own = key - kPacks; key & kPacks)
    return concat("rush::triangle_packs<", kernel_bytes(1 << (own >> 1)), ", ", 16 >> (own >> 1),
                  ", ", own & 1 ? "rush::u64" : "rush::u32", ">");
  return concat("rush::triangle<", kernel_bytes(1 << (key >> 1)), ", ",
                key & 1 ? "rush::u64" : "rush::u32", ">");
}
const KernelFamily kTriangle{"triangle.cu", spell_triangle};

// The last two dims stay as they are: the kernel asks for row and column.
template <class I>
Nest<I, 2> nest_of(const Tensor& x, const Tensor& out, const Walk<2>& batches) {
  const Nest<I, 2> outer = batches.template nest<I>();
  Nest<I, 2> nest{};
  const size_t rank = x.sizes().size();
  for (int d = 0; d < 2; ++d) {
    const size_t from = rank - 1 - size_t(d);
    nest.sizes[d] = Divider<I>::of(I(x.sizes()[from]));
    nest.strides[d][0] = I(out.strides()[from]);
    nest.strides[d][1] = I(x.strides()[from]);
  }
  for (int d = 0; d < outer.dims; ++d) {
    nest.sizes[d + 2] = outer.sizes[d];
    nest.strides[d + 2][0] = outer.strides[d][0];
    nest.strides[d + 2][1] = outer.strides[d][1];
  }
  nest.dims = outer.dims + 2;
  return nest;
}

void copy_triangle(const Tensor& x, int64_t diagonal, bool upper, const Tensor& out) {
  if (out.numel() == 0) return;
  const auto rank = size_t(x.dim());
  Walk<2> batches, all;
  for (size_t d = 0; d < rank; ++d) {
    all.add(x.sizes()[d], {out.strides()[d], x.strides()[d]});
    if (d + 2 < rank) batches.add(x.sizes()[d], {out.strides()[d], x.strides()[d]});
  }
  batches.coalesce();
  if (batches.dims + 2 > kNestDims) {  // more dims than a launch takes
    const Tensor contiguous = make_tensor(x.sizes(), x.dtype(), x.device());
    copy(x, contiguous, false);
    copy_triangle(contiguous, diagonal, upper, contiguous);
    return copy(contiguous, out, false);
  }
  const int device = x.device().index;
  const int64_t far = x.sizes()[rank - 2] + x.sizes()[rank - 1];
  TriangleArgs args{out.numel(), out.data(), x.data(), std::clamp(diagonal, -far, far), upper};
  const uint64_t size_log = uint64_t(std::countr_zero(uint64_t(x.element_size()))) << 1;
  const int64_t width = 16 / x.element_size();
  const auto aligned = [](const Tensor& t) {
    return t.is_contiguous() && reinterpret_cast<uintptr_t>(t.data()) % 16 == 0;
  };
  if (width > 1 && x.sizes()[rank - 1] % width == 0 && aligned(x) && aligned(out)) {
    args.n /= width;
    const auto packs = [&]<class I>(Nest<I, 2> nest) {
      nest.sizes[0] = Divider<I>::of(I(x.sizes()[rank - 1] / width));
      nest.sizes[1] = Divider<I>::of(I(x.sizes()[rank - 2]));
      launch_each(kTriangle, kPacks | size_log | (sizeof(I) == 8), device, args.n, args, nest);
    };
    return args.n < int64_t(1) << 31 ? packs(Nest<u32, 2>{}) : packs(Nest<u64, 2>{});
  }
  const Grid grid = blocks_for(args.n, device);
  if (all.is_short())
    launch(kTriangle, size_log, device, grid, {kThreads}, args, nest_of<u32>(x, out, batches));
  else
    launch(kTriangle, size_log | 1, device, grid, {kThreads}, args, nest_of<u64>(x, out, batches));
}

void triangle_indices(int64_t rows, int64_t cols, int64_t diagonal, bool upper, const Tensor& out) {
  if (out.numel() == 0) return;
  const int device = out.device().index;
  const TriangleIndexArgs args{out.numel() / 2, rows, cols, diagonal, out.data(), upper};
  launch_each(kTriangle, kIndices + uint64_t(out.dtype()), device, args.n, args);
}

const bool registered = [] {
  copy_loops(DeviceType::CUDA).triangle = copy_triangle;
  copy_loops(DeviceType::CUDA).triangle_indices = triangle_indices;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
