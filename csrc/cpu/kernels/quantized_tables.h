// quantized_tables.h: loops over integers that stand for numbers, all end to end.
#pragma once

#include <cstdint>

#include "cpu/kernels/tables.h"

namespace rush {

struct Range {
  float low, high;
};

// numbers: scale * (integer - zero)
struct FloatSteps {
  float scale, zero;
};

template <class T>
struct QuantizedTable {
  // What is beyond `most` becomes that. zero_last: it is added to what has been rounded, not before.
  void (*quantize)(const float* x, int64_t n, FloatSteps steps, float most, bool zero_last, T* out);
  void (*dequantize)(const T* x, int64_t n, FloatSteps steps, float* out);
  void (*add)(const T* a, FloatSteps of_a, const T* b, FloatSteps of_b, int64_t n, bool relu,
              FloatSteps of_out, T* out);
  void (*multiply)(const T* a, FloatSteps of_a, const T* b, FloatSteps of_b, int64_t n, bool relu,
                   FloatSteps of_out, T* out);
};

// Those of both types, and of floats that are to become integers.
struct QuantizedTables {
  QuantizedTable<uint8_t> unsigned_bytes;
  QuantizedTable<int8_t> signed_bytes;
  Range (*range)(const float* x, int64_t n);     // n > 0; NaN where any of them is
  uint8_t (*bits)(const uint8_t* x, int64_t n);  // those set in any of them
};

template <Isa isa>
const QuantizedTables* quantized_tables();

}  // namespace rush
