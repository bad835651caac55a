// The largest, the k-th, the median and the most frequent of rows on GPUs: sorted first, then
// picked by kernels/select.cu. Rows that a block has room for are searched by
// kernels/select_rows.cu instead, longer ones by kernels/select_long.cu.
#include "cuda/kernels/select_args.h"
#include "cuda/kernels/sort_args.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "cuda/sort/order.h"
#include "device/index.h"
#include "device/reduce.h"
#include "device/sort.h"

namespace rush::cuda {
namespace {

// Key: the kernel, then the type.
std::string spell_select(uint64_t key) {
  constexpr const char* names[] = {"pick_rows", "mode_runs", "mode_join"};
  return concat("rush::", names[key >> 4], "<", stored_type(DType(key & 15)), ">");
}
const KernelFamily kSelect{"select.cu", spell_select};
enum SelectKernel : uint64_t { kPickRows = 0 << 4, kModeRuns = 1 << 4, kModeJoin = 2 << 4 };

struct Sorted {
  Tensor values, order;
  explicit Sorted(const Tensor& x)
      : values(make_tensor(x.sizes(), x.dtype(), x.device())),
        order(make_tensor(x.sizes(), DType::Int64, x.device())) {
    sort_rows(x, false, Rows(x).length, values, order);
  }
};

// ---- rows that fit into a block's registers ----

constexpr int64_t kShortRow = 256;  // sorted faster than searched
constexpr int64_t kMostItems = 32;
// Key: the logarithm of the elements per thread, then the type.
std::string spell_rows(uint64_t key) {
  return concat("rush::select_rows<", stored_type(DType(key & 15)), ", ", 1 << (key >> 4), ">");
}
const KernelFamily kSelectRows{"select_rows.cu", spell_rows};

// kept 0: the k-th alone. False: not for these rows.
bool search_rows(const Tensor& x, bool descending, int32_t rank, int64_t k, int64_t kept,
                 const Tensor& values, const Tensor& indices) {
  const Rows rows(x);
  if (x.element_size() > 4 || rows.length <= kShortRow || rows.length > kMostItems * kThreads ||
      kept > std::min<int64_t>(kMostKept, rows.length / 4))
    return false;
  uint64_t log = 2;
  while ((kThreads << log) < rows.length) ++log;
  SelectArgs args{};
  args.x = x.data();
  args.rows = rows.count;
  args.length = rows.length;
  args.descending = descending;
  args.rank = rank;
  args.k = k;
  args.kept = kept;
  args.values = values.defined() ? values.data() : nullptr;
  args.indices = indices.defined() ? indices.data<i64>() : nullptr;
  const Grid grid{unsigned(std::min<int64_t>(rows.count, INT32_MAX))};
  launch(kSelectRows, log << 4 | uint64_t(x.dtype()), x.device().index, grid, {kThreads}, args);
  return true;
}

// ---- long rows ----

enum class LongKernel : uint8_t { Count, Narrow, Tally, Find, Gather };
std::string spell_long(uint64_t key) {
  constexpr const char* names[] = {"count", "narrow", "tally", "find", "gather"};
  return concat("rush::select_", names[key >> 4], "<", stored_type(DType(key & 15)), ">");
}
const KernelFamily kSelectLong{"select_long.cu", spell_long};

// What one block sorts is searched only where so much lies there that the search's many launches do
// not count.
bool is_long(const Rows& rows) {
  return rows.length > 8192 || (rows.length >= 1024 && rows.count * rows.length >= 1 << 22);
}
constexpr int64_t kThreadShare = 32;  // elements that a thread counts, at least
constexpr int64_t kMostRowBlocks = 65535;

// The search for one element of each row: its key, and how many equals come before it.
class LongSearch {
 public:
  LongSearch(const Tensor& x, bool descending, int32_t rank, int64_t k) : x_(x) {
    const Rows rows(x);
    args_.x = x.data();
    args_.rows = rows.count;
    args_.length = rows.length;
    args_.descending = descending;
    args_.passes = x.dtype() == DType::Bool ? 1 : i32(x.element_size());
    args_.rank = rank;
    args_.k = k;
    args_.tiles = (rows.length + kSelectTile - 1) / kSelectTile;
    state_ = make_tensor(Dims{rows.count * (256 + 3)}, DType::Int64, x.device());
    fill(state_, 0);
    args_.counts = state_.data<u64>();
    args_.nans = args_.counts + rows.count * 256;
    args_.key = args_.nans + rows.count;
    args_.left = reinterpret_cast<i64*>(args_.key + rows.count);
    const int64_t blocks = (rows.length + kThreads * kThreadShare - 1) / (kThreads * kThreadShare);
    const unsigned all = blocks_for(rows.length, x.device().index).x;
    for (args_.pass = 0; args_.pass < args_.passes; ++args_.pass) {
      queue(LongKernel::Count, {unsigned(std::min<int64_t>(blocks, all)), rows_at_once()});
      queue(LongKernel::Narrow, {unsigned(rows.count)});
    }
    tallies_ = make_tensor(Dims{rows.count * 2, args_.tiles}, DType::Int64, x.device());
    args_.tallies = tallies_.data<i64>();
    queue(LongKernel::Tally, per_tile());
    scan(ScanFn::Sum, tallies_, tallies_, 1);
  }
  void find(const Tensor& values, const Tensor& indices) {
    args_.values = values.defined() ? values.data() : nullptr;
    args_.indices = indices.defined() ? indices.data<i64>() : nullptr;
    queue(LongKernel::Find, per_tile());
  }
  void gather(int64_t kept, const Tensor& values, const Tensor& indices) {
    args_.kept = kept;
    args_.values = values.data();
    args_.indices = indices.data<i64>();
    queue(LongKernel::Gather, per_tile());
  }

 private:
  unsigned rows_at_once() const { return unsigned(std::min<int64_t>(args_.rows, kMostRowBlocks)); }
  Grid per_tile() const { return {unsigned(args_.tiles), rows_at_once()}; }
  void queue(LongKernel kernel, Grid grid) {
    launch(kSelectLong, uint64_t(kernel) << 4 | uint64_t(x_.dtype()), x_.device().index, grid,
           {kThreads}, args_);
  }

  const Tensor& x_;
  SelectArgs args_{};
  Tensor state_, tallies_;
};

Tensor with_last(const Tensor& x, int64_t size, DType dtype) {
  Dims sizes = x.sizes();
  sizes[sizes.size() - 1] = size;
  return make_tensor(sizes, dtype, x.device());
}

void topk(const char*, const Tensor& x, int64_t k, bool largest, const Tensor& values,
          const Tensor& indices) {
  const Rows rows(x);
  if (rows.count == 0 || k == 0) return;
  if (search_rows(x, largest, 0, k - 1, k, values, indices)) return;
  if (!is_long(rows) || k > rows.length / 4) return sort_rows(x, largest, k, values, indices);
  LongSearch search(x, largest, 0, k - 1);
  const Tensor first = with_last(x, k, x.dtype()), stood = with_last(x, k, DType::Int64),
               order = with_last(x, k, DType::Int64);
  search.gather(k, first, stood);
  sort_rows(first, largest, k, values, order);
  // indices[row][i] = stood[row][order[row][i]]
  const auto flat = [&](const Tensor& t, int64_t row_step, int64_t step) {
    return make_tensor(t.storage(), Dims{rows.count, k}, Dims{row_step, step}, t.offset(),
                       t.dtype());
  };
  index_loops(x).read_at(flat(indices, k, 1), flat(stood, k, 0), flat(order, k, 1),
                         {"topk", k, 1, 1});
}

void select(const char*, const Tensor& x, Rank rank, int64_t k, const Tensor& values,
            const Tensor& indices) {
  const Rows rows(x);
  if (rows.count == 0) return;
  if (search_rows(x, false, i32(rank), k, 0, values, indices)) return;
  if (is_long(rows)) return LongSearch(x, false, i32(rank), k).find(values, indices);
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
  launch_each(kSelect, kPickRows | uint64_t(x.dtype()), device, rows.count, args);
}

void mode(const char*, const Tensor& x, const Tensor& values, const Tensor& indices) {
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
  launch_each(kSelect, kModeJoin | uint64_t(x.dtype()), device, rows.count, args);
}

const bool registered = [] {
  SortLoops& loops = sort_loops(DeviceType::CUDA);
  loops.topk = topk;
  loops.select = select;
  loops.mode = mode;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
