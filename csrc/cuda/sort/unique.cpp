// Runs of equal slices on GPUs, through kernels/unique.cu.
#include "cuda/kernels/search_args.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "device/index.h"
#include "device/pointwise.h"
#include "device/reduce.h"
#include "device/sort.h"

namespace rush::cuda {
namespace {

// Key: the kernel, then the type.
std::string spell_distinct(uint64_t key) {
  return concat(key >> 5 ? "rush::merge_slices<" : "rush::mark_runs<", stored_type(DType(key & 31)),
                ">");
}
const KernelFamily kDistinct{"unique.cu", spell_distinct};
constexpr uint64_t kMarkRuns = 0 << 5, kMergeSlices = 1 << 5;

void mark_runs(const Tensor& slices, int64_t count, const Tensor& order, const Tensor& starts) {
  if (count == 0) return;
  const int device = slices.device().index;
  const RunArgs args{count, slices.numel() / count, slices.data(),
                     order.defined() ? order.data<i64>() : nullptr, starts.data<bool>()};
  launch_each(kDistinct, kMarkRuns | uint64_t(slices.dtype()), device, count, args);
}

// Counting the runs is the only wait.
Tensor run_starts(const char*, const Tensor& slices, int64_t count, const Tensor& order,
                  const Tensor& inverse, const Tensor& places) {
  const Tensor marks = make_tensor(Dims{count}, DType::Bool, slices.device());
  mark_runs(slices, count, order, marks);
  const NonzeroCounts runs(marks);
  const Tensor starts = make_tensor(Dims{runs.total()}, DType::Int64, slices.device());
  runs.write_positions(starts);
  if (!inverse.defined() || count == 0) return starts;
  const Tensor numbers =
      places.defined() ? make_tensor(Dims{count}, DType::Int64, slices.device()) : inverse;
  scan(ScanFn::Sum, marks, numbers.alias(Dims{count}, Dims{1}, numbers.offset()), 0);
  map_binary(BinaryFn::Sub, numbers, wrap_number(1), numbers);
  if (places.defined()) {
    const auto first = [](const Tensor& t) { return t.alias(Dims{}, Dims{}, t.offset()); };
    index_loops(inverse).scatter(
        ScatterFn::Set,
        {first(inverse), first(places), first(numbers), count, 1, 1, {"unique", count, 1, 0}}, 1);
  }
  return starts;
}

void sort_slices(const char* op, const Tensor& slices, int64_t count, const Tensor& order) {
  check(!slices.is_complex(), ErrorKind::DType, op, "complex numbers have no order");
  if (count < 2) return;
  const int device = slices.device().index;
  const Tensor room = make_tensor(Dims{count}, DType::Int64, slices.device());
  Tensor from = order, to = room;
  for (int64_t width = 1; width < count; width *= 2) {
    const MergeArgs args{count,         slices.numel() / count, width,
                         slices.data(), from.data<i64>(),       to.data<i64>()};
    launch_each(kDistinct, kMergeSlices | uint64_t(slices.dtype()), device, count, args);
    std::swap(from, to);
  }
  if (!from.is_same(order)) copy(from, order, false);
}

const bool registered = [] {
  sort_loops(DeviceType::CUDA).sort_slices = sort_slices;
  sort_loops(DeviceType::CUDA).run_starts = run_starts;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
