#include "cpu/pointwise/fused_plan.h"

#include <algorithm>
#include <utility>

#include "cpu/copy/copy.h"
#include "cpu/loop_nest.h"
#include "cpu/pointwise/entries.h"

namespace rush {

namespace {

// Elements of a block, at most and at least; and the bytes that all its registers may have
// together: half of a first-level cache of 32 KiB. The other half is for what the processor fetches
// ahead of the program, which otherwise drives out what is still needed (a chain with tanh and
// sigmoid over 64 MB took 1.35 ns per element in blocks of 24 KiB, 1.09 in blocks of 16).
constexpr int64_t kMostBlock = 1024, kLeastBlock = 128, kBlockBytes = 16 << 10;

constexpr uint16_t kNone = 0xffff;

int64_t rounded(int64_t n) { return (n + 63) / 64 * 64; }

// The step as one of a chain; Load: it cannot be one.
ChainOp chain_op_of(const FusedStep& step) {
  if (step.compute != DType::Float32 && step.compute != DType::Float64) return ChainOp::Load;
  if (step.kind == FusedStep::Kind::Unary) {
    const auto fn = UnaryFn(step.fn);
    return fn == UnaryFn::Neg      ? ChainOp::Neg
           : fn == UnaryFn::Square ? ChainOp::Square
           : fn == UnaryFn::Relu   ? ChainOp::Relu
                                   : ChainOp::Load;
  }
  if (step.kind != FusedStep::Kind::Binary) return ChainOp::Load;
  const auto fn = BinaryFn(step.fn);
  return fn == BinaryFn::Add                 ? ChainOp::Add
         : fn == BinaryFn::Sub               ? ChainOp::Sub
         : fn == BinaryFn::Mul               ? ChainOp::Mul
         : fn == BinaryFn::Div               ? ChainOp::Div
         : fn == BinaryFn::ThresholdBackward ? ChainOp::Masked
                                             : ChainOp::Load;
}

// Would the input be read column by column? See lies_across; here for outputs of any layout.
bool crosses(const LoopNest& nest, int64_t item) {
  if (nest.numel < 16384 || nest.sizes[0] < 16 || nest.strides[0][1] <= item) return false;
  for (int d = 1; d < nest.dims; ++d) {
    if (nest.strides[d][1] == item && nest.sizes[d] >= 16) return true;
  }
  return false;
}

}  // namespace

bool FusedPlan::make(const FusedWork& work) {
  if (work.inputs.size() > kFusedInputs || work.steps.size() > kFusedSteps ||
      work.outputs.size() > kFusedOutputs || !find_entries(work))
    return false;
  inputs_ = work.inputs.size();
  find_needed(work);
  const Tensor& out = work.lying();
  numel_ = out.numel();
  for (size_t i = 0; i < inputs_; ++i) {
    kept_in_[i] = work.inputs[i].dtype();
    if (needed_[i]) look_at(i, work.inputs[i], out);
  }
  for (size_t v = 0; v < inputs_ + work.steps.size(); ++v) in_types_[v].fill(kNone);
  for (size_t s = 0; s < work.steps.size(); ++s) {
    kept_in_[inputs_ + s] = work.steps[s].result;
    if (!needed_[inputs_ + s]) continue;
    add_step(work, s);
    for (const FusedOutput& o : work.outputs) {
      if (o.step == s) add_output(in_type(uint16_t(inputs_ + s), o.out.dtype()), o.out);
    }
  }
  form_chains();
  assign_slots();
  choose_block();
  return true;
}

bool FusedPlan::find_entries(const FusedWork& work) {
  const EntryTables& tables = entry_tables();
  for (size_t s = 0; s < work.steps.size(); ++s) {
    const FusedStep& step = work.steps[s];
    if (step.kind == FusedStep::Kind::Convert || step.row) continue;
    const Entry& e = step.kind == FusedStep::Kind::Unary
                         ? entry_of(tables.unary, UnaryFn(step.fn), step.compute)
                     : step.kind == FusedStep::Kind::Binary
                         ? entry_of(tables.binary, BinaryFn(step.fn), step.compute)
                         : entry_of(tables.ternary, TernaryFn(step.fn), step.compute);
    if (e.checks_zero) return false;  // before anything is written
    internal_assert(step.params_count == e.params,
                    "a functor got another number of parameters than it has");
    entries_[s] = &e;
  }
  return true;
}

void FusedPlan::find_needed(const FusedWork& work) {
  std::fill_n(needed_.begin(), inputs_ + work.steps.size(), false);
  for (const FusedOutput& o : work.outputs) needed_[inputs_ + o.step] = true;
  for (size_t s = work.steps.size(); s-- > 0;) {
    const FusedStep& step = work.steps[s];
    if (step.row) needed_[inputs_ + s] = true;  // for what is beside its result
    for (int i = 0; needed_[inputs_ + s] && i < step.operand_count(); ++i)
      needed_[step.operands[size_t(i)]] = true;
  }
}

// The walk of a dense input has one dim and a stride of one element; that of a number a stride
// of 0.
void FusedPlan::look_at(size_t input, const Tensor& t, const Tensor& out) {
  InputWalk& walk = walks_[input];
  const Tensor& x = turned_[input].defined() ? turned_[input] : t;
  walk.base = x.data<char>();
  const int64_t n = out.numel(), item = x.element_size();
  const bool flat = x.is_contiguous() && out.is_contiguous() && x.numel() == n;
  if (flat || x.numel() == 1) {
    walk.dims = 1;
    walk.sizes[0] = n;
    walk.strides[0] = x.numel() == 1 ? 0 : item;
    return;
  }
  LoopOperand lying;  // it may have no memory
  lying.geometry = out.impl();
  const LoopOperand ops[] = {lying, x};
  const LoopNest nest(ops);
  const bool same = x.sizes() == out.sizes();
  if (same ? crosses(nest, item) : lies_across(x, out)) {
    turned_[input] = same ? make_tensor(x.sizes(), out.strides(), x.dtype(), out.device())
                          : make_tensor(x.sizes(), x.dtype(), out.device());
    copy_cpu(t, turned_[input]);
    return look_at(input, t, out);
  }
  walk.dims = nest.dims;
  for (int d = 0; d < nest.dims; ++d) {
    walk.sizes[size_t(d)] = nest.sizes[d];
    walk.strides[size_t(d)] = nest.strides[d][1];
  }
}

uint16_t FusedPlan::add_register(Place place, DType type) {
  register_[registers_] = {place, type, kNone, 0, 0, nullptr};
  return uint16_t(registers_++);
}

uint16_t FusedPlan::add_memory(DType type, void* memory) {
  const uint16_t reg = add_register(Place::Memory, type);
  register_[reg].memory = static_cast<char*>(memory);
  return reg;
}

FusedCall& FusedPlan::add_call(Kind kind, uint16_t out, std::initializer_list<uint16_t> reads) {
  FusedCall& call = call_[calls_++];
  call.kind = kind;
  call.reads = uint8_t(reads.size());
  call.chain = kNotInChains;
  call.registers = {out};
  std::copy(reads.begin(), reads.end(), call.registers.begin() + 1);
  return call;
}

// The register that holds a value in a type.
uint16_t FusedPlan::in_type(uint16_t value, DType type) {
  uint16_t& known = in_types_[value][size_t(type)];
  if (known != kNone) return known;
  if (value < inputs_) return known = input_in_type(value, type);
  const DType kept = kept_in_[value];
  const bool rounded = in_types_[value][size_t(kept)] != kNone;
  const uint16_t raw = unrounded_[value - inputs_];
  if (!rounded && type == DType::Float32) {
    known = add_register(Place::Slot, type);
    FusedCall& call = add_call(Kind::Function, known, {raw});
    call.function = round_fn(kept);
    call.params = nullptr;
    return known;
  }
  const uint16_t from = type == kept ? raw : in_type(value, kept);
  known = add_register(Place::Slot, type);
  add_call(Kind::Convert, known, {from}).convert = convert_fn(register_[from].type, type);
  return known;
}

uint16_t FusedPlan::input_in_type(uint16_t input, DType type) {
  const InputWalk& walk = walks_[input];
  const DType given = kept_in_[input];
  const bool dense = walk.dims == 1 && walk.strides[0] == element_size(given);
  if (dense && type == given) return add_memory(type, walk.base);
  if (dense) {
    const uint16_t from = in_type(input, given), reg = add_register(Place::Slot, type);
    add_call(Kind::Convert, reg, {from}).convert = convert_fn(given, type);
    return reg;
  }
  const bool filled = walk.dims == 1 && walk.strides[0] == 0;
  if (filled || walk.repeats()) {
    const uint16_t reg = add_register(filled ? Place::Filled : Place::Repeated, type);
    register_[reg].input = input;
    return reg;
  }
  const uint16_t reg = add_register(Place::Gathered, type);
  FusedCall& call = add_call(Kind::Gather, reg, {});
  call.convert = convert_fn(given, type);
  call.input = input;
  return reg;
}

void FusedPlan::add_step(const FusedWork& work, size_t s) {
  const FusedStep& step = work.steps[s];
  uint16_t& known = in_types_[inputs_ + s][size_t(step.result)];
  if (step.kind == FusedStep::Kind::Convert) {
    known = in_type(step.operands[0], step.result);
    return;
  }
  if (step.row && step.row->fn == RowOp::Fold)
    return add_fold(*step.row, step.operands[0], step.result);
  if (step.row) {
    const uint16_t a = in_type(step.operands[0], step.compute);
    const uint16_t b = step.operand_count() > 1 ? in_type(step.operands[1], step.compute) : a;
    known = add_register(Place::Slot, step.result);
    add_call(Kind::Rows, known, {a, b});
    rows_ = FusedRows::make(*step.row, step.compute, numel_);
    return;
  }
  const Entry& e = *entries_[s];
  uint16_t reads[3];
  const int count = step.operand_count();
  for (int i = 0; i < count; ++i)
    reads[i] = in_type(step.operands[size_t(i)], wanted_by(e, i, step.compute));
  const DType given = result_of(e, step.compute);
  const uint16_t reg = add_register(Place::Slot, given);
  FusedCall& call = count == 1   ? add_call(Kind::Function, reg, {reads[0]})
                    : count == 2 ? add_call(Kind::Function, reg, {reads[0], reads[1]})
                                 : add_call(Kind::Function, reg, {reads[0], reads[1], reads[2]});
  call.function = e.fn;
  call.chain = chain_op_of(step);
  call.params = &number_[numbers_];
  for (size_t i = 0; i < step.params_count; ++i) number_[numbers_++] = to_number(step.params[i]);
  if (given == step.result) {
    known = reg;
  } else if (given == DType::Float32 && is_reduced_float(step.result)) {
    unrounded_[s] = reg;  // perhaps nobody wants it in the half type
  } else {
    known = add_register(Place::Slot, step.result);
    add_call(Kind::Convert, known, {reg}).convert = convert_fn(given, step.result);
  }
}

void FusedPlan::add_output(uint16_t from, const Tensor& out) {
  FusedRegister& reg = register_[from];
  if (out.nbytes() >= kStreamBytes) {
    add_call(Kind::Stream, add_memory(reg.type, out.data()), {from});
  } else if (reg.place == Place::Slot) {  // whoever fills it writes there at once
    reg.place = Place::Memory;
    reg.memory = out.data<char>();
  } else {
    const uint16_t to = add_memory(reg.type, out.data());
    add_call(Kind::Convert, to, {from}).convert = convert_fn(reg.type, reg.type);
  }
}

void FusedPlan::add_fold(const RowStep& row, uint16_t value, DType type) {
  fold_ = std::make_unique<FoldPieces>(row.fold, type, row.rows, row.width, row.beside[0]);
  folded_ = in_type(value, type);
  FusedRegister& reg = register_[folded_];
  if (reg.place == Place::Slot) {  // whoever fills it writes there at once
    reg.place = Place::Piece;
  } else if (!reg.is_stored()) {
    const uint16_t from = std::exchange(folded_, add_register(Place::Piece, type));
    add_call(Kind::Convert, folded_, {from}).convert = convert_fn(type, type);
  }
}

void FusedPlan::assign_slots() {
  std::array<int16_t, kMostCalls> free;
  size_t free_count = 0;
  const auto take = [&](FusedRegister& r) {
    if (r.has_shared_slot()) r.slot = free_count ? free[--free_count] : slots_++;
  };
  const auto let_go = [&](size_t call, FusedRegister& r) {
    if (!r.has_shared_slot() || r.last != call) return;
    free[free_count++] = int16_t(r.slot);
    r.last = kNone;
  };
  for (size_t c = 0; c < calls_; ++c) {
    const FusedCall& call = call_[c];
    if (call.kind == Kind::Chain) {  // writes some results before it reads all operands
      const auto steps = std::span(chain_step_).subspan(call.first, call.count);
      for (const ChainStep& step : steps)
        if (step.op == ChainOp::Store) take(register_[step.at]);
      for (const ChainStep& step : steps) let_go(c, register_[step.at]);
      continue;
    }
    FusedRegister& out = register_[call.registers[0]];
    // A function may write over what it reads, element for element.
    const auto let_go_read = [&](bool before) {
      for (size_t i = 1; i <= call.reads; ++i) {
        FusedRegister& r = register_[call.registers[i]];
        if (&r == &out || (before && (call.kind != Kind::Function || r.item() != out.item())))
          continue;
        let_go(c, r);
      }
    };
    let_go_read(true);
    take(out);
    let_go_read(false);
  }
}

void FusedPlan::choose_block() {
  int64_t widest = 1, each = 0;
  for (size_t r = 0; r < registers_; ++r) {
    const FusedRegister& reg = register_[r];
    if (reg.has_shared_slot())
      widest = std::max(widest, reg.item());
    else if (reg.place != Place::Number && reg.place != Place::Passing)
      each += reg.item();
  }
  each += slots_ * widest;
  const int64_t unit = chain_steps_ ? 256 : 64;  // chains take as many elements at a time
  block_ = std::clamp(kBlockBytes / each / unit * unit, kLeastBlock, kMostBlock);
  block_ = std::min(block_, rounded(numel_));
  if (rows_) {  // whole rows
    const int64_t width = rows_->width();
    block_ = std::min(numel_, std::max<int64_t>(1, kBlockBytes / each / width) * width);
  }
  slot_bytes_ = rounded(block_ * widest);
  own_bytes_ = 0;
  for (size_t r = 0; r < registers_; ++r) {
    FusedRegister& reg = register_[r];
    if (!reg.has_own_slot()) continue;
    reg.slot = slots_ * slot_bytes_ + own_bytes_;
    const int64_t row = reg.place == Place::Repeated ? walks_[reg.input].sizes[0] : 0;
    own_bytes_ += rounded((reg.place == Place::Number ? 1 : row + block_) * reg.item());
  }
}

}  // namespace rush
