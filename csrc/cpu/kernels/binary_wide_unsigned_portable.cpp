// binary_wide_unsigned_portable.cpp: binary functors over types that are mostly for storage.
#include "cpu/kernels/entry.h"

namespace rush::RUSH_ISA {

namespace {

using Fn = BinaryFn;
constexpr int kArity = 2;

constexpr Table<Fn> make_u16() {
  using T [[maybe_unused]] = uint16_t;
  Table<Fn> t;
#include "cpu/binary_u16.inc"
  return t;
}
constexpr Table<Fn> k_u16 = make_u16();

constexpr Table<Fn> make_u32() {
  using T [[maybe_unused]] = uint32_t;
  Table<Fn> t;
#include "cpu/binary_u32.inc"
  return t;
}
constexpr Table<Fn> k_u32 = make_u32();

constexpr Table<Fn> make_u64() {
  using T [[maybe_unused]] = uint64_t;
  Table<Fn> t;
#include "cpu/binary_u64.inc"
  return t;
}
constexpr Table<Fn> k_u64 = make_u64();

}  // namespace

}  // namespace rush::RUSH_ISA

namespace rush {

template <>
const Entry* kernel_table<Isa::RUSH_ISA, BinaryFn, uint16_t>() {
  return RUSH_ISA::k_u16.entries;
}

template <>
const Entry* kernel_table<Isa::RUSH_ISA, BinaryFn, uint32_t>() {
  return RUSH_ISA::k_u32.entries;
}

template <>
const Entry* kernel_table<Isa::RUSH_ISA, BinaryFn, uint64_t>() {
  return RUSH_ISA::k_u64.entries;
}

}  // namespace rush
