// binary_f32.cpp: binary functors over float32, and through it float16 and bfloat16.
#include "cpu/kernels/entry.h"

namespace rush::RUSH_ISA {

namespace {

using Fn = BinaryFn;
constexpr int kArity = 2;

constexpr Table<Fn> make_f32() {
  using T [[maybe_unused]] = float;
  Table<Fn> t;
#include "cpu/binary_f32.inc"
  return t;
}
constexpr Table<Fn> k_f32 = make_f32();

}  // namespace

}  // namespace rush::RUSH_ISA

namespace rush {

template <>
const Entry* kernel_table<Isa::RUSH_ISA, BinaryFn, float>() {
  return RUSH_ISA::k_f32.entries;
}

}  // namespace rush
