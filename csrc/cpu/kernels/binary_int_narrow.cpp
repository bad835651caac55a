// binary_int_narrow.cpp: binary functors over bool and the integers.
#include "cpu/kernels/entry.h"

namespace rush::RUSH_ISA {

namespace {

using Fn = BinaryFn;
constexpr int kArity = 2;

constexpr Table<Fn> make_bool() {
  using T [[maybe_unused]] = bool;
  Table<Fn> t;
#include "cpu/binary_bool.inc"
  return t;
}
constexpr Table<Fn> k_bool = make_bool();

constexpr Table<Fn> make_u8() {
  using T [[maybe_unused]] = uint8_t;
  Table<Fn> t;
#include "cpu/binary_u8.inc"
  return t;
}
constexpr Table<Fn> k_u8 = make_u8();

constexpr Table<Fn> make_i8() {
  using T [[maybe_unused]] = int8_t;
  Table<Fn> t;
#include "cpu/binary_i8.inc"
  return t;
}
constexpr Table<Fn> k_i8 = make_i8();

constexpr Table<Fn> make_i16() {
  using T [[maybe_unused]] = int16_t;
  Table<Fn> t;
#include "cpu/binary_i16.inc"
  return t;
}
constexpr Table<Fn> k_i16 = make_i16();

constexpr Table<Fn> make_i32() {
  using T [[maybe_unused]] = int32_t;
  Table<Fn> t;
#include "cpu/binary_i32.inc"
  return t;
}
constexpr Table<Fn> k_i32 = make_i32();

constexpr Table<Fn> make_i64() {
  using T [[maybe_unused]] = int64_t;
  Table<Fn> t;
#include "cpu/binary_i64.inc"
  return t;
}
constexpr Table<Fn> k_i64 = make_i64();

}  // namespace

}  // namespace rush::RUSH_ISA

namespace rush {

template <>
const Entry* kernel_table<Isa::RUSH_ISA, BinaryFn, bool>() {
  return RUSH_ISA::k_bool.entries;
}

template <>
const Entry* kernel_table<Isa::RUSH_ISA, BinaryFn, uint8_t>() {
  return RUSH_ISA::k_u8.entries;
}

template <>
const Entry* kernel_table<Isa::RUSH_ISA, BinaryFn, int8_t>() {
  return RUSH_ISA::k_i8.entries;
}

template <>
const Entry* kernel_table<Isa::RUSH_ISA, BinaryFn, int16_t>() {
  return RUSH_ISA::k_i16.entries;
}

template <>
const Entry* kernel_table<Isa::RUSH_ISA, BinaryFn, int32_t>() {
  return RUSH_ISA::k_i32.entries;
}

template <>
const Entry* kernel_table<Isa::RUSH_ISA, BinaryFn, int64_t>() {
  return RUSH_ISA::k_i64.entries;
}

}  // namespace rush
