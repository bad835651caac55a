#include "cpu/copy/copy.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "core/cpu_features.h"
#include "core/misaligned.h"
#include "cpu/copy/row_moves.h"
#include "cpu/loop_nest.h"
#include "device/copy.h"

namespace rush {

namespace {

// Side of the square tiles in which transposed copies run: both sides' rows fit the first-level
// cache.
constexpr int64_t kTile = 64;

const ByteKernels& byte_kernels() {
#ifdef __x86_64__
  if (isa_level() >= IsaLevel::Avx512) return avx512::byte_kernels;
  if (isa_level() >= IsaLevel::Avx2) return avx2::byte_kernels;
#endif
  return baseline::byte_kernels;
}

const ConvertTable& flat_conversions() {
#ifdef __x86_64__
  if (isa_level() >= IsaLevel::Avx512) return avx512::flat_conversions;
  if (isa_level() >= IsaLevel::Avx2) return avx2::flat_conversions;
#endif
  return baseline::flat_conversions;
}

// convert_fn's functions: flat where possible, strided otherwise; one instance a pair of types.
template <int from, int to>
void convert_any(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n) {
  constexpr int64_t from_size = kDTypes[from].size, to_size = kDTypes[to].size;
  if (src_stride == 0 && dst_stride == to_size && n > 4) {
    alignas(16) char value[16];
    baseline::strided_conversions.fn[from][to](value, to_size, src, 0, 1);
    static const auto fill = byte_kernels().fill[std::countr_zero(uint64_t(to_size))];
    return fill(dst, value, n);
  }
  if (dst_stride == to_size && src_stride == from_size) {
    if constexpr (from == to) {
      std::memcpy(dst, src, size_t(n * to_size));
      return;
    }
    static const ConvertFn flat = flat_conversions().fn[from][to];
    if (flat) return flat(dst, dst_stride, src, src_stride, n);
  }
  baseline::strided_conversions.fn[from][to](dst, dst_stride, src, src_stride, n);
}

template <int... pair>
constexpr ConvertTable make(std::integer_sequence<int, pair...>) {
  ConvertTable t{};
  ((t.fn[pair / kTypes][pair % kTypes] = convert_any<pair / kTypes, pair % kTypes>), ...);
  return t;
}
constexpr ConvertTable kConvert = make(std::make_integer_sequence<int, kTypes * kTypes>{});

void convert_row(char* const* ptrs, const int64_t* strides, int64_t n, const void* context) {
  const ConvertFn fn = *static_cast<const ConvertFn*>(context);
  fn(ptrs[0], strides[0], ptrs[1], strides[1], n);
}

// One side runs backwards.
void reverse_row(char* const* ptrs, const int64_t* strides, int64_t n, const void*) {
  const int64_t item = std::abs(strides[0]);
  const bool read_backwards = strides[1] < 0;
  char* dst = read_backwards ? ptrs[0] : ptrs[0] - (n - 1) * item;
  const char* src = read_backwards ? ptrs[1] : ptrs[1] + (n - 1) * item;
  byte_kernels().reverse[std::countr_zero(uint64_t(item))](dst, src, n);
}

// The dim along which the source lies end to end while the destination does along dim 0; -1: none.
int transposed_dim(const LoopNest& nest, int64_t item) {
  if (nest.strides[0][0] != item || nest.strides[0][1] == item || nest.sizes[0] < 8) return -1;
  for (int d = 1; d < nest.dims; ++d) {
    if (nest.strides[d][1] == item && nest.sizes[d] >= 8) return d;
  }
  return -1;
}

// Tiles of the plane (dim 0, dim `across`), for every index of the other dims.
void copy_transposed(const LoopNest& nest, int across, int64_t item) {
  const int64_t cols = nest.sizes[0], rows = nest.sizes[across];
  const int64_t col_tiles = (cols + kTile - 1) / kTile, row_tiles = (rows + kTile - 1) / kTile;
  const int64_t planes = nest.numel / (cols * rows);
  const auto kernel = byte_kernels().transpose[std::countr_zero(uint64_t(item))];
  const int64_t tiles = planes * col_tiles * row_tiles;
  parallel_for(
      tiles, std::max<int64_t>(1, kGrain / (kTile * kTile)), [&](int64_t begin, int64_t end) {
        for (int64_t tile = begin; tile < end; ++tile) {
          // Along the destination's rows: a thread then writes whole rows, like any other loop,
          // and no line of the cache has to go from one core to another.
          const int64_t col = tile % col_tiles * kTile, row = tile / col_tiles % row_tiles * kTile;
          int64_t plane = tile / (row_tiles * col_tiles);
          char* dst = nest.base[0] + row * nest.strides[across][0] + col * item;
          const char* src = nest.base[1] + row * item + col * nest.strides[0][1];
          for (int d = 1; d < nest.dims; ++d) {
            if (d == across) continue;
            const int64_t index = plane % nest.sizes[d];
            plane /= nest.sizes[d];
            dst += index * nest.strides[d][0];
            src += index * nest.strides[d][1];
          }
          kernel(dst, nest.strides[across][0], src, nest.strides[0][1], std::min(kTile, rows - row),
                 std::min(kTile, cols - col));
        }
      });
}

// Rows of a few elements cost more than what is in them. So where the next dim is longer, rows run
// along that one, in pieces that stay in the first-level cache from one to the next.
constexpr int64_t kShortRow = 8, kPiece = 256;

void copy_short_rows(LoopNest nest, const ConvertFn& fn) {
  std::swap(nest.sizes[0], nest.sizes[1]);
  std::swap(nest.strides[0], nest.strides[1]);
  const int64_t n = nest.sizes[0], rest = n % kPiece, whole = n - rest;
  if (n > kPiece && nest.dims < int(kMaxDims)) {
    if (rest > 0) {
      LoopNest tail = nest;
      for (int i = 0; i < 2; ++i) tail.base[i] += whole * nest.strides[0][i];
      tail.sizes[0] = rest;
      tail.numel = nest.numel / n * rest;
      tail.run_parallel(convert_row, &fn);
    }
    // The pieces are a dim of their own, outside of the short one.
    for (int d = nest.dims; d > 2; --d) {
      nest.sizes[d] = nest.sizes[d - 1];
      std::copy_n(nest.strides[d - 1], 2, nest.strides[d]);
    }
    nest.sizes[2] = whole / kPiece;
    for (int i = 0; i < 2; ++i) nest.strides[2][i] = nest.strides[0][i] * kPiece;
    nest.sizes[0] = kPiece;
    nest.numel = nest.numel / n * whole;
    ++nest.dims;
  }
  nest.run_parallel(convert_row, &fn);
}

// f(destination, source, rows) for rows that follow each other along dim 1, shared among threads.
constexpr int64_t kShortBytes = 1024;
template <class F>
void each_group_of_rows(const LoopNest& nest, F&& f) {
  const int64_t n = nest.sizes[0];
  parallel_for(nest.numel / n, std::max<int64_t>(1, kGrain / n), [&](int64_t row, int64_t end) {
    while (row < end) {
      const int64_t rows = std::min(end - row, nest.sizes[1] - row % nest.sizes[1]);
      char *dst = nest.base[0], *src = nest.base[1];
      int64_t rest = row;
      for (int d = 1; d < nest.dims; ++d) {
        const int64_t index = rest % nest.sizes[d];
        rest /= nest.sizes[d];
        dst += index * nest.strides[d][0];
        src += index * nest.strides[d][1];
      }
      f(dst, src, rows);
      row += rows;
    }
  });
}

// Rows that lie end to end on both sides, of one type.
void copy_whole_rows(const LoopNest& nest, int64_t item) {
  each_group_of_rows(nest, [&](char* dst, const char* src, int64_t rows) {
    copy_rows(dst, nest.strides[1][0], src, nest.strides[1][1], rows, nest.sizes[0] * item);
  });
}

// The same where one side is read backwards; rows of more elements are worth a call each.
constexpr int64_t kShortReversed = 6;
template <class Word>
void reverse_short_rows(const LoopNest& nest) {
  constexpr int64_t item = sizeof(Word);
  const int64_t n = nest.sizes[0], to = nest.strides[0][0], from = nest.strides[0][1];
  each_group_of_rows(nest, [&](char* dst, const char* src, int64_t rows) {
    for (int64_t k = 0; k < rows; ++k) {
      for (int64_t i = 0; i < n; ++i) std::memcpy(dst + i * to, src + i * from, item);
      dst += nest.strides[1][0], src += nest.strides[1][1];
    }
  });
}
void reverse_short_rows(const LoopNest& nest, int64_t item) {
  if (item == 1) return reverse_short_rows<uint8_t>(nest);
  if (item == 2) return reverse_short_rows<uint16_t>(nest);
  if (item == 4) return reverse_short_rows<uint32_t>(nest);
  if (item == 8) return reverse_short_rows<uint64_t>(nest);
  reverse_short_rows<detail::Word16>(nest);
}

// The same type on both sides, as bytes: memory may be misaligned for its elements.
template <size_t item>
void move_bytes(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(dst + i * dst_stride, src + i * src_stride, item);
}
constexpr ConvertFn kMoveBytes[] = {move_bytes<1>, move_bytes<2>, move_bytes<4>, move_bytes<8>,
                                    move_bytes<16>};
ConvertFn move_fn(int64_t item) { return kMoveBytes[std::countr_zero(uint64_t(item))]; }

// See Note [Misaligned memory]. Conversions read and write aligned memory.
[[gnu::cold]] void copy_misaligned(const Tensor& src, const Tensor& dst) {
  const auto move = [](const Tensor& from, const Tensor& to) {
    const LoopOperand ops[] = {to, from};
    const ConvertFn fn = move_fn(to.element_size());
    LoopNest(ops).run_parallel(convert_row, &fn);
  };
  if (src.dtype() == dst.dtype()) return move(src, dst);
  Tensor from = src;
  if (is_misaligned(src)) {
    from = make_tensor(src.sizes(), src.dtype());
    move(src, from);
  }
  if (!is_misaligned(dst)) return copy_cpu(from, dst);
  const Tensor to = make_tensor(dst.sizes(), dst.dtype());
  copy_cpu(from, to);
  move(to, dst);
}

struct FillContext {
  int64_t item;
  const char* pattern;  // kPattern bytes of the value over and over
  ConvertFn move;
};
constexpr int64_t kPattern = 4096;

void fill_row(char* const* ptrs, const int64_t* strides, int64_t n, const void* context) {
  const auto& fill = *static_cast<const FillContext*>(context);
  if (strides[0] != fill.item) {
    fill.move(ptrs[0], strides[0], fill.pattern, 0, n);
    return;
  }
  const int64_t bytes = n * fill.item;
  const bool stream = bytes >= kStreamBytes / 2;
  for (int64_t done = 0; done < bytes; done += kPattern) {
    const int64_t m = std::min(kPattern, bytes - done);
    if (stream) {
      stream_bytes(ptrs[0] + done, fill.pattern, m);
    } else {
      std::memcpy(ptrs[0] + done, fill.pattern, size_t(m));
    }
  }
}

const bool registered = [] {
  copy_loops(DeviceType::CPU).copy = [](const Tensor& src, const Tensor& dst, bool) {
    copy_cpu(src, dst);
  };
  copy_loops(DeviceType::CPU).fill = fill_cpu;
  return true;
}();

}  // namespace

ConvertFn convert_fn(DType from, DType to) { return kConvert.fn[int(from)][int(to)]; }

RoundFn round_fn(DType half_type) {
  const ConvertTable& table = flat_conversions();
  return half_type == DType::Float16 ? table.to_half : table.to_bfloat16;
}

void stream_bytes(char* dst, const char* src, int64_t nbytes) {
  byte_kernels().stream(dst, src, nbytes);
}

void copy_bytes(void* dst, const void* src, int64_t nbytes) {
  if (nbytes <= kByteGrain) {
    if (nbytes > 0) std::memcpy(dst, src, size_t(nbytes));
    return;
  }
  char* to = static_cast<char*>(dst);
  const char* from = static_cast<const char*>(src);
  const bool stream = nbytes >= kStreamBytes;
  parallel_for(nbytes, kByteGrain, [&](int64_t begin, int64_t end) {
    if (stream) {
      stream_bytes(to + begin, from + begin, end - begin);
    } else {
      std::memcpy(to + begin, from + begin, size_t(end - begin));
    }
  });
}

void copy_cpu(const Tensor& src, const Tensor& dst) {
  const int64_t n = dst.numel();
  if (n == 0) return;
  const bool same = src.dtype() == dst.dtype();
  if (same && src.is_contiguous() && dst.is_contiguous() && src.numel() == n) {
    if (src.data() != dst.data()) copy_bytes(dst.data(), src.data(), dst.nbytes());
    return;
  }
  if (is_misaligned(src) || is_misaligned(dst)) [[unlikely]]
    return copy_misaligned(src, dst);
  const ConvertFn fn = convert_fn(src.dtype(), dst.dtype());
  if (n == 1) {
    fn(dst.data<char>(), 0, src.data<char>(), 0, 1);
    return;
  }
  const LoopOperand ops[] = {dst, src};
  const LoopNest nest(ops);
  const int64_t item = dst.element_size();
  if (same && nest.dims == 1 && nest.strides[0][0] == item && nest.strides[0][1] == item) {
    copy_bytes(nest.base[0], nest.base[1], n * item);
    return;
  }
  const int across = same ? transposed_dim(nest, item) : -1;
  if (across > 0) {
    copy_transposed(nest, across, item);
  } else if (same && std::abs(nest.strides[0][0]) == item &&
             nest.strides[0][1] == -nest.strides[0][0]) {
    if (nest.dims > 1 && nest.sizes[0] <= kShortReversed && nest.sizes[1] >= kShortRow)
      return reverse_short_rows(nest, item);
    nest.run_parallel(reverse_row, nullptr);
  } else if (same && nest.dims > 1 && nest.strides[0][0] == item && nest.strides[0][1] == item &&
             nest.sizes[0] * item <= kShortBytes && nest.sizes[1] >= kShortRow) {
    copy_whole_rows(nest, item);
  } else if (nest.dims > 1 && nest.sizes[0] < kShortRow && nest.sizes[1] >= 2 * kShortRow) {
    copy_short_rows(nest, fn);
  } else {
    nest.run_parallel(convert_row, &fn);
  }
}

void fill_cpu(const Tensor& dst, const Scalar& value) {
  if (dst.numel() == 0) return;
  alignas(64) char pattern[kPattern];
  const DType type = dst.dtype();
  const int64_t item = dst.element_size();
  store_scalar(pattern, type, value);
  if (dst.numel() == 1) {
    std::memcpy(dst.data(), pattern, size_t(item));
    return;
  }
  const FillContext context{item, pattern,
                            is_misaligned(dst) ? move_fn(item) : convert_fn(type, type)};
  const int64_t filled = std::min(kPattern / item, dst.numel());
  context.move(pattern + item, item, pattern, 0, filled - 1);
  loop({dst}, fill_row, &context);
}

}  // namespace rush
