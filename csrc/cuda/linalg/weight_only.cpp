// A few rows by weights of 8 or 4 bits, through kernels/weight_only.cu.
#include <bit>

#include "cuda/kernels/weight_only_args.h"
#include "cuda/runtime/launch.h"
#include "device/low_bits.h"

namespace rush::cuda {
namespace {

// Keys: tiles of rows, type; for 4 bits the log of I before them.
std::string spell_int8(uint64_t key) {
  return concat("rush::int8_rows<", kernel_type(DType(key & 31)), ", ", key >> 5 & 7, ">");
}
std::string spell_int4(uint64_t key) {
  return concat("rush::int4_tiles<", kernel_type(DType(key & 31)), ", ", key >> 5 & 7, ", ",
                1 << (key >> 8), ">");
}
const KernelFamily kInt8{"weight_only.cu", spell_int8};
const KernelFamily kInt4{"weight_only.cu", spell_int4};

bool is_aligned(const Tensor& t) { return reinterpret_cast<uintptr_t>(t.data()) % 16 == 0; }

// Tensor cores for both half types, and few enough rows that reading the weights is what counts.
bool is_served(const Tensor& x, const Tensor& w, const Tensor& out) {
  const int64_t m = x.sizes()[0], n = out.sizes()[1];
  return is_reduced_float(x.dtype()) && device_info(x.device().index).arch() >= 80 &&
         m <= kRowsOfTile * kMostRowTiles && n < int64_t(1) << 31 && is_aligned(x) && is_aligned(w);
}

uint64_t tiles_key(const Tensor& x) {
  const auto tiles = uint64_t(x.sizes()[0] + kRowsOfTile - 1) / kRowsOfTile;
  return (tiles == 3 ? 4 : tiles) << 5 | uint64_t(x.dtype());
}

WeightOnlyArgs args_of(const Tensor& x, const Tensor& w, const Tensor& scales, const Tensor& out) {
  return {x.data(),     w.data(),       scales.data(), out.data(),
          x.sizes()[0], out.sizes()[1], x.sizes()[1],  0};
}

Grid blocks_of(const Tensor& out) {
  return {unsigned((out.sizes()[1] + kColumnsEach - 1) / kColumnsEach)};
}

bool int8_rows(const Tensor& x, const Tensor& w, const Tensor& scales, const Tensor& out) {
  if (!is_served(x, w, out) || x.sizes()[1] % 16 || x.sizes()[1] == 0) return false;
  launch(kInt8, tiles_key(x), out.device().index, blocks_of(out), {kThreads},
         args_of(x, w, scales, out));
  return true;
}

bool int4_tiles(const Tensor& x, const Tensor& packed, int64_t group, const Tensor& scales,
                const Tensor& out) {
  if (!is_served(x, packed, out)) return false;
  WeightOnlyArgs args = args_of(x, packed, scales, out);
  args.group = i32(group);
  const auto inner = uint64_t(packed.sizes()[3] * 2);
  launch(kInt4, uint64_t(std::countr_zero(inner)) << 8 | tiles_key(x), out.device().index,
         blocks_of(out), {kThreads}, args);
  return true;
}

const bool registered = [] {
  low_bits_loops(DeviceType::CUDA).int8_rows = int8_rows;
  low_bits_loops(DeviceType::CUDA).int4_tiles = int4_tiles;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
