// fused.h: several pointwise steps in one pass over memory, by device, with a step over rows among
// them.
//
// What comes out is, bit for bit, what the steps give one by one through device/pointwise.h and
// device/nn: a value is rounded to the type that its tensor would have, nothing is contracted
// across steps, and sums are taken in the same order.
#pragma once

#include <array>
#include <span>

#include "device/pointwise.h"
#include "device/reduce_fn.h"

namespace rush {

// The most that one FusedWork may have.
inline constexpr size_t kFusedInputs = 16, kFusedSteps = 64, kFusedOutputs = 8;

// Steps that look at whole rows, which lie end to end: in a contiguous tensor the last dims.
enum class RowOp : uint8_t {
  Norm,          // of x; with weight and bias; beside: mean, rstd
  NormBackward,  // of g and x; with weight, mean and rstd; beside: the gradients of weight, bias
  Softmax,       // of x
  LogSoftmax,
  SoftmaxBackward,  // of g and y
  LogSoftmaxBackward,
  Scale,  // (x - with 0) * with 1 + with 2: an image by channels, whose sums are known already
  // Each row to one number by a fold of device/reduce_fn.h; beside: these. No result of its own.
  Fold,
  // Images whose channels lie end to end (a row is a point), by groups of channels whose sums are
  // known already:
  Groups,          // of x; with weight, bias, mean and rstd
  GroupsBackward,  // of g and x; with weight, mean, rstd and the means of g, NormLoops::scale_groups
  // The same by channels, over the whole batch:
  Channels,          // of x; with weight, bias, mean and var
  ChannelsBackward,  // of g and x; with weight, mean, var and the sums of g
  // Those sums, of g and x; with mean and var; beside: the sums, the gradients of weight and bias.
  // It has no result of its own: nobody reads it, and no memory is given to it.
  ChannelSums,
};

// What a step over rows has beside its operands and its result, all contiguous.
struct RowStep {
  RowOp fn{};
  bool centred = false;  // Norm: layer norm, not RMS norm
  bool planes = false;   // Scale: a row is the points of one channel, else the channels of a point
  int64_t width = 0;     // of a row
  int64_t shared = 0;    // Scale: as many rows in turn (planes: channels) have the same numbers
  int64_t rows = 0;      // Fold
  ReduceFn fold{};
  const char* name = nullptr;  // of the op that folds
  int64_t groups = 0;          // Groups
  int64_t segment = 0;  // ChannelSums: the points that a part of the sums is of, as the device cuts
  double eps = 0;
  std::array<Tensor, 4> with{};    // which have memory, or are undefined
  std::array<Tensor, 3> beside{};  // results of other shapes

  bool has_result() const { return fn != RowOp::ChannelSums && fn != RowOp::Fold; }
  int operand_count() const {
    const bool one = fn == RowOp::Norm || fn == RowOp::Softmax || fn == RowOp::LogSoftmax ||
                     fn == RowOp::Scale || fn == RowOp::Fold || fn == RowOp::Groups ||
                     fn == RowOp::Channels;
    return one ? 1 : 2;
  }
};

// One call of PointwiseLoops, one conversion, or one step over rows. Its operands are values, counted from 0: the
// inputs first, then the steps in their order; a step reads earlier ones only.
struct FusedStep {
  // As many operands, but for Convert (one), Rows, and Join: the second behind the first.
  enum class Kind : uint8_t { Convert, Unary, Binary, Ternary, Rows, Join };
  Kind kind = Kind::Convert;
  uint8_t params_count = 0;
  uint16_t fn = 0;  // UnaryFn, BinaryFn, TernaryFn or RowOp
  DType compute{};  // the type the functor works in, never a half type; Convert: not looked at
  DType result{};   // the type its value is kept in
  std::array<uint16_t, 3> operands{};
  std::array<Scalar, 4> params{};
  const RowStep* row = nullptr;  // of Kind::Rows

  static int operand_count(Kind kind, const RowStep* row) {
    if (kind == Kind::Rows) return row->operand_count();
    return kind == Kind::Convert ? 1 : kind == Kind::Join ? 2 : int(kind);
  }
  int operand_count() const { return operand_count(kind, row); }
};

// Along which dim a step Join puts its operands, and where the second begins. Both have the type of
// its result.
//
// Note [Parts of a join]
// What only an operand of the join is computed from has the shape of that operand, not the work's. The
// device computes it in the same pass, everywhere, and reads such inputs only where the operand is:
// what it finds elsewhere is not looked at.
struct FusedJoin {
  int dim = 0;
  int64_t second = 0;
  std::array<uint8_t, kFusedInputs> part{};  // per input: 1 or 2 for an operand's, 0 for all others
};

// In a work with a step ChannelsBackward or ChannelSums: the input of this number is not read. It is what
// RowOp::Channels makes of the step's operand x, with the same mean, var, eps and, if the step has one,
// weight; the tensor in its place is x. One step reads it, whose value only the operand g is computed
// from: see Note [What is known without being read] in device/origin.h.
struct FusedNormal {
  uint16_t input;
  const RowStep* row;
};

// A step whose value is wanted in memory.
struct FusedOutput {
  uint16_t step;
  Tensor out;  // of the step's result type
};

// All steps have one shape, that of the outputs, and the inputs broadcast to it, but for the parts of a join. Outputs are dense,
// and their dims lie in one order. There is one step over rows at most; it computes in the type of
// its operands and its result, and what it has beside its result has memory. Or there is one step Join, where
// the device joins; outputs are no parts of it. Inputs that are numbers may be on the host whatever the device.
// No output shares memory with an input or another output. There is one at least, but for works with a
// step over rows without a result.
struct FusedWork {
  Dims sizes;
  std::span<const Tensor> inputs;
  std::span<const FusedStep> steps;
  std::span<const FusedOutput> outputs;
  bool wait = false;  // for code that is still being compiled
  const FusedJoin* join = nullptr;
  const FusedNormal* normal = nullptr;
  const Tensor* like = nullptr;  // how values lie, where there is no output

  const Tensor& lying() const { return outputs.empty() ? *like : outputs[0].out; }
};

struct FusedLoops {
  // False: nothing was done, and the caller runs the steps one by one. So it is for what a device
  // cannot do in one pass, and while the code for these steps is being compiled.
  bool (*run)(const FusedWork& work) = nullptr;
  // Can a step over rows of this type be part of a work, whatever is around it? Null: none.
  bool (*takes_rows)(const RowStep& row, DType type) = nullptr;
  bool joins = false;  // can a work have a step Join, and one input less?
  bool folds = false;  // can a work have a step Fold?
};
RUSH_API extern DeviceTable<FusedLoops> fused_loops;

}  // namespace rush
