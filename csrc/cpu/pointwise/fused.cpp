// Several pointwise steps by blocks: each loop runs over some hundred elements, which then are in
// the first-level cache for the next one.
#include "device/fused.h"

#include <algorithm>

#include "cpu/copy/copy.h"
#include "cpu/loop_nest.h"
#include "cpu/pointwise/fused_plan.h"
#include "cpu/scratch.h"

namespace rush {

void FusedPlan::fill_own_slots(char* scratch, int64_t n) const {
  for (size_t r = 0; r < registers_; ++r) {
    const FusedRegister& reg = register_[r];
    if (!reg.has_own_slot()) continue;
    const InputWalk& walk = walks_[reg.input];
    const ConvertFn convert = convert_fn(kept_in_[reg.input], reg.type);
    const bool repeated = reg.place == Place::Repeated;
    const int64_t once = reg.place == Place::Number ? 1 : n;
    const int64_t row = repeated ? walk.sizes[0] : once, end = repeated ? row + n : once;
    for (int64_t done = 0; done < end; done += row) {
      convert(scratch + reg.slot + done * reg.item(), reg.item(), walk.base, walk.strides[0],
              std::min(row, end - done));
    }
  }
}

// n elements from number `first` on; returns where they are.
char* FusedPlan::gather(const FusedCall& call, char* slot, int64_t first, int64_t n) const {
  const InputWalk& walk = walks_[call.input];
  const FusedRegister& reg = register_[call.registers[0]];
  std::array<int64_t, kMaxDims> index;
  char* from = walk.base;
  int64_t rest = first;
  for (size_t d = 0; d < size_t(walk.dims); ++d) {
    index[d] = rest % walk.sizes[d];
    rest /= walk.sizes[d];
    from += index[d] * walk.strides[d];
  }
  const int64_t item = reg.item(), size = walk.sizes[0], step = walk.strides[0];
  if (step == item && reg.type == kept_in_[call.input] && size - index[0] >= n) return from;
  char* to = slot;
  for (int64_t left = n;;) {
    const int64_t m = std::min(left, size - index[0]);
    call.convert(to, item, from, step, m);
    left -= m;
    if (left == 0) return slot;
    to += m * item;
    from -= index[0] * step;
    index[0] = 0;
    for (size_t d = 1;; ++d) {
      from += walk.strides[d];
      if (++index[d] < walk.sizes[d]) break;
      from -= walk.sizes[d] * walk.strides[d];
      index[d] = 0;
    }
  }
}

void FusedPlan::run(int64_t begin, int64_t end) const {
  const FusedRegister* const folded = fold_ ? &register_[folded_] : nullptr;
  const bool in_pieces = folded && folded->place == Place::Piece;
  const int64_t slots_bytes = slots_ * slot_bytes_ + own_bytes_;
  const Scratch<char> memory(slots_bytes + (in_pieces ? (end - begin) * folded->item() : 0));
  char* const scratch = memory.get();
  std::array<char*, kMostRegisters> at;
  std::array<uint16_t, kMostRegisters> moving;
  size_t moving_count = 0;
  for (size_t r = 0; r < registers_; ++r) {
    const FusedRegister& reg = register_[r];
    if (reg.is_stored() || reg.place == Place::Repeated)
      moving[moving_count++] = uint16_t(r);
    else
      at[r] = scratch + (reg.has_own_slot() ? reg.slot : reg.slot * slot_bytes_);
  }
  fill_own_slots(scratch, std::min(block_, end - begin));
  for (int64_t first = begin; first < end; first += block_) {
    const int64_t n = std::min(block_, end - first);
    for (size_t k = 0; k < moving_count; ++k) {
      const FusedRegister& reg = register_[moving[k]];
      at[moving[k]] = reg.place == Place::Memory ? reg.memory + first * reg.item()
                      : reg.place == Place::Piece
                          ? scratch + slots_bytes + (first - begin) * reg.item()
                          : scratch + reg.slot + first % walks_[reg.input].sizes[0] * reg.item();
    }
    for (size_t c = 0; c < calls_; ++c) {
      const FusedCall& call = call_[c];
      const auto& r = call.registers;
      if (call.kind == Kind::Function) {
        char* const ptrs[4] = {at[r[0]], at[r[1]], at[r[2]], at[r[3]]};
        call.function(ptrs, n, call.params);
      } else if (call.kind == Kind::Chain) {
        call.run_chain(at.data(), &chain_step_[call.first], call.count, n);
      } else if (call.kind == Kind::Convert) {
        call.convert(at[r[0]], register_[r[0]].item(), at[r[1]], register_[r[1]].item(), n);
      } else if (call.kind == Kind::Stream) {
        stream_bytes(at[r[0]], at[r[1]], n * register_[r[0]].item());
      } else if (call.kind == Kind::Rows) {
        rows_->run(at[r[0]], at[r[1]], at[r[2]], first, n);
      } else {
        char* const slot = scratch + register_[r[0]].slot * slot_bytes_;
        at[r[0]] = gather(call, slot, first, n);
      }
    }
  }
  if (folded)
    fold_->run(in_pieces ? scratch + slots_bytes : folded->memory + begin * folded->item(), begin,
               end - begin);
}

// Elements that are worth a thread. A call over a block takes about half of what it takes over
// memory, for which kGrain was measured; a step of a chain takes half of that.
int64_t FusedPlan::grain() const {
  const auto halves = int64_t(2 * calls_ + chain_steps_);
  return std::clamp(4 * kGrain / std::max<int64_t>(halves, 1), kGrain / 4, kGrain);
}

void FusedPlan::run_all() const {
  const int64_t unit = fold_ ? fold_->unit() : rows_ ? rows_->unit() * rows_->width() : 1;
  const int64_t units = (numel_ + unit - 1) / unit;
  parallel_for(units, std::max<int64_t>(1, grain() / unit), [&](int64_t begin, int64_t end) {
    if (!fold_ && (!rows_ || rows_->unit() == 1)) return run(begin * unit, end * unit);
    for (; begin < end; ++begin) run(begin * unit, std::min(numel_, (begin + 1) * unit));
  });
  if (rows_) rows_->finish();
  if (fold_) fold_->finish();
}

namespace {

bool run_fused(const FusedWork& work) {
  if (work.lying().numel() == 0) return true;
  FusedPlan plan;
  if (!plan.make(work)) return false;
  plan.run_all();
  return true;
}

bool takes_rows(const RowStep& row, DType type) {
  if (row.fn == RowOp::Fold) return FoldPieces::takes(type, row.rows, row.width);
  return type == DType::Float32 || type == DType::Float64;
}

const bool registered = [] {
  fused_loops(DeviceType::CPU) = {.run = run_fused, .takes_rows = takes_rows, .folds = true};
  return true;
}();

}  // namespace
}  // namespace rush
