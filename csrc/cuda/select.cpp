// The largest, the k-th, the median and the most frequent of rows on GPUs: sorted first, then
// picked by kernels/select.cu.
#include "cpu/device_loops.h"
#include "cpu/sort.h"
#include "cuda/kernels/sort_args.h"
#include "cuda/launch.h"
#include "cuda/loops.h"
#include "cuda/order.h"

namespace rush::cuda {
namespace {

// Key: the kernel, then the type.
std::string spell_select(uint64_t key) {
  constexpr const char* names[] = {"pick_rows", "mode_runs", "mode_join"};
  return concat("rush::", names[key >> 4], "<", kernel_type(DType(key & 15)), ">");
}
constexpr KernelFamily kSelect{kSelectFamily, "select.cu", spell_select};
enum SelectKernel : uint64_t { kPickRows = 0 << 4, kModeRuns = 1 << 4, kModeJoin = 2 << 4 };

struct Sorted {
  Tensor values, order;
  explicit Sorted(const Tensor& x)
      : values(make_tensor(x.sizes(), x.dtype(), x.device())),
        order(make_tensor(x.sizes(), DType::Int64, x.device())) {
    sort_rows(x, false, Rows(x).length, values, order);
  }
};

void topk(const Tensor& x, int64_t k, bool largest, const Tensor& values, const Tensor& indices) {
  sort_rows(x, largest, k, values, indices);
}

void select(const Tensor& x, Rank rank, int64_t k, const Tensor& values, const Tensor& indices) {
  const Rows rows(x);
  if (rows.count == 0) return;
  const Sorted sorted(x);
  const PickArgs args{x.data(),
                      sorted.values.data(),
                      sorted.order.data<i64>(),
                      values.defined() ? values.data() : nullptr,
                      indices.defined() ? indices.data<i64>() : nullptr,
                      rows.count,
                      rows.length,
                      k,
                      i32(rank)};
  const int device = x.device().index;
  launch(kSelect, kPickRows | uint64_t(x.dtype()), device, blocks_for(rows.count, device),
         {kThreads}, args);
}

void mode(const Tensor& x, const Tensor& values, const Tensor& indices) {
  const Rows rows(x);
  if (rows.count == 0) return;
  constexpr int64_t kSegment = 4096, kMostSegments = 1024;
  const Sorted sorted(x);
  const int64_t segments = std::clamp<int64_t>(rows.length / kSegment, 1, kMostSegments);
  const Tensor partial = make_tensor(Dims{rows.count, segments, 2}, DType::Int64, x.device());
  const ModeArgs args{sorted.values.data(),
                      sorted.order.data<i64>(),
                      values.data(),
                      indices.data<i64>(),
                      rows.count,
                      rows.length,
                      segments,
                      partial.data<i64>()};
  const int device = x.device().index;
  launch(kSelect, kModeRuns | uint64_t(x.dtype()), device,
         {unsigned(segments), unsigned(std::min<int64_t>(rows.count, 65535))}, {kThreads}, args);
  launch(kSelect, kModeJoin | uint64_t(x.dtype()), device, blocks_for(rows.count, device),
         {kThreads}, args);
}

const bool registered = [] {
  OrderLoops& orders = device_loops(DeviceType::CUDA).orders;
  orders.topk = topk;
  orders.select = select;
  orders.mode = mode;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
