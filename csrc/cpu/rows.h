// rows.h: runs per element loop over operands of any layout and type.
#pragma once

#include "cpu/kernels/tables.h"
#include "cpu/loop_nest.h"

namespace rush {

// How one function meets its operands; operand 0 is the output.
struct RowPlan {
  ElementFn fn;
  const Number* params;
  int operands;
  bool stream = false;  // the output is so large that it had better bypass the caches
  DType given[4];       // the tensors' types
  DType wanted[4];      // the function's
};

void run_plan(std::span<const LoopOperand> ops, RowPlan& plan);

}  // namespace rush
