// Searching and counting on GPUs, through kernels/search.cu.
#include "device/sort.h"

#include "cuda/kernels/search_args.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"

namespace rush::cuda {
namespace {

// Key: the kernel, the type, a second type.
enum class Kernel : uint8_t { SearchSorted, Histogram, HistogramWeighted, CountValues };
std::string spell_search(uint64_t key) {
  constexpr const char* names[] = {"search_sorted", "histogram", "histogram_weighted",
                                   "count_values"};
  const auto kernel = Kernel(key >> 8);
  std::string text = concat("rush::", names[int(kernel)], "<", kernel_type(DType(key >> 4 & 15)));
  if (kernel == Kernel::SearchSorted) text += concat(", ", kernel_type(DType(key & 15)));
  return text + ">";
}
const KernelFamily kSearch{"search.cu", spell_search};

uint64_t key_for(Kernel kernel, DType type, DType second = DType::Bool) {
  return uint64_t(kernel) << 8 | uint64_t(type) << 4 | uint64_t(second);
}

const void* data_or_null(const Tensor& t) { return t.defined() ? t.data() : nullptr; }

void search_sorted(const char*, const Tensor& sorted, const Tensor& values, const Tensor& sorter,
                   bool right, const Tensor& out) {
  if (values.numel() == 0) return;
  const bool rows = sorted.dim() > 1;
  const SearchArgs args{values.numel(),
                        sorted.data(),
                        values.data(),
                        static_cast<const i64*>(data_or_null(sorter)),
                        out.data(),
                        sorted.dim() == 0 ? 1 : sorted.sizes().back(),
                        rows ? values.sizes().back() : 0,
                        right};
  const int device = values.device().index;
  launch_each(kSearch, key_for(Kernel::SearchSorted, sorted.dtype(), out.dtype()), device, args.n,
              args);
}

void histogram(const char*, const Tensor& x, const Tensor& weights, const Tensor& edges, bool even,
               const Tensor& counts) {
  if (x.numel() == 0 || counts.numel() == 0) return;
  const HistogramArgs args{
      x.numel(),      x.data(), data_or_null(weights), edges.data<double>(), counts.data<double>(),
      counts.numel(), even};
  const int device = x.device().index;
  launch_each(kSearch,
              key_for(weights.defined() ? Kernel::HistogramWeighted : Kernel::Histogram, x.dtype()),
              device, args.n, args);
}

void bincount(const Tensor& x, const Tensor& weights, const Tensor& counts) {
  if (x.numel() == 0) return;
  const CountArgs args{x.numel(), x.data<i64>(), data_or_null(weights), counts.data(),
                       counts.numel()};
  const int device = x.device().index;
  launch_each(kSearch, key_for(Kernel::CountValues, counts.dtype()), device, args.n, args);
}

const bool registered = [] {
  SortLoops& loops = sort_loops(DeviceType::CUDA);
  loops.search_sorted = search_sorted;
  loops.histogram = histogram;
  loops.bincount = bincount;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
