// chain_tables.h: what the kernel files for chains export: cheap steps, each of which takes what the
// one before has made, over elements that lie end to end. Between two steps a value stays in the
// processor's registers, where a loop per step would write it to memory and read it again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/tables.h"

namespace rush {

// What a step does with the chain's value. The other operand of a sum, difference, product or quotient
// is memory or a number (N), and comes second or first (To): where both are NaN, the first is the
// result.
enum class ChainOp : uint8_t {
  Load,  // the first step of each chain, and of nothing else
  Store,
  Neg,
  Square,
  Relu,
  Masked,  // 0 where the operand is at most the threshold: relu's gradient
  // In this order, see with_operand.
  Add,
  AddTo,
  AddN,
  AddToN,
  Sub,
  SubTo,
  SubN,
  SubToN,
  Mul,
  MulTo,
  MulN,
  MulToN,
  Div,
  DivTo,
  DivN,
  DivToN,
};
constexpr ChainOp with_operand(ChainOp base, bool first, bool number) {
  return ChainOp(int(base) + int(first) + 2 * int(number));
}

struct ChainStep {
  ChainOp op;
  uint16_t at;              // the operand
  const Number* threshold;  // of Masked
};

// n elements; at[i] is where an operand lies. Operands and results are the same memory, or do not
// overlap.
using ChainFn = void (*)(char* const* at, const ChainStep* steps, size_t count, int64_t n);
template <Isa isa, class T>
ChainFn chain_fn();

}  // namespace rush
