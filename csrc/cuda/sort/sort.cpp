// Sorting rows on GPUs, through kernels/sort.cu.
#include "device/sort.h"

#include <bit>
#include <utility>

#include "cuda/kernels/sort_args.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "cuda/sort/order.h"

namespace rush::cuda {
namespace {

enum class Kernel : uint8_t { Blocks, Count, Starts, Pass };
struct Instance {
  Kernel kernel;
  DType type;
  unsigned wide, items_log, first, last;  // wide: positions need 64 bits

  uint64_t key() const {
    return (((uint64_t(kernel) << 4 | uint64_t(type)) << 1 | wide) << 3 | items_log) << 2 |
           first << 1 | last;
  }
};

std::string spell_sort(uint64_t key) {
  const char* type = stored_type(DType(key >> 6 & 15));
  const char* place = key >> 5 & 1 ? "rush::u64" : "rush::u32";
  const int items = 1 << (key >> 2 & 7);
  const auto flag = [&](int bit) { return key >> bit & 1 ? "true" : "false"; };
  switch (Kernel(key >> 10)) {
    case Kernel::Blocks:
      return concat("rush::sort_blocks<", type, ", ", items, ">");
    case Kernel::Count:
      return concat("rush::sort_count<", type, ", ", place, ">");
    case Kernel::Starts:
      return concat("rush::sort_starts<", place, ">");
    default:
      return concat("rush::sort_pass<", type, ", ", place, ", ", items, ", ", flag(1), ", ",
                    flag(0), ">");
  }
}
const KernelFamily kSort{"sort.cu", spell_sort};

constexpr int64_t kDigits = 256, kMostRows = 255;  // rows that a block tells apart by one digit

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// What passes between the first and the last only see as bits.
DType bits_type(int64_t size) {
  constexpr DType types[] = {DType::UInt8, DType::UInt16, DType::UInt32, DType::UInt64};
  return types[std::countr_zero(uint64_t(size))];
}

// The longest row that one block sorts: what is exchanged has to fit into its shared memory.
int64_t block_limit(int64_t element_size) { return kThreads * (element_size == 8 ? 16 : 32); }

void sort_short(SortArgs args, DType type, int device) {
  unsigned items_log = 2;
  while (int64_t(kThreads) << items_log < args.length) ++items_log;
  const int64_t tile = int64_t(kThreads) << items_log;
  args.at_once = i32(std::min<int64_t>(kMostRows, tile / args.length));
  args.by_length = Divider<u32>::of(u32(args.length));
  const Instance instance{Kernel::Blocks, type, 0, items_log, 0, 0};
  launch(kSort, instance.key(), device, {unsigned(ceil_div(args.rows, args.at_once))}, {kThreads},
         args);
}

void sort_long(SortArgs args, const Tensor& x) {
  const int device = x.device().index;
  const int64_t size = x.element_size();
  const bool wide = args.length >= int64_t(1) << 30;
  const int64_t place_size = wide ? 8 : 4;
  const unsigned items_log = size == 8 || wide ? 3 : 4;
  args.passes = x.dtype() == DType::Bool ? 1 : i32(size);
  args.tiles = ceil_div(args.length, int64_t(kThreads) << items_log);

  // Counts, and the words of all passes: one stretch that starts as zeros.
  const int64_t n_counts = args.rows * args.passes * kDigits;
  const int64_t n_status = args.rows * args.tiles * kDigits;
  const int64_t words = n_counts + args.passes * n_status;
  const Tensor zeros = make_tensor(Dims{words}, wide ? DType::Int64 : DType::Int32, x.device());
  fill(zeros, 0);
  const auto word = [&](int64_t i) { return zeros.data<char>() + i * place_size; };
  args.counts = word(0);
  const Grid counting{blocks_for(args.length, device).x,
                      unsigned(std::min<int64_t>(args.rows, 65535))};
  launch(kSort, Instance{Kernel::Count, x.dtype(), wide, 0, 0, 0}.key(), device,
         {std::max(1u, counting.x / std::min(counting.y, counting.x)), counting.y}, {kThreads},
         args);
  launch(kSort, Instance{Kernel::Starts, DType::UInt8, wide, 0, 0, 0}.key(), device,
         {unsigned(args.rows * args.passes)}, {kThreads}, args);

  // Keys and positions go back and forth between two rooms.
  const int64_t n = args.rows * args.length;
  Tensor keys[2], places[2];
  for (int i = 0; i < std::min(args.passes - 1, 2); ++i) {
    keys[i] = make_tensor(Dims{n * size}, DType::UInt8, x.device());
    places[i] = make_tensor(Dims{n * place_size}, DType::UInt8, x.device());
  }
  for (args.pass = 0; args.pass < args.passes; ++args.pass) {
    const bool first = args.pass == 0, last = args.pass + 1 == args.passes;
    const int from = (args.pass + 1) % 2, to = args.pass % 2;
    if (!first) args.keys_in = keys[from].data(), args.at_in = places[from].data();
    if (!last) args.keys_out = keys[to].data(), args.at_out = places[to].data();
    args.status = word(n_counts + args.pass * n_status);
    const DType type = first || last ? x.dtype() : bits_type(size);
    launch(kSort, Instance{Kernel::Pass, type, wide, items_log, first, last}.key(), device,
           {unsigned(args.rows * args.tiles)}, {kThreads}, args);
  }
}

void sort(const char*, const Tensor& x, bool descending, const Tensor& values,
          const Tensor& indices) {
  sort_rows(x, descending, Rows(x).length, values, indices);
}

const bool registered = [] {
  sort_loops(DeviceType::CUDA).sort = sort;
  return true;
}();

}  // namespace

void sort_rows(const Tensor& x, bool descending, int64_t kept, const Tensor& values,
               const Tensor& indices) {
  if (x.numel() == 0 || kept == 0) return;
  const Rows rows(x);
  SortArgs args{};
  args.x = x.data();
  args.values = values.defined() ? values.data() : nullptr;
  args.indices = indices.defined() ? indices.data<i64>() : nullptr;
  args.rows = rows.count;
  args.length = rows.length;
  args.kept = kept;
  args.descending = descending;
  if (rows.length <= block_limit(x.element_size()))
    sort_short(args, x.dtype(), x.device().index);
  else
    sort_long(args, x);
}

}  // namespace rush::cuda
