// Running sums, products and extremes on GPUs, through kernels/scan.cu.
#include "device/reduce.h"

#include <bit>

#include "cuda/kernels/scan_args.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "cuda/runtime/nest.h"

namespace rush::cuda {
namespace {

enum class Kernel : uint8_t { Rows, Tiles, Totals, Columns };
constexpr int kParts = 4;

struct Instance {
  Kernel kernel;
  ScanFn fn;
  DType element, in, out;
  unsigned width_log, lanes_log, long_index;

  uint64_t key() const {
    uint64_t k = uint64_t(kernel) << 3 | uint64_t(fn);
    k = k << 5 | uint64_t(element);
    k = k << 5 | uint64_t(in);
    k = k << 5 | uint64_t(out);
    return ((k << 3 | width_log) << 3 | lanes_log) << 1 | long_index;
  }
  static Instance of(uint64_t key) {
    return {Kernel(key >> 25),      ScanFn(key >> 22 & 7), DType(key >> 17 & 31),
            DType(key >> 12 & 31),  DType(key >> 7 & 31),  unsigned(key >> 4 & 7),
            unsigned(key >> 1 & 7), unsigned(key & 1)};
  }
};

std::string spell_scan(uint64_t key) {
  constexpr const char* fns[] = {"Sum", "Prod", "Max", "Min", "LogCumSumExp"};
  constexpr const char* kernels[] = {"rows", "tiles", "totals", "columns"};
  const Instance i = Instance::of(key);
  std::string text = concat("rush::scan_", kernels[int(i.kernel)], "<rush::scans::", fns[int(i.fn)],
                            "<", kernel_type(i.element), ">, ", stored_type(i.in), ", ",
                            stored_type(i.out), ", ", i.long_index ? "rush::u64" : "rush::u32");
  if (i.kernel == Kernel::Rows) text += concat(", ", 1 << i.width_log, ", ", 1 << i.lanes_log);
  if (i.kernel == Kernel::Tiles) text += concat(", ", 1 << i.width_log, ", ", kParts);
  return text + ">";
}
const KernelFamily kScan{"scan.cu", spell_scan};

constexpr int64_t kMostAcc = 16;     // bytes of the largest running result
constexpr int64_t kRowLimit = 1024;  // lines up to this length are a group of lanes' work
constexpr int64_t kFewLines = 32;    // across memory, fewer than this are better cut into tiles
constexpr int64_t kShortSegment = 64;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Elements that a thread reads at once: end to end along the line and aligned at every line.
unsigned pack_log(const ScanArgs& args, const Walk<3>& walk, int64_t x_size, int64_t out_size) {
  const int64_t width = x_size <= 4 ? 4 : 16 / x_size;
  const auto aligned = [](const void* p, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(p) % uintptr_t(std::min<int64_t>(bytes, 16)) == 0;
  };
  bool packs = args.x_step == 1 && args.out_step == 1 && aligned(args.x, width * x_size) &&
               aligned(args.out, width * out_size);
  if (args.indices) packs = packs && args.index_step == 1 && aligned(args.indices, 16);
  for (int d = 0; packs && d < walk.dims; ++d) {
    for (const int64_t step : walk.strides[size_t(d)]) packs = packs && step % width == 0;
  }
  return packs ? unsigned(std::countr_zero(uint64_t(width))) : 0;
}

// Room that blocks leave words for each other in. It lives until the launch is queued: what comes
// later on the stream cannot overtake it.
Tensor make_room(ScanArgs& args, Device device) {
  args.groups = ceil_div(args.tiles, kScanGroup);
  args.stretches = ceil_div(args.groups, kScanGroup);
  const int64_t per_line = args.tiles + args.groups + args.stretches;
  const int64_t flags = (args.lines * per_line + 3) / 4 * 4;
  const int64_t flag_bytes = flags * 4;
  const Tensor room =
      make_tensor(Dims{flag_bytes + args.lines * per_line * kMostAcc}, DType::UInt8, device);
  fill(make_tensor(room.storage(), Dims{flags}, Dims{1}, 0, DType::Int32), 0);
  args.tile_flags = room.data<u32>();
  args.group_flags = args.tile_flags + args.lines * args.tiles;
  args.stretch_flags = args.group_flags + args.lines * args.groups;
  char* values = room.data<char>() + flag_bytes;
  args.tile_sums = values;
  args.group_sums = values + args.lines * args.tiles * kMostAcc;
  args.stretch_starts = values + args.lines * (args.tiles + args.groups) * kMostAcc;
  return room;
}

int64_t step_along(const Tensor& t, int64_t dim) { return t.strides()[size_t(dim)]; }

void scan(ScanFn fn, const Tensor& x, const Tensor& out, const Tensor* indices, int64_t dim) {
  if (out.numel() == 0) return;
  const bool sums = fn == ScanFn::Sum || fn == ScanFn::Prod;
  Instance instance{};
  instance.fn = fn;
  instance.element = wide_type(sums ? out.dtype() : x.dtype());
  instance.in = x.dtype();
  instance.out = out.dtype();
  check((sums || (!x.is_complex() && x.dtype() != DType::UInt64)) &&
            (fn != ScanFn::LogCumSumExp || is_floating(x.dtype())),
        ErrorKind::DType, "", "scan not implemented for ", x.dtype(), " tensors");

  Walk<3> walk;
  for (size_t d = 0; d < size_t(x.dim()); ++d)
    if (int64_t(d) != dim)
      walk.add(x.sizes()[d],
               {x.strides()[d], out.strides()[d], indices ? indices->strides()[d] : 0});
  walk.coalesce();
  if (walk.dims > kNestDims) {  // more dims than a launch takes: through contiguous copies
    const auto contiguous = [](const Tensor& t) {
      return make_tensor(t.sizes(), t.dtype(), t.device());
    };
    const Tensor from = contiguous(x), to = contiguous(out),
                 at = indices ? contiguous(*indices) : Tensor();
    copy(x, from, false);
    scan(fn, from, to, indices ? &at : nullptr, dim);
    copy(to, out, false);
    if (indices) copy(at, *indices, false);
    return;
  }

  ScanArgs args{};
  args.x = x.data();
  args.out = out.data();
  args.indices = indices ? indices->data<i64>() : nullptr;
  args.lines = walk.numel;
  args.length = x.sizes()[size_t(dim)];
  args.x_step = step_along(x, dim);
  args.out_step = step_along(out, dim);
  args.index_step = indices ? step_along(*indices, dim) : 0;
  instance.long_index = !walk.is_short();

  const int device = x.device().index;
  const auto queue = [&](Kernel kernel, Grid grid) {
    instance.kernel = kernel;
    with_nest(walk, [&]<class I>(const Nest<I, 3>& nest) {
      launch(kScan, instance.key(), device, grid, {kThreads}, args, nest);
    });
  };

  const int64_t beside = walk.dims ? std::abs(walk.strides[0][0]) : 0;
  if (args.lines >= kFewLines && beside != 0 && beside < std::abs(args.x_step)) {
    const int64_t wanted = int64_t(device_info(device).processors) * 2048;
    const int64_t segments =
        std::clamp<int64_t>(std::min(wanted / args.lines, args.length / kShortSegment), 1, 512);
    args.segment = ceil_div(args.length, segments);
    const Grid grid{unsigned(ceil_div(args.lines, kThreads)),
                    unsigned(ceil_div(args.length, args.segment))};
    Tensor totals;
    if (grid.y > 1) {
      totals = make_tensor(Dims{int64_t(grid.y) * args.lines * kMostAcc}, DType::UInt8, x.device());
      args.totals = totals.data();
      queue(Kernel::Totals, grid);
    }
    queue(Kernel::Columns, grid);
    return;
  }
  instance.width_log = pack_log(args, walk, x.element_size(), out.element_size());
  const int64_t width = int64_t(1) << instance.width_log;
  if (args.length <= kRowLimit) {
    if (args.length < 2 * width) instance.width_log = 0;
    const int64_t packs = ceil_div(args.length, int64_t(1) << instance.width_log);
    const auto lanes = std::bit_ceil(uint64_t(std::min<int64_t>(packs, 32)));
    instance.lanes_log = unsigned(std::countr_zero(lanes));
    queue(Kernel::Rows, blocks_for(args.lines * int64_t(lanes), device));
    return;
  }
  args.tiles = ceil_div(args.length, kThreads * width * kParts);
  const Tensor room = args.tiles > 1 ? make_room(args, x.device()) : Tensor();
  queue(Kernel::Tiles, {unsigned(args.lines * args.tiles)});
}

const bool registered = [] {
  reduce_loops(DeviceType::CUDA).scan = scan;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
