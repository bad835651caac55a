// Moving, converting and filling elements on GPUs, and to and from them.
#include <bit>

#include "cuda/runtime/graph.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "cuda/runtime/memory.h"
#include "cuda/runtime/nest.h"
#include "device/copy.h"

namespace rush::cuda {
namespace {

CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

bool is_aligned(const void* p, int64_t bytes) {
  return (reinterpret_cast<uintptr_t>(p) & uintptr_t(bytes - 1)) == 0;
}

// ---- kernels ----

enum Mode : unsigned { kFlat1, kFlat2, kFlat4, kFlat8, kFlat16, kShort, kLong };

std::string how(unsigned mode) {
  return mode == kShort ? "rush::u32" : mode == kLong ? "rush::u64" : std::to_string(1 << mode);
}

// Key: mode, whether types or only widths count, the type (or width) written, then the one read.
std::string spell_copy(uint64_t key) {
  const auto from = unsigned(key & 31), to = unsigned(key >> 5 & 31), mode = unsigned(key >> 11);
  const bool bytes = key >> 10 & 1;
  const auto type = [&](unsigned t) { return bytes ? kernel_bytes(t) : stored_type(DType(t)); };
  return concat(mode < kShort ? "rush::copy_flat<" : "rush::copy_strided<", type(to), ", ",
                type(from), ", ", how(mode), ">");
}
std::string spell_fill(uint64_t key) {
  const auto mode = unsigned(key >> 5);
  return concat(mode < kShort ? "rush::fill_flat<" : "rush::fill_strided<",
                kernel_type(DType(key & 31)), ", ", how(mode), ">");
}
constexpr uint64_t kNarrow = 32, kApart = 64, kPacks = 128;  // beside an element's bytes
std::string spell_turn(uint64_t key) {
  const char* element = kernel_bytes(int64_t(key & 31));
  if (key < kNarrow) return concat("rush::copy_transposed<", element, ">");
  return concat("rush::copy_narrow<", element, key & kApart ? ", true, " : ", false, ",
                key & kPacks ? 16 / int64_t(key & 31) : 1, ">");
}
const KernelFamily kCopy{"copy.cu", spell_copy};
const KernelFamily kFill{"copy.cu", spell_fill};
const KernelFamily kTurn{"copy.cu", spell_turn};

uint64_t bytes_key(unsigned mode, int64_t width) {
  return uint64_t(mode) << 11 | 1 << 10 | uint64_t(width) << 5 | uint64_t(width);
}
uint64_t copy_key(unsigned mode, const Tensor& dst, const Tensor& src) {
  if (dst.dtype() == src.dtype()) return bytes_key(mode, dst.element_size());
  return uint64_t(mode) << 11 | uint64_t(dst.dtype()) << 5 | uint64_t(src.dtype());
}

int pack_width(const Tensor& dst, const Tensor& src) {
  const int width = int(16 / std::max(dst.element_size(), src.element_size()));
  const bool aligned = is_aligned(dst.data(), width * dst.element_size()) &&
                       is_aligned(src.data(), width * src.element_size());
  return aligned ? width : 1;
}

// Two dims across each other, the inner one of either being the outer one of the other.
bool copy_transposed(const Walk<2>& walk, const Tensor& src, const Tensor& dst) {
  if (src.dtype() != dst.dtype() || walk.dims < 2 || walk.dims > 3) return false;
  // Dim 0 is the output's innermost; the input's is one of the others.
  if (walk.strides[0][0] != 1) return false;
  int across = 0;
  for (int d = 1; d < walk.dims; ++d)
    if (walk.strides[size_t(d)][1] == 1) across = d;
  if (across == 0) return false;
  const auto r = size_t(across), b = walk.dims == 3 ? size_t(3 - across) : size_t(0);
  TransposeArgs args{};
  args.out = dst.data();
  args.in = src.data();
  args.batches = b ? walk.sizes[b] : 1;
  args.rows = walk.sizes[r];
  args.cols = walk.sizes[0];
  args.out_row = walk.strides[r][0];
  args.in_row = walk.strides[0][1];
  args.out_batch = b ? walk.strides[b][0] : 0;
  args.in_batch = b ? walk.strides[b][1] : 0;
  const auto width = uint64_t(dst.element_size());
  const int device = dst.device().index;
  const bool apart = args.rows <= kNarrowMost && args.in_row == args.rows;
  if (apart || (args.cols <= kNarrowMost && args.out_row == args.cols)) {
    const int64_t wide = apart ? args.cols : args.rows, run = narrow_run(int(width));
    const int64_t runs = (wide + run - 1) / run, pack = pack_width(dst, src);
    if (runs > INT32_MAX) return false;
    const Grid grid{unsigned(runs), 1, unsigned(std::min<int64_t>(args.batches, 65535))};
    const int64_t steps =
        wide | args.out_batch | args.in_batch | (apart ? args.out_row : args.in_row);
    const bool packs = pack > 1 && steps % pack == 0;
    launch(kTurn, width | kNarrow | (apart ? kApart : 0) | (packs ? kPacks : 0), device, grid,
           {kThreads}, args);
    return true;
  }
  if (args.rows < 8 || args.cols < 8) return false;
  const int64_t across_tiles = (args.rows + 31) / 32;
  if (across_tiles > 65535) return false;
  const Grid grid{unsigned((args.cols + 31) / 32), unsigned(across_tiles),
                  unsigned(std::min<int64_t>(args.batches, 65535))};
  launch(kTurn, width, device, grid, {kThreads}, args);
  return true;
}

// Rows of one type that lie end to end on both sides are moved as elements of up to 16 bytes: returns
// the bytes of one, and counts the walk in them.
int64_t widen(Walk<2>& walk, const Tensor& src, const Tensor& dst) {
  const int64_t size = dst.element_size();
  if (src.dtype() != dst.dtype() || walk.dims == 0 ||
      walk.strides[0] != std::array<int64_t, 2>{1, 1})
    return size;
  int64_t times = 16 / size;
  const auto fits = [&] {
    bool all = walk.sizes[0] % times == 0 && is_aligned(src.data(), times * size) &&
               is_aligned(dst.data(), times * size);
    for (size_t d = 1; d < size_t(walk.dims); ++d)
      for (const int64_t step : walk.strides[d]) all = all && step % times == 0;
    return all;
  };
  while (times > 1 && !fits()) times /= 2;
  walk.sizes[0] /= times;
  walk.numel /= times;
  for (size_t d = 1; d < size_t(walk.dims); ++d)
    for (int64_t& step : walk.strides[d]) step /= times;
  return times * size;
}

// Both on one device.
void copy_on_device(const Tensor& src, const Tensor& dst) {
  const int64_t n = dst.numel();
  if (n == 0) return;
  const int device = dst.device().index;
  bool flat = dst.is_contiguous() && src.is_contiguous() && src.numel() == n;
  Walk<2> walk;
  if (!flat) {
    walk = walk_over<2>({dst.impl(), src.impl()});
    flat = walk.dims == 0 || (walk.dims == 1 && walk.strides[0] == std::array<int64_t, 2>{1, 1});
  }
  // The driver's own copy costs more to start than a kernel, and moves no faster.
  constexpr int64_t kSmall = int64_t(1) << 20;
  if (flat && src.dtype() == dst.dtype() && src.data() == dst.data()) return;
  if (flat && src.dtype() == dst.dtype() && dst.nbytes() > kSmall) {
    bind(device);
    must(driver().MemcpyAsync(address(dst.data()), address(src.data()), size_t(dst.nbytes()),
                              current_stream(device)->handle()),
         "copy_");
    return;
  }
  if (flat) {
    const int width = pack_width(dst, src);
    const CopyArgs args{n, dst.data(), src.data()};
    launch_each(kCopy, copy_key(unsigned(std::countr_zero(unsigned(width))), dst, src), device,
                (n + width - 1) / width, args);
    return;
  }
  if (copy_transposed(walk, src, dst)) return;
  const int64_t wide = widen(walk, src, dst);
  const bool wider = wide != dst.element_size();
  with_nest(walk, [&]<class I>(const Nest<I, 2>& nest) {
    walk.peel([&](const std::array<int64_t, 2>& offsets, int64_t count) {
      const CopyArgs args{count, dst.data<char>() + offsets[0] * wide,
                          src.data<char>() + offsets[1] * (wider ? wide : src.element_size())};
      const unsigned mode = sizeof(I) == 4 ? kShort : kLong;
      launch_each(kCopy, wider ? bytes_key(mode, wide) : copy_key(mode, dst, src), device, count,
                  args, nest);
    });
  });
}

bool is_zero_bytes(const Number& x) {
  if (x.exact) return x.whole == 0;
  return std::bit_cast<uint64_t>(x.re) == 0 && std::bit_cast<uint64_t>(x.im) == 0;
}

// ---- between host and device ----

// The values of t, end to end in its own shape, where it is.
Tensor packed(const Tensor& t) {
  if (t.is_contiguous()) return t;
  Tensor out = make_tensor(t.sizes(), t.dtype(), t.device());
  if (t.is_cuda())
    copy_on_device(t, out);
  else
    copy_loops(t).copy(t, out, false);
  return out;
}

// Can nobody but this call see the tensor, such as the numbers of tensor([1, 2], device="cuda")?
bool is_unseen(const Tensor& t) {
  return t.impl()->py_object == nullptr && t.storage()->use_count() == 1;
}

// While a graph is captured: from pinned memory, which each replay reads anew; numbers that nobody
// can change any more are constants of the graph.
void capture_upload(Graph& graph, const Tensor& host, const Tensor& dst, bool constant,
                    Stream* stream) {
  const size_t nbytes = size_t(host.nbytes());
  if (is_pinned(*host.storage())) {
    graph.keep_alive(host.storage());
    must(driver().MemcpyHtoDAsync(address(dst.data()), host.data(), nbytes, stream->handle()),
         "copy_");
    return;
  }
  check(constant, ErrorKind::Runtime, "copy_",
        "a copy from ordinary host memory cannot be captured into a CUDA graph: copy before the "
        "capture, or from contiguous pinned memory (pin_memory()), which each replay reads anew");
  must(driver().MemcpyAsync(address(dst.data()), address(graph.constant(host.data(), nbytes)),
                            nbytes, stream->handle()),
       "copy_");
}

// One type, both contiguous. `constant`: nobody can change the host's values any more.
void upload(const Tensor& host, const Tensor& dst, bool non_blocking, bool constant) {
  const int device = dst.device().index;
  bind(device);
  Stream* stream = current_stream(device);
  if (Graph* graph = capture_of(stream)) [[unlikely]]
    return capture_upload(*graph, host, dst, constant, stream);
  const bool pinned = is_pinned(*host.storage());
  if (pinned && non_blocking) use_pinned(*host.storage(), stream);
  must(driver().MemcpyHtoDAsync(address(dst.data()), host.data(), size_t(host.nbytes()),
                                stream->handle()),
       "copy_");
  // Pageable memory has been copied aside by now; pinned memory is read later.
  if (pinned && !non_blocking) must(driver().StreamSynchronize(stream->handle()), "copy_");
}

void copy_to_device(const Tensor& src, const Tensor& dst, bool non_blocking) {
  const Tensor host = packed(src);
  const bool constant = is_unseen(src);
  if (dst.is_contiguous() && dst.dtype() == host.dtype() && dst.sizes() == host.sizes()) {
    upload(host, dst, non_blocking, constant);
    return;
  }
  const Tensor arrived = make_tensor(host.sizes(), host.dtype(), dst.device());
  upload(host, arrived, non_blocking, constant);
  copy_on_device(arrived, dst);
}

void copy_to_host(const Tensor& src, const Tensor& dst) {
  const Tensor ready = packed(src);
  const int device = src.device().index;
  const bool direct =
      dst.is_contiguous() && dst.dtype() == src.dtype() && dst.sizes() == src.sizes();
  const Tensor host = direct ? dst : make_tensor(ready.sizes(), ready.dtype());
  note_wait("a copy to the host");
  bind(device);
  Stream* stream = current_stream(device);
  must(driver().MemcpyDtoHAsync(host.data(), address(ready.data()), size_t(ready.nbytes()),
                                stream->handle()),
       "copy_");
  must(driver().StreamSynchronize(stream->handle()), "copy_");
  raise_faults(device);
  if (!direct) copy_loops(host).copy(host, dst, false);
}

// Through the driver's own path between devices, in the order of both streams.
void copy_between(const Tensor& src, const Tensor& dst) {
  const Tensor ready = packed(src);
  const int from = src.device().index, to = dst.device().index;
  Event written;
  written.record(current_stream(from));
  written.make_wait(current_stream(to));
  const bool direct =
      dst.is_contiguous() && dst.dtype() == src.dtype() && dst.sizes() == src.sizes();
  const Tensor arrived = direct ? dst : make_tensor(ready.sizes(), ready.dtype(), dst.device());
  bind(to);
  must(driver().MemcpyAsync(address(arrived.data()), address(ready.data()), size_t(ready.nbytes()),
                            current_stream(to)->handle()),
       "copy_");
  Event done;
  done.record(current_stream(to));
  done.make_wait(current_stream(from));
  if (!direct) copy_on_device(arrived, dst);
}

const bool registered = [] {
  copy_loops(DeviceType::CUDA).copy = copy;
  copy_loops(DeviceType::CUDA).fill = fill;
  return true;
}();

}  // namespace

Number to_number(const Scalar& s) {
  if (s.is_bool() || s.is_integer()) return {0, 0, s.to_int(), true};
  const auto z = s.to<complex<double>>();
  return {z.re, z.im, 0, false};
}

void copy(const Tensor& src, const Tensor& dst, bool non_blocking) {
  if (dst.numel() == 0) return;
  if (!src.is_cuda())
    copy_to_device(src, dst, non_blocking);
  else if (!dst.is_cuda())
    copy_to_host(src, dst);
  else if (src.device() == dst.device())
    copy_on_device(src, dst);
  else
    copy_between(src, dst);
}

void fill(const Tensor& dst, const Scalar& value) {
  const int64_t n = dst.numel();
  if (n == 0) return;
  const int device = dst.device().index;
  const Number number = to_number(value);
  Walk<1> walk;
  bool flat = dst.is_contiguous();
  if (!flat) {
    walk = walk_over<1>({dst.impl()});
    flat = walk.dims == 0 || (walk.dims == 1 && walk.strides[0][0] == 1);
  }
  if (flat && is_zero_bytes(number)) {
    bind(device);
    must(driver().MemsetD8Async(address(dst.data()), 0, size_t(n * dst.element_size()),
                                current_stream(device)->handle()),
         "fill_");
    return;
  }
  const auto type = uint64_t(dst.dtype());
  if (flat) {
    const int64_t width = is_aligned(dst.data(), 16) ? 16 / dst.element_size() : 1;
    const FillArgs args{n, dst.data(), number};
    launch_each(kFill, uint64_t(std::countr_zero(uint64_t(width))) << 5 | type, device,
                (n + width - 1) / width, args);
    return;
  }
  with_nest(walk, [&]<class I>(const Nest<I, 1>& nest) {
    walk.peel([&](const std::array<int64_t, 1>& offsets, int64_t count) {
      const FillArgs args{count, dst.data<char>() + offsets[0] * dst.element_size(), number};
      launch_each(kFill, uint64_t(sizeof(I) == 4 ? kShort : kLong) << 5 | type, device, count, args,
                  nest);
    });
  });
}

}  // namespace rush::cuda
