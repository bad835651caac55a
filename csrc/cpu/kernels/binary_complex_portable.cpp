// binary_complex_portable.cpp: binary functors over complex numbers.
#include "cpu/kernels/entry.h"

namespace rush::RUSH_ISA {

namespace {

using Fn = BinaryFn;
constexpr int kArity = 2;

constexpr Table<Fn> make_c64() {
  using T [[maybe_unused]] = complex<float>;
  Table<Fn> t;
#include "cpu/binary_c64.inc"
  return t;
}
constexpr Table<Fn> k_c64 = make_c64();

constexpr Table<Fn> make_c128() {
  using T [[maybe_unused]] = complex<double>;
  Table<Fn> t;
#include "cpu/binary_c128.inc"
  return t;
}
constexpr Table<Fn> k_c128 = make_c128();

}  // namespace

}  // namespace rush::RUSH_ISA

namespace rush {

template <>
const Entry* kernel_table<Isa::RUSH_ISA, BinaryFn, complex<float>>() {
  return RUSH_ISA::k_c64.entries;
}

template <>
const Entry* kernel_table<Isa::RUSH_ISA, BinaryFn, complex<double>>() {
  return RUSH_ISA::k_c128.entries;
}

}  // namespace rush
