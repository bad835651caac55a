// Runs of equal slices on GPUs, through kernels/unique.cu.
#include "cuda/kernels/search_args.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "device/loops.h"

namespace rush::cuda {
namespace {

// Key: the kernel, then the type.
std::string spell_distinct(uint64_t key) {
  return concat(key >> 4 ? "rush::merge_slices<" : "rush::mark_runs<", kernel_type(DType(key & 15)),
                ">");
}
constexpr KernelFamily kDistinct{kDistinctFamily, "unique.cu", spell_distinct};
constexpr uint64_t kMarkRuns = 0 << 4, kMergeSlices = 1 << 4;

void mark_runs(const Tensor& slices, int64_t count, const Tensor& order, const Tensor& starts) {
  if (count == 0) return;
  const int device = slices.device().index;
  const RunArgs args{count, slices.numel() / count, slices.data(),
                     order.defined() ? order.data<i64>() : nullptr, starts.data<bool>()};
  launch(kDistinct, kMarkRuns | uint64_t(slices.dtype()), device, blocks_for(count, device),
         {kThreads}, args);
}

// `order` holds 0, 1, 2, ... when it comes.
void sort_slices(const Tensor& slices, int64_t count, const Tensor& order) {
  if (count < 2) return;
  const int device = slices.device().index;
  const Tensor room = make_tensor(Dims{count}, DType::Int64, slices.device());
  Tensor from = order, to = room;
  for (int64_t width = 1; width < count; width *= 2) {
    const MergeArgs args{count,         slices.numel() / count, width,
                         slices.data(), from.data<i64>(),       to.data<i64>()};
    launch(kDistinct, kMergeSlices | uint64_t(slices.dtype()), device, blocks_for(count, device),
           {kThreads}, args);
    std::swap(from, to);
  }
  if (!from.is_same(order)) copy(from, order, false);
}

const bool registered = [] {
  OrderLoops& orders = device_loops(DeviceType::CUDA).orders;
  orders.mark_runs = mark_runs;
  orders.sort_slices = sort_slices;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
