// Reading and writing at indices on GPUs, through kernels/index.cu.
//
// A bad index cannot raise where it is used: the host has gone on. Kernels note the first one,
// reads give zero and writes are left out; the error is raised when the program next waits for the
// GPU.
#include "device/index.h"

#include <bit>

#include "cuda/index/write_at.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "cuda/runtime/nest.h"
#include "device/pointwise.h"

namespace rush::cuda {
namespace {

const char* index_type(uint64_t is_long) { return is_long ? "rush::u64" : "rush::u32"; }

// Keys: an element's width (log 2) or type, a function, and whether indices are long.
std::string spell_read(uint64_t key) {
  return concat("rush::read_at<", kernel_bytes(1 << (key >> 1)), ", ", index_type(key & 1), ">");
}
std::string spell_offsets(uint64_t key) {
  return concat("rush::add_offsets<", index_type(key), ">");
}
std::string spell_check(uint64_t key) {
  return concat("rush::check_indices<", index_type(key), ">");
}
std::string spell_between(uint64_t key) {
  return concat("rush::check_between<", stored_type(DType(key >> 1)), ", ", index_type(key & 1),
                ">");
}
std::string spell_scatter(uint64_t key) {
  constexpr const char* fns[] = {"Set", "Add", "Mul", "Max", "Min"};
  return concat(key >> 9 & 1 ? "rush::scatter_each<" : "rush::scatter<", "rush::Scatter",
                fns[key >> 6 & 7], ", ", stored_type(DType(key >> 1 & 31)), ", ",
                index_type(key & 1), ">");
}
const KernelFamily kRead{"index.cu", spell_read};
const KernelFamily kOffsets{"index.cu", spell_offsets};
const KernelFamily kCheck{"index.cu", spell_check};
const KernelFamily kBetween{"index.cu", spell_between};
const KernelFamily kScatter{"index.cu", spell_scatter};

IndexArgs args_for(const IndexRange& range, const Tensor& index, const FaultSlot& fault) {
  IndexArgs args{};
  args.index = index.data<const i64>();
  args.size = range.size;
  args.stride = range.stride;
  args.wraps = range.wraps;
  args.launch = fault.launch;
  args.fault = fault.record;
  return args;
}

void check_all(const Tensor& index, const IndexRange& range) {
  if (index.numel() == 0) return;
  const int device = index.device().index;
  const Walk<1> walk = walk_over<1>({index.impl()});
  IndexArgs args = args_for(range, index, next_fault_slot(device, range.op, range.dim, range.size));
  with_nest(walk, [&]<class I>(const Nest<I, 1>& nest) {
    walk.peel([&](const std::array<int64_t, 1>& offsets, int64_t count) {
      args.n = count;
      args.index = index.data<const i64>() + offsets[0];
      launch_each(kCheck, sizeof(I) == 8, device, count, args, nest);
    });
  });
}

void check_values(const Tensor& x, double lo, double hi, bool nonzero, const char* op,
                  const char* rule) {
  if (x.numel() == 0) return;
  const int device = x.device().index;
  Walk<1> walk;  // in row-major order: the position that is told is the element's number
  for (size_t d = 0; d < x.sizes().size(); ++d) walk.add(x.sizes()[d], {x.strides()[d]});
  walk.coalesce(false);
  const FaultSlot fault = next_fault_slot(device, op, rule);
  BetweenArgs args{0, nullptr, lo, hi, nonzero, fault.launch, fault.record};
  with_nest(walk, [&]<class I>(const Nest<I, 1>& nest) {
    walk.peel([&](const std::array<int64_t, 1>& offsets, int64_t count) {
      args.n = count;
      args.x = x.data<char>() + offsets[0] * x.element_size();
      launch_each(kBetween, uint64_t(x.dtype()) << 1 | (sizeof(I) == 8), device, count, args, nest);
    });
  });
}

void check_between(const Tensor& x, double lo, double hi, const char* op, const char* rule) {
  check_values(x, lo, hi, false, op, rule);
}
void read_at(const Tensor& out, const Tensor& source, const Tensor& index,
             const IndexRange& range) {
  if (out.numel() == 0) return;
  const int device = out.device().index;
  const Walk<3> walk = walk_over<3>({out.impl(), source.impl(), index.impl()});
  const int64_t width = out.element_size();
  IndexArgs args = args_for(range, index, next_fault_slot(device, range.op, range.dim, range.size));
  with_nest(walk, [&]<class I>(const Nest<I, 3>& nest) {
    const uint64_t key = uint64_t(std::countr_zero(uint64_t(width))) << 1 | (sizeof(I) == 8);
    walk.peel([&](const std::array<int64_t, 3>& offsets, int64_t count) {
      args.n = count;
      args.out = out.data<char>() + offsets[0] * width;
      args.source = source.data<char>() + offsets[1] * width;
      args.index = index.data<const i64>() + offsets[2];
      launch_each(kRead, key, device, count, args, nest);
    });
  });
}

// Slices as reads of the widest elements that fit them.
void copy_slices(const Tensor& out, const Tensor& source, const Tensor& index, int64_t outer,
                 int64_t row, const IndexRange& range) {
  if (out.numel() == 0) return;
  constexpr std::pair<int64_t, DType> carriers[] = {{16, DType::Complex128},
                                                    {8, DType::Int64},
                                                    {4, DType::Int32},
                                                    {2, DType::Int16},
                                                    {1, DType::UInt8}};
  const auto fits = [](const Tensor& t, int64_t width) {
    return reinterpret_cast<uintptr_t>(t.data()) % uintptr_t(width) == 0 &&
           t.offset() * t.element_size() % width == 0;
  };
  for (const auto& [width, type] : carriers) {
    if (row % width || !fits(out, width) || !fits(source, width)) continue;
    const int64_t n = index.numel(), length = row / width;
    const auto seen = [&](const Tensor& t, const Dims& strides) {
      return make_tensor(t.storage(), Dims{outer, n, length}, strides,
                         t.offset() * t.element_size() / width, type);
    };
    read_at(seen(out, Dims{n * length, length, 1}), seen(source, Dims{range.size * length, 0, 1}),
            index.alias(Dims{outer, n, length}, Dims{0, 1, 0}, index.offset()),
            {range.op, range.size, length, range.dim, range.wraps});
    return;
  }
}

void add_offsets(const Tensor& offsets, const Tensor& index, int64_t size, int64_t stride) {
  if (offsets.numel() == 0) return;
  const int device = offsets.device().index;
  const Walk<2> walk = walk_over<2>({offsets.impl(), index.impl()});
  const IndexRange range{"index", size, stride, 0, true};
  IndexArgs args = args_for(range, index, next_fault_slot(device, range.op, 0, size));
  with_nest(walk, [&]<class I>(const Nest<I, 2>& nest) {
    walk.peel([&](const std::array<int64_t, 2>& at, int64_t count) {
      args.n = count;
      args.out = offsets.data<i64>() + at[0];
      args.index = index.data<const i64>() + at[1];
      launch_each(kOffsets, sizeof(I) == 8, device, count, args, nest);
    });
  });
}

// A thread for each write, unless one line is one write, or the update is wider than what the GPU
// swaps at once.
bool writes_each(ScatterFn fn, DType t, int64_t length) {
  const bool too_wide = t == DType::Complex128 && fn != ScatterFn::Set && fn != ScatterFn::Add;
  return length > 1 && !too_wide;
}

void scatter(ScatterFn fn, const ScatterLines& lines, const Scalar& alpha) {
  if (lines.length == 0 || lines.dst.numel() == 0) return;
  if (fn == ScatterFn::Set && !lines.checked && write_at_one(lines)) return;
  const int device = lines.dst.device().index;
  const Walk<3> walk = walk_over<3>({lines.dst.impl(), lines.src.impl(), lines.index.impl()});
  const DType type = lines.dst.dtype();
  const int64_t item = lines.dst.element_size();
  ScatterArgs args{};
  args.length = lines.length;
  args.index_step = lines.index_step;
  args.source_step = lines.src_step;
  args.size = lines.range.size;
  args.stride = lines.range.stride;
  args.alpha = to_number(alpha);
  const FaultSlot fault =
      next_fault_slot(device, lines.range.op, lines.range.dim, lines.range.size);
  args.launch = fault.launch;
  args.is_unchecked = !lines.checked;
  args.wraps = lines.range.wraps;
  const bool each = writes_each(fn, type, lines.length);
  with_nest(walk, [&]<class I>(const Nest<I, 3>& nest) {
    const uint64_t key =
        uint64_t(each) << 9 | uint64_t(fn) << 6 | uint64_t(type) << 1 | (sizeof(I) == 8);
    walk.peel([&](const std::array<int64_t, 3>& offsets, int64_t count) {
      args.lines = count;
      args.out = lines.dst.data<char>() + offsets[0] * item;
      args.source = lines.src.data<char>() + offsets[1] * item;
      args.index = lines.index.data<const i64>() + offsets[2];
      const int64_t threads = each ? count * lines.length : count;
      launch_each(kScatter, key, device, threads, args, nest,
                  static_cast<IndexFault*>(fault.record));
    });
  });
}

void divide_by_count(const Tensor& out, const Tensor& count) {
  if (out.numel() == 0) return;
  const Tensor at_least_one = make_tensor(count.sizes(), count.dtype(), count.device());
  map_binary(BinaryFn::Maximum, count, wrap_number(1), at_least_one);
  const bool whole = category(out.dtype()) <= Category::Integer;
  map_binary(whole ? BinaryFn::FloorDivide : BinaryFn::Div, out, at_least_one, out, {},
             out.dtype() == DType::Bool ? DType::Int64 : out.dtype());
}

void masked_fill(const Tensor& self, const Tensor& mask, const Tensor& value, const Tensor& out) {
  map_ternary(TernaryFn::Where, mask, value, self, out, {}, self.dtype());
}

const bool registered = [] {
  IndexLoops& loops = index_loops(DeviceType::CUDA);
  loops.check_indices = check_all;
  loops.check_between = check_between;
  loops.read_at = read_at;
  loops.copy_slices = copy_slices;
  loops.add_offsets = add_offsets;
  loops.scatter = scatter;
  loops.scatter_checks_one = true;
  loops.divide_by_count = divide_by_count;
  loops.masked_fill = masked_fill;
  return true;
}();

}  // namespace

void check_nonzero(const Tensor& x, const char* op, const char* rule) {
  check_values(x, 0, 0, true, op, rule);
}

}  // namespace rush::cuda
