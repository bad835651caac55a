// fused_plan.h: a FusedWork as a list of calls over blocks of elements.
//
// - Elements are counted as the outputs lie in memory, so that each output is one long row.
// - A register is a value in one type, for the elements of the block at hand. It lies in the memory
//   of an input or an output where that is possible, else in a slot of the scratch memory; slots
//   are used again once nobody reads the register any more.
// - A value whose readers want other types than it is kept in has a register per type.
// - Cheap steps in a row, each of which takes what the one before has made, are one call: a chain
//   (kernels/chain_tables.h). What only the next step of it reads is nowhere in memory.
// - Blocks of works with a step over rows are whole rows.
// - What is folded is collected in pieces that stay in a second-level cache, each of one thread, and
//   folded by eager's loops (cpu/reduce/driver.h), or where it lies, if it goes to memory anyway.
// - A plan is made for each work anew, on the stack: it allocates nothing (but for steps over rows),
//   and touches only as much of itself as the work needs.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <span>

#include "core/shape.h"
#include "cpu/kernels/chain_tables.h"
#include "cpu/kernels/convert_tables.h"
#include "cpu/kernels/tables.h"
#include "cpu/pointwise/fused_rows.h"
#include "cpu/reduce/driver.h"
#include "device/fused.h"

namespace rush {

// How an input lies: its strides along the outputs' dims, in bytes, dim 0 the innermost.
struct InputWalk {
  char* base;
  int dims;
  std::array<int64_t, kMaxDims> sizes, strides;

  // The same row over and over (a bias), short enough to be laid out once per thread?
  bool repeats() const { return dims == 2 && strides[1] == 0 && sizes[0] <= 4096; }
};

struct FusedRegister {
  enum class Place : uint8_t {
    Memory,    // of an input or an output
    Piece,     // of what is folded, in memory of the thread's
    Slot,      // shared with others
    Gathered,  // a slot; or the input's memory, where a block lies end to end there
    Filled,    // a slot of its own, which holds one element over and over
    Repeated,  // a slot of its own, which holds a row over and over; blocks begin anywhere in it
    Number,    // a slot of its own, which holds one element once, for chains
    Passing,   // from one step of a chain to the next
  };
  Place place;
  DType type;
  uint16_t input;  // that a Filled, Repeated or Number one is read from
  uint16_t last;   // the call that reads it last
  int64_t slot;    // its number; of slots of their own, the offset in bytes
  char* memory;    // at element 0

  int64_t item() const { return element_size(type); }
  bool has_shared_slot() const { return place == Place::Slot || place == Place::Gathered; }
  // Does it lie end to end from block to block?
  bool is_stored() const { return place == Place::Memory || place == Place::Piece; }
  bool has_own_slot() const {
    return place == Place::Filled || place == Place::Repeated || place == Place::Number;
  }
};

struct FusedCall {
  enum class Kind : uint8_t { Function, Convert, Gather, Stream, Rows, Chain };
  Kind kind;
  uint8_t reads;                      // registers; not of chains
  ChainOp chain;                      // the step that it may be in a chain, see kNotInChains
  uint16_t input;                     // that is gathered
  uint16_t first, count;              // of a chain's steps
  std::array<uint16_t, 4> registers;  // the first is written; those without use are 0
  union {
    ElementFn function;
    ConvertFn convert;  // Convert, Gather
    ChainFn run_chain;
  };
  const Number* params;
};

class FusedPlan {
 public:
  // False: there is a step that cannot be done in one pass.
  bool make(const FusedWork& work);
  // Computes the elements [begin, end) of all outputs.
  void run(int64_t begin, int64_t end) const;
  // Shares all elements among the threads.
  void run_all() const;

 private:
  using Place = FusedRegister::Place;
  using Kind = FusedCall::Kind;
  static constexpr size_t kMostValues = kFusedInputs + kFusedSteps;
  // A step may need a register for each operand and two for its result.
  static constexpr size_t kMostCalls = 5 * kFusedSteps + kFusedOutputs;
  static constexpr size_t kMostRegisters = kMostCalls + kFusedInputs;
  // A step of a chain may be written to memory, and before the first of them something is read.
  static constexpr size_t kMostChainSteps = 3 * kFusedSteps;
  static constexpr ChainOp kNotInChains = ChainOp::Load;

  bool find_entries(const FusedWork& work);
  void find_needed(const FusedWork& work);
  void look_at(size_t input, const Tensor& t, const Tensor& out);
  void add_step(const FusedWork& work, size_t s);
  void add_output(uint16_t from, const Tensor& out);
  void add_fold(const RowStep& row, uint16_t value, DType type);
  uint16_t in_type(uint16_t value, DType type);
  uint16_t input_in_type(uint16_t input, DType type);
  uint16_t add_register(Place place, DType type);
  uint16_t add_memory(DType type, void* memory);
  FusedCall& add_call(Kind kind, uint16_t out, std::initializer_list<uint16_t> reads);
  void form_chains();
  bool continues(const FusedCall& call, const FusedCall& next) const;
  void add_chain(std::span<const FusedCall> calls, std::span<const uint16_t> readers);
  void add_to_chain(const FusedCall& call, const uint16_t* value);
  void add_chain_step(ChainOp op, uint16_t at);
  void find_last_readers();
  void assign_slots();
  void choose_block();
  int64_t grain() const;

  void fill_own_slots(char* scratch, int64_t n) const;
  char* gather(const FusedCall& call, char* slot, int64_t first, int64_t n) const;

  size_t inputs_, registers_ = 0, calls_ = 0, numbers_ = 0, chain_steps_ = 0;
  int64_t slots_ = 0, numel_, block_, slot_bytes_, own_bytes_;
  std::unique_ptr<FusedRows> rows_;
  std::unique_ptr<FoldPieces> fold_;
  uint16_t folded_ = 0;  // the register that it is of

  // Of inputs.
  std::array<Tensor, kFusedInputs> turned_;  // copies of those that lie across the outputs
  std::array<InputWalk, kFusedInputs> walks_;
  // Of steps.
  std::array<const Entry*, kFusedSteps> entries_;
  std::array<uint16_t, kFusedSteps> unrounded_;  // registers of floats that become a half type
  // Of values.
  std::array<bool, kMostValues> needed_;
  std::array<DType, kMostValues> kept_in_;
  std::array<std::array<uint16_t, kDTypeCount>, kMostValues> in_types_;  // registers

  std::array<FusedRegister, kMostRegisters> register_;
  std::array<FusedCall, kMostCalls> call_;
  std::array<Number, 4 * kFusedSteps> number_;
  std::array<ChainStep, kMostChainSteps> chain_step_;
};

}  // namespace rush
