// unary_int_narrow.cpp: unary functors over bool and the integers.
#include "cpu/kernels/entry.h"

namespace rush::RUSH_ISA {

namespace {

using Fn = UnaryFn;
constexpr int kArity = 1;

constexpr Table<Fn> make_bool() {
  using T [[maybe_unused]] = bool;
  Table<Fn> t;
#include "cpu/unary_bool.inc"
  return t;
}
constexpr Table<Fn> k_bool = make_bool();

constexpr Table<Fn> make_u8() {
  using T [[maybe_unused]] = uint8_t;
  Table<Fn> t;
#include "cpu/unary_u8.inc"
  return t;
}
constexpr Table<Fn> k_u8 = make_u8();

constexpr Table<Fn> make_i8() {
  using T [[maybe_unused]] = int8_t;
  Table<Fn> t;
#include "cpu/unary_i8.inc"
  return t;
}
constexpr Table<Fn> k_i8 = make_i8();

constexpr Table<Fn> make_i16() {
  using T [[maybe_unused]] = int16_t;
  Table<Fn> t;
#include "cpu/unary_i16.inc"
  return t;
}
constexpr Table<Fn> k_i16 = make_i16();

constexpr Table<Fn> make_i32() {
  using T [[maybe_unused]] = int32_t;
  Table<Fn> t;
#include "cpu/unary_i32.inc"
  return t;
}
constexpr Table<Fn> k_i32 = make_i32();

constexpr Table<Fn> make_i64() {
  using T [[maybe_unused]] = int64_t;
  Table<Fn> t;
#include "cpu/unary_i64.inc"
  return t;
}
constexpr Table<Fn> k_i64 = make_i64();

}  // namespace

}  // namespace rush::RUSH_ISA

namespace rush {

template <>
const Entry* kernel_table<Isa::RUSH_ISA, UnaryFn, bool>() {
  return RUSH_ISA::k_bool.entries;
}

template <>
const Entry* kernel_table<Isa::RUSH_ISA, UnaryFn, uint8_t>() {
  return RUSH_ISA::k_u8.entries;
}

template <>
const Entry* kernel_table<Isa::RUSH_ISA, UnaryFn, int8_t>() {
  return RUSH_ISA::k_i8.entries;
}

template <>
const Entry* kernel_table<Isa::RUSH_ISA, UnaryFn, int16_t>() {
  return RUSH_ISA::k_i16.entries;
}

template <>
const Entry* kernel_table<Isa::RUSH_ISA, UnaryFn, int32_t>() {
  return RUSH_ISA::k_i32.entries;
}

template <>
const Entry* kernel_table<Isa::RUSH_ISA, UnaryFn, int64_t>() {
  return RUSH_ISA::k_i64.entries;
}

}  // namespace rush
