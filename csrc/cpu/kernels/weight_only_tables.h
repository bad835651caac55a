// weight_only_tables.h: rows by weights of 8 or 4 bits.
//
// 4 bits lie as PyTorch's packs for CPUs do: blocks of 32 rows of the weight, of which byte j of
// depth i holds row j in its lower half and row j + 16 in the upper; in a last block of 16 rows, row
// 2j and row 2j + 1.
#pragma once

#include <cstdint>

#include "cpu/kernels/tables.h"

namespace rush {

inline constexpr int64_t kInt4Block = 32;

struct WeightOnlyTable {
  // out[r] = the sum of x[r][i] * w[i] over k, for `rows` rows of x that are k apart.
  void (*int8_dots)(const float* x, int64_t rows, const int8_t* w, int64_t k, float* out);
  // out[r][j] for the `columns` (32 or 16) of one block, rows of x and out k and out_step apart.
  // scales: pairs of scale and zero, scale_step floats from one group to the next.
  void (*int4_block)(const float* x, int64_t rows, const uint8_t* w, int64_t columns, int64_t k,
                     int64_t group, const float* scales, int64_t scale_step, float* out,
                     int64_t out_step);
};

template <Isa isa>
const WeightOnlyTable* weight_only_table();

}  // namespace rush
