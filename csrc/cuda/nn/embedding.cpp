// Look-ups of rows on GPUs, one by one or in bags, and the table's gradient, through
// kernels/embedding.cu.
#include "device/nn/embedding.h"

#include <bit>

#include "cuda/kernels/embedding_args.h"
#include "cuda/nn/rows.h"
#include "cuda/runtime/loops.h"
#include "cuda/sort/order.h"

namespace rush::cuda {
namespace {

enum Kernel : uint64_t { kRows, kBag, kEntries, kWeights, kKeys, kSegments };

// Key: kernel, log of the pack, first launch of segments, type of indices, of keys, of memory.
uint64_t key_of(Kernel kernel, int pack_log, bool first, DType index, DType keys, DType type) {
  return kernel << 19 | uint64_t(pack_log) << 16 | uint64_t(first) << 15 | uint64_t(index) << 10 |
         uint64_t(keys) << 5 | uint64_t(type);
}
std::string spell(uint64_t key) {
  const auto type = DType(key & 31), keys = DType(key >> 5 & 31), index = DType(key >> 10 & 31);
  const int pack = 1 << (key >> 16 & 7);
  const std::string own = type_pair(type) + ", ";
  switch (Kernel(key >> 19)) {
    case kRows:
      return concat("rush::embedding_rows<", kernel_bytes(pack), ", ", kernel_type(index), ">");
    case kBag:
      return concat("rush::embedding_bag<", own, kernel_type(index), ">");
    case kEntries:
      return concat("rush::bag_entries<", own, kernel_type(index), ", ", kernel_type(keys), ">");
    case kWeights:
      return concat("rush::bag_weights<", own, kernel_type(index), ">");
    case kKeys:
      return concat("rush::embedding_keys<", kernel_type(index), ", ", kernel_type(keys), ">");
    default:
      return concat("rush::segment_sums<", own,
                    key >> 15 & 1 ? kernel_type(type) : compute_name(type), ", ", kernel_type(keys),
                    ", ", pack, ">");
  }
}
const KernelFamily kFamily{"embedding.cu", spell};

// Threads that stand side by side in a row of `columns`.
int across_log(int64_t columns) {
  int log = 0;
  while ((int64_t(1) << log) < columns && (1 << log) < kThreads) ++log;
  return log;
}
Grid grid_of(int64_t rows, int log, int device) { return blocks_for(rows << log, device); }

// ---- look-up ----

void embedding(const Tensor& given, const Tensor& index, const Tensor& out) {
  const Tensor table = contiguous(given);
  const int device = out.device().index;
  const int64_t row = table.sizes()[1] * table.element_size();
  const int64_t step =
      out.dim() < 2 ? row : out.strides()[size_t(out.dim()) - 2] * out.element_size();
  const uintptr_t all = uintptr_t(row) | uintptr_t(step) |
                        reinterpret_cast<uintptr_t>(table.data()) |
                        reinterpret_cast<uintptr_t>(out.data()) | 16;
  const int pack_log = std::countr_zero(all);
  EmbeddingArgs args{};
  args.table = table.data();
  args.index = index.data();
  args.out = out.data();
  args.n = index.numel();
  args.width = row >> pack_log;
  args.step = step >> pack_log;
  args.rows = table.sizes()[0];
  args.across_log = across_log(args.width);
  const FaultSlot fault = next_fault_slot(device, "embedding", 0, args.rows);
  args.launch = fault.launch;
  args.fault = fault.record;
  launch(kFamily, key_of(kRows, pack_log, false, index.dtype(), DType::Bool, DType::Bool), device,
         grid_of(args.n, args.across_log, device), {kThreads}, args);
}

// ---- sums of rows with equal keys ----

// The narrowest type that holds the rows' numbers, the one for "does not count", and "none".
DType keys_type(int64_t rows) {
  return rows < 65535                    ? DType::UInt16
         : rows < (int64_t(1) << 32) - 1 ? DType::UInt32
                                         : DType::UInt64;
}

struct Source {
  const Tensor& rows;  // two dims, the last one end to end
  const Tensor &row_of, &scale;
};

// out[k] = the sum of the rows whose key is k; keys are not sorted yet.
void sum_by_key(const Source& source, const Tensor& keys, bool by_count, const Tensor& out) {
  const Device device = out.device();
  const DType type = out.dtype(), wide = compute_dtype(type);
  const int64_t n = keys.numel();
  fill(out, 0);
  const Tensor order = make_tensor(Dims{n}, DType::Int64, device);
  Tensor sorted = make_tensor(Dims{n}, keys.dtype(), device);
  sort_rows(keys, false, n, sorted, order);

  SegmentArgs args{};
  args.keys = sorted.data();
  args.order = order.data<i64>();
  if (source.row_of.defined()) args.row_of = source.row_of.data<i64>();
  args.scale = data_or_null(source.scale);
  args.rows = source.rows.data();
  args.step = source.rows.strides()[0];
  args.n = n;
  args.width = out.sizes()[1];
  args.chunk = n >= 1 << 16 ? 32 : n >= 1 << 12 ? 16 : 8;
  args.limit = out.sizes()[0];
  args.out = out.data();
  args.by_count = by_count;
  const int64_t pack = type == DType::Float64 ? 2 : 4;
  const bool packs = args.width % pack == 0 && args.step % pack == 0 &&
                     aligned({args.rows, args.out}, pack * out.element_size());
  const int pack_log = packs ? std::countr_zero(uint64_t(pack)) : 0;
  args.across_log = across_log(args.width >> pack_log);

  std::vector<Tensor> kept;  // by what is queued, until the last launch
  for (bool first = true;; first = false) {
    const int64_t chunks = (args.n + args.chunk - 1) / args.chunk;
    const bool last = chunks == 1;
    Tensor partial, next_keys, counts;
    args.partial = nullptr;
    if (!last) {
      partial = make_tensor(Dims{2 * chunks, args.width}, wide, device);
      next_keys = make_tensor(Dims{2 * chunks}, keys.dtype(), device);
      counts = make_tensor(Dims{2 * chunks}, DType::Int64, device);
      args.partial = partial.data();
      args.partial_keys = next_keys.data();
      args.partial_counts = counts.data<i64>();
      for (const Tensor& t : {partial, next_keys, counts}) kept.push_back(t);
    }
    launch(kFamily, key_of(kSegments, pack_log, first, DType::Bool, keys.dtype(), type),
           device.index, grid_of(chunks, args.across_log, device.index), {kThreads}, args);
    if (last) return;
    args.keys = args.partial_keys;
    args.order = args.row_of = nullptr;
    args.scale = nullptr;
    args.counts = args.partial_counts;
    args.rows = args.partial;
    args.step = args.width;
    args.n = 2 * chunks;
    args.chunk = 64;
  }
}

void embedding_backward(const Tensor& given, const Tensor& index, int64_t skip, bool by_count,
                        const Tensor& gtable) {
  const Tensor g = given.strides()[1] == 1 ? given : contiguous(given);
  const int device = g.device().index;
  const DType type = keys_type(gtable.sizes()[0]);
  const Tensor keys = make_tensor(Dims{index.numel()}, type, g.device());
  BagArgs args{};
  args.index = index.data();
  args.n = index.numel();
  args.rows = gtable.sizes()[0];
  args.skip = skip;
  args.keys = keys.data();
  launch_each(kFamily, key_of(kKeys, 0, false, index.dtype(), type, DType::Bool), device, args.n,
              args);
  sum_by_key({g, Tensor(), Tensor()}, keys, by_count, gtable);
}

// ---- bags ----

BagArgs bag_args(const Bags& bags, int64_t rows, int64_t width) {
  BagArgs args{};
  args.index = bags.index.data();
  args.bounds = bags.bounds.data<const i64>();
  args.weight = data_or_null(bags.weight);
  args.n = bags.index.numel();
  args.bags = bags.size();
  args.width = width;
  args.rows = rows;
  args.skip = bags.skip;
  args.mode = i32(bags.mode);
  args.across_log = across_log(width);
  return args;
}

void embedding_bag(const Tensor& table, const Bags& bags, const Tensor& out, const Tensor& counts,
                   const Tensor& places) {
  const int device = out.device().index;
  BagArgs args = bag_args(bags, table.sizes()[0], table.sizes()[1]);
  args.table = table.data();
  args.out = out.data();
  args.counts = counts.data<i64>();
  args.places = places.data<i64>();
  const FaultSlot fault = next_fault_slot(device, "embedding_bag", 0, args.rows);
  args.launch = fault.launch;
  args.fault = fault.record;
  if (args.bags == 0) return;
  launch(kFamily, key_of(kBag, 0, false, bags.index.dtype(), DType::Bool, table.dtype()), device,
         grid_of(args.bags, args.across_log, device), {kThreads}, args);
}

void embedding_bag_backward(const Tensor& g, const Bags& bags, const Tensor& counts,
                            const Tensor& gtable) {
  const int device = g.device().index;
  BagArgs args = bag_args(bags, gtable.sizes()[0], gtable.sizes()[1]);
  if (args.n == 0) return fill(gtable, 0);
  const DType type = keys_type(args.rows);
  const Tensor keys = make_tensor(Dims{args.n}, type, g.device());
  const Tensor bag_of = make_tensor(Dims{args.n}, DType::Int64, g.device());
  const Tensor scale = make_tensor(Dims{args.n}, compute_dtype(g.dtype()), g.device());
  args.counts = counts.data<i64>();
  args.keys = keys.data();
  args.bag_of = bag_of.data<i64>();
  args.scale = scale.data();
  launch_each(kFamily, key_of(kEntries, 0, false, bags.index.dtype(), type, g.dtype()), device,
              args.n, args);
  sum_by_key({g, bag_of, scale}, keys, false, gtable);
}

void embedding_bag_weights(const Tensor& g, const Tensor& table, const Bags& bags,
                           const Tensor& gweight) {
  const int device = g.device().index;
  BagArgs args = bag_args(bags, table.sizes()[0], table.sizes()[1]);
  args.g = g.data();
  args.table = table.data();
  args.gweight = gweight.data();
  launch(kFamily, key_of(kWeights, 0, false, bags.index.dtype(), DType::Bool, g.dtype()), device,
         {unsigned((args.n + 7) / 8)}, {kThreads}, args);
}

const bool registered = [] {
  embedding_loops(DeviceType::CUDA) = {
      embedding, embedding_backward, embedding_bag, embedding_bag_backward, embedding_bag_weights,
      true};
  return true;
}();

}  // namespace
}  // namespace rush::cuda
