// Masks on GPUs, through kernels/mask.cu.
#include <bit>

#include "cuda/kernels/mask_args.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "device/index.h"
#include "device/reduce.h"

namespace rush::cuda {
namespace {

static_assert(kMostDims == kMaxDims);

// Key: the kernel, the mask's type or the values' width (log 2), the pack's width (log 2), long
// counts.
enum class Kernel : uint8_t { Count, Coordinates, Select, Place };
std::string spell_mask(uint64_t key) {
  constexpr const char* names[] = {"count", "coordinates", "select", "place"};
  const auto kernel = Kernel(key >> 9);
  const uint64_t what = key >> 4 & 31;
  const bool moves = kernel == Kernel::Select || kernel == Kernel::Place;
  return concat("rush::mask_", names[int(kernel)], "<",
                moves ? kernel_bytes(1 << what) : kernel_type(DType(what)), ", ",
                1 << (key >> 1 & 7),
                kernel != Kernel::Coordinates ? ">"
                : key & 1                     ? ", rush::u64>"
                                              : ", rush::u32>");
}
const KernelFamily kMask{"mask.cu", spell_mask};

uint64_t log_of(int64_t n) { return uint64_t(std::countr_zero(uint64_t(n))); }

// What only its bytes are looked at of.
DType looked_at(DType t) {
  if (category(t) > Category::Integer) return t;
  constexpr DType types[] = {DType::UInt8, DType::UInt16, DType::UInt32, DType::UInt64};
  return types[log_of(element_size(t))];
}

uint64_t key_for(Kernel kernel, const Tensor& x, uint64_t what, bool is_long = false) {
  const bool aligned = reinterpret_cast<uintptr_t>(x.data()) % 16 == 0;
  const uint64_t width = aligned ? 4 - log_of(x.element_size()) : 0;
  return uint64_t(kernel) << 9 | what << 4 | width << 1 | is_long;
}

MaskArgs args_for(const Tensor& x, const Tensor& starts) {
  MaskArgs args{};
  args.x = x.data();
  args.n = x.numel();
  args.starts = starts.data<i64>();
  return args;
}
Grid tiles_of(const Tensor& x) { return {unsigned((x.numel() + kMaskTile - 1) / kMaskTile)}; }

Tensor count(const Tensor& x) {
  const Tensor starts =
      make_tensor(Dims{int64_t(x.numel() == 0 ? 0 : tiles_of(x).x) + 1}, DType::Int64, x.device());
  if (x.numel() == 0) {
    fill(starts, 0);
    return starts;
  }
  launch(kMask, key_for(Kernel::Count, x, uint64_t(looked_at(x.dtype()))), x.device().index,
         tiles_of(x), {kThreads}, args_for(x, starts));
  scan(ScanFn::Sum, starts, starts, 0);
  return starts;
}

void write_coordinates(const Tensor& x, const Tensor& starts, const Tensor& positions,
                       int64_t stride, int64_t dim_stride) {
  if (positions.numel() == 0) return;
  MaskArgs args = args_for(x, starts);
  args.positions = positions.data<i64>();
  args.stride = stride;
  args.dim_stride = dim_stride;
  const bool is_long = x.numel() >= int64_t(1) << 31;
  const uint64_t key = key_for(Kernel::Coordinates, x, uint64_t(looked_at(x.dtype())), is_long);
  const auto queue = [&]<class I>(MaskShape<I> shape) {
    shape.dims = i32(x.dim());
    for (int d = 0; d < shape.dims; ++d) shape.sizes[d] = Divider<I>::of(I(x.sizes()[size_t(d)]));
    launch(kMask, key, x.device().index, tiles_of(x), {kThreads}, args, shape);
  };
  if (is_long)
    queue(MaskShape<u64>{});
  else
    queue(MaskShape<u32>{});
}

void select(const Tensor& x, const Tensor& starts, const Tensor& values, const Tensor& out) {
  if (out.numel() == 0) return;
  MaskArgs args = args_for(x, starts);
  args.from = values.data();
  args.out = out.data();
  launch(kMask, key_for(Kernel::Select, x, log_of(values.element_size())), x.device().index,
         tiles_of(x), {kThreads}, args);
}

void place(const char* op, const Tensor& x, const Tensor& starts, const Tensor& source,
           const Tensor& out) {
  if (x.numel() == 0) return;
  MaskArgs args = args_for(x, starts);
  args.from = source.data();
  args.out = out.data();
  args.room = source.numel();
  const int device = x.device().index;
  const FaultSlot fault = next_fault_slot(device, op, 0, source.numel());
  args.launch = fault.launch;
  args.fault = fault.record;
  launch(kMask, key_for(Kernel::Place, x, log_of(out.element_size())), device, tiles_of(x),
         {kThreads}, args);
}

const bool registered = [] {
  IndexLoops& loops = index_loops(DeviceType::CUDA);
  loops.nonzero_counts = count;
  loops.nonzero_coordinates = write_coordinates;
  loops.masked_select = select;
  loops.masked_scatter = place;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
