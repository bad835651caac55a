// binary_f64.cpp: binary functors over float64.
#include "cpu/kernels/entry.h"

namespace rush::RUSH_ISA {

namespace {

using Fn = BinaryFn;
constexpr int kArity = 2;

constexpr Table<Fn> make_f64() {
  using T [[maybe_unused]] = double;
  Table<Fn> t;
#include "cpu/binary_f64.inc"
  return t;
}
constexpr Table<Fn> k_f64 = make_f64();

}  // namespace

}  // namespace rush::RUSH_ISA

namespace rush {

template <>
const Entry* kernel_table<Isa::RUSH_ISA, BinaryFn, double>() {
  return RUSH_ISA::k_f64.entries;
}

}  // namespace rush
