// Rows by weights of 8 or 4 bits on the CPU, through kernels/weight_only.cpp.
#include "cpu/kernels/weight_only_tables.h"

#include <algorithm>

#include "core/threads.h"
#include "cpu/isa_table.h"
#include "cpu/prepare.h"
#include "device/low_bits.h"

namespace rush {
namespace {

const WeightOnlyTable& kernels() {
  return kernels_in_use([]<Isa isa>() { return weight_only_table<isa>(); });
}

// More rows are better off with weights that are converted once.
constexpr int64_t kFewRows = 16;
constexpr int64_t kWork = 1 << 18;  // multiplications of a piece

bool int8_rows(const Tensor& x, const Tensor& w, const Tensor& scales, const Tensor& out) {
  const int64_t m = x.sizes()[0], k = x.sizes()[1], n = w.sizes()[0];
  if (m > kFewRows) return false;
  const Tensor wide = cpu::in_loop_type(x), factors = cpu::in_loop_type(scales);
  cpu::into(out, [&](const Tensor& y) {
    float* to = y.data<float>();
    const int64_t grain = std::max<int64_t>(1, kWork / std::max<int64_t>(1, m * k));
    parallel_for(n, grain, [&](int64_t begin, int64_t end) {
      float sums[kFewRows];
      for (int64_t j = begin; j < end; ++j) {
        kernels().int8_dots(wide.data<const float>(), m, w.data<const int8_t>() + j * k, k, sums);
        for (int64_t r = 0; r < m; ++r) to[r * n + j] = sums[r] * factors.data<const float>()[j];
      }
    });
  });
  return true;
}

bool int4_columns(const Tensor& x, const Tensor& packed, int64_t group, const Tensor& scales,
                  const Tensor& out) {
  const int64_t m = x.sizes()[0], k = x.sizes()[1], n = packed.sizes()[0];
  const Tensor wide = cpu::in_loop_type(x), pairs = cpu::in_loop_type(scales);
  cpu::into(out, [&](const Tensor& y) {
    const int64_t blocks = (n + kInt4Block - 1) / kInt4Block;
    const int64_t grain = std::max<int64_t>(1, kWork / std::max<int64_t>(1, m * k * kInt4Block));
    parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t first = b * kInt4Block, columns = std::min(kInt4Block, n - first);
        kernels().int4_block(
            wide.data<const float>(), m, packed.data<const uint8_t>() + first * (k / 2), columns, k,
            group, pairs.data<const float>() + first * 2, n * 2, y.data<float>() + first, n);
      }
    });
  });
  return true;
}

const bool registered = [] {
  low_bits_loops(DeviceType::CPU).int8_rows = int8_rows;
  low_bits_loops(DeviceType::CPU).int4_columns = int4_columns;
  return true;
}();

}  // namespace
}  // namespace rush
