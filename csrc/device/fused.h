// fused.h: several pointwise steps in one pass over memory, by device.
//
// What comes out is, bit for bit, what the steps give one by one through device/pointwise.h: a value
// is rounded to the type that its tensor would have, and nothing is contracted across steps.
#pragma once

#include <array>
#include <span>

#include "device/pointwise.h"

namespace rush {

// One call of PointwiseLoops, or one conversion. Its operands are values, counted from 0: the
// inputs first, then the steps in their order; a step reads earlier ones only.
struct FusedStep {
  enum class Kind : uint8_t { Convert, Unary, Binary, Ternary };  // as many operands; Convert: 1
  Kind kind = Kind::Convert;
  uint8_t params_count = 0;
  uint16_t fn = 0;  // UnaryFn, BinaryFn or TernaryFn
  DType compute{};  // the type the functor works in, never a half type; Convert: not looked at
  DType result{};   // the type its value is kept in
  std::array<uint16_t, 3> operands{};
  std::array<Scalar, 4> params{};

  int operand_count() const { return kind == Kind::Convert ? 1 : int(kind); }
};

// A step whose value is wanted in memory.
struct FusedOutput {
  uint16_t step;
  Tensor out;  // of the step's result type
};

// All steps have one shape, that of the outputs, and the inputs broadcast to it. Outputs are dense,
// and their dims lie in one order. Inputs that are numbers may be on the host whatever the device.
// No output shares memory with an input or another output.
struct FusedWork {
  Dims sizes;
  std::span<const Tensor> inputs;
  std::span<const FusedStep> steps;
  std::span<const FusedOutput> outputs;
  bool wait = false;  // for code that is still being compiled
};

// The most that one FusedWork may have.
inline constexpr size_t kFusedInputs = 16, kFusedSteps = 64, kFusedOutputs = 8;

struct FusedLoops {
  // False: nothing was done, and the caller runs the steps one by one. So it is for what a device
  // cannot do in one pass, and while the code for these steps is being compiled.
  bool (*run)(const FusedWork& work) = nullptr;
};
RUSH_API extern DeviceTable<FusedLoops> fused_loops;

}  // namespace rush
