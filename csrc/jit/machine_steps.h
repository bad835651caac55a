// machine_steps.h: what `prepare` makes and the machine runs.
#pragma once

#include <vector>

#include "jit/function.h"

namespace rush::jit {

// X(name) for each code of a step. The first ones are those of Quick, in its order.
//   JumpUnless<comparison>Int  a comparison of ints and the jump that follows where it does not hold
//   Jump           to `extra`
//   JumpUnless     a: a bool
//   Repeat         as Jump, to the next turn of a loop
//   ForNext        the head of `for i in range(b)`: jumps to `extra` unless a < b; else to = a, and a
//                  is one more
//   MovePlain      what holds nothing that is counted, before or after
//   Take           as Move, and a is empty afterwards
//   LoadState      number a
//   SetState       number extra
//   Enter, Leave   modes
// clang-format off
#define RUSH_STEPS(X) \
  RUSH_QUICK_STEPS(X) \
  X(JumpUnlessLtInt) X(JumpUnlessLeInt) X(JumpUnlessGtInt) X(JumpUnlessGeInt) X(JumpUnlessEqInt) \
  X(JumpUnlessNeInt) X(Jump) X(JumpUnless) X(Repeat) X(ForNext) X(MovePlain) X(Move) X(Take) \
  X(LoadState) X(LoadAttribute) X(LoadConstant) X(SetState) X(SetAttribute) X(Builtin) X(Op) \
  X(Call) X(Make) X(Cast) X(Return) X(Raise) X(Enter) X(Leave)
// clang-format on
enum class StepCode : uint8_t { RUSH_STEPS(RUSH_NAME) };

struct Step {
  StepCode code;
  uint32_t to = 0, a = 0, b = 0, extra = 0;
  uint32_t line = 0;
};

// How one argument of an op is filled.
struct ArgPlan {
  enum class From : uint8_t { Nothing, Cell, State, Constant, List };
  From from = From::Nothing;
  ArgKind kind = ArgKind::Tensor;
  uint8_t broadcast = 0;
  uint32_t index = 0;
  std::vector<ArgPlan> items;  // of a list
  Tensor number;               // a number of the program as the tensor that it stands for
};

// Everything that has more than three operands.
struct Plan {
  const Builtin* builtin = nullptr;
  const OpEntry* op = nullptr;
  uint32_t function = 0;
  std::vector<uint32_t> cells;    // arguments
  std::vector<ArgPlan> args;      // of an op
  std::vector<uint32_t> to;       // of an op
  std::vector<Type::Kind> kinds;  // of its results: what they must be
  std::vector<uint32_t> passing;  // cells that are emptied afterwards
  bool borrows = false;           // an argument of the op lies in a pool
  TypePointer type;               // Make, Cast
  bool by_kind = false;           // Cast: the kind of the value tells all
  std::string error;              // Raise
  Modes modes;                    // Enter
};

struct Machine {
  std::vector<Step> steps;
  std::vector<Plan> plans;
  std::vector<IValue> constants;  // the cells after the locals
  uint32_t num_cells = 0;
};

}  // namespace rush::jit
