// Which calls of a plan become chains: see fused_plan.h.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

#include "core/cpu_features.h"
#include "cpu/pointwise/fused_plan.h"

namespace rush {

namespace {

struct ChainFns {
  ChainFn of_float, of_double;

  template <Isa isa>
  static ChainFns on() {
    return {chain_fn<isa, float>(), chain_fn<isa, double>()};
  }
};

ChainFn chain_fn_of(DType type) {
  static const PerIsa<ChainFns> picked([]([[maybe_unused]] IsaLevel level) {
#ifdef __x86_64__
    if (level >= IsaLevel::Avx512) return ChainFns::on<Isa::avx512>();
    if (level >= IsaLevel::Avx2) return ChainFns::on<Isa::avx2>();
#endif
    return ChainFns::on<Isa::baseline>();
  });
  return type == DType::Float32 ? picked.now().of_float : picked.now().of_double;
}

// Where both operands of a sum or product are NaN, the loop that eager calls gives back one of them,
// and the compiler has decided which: it is asked once.
bool takes_second_nan(ChainOp op, DType type, ElementFn loop) {
  if (op != ChainOp::Add && op != ChainOp::Mul) return false;
  static constinit std::atomic<int8_t> known[int(IsaLevel::Avx512) + 1][2][2]{};  // 0: not yet
  std::atomic<int8_t>& answer = known[int(isa_level())][type == DType::Float32][op == ChainOp::Add];
  if (const int8_t told = answer.load(std::memory_order_relaxed)) return told > 1;
  const auto ask = [&](auto zero) {
    using T = decltype(zero);
    constexpr int64_t kSome = 67;  // vectors, and what is left behind them
    T a[kSome], b[kSome], out[kSome];
    std::fill_n(a, kSome, std::numeric_limits<T>::quiet_NaN());
    std::fill_n(b, kSome, -std::numeric_limits<T>::quiet_NaN());
    char* const ptrs[] = {reinterpret_cast<char*>(out), reinterpret_cast<char*>(a),
                          reinterpret_cast<char*>(b)};
    loop(ptrs, kSome, nullptr);
    return std::signbit(out[0]);
  };
  const bool second = type == DType::Float32 ? ask(0.0f) : ask(0.0);
  answer.store(second ? 2 : 1, std::memory_order_relaxed);
  return second;
}

bool is_with_number(ChainOp op) {
  return op >= ChainOp::Add && (int(op) - int(ChainOp::Add)) % 4 >= 2;
}
bool has_operand(ChainOp op) {
  return op != ChainOp::Neg && op != ChainOp::Square && op != ChainOp::Relu;
}

}  // namespace

// Can `next` take what `call` has made from the processor's registers?
bool FusedPlan::continues(const FusedCall& call, const FusedCall& next) const {
  if (call.chain == kNotInChains || next.chain == kNotInChains) return false;
  const uint16_t value = call.registers[0];
  if (register_[value].type != register_[next.registers[0]].type) return false;
  return next.registers[1] == value ||
         (next.reads == 2 && next.registers[2] == value && next.chain != ChainOp::Masked);
}

void FusedPlan::add_chain_step(ChainOp op, uint16_t at) {
  chain_step_[chain_steps_++] = {op, at, nullptr};
}

// `value` is what the chain has made before; null: nothing yet.
void FusedPlan::add_to_chain(const FusedCall& call, const uint16_t* value) {
  const uint16_t a = call.registers[1], b = call.registers[2];
  const auto is_number = [&](uint16_t reg) { return register_[reg].place == Place::Filled; };
  const bool has_sign = call.chain >= ChainOp::Add;
  const bool from_b = has_sign && (value ? a != *value : is_number(a));
  if (!value) add_chain_step(ChainOp::Load, from_b ? b : a);
  if (!has_sign) {
    add_chain_step(call.chain, b);
    chain_step_[chain_steps_ - 1].threshold = call.params;
    return;
  }
  const uint16_t other = from_b ? a : b;
  const bool turned = takes_second_nan(call.chain, register_[a].type, call.function);
  add_chain_step(with_operand(call.chain, from_b != turned, is_number(other)), other);
}

void FusedPlan::add_chain(std::span<const FusedCall> calls, std::span<const uint16_t> readers) {
  FusedCall chain{};
  chain.kind = Kind::Chain;
  chain.first = uint16_t(chain_steps_);
  const uint16_t* value = nullptr;
  for (const FusedCall& call : calls) {
    add_to_chain(call, value);
    value = call.registers.data();
    FusedRegister& reg = register_[*value];
    const bool is_last = &call == &calls.back();
    if (is_last || readers[*value] > 1 || reg.is_stored())
      add_chain_step(ChainOp::Store, *value);
    else
      reg.place = Place::Passing;
  }
  chain.count = uint16_t(chain_steps_ - chain.first);
  chain.run_chain = chain_fn_of(register_[*value].type);
  call_[calls_++] = chain;
}

void FusedPlan::form_chains() {
  std::array<uint16_t, kMostRegisters> readers;
  std::fill_n(readers.begin(), registers_, 0);
  for (size_t c = 0; c < calls_; ++c)
    for (size_t i = 1; i <= call_[c].reads; ++i) ++readers[call_[c].registers[i]];
  const size_t all = std::exchange(calls_, 0);
  for (size_t c = 0, end; c < all; c = end) {
    for (end = c + 1; end < all && continues(call_[end - 1], call_[end]);) ++end;
    if (end - c > 1)
      add_chain(std::span(call_).subspan(c, end - c), readers);
    else
      call_[calls_++] = call_[c];
  }
  find_last_readers();
}

void FusedPlan::find_last_readers() {
  std::array<bool, kMostRegisters> is_read;  // otherwise than as a number
  std::fill_n(is_read.begin(), registers_, false);
  const auto read = [&](size_t call, uint16_t reg, bool as_number) {
    register_[reg].last = uint16_t(call);
    is_read[reg] |= !as_number;
  };
  for (size_t c = 0; c < calls_; ++c) {
    const FusedCall& call = call_[c];
    if (call.kind != Kind::Chain) {
      for (size_t i = 0; i <= call.reads; ++i) read(c, call.registers[i], false);
      continue;
    }
    for (const ChainStep& step : std::span(chain_step_).subspan(call.first, call.count)) {
      if (has_operand(step.op)) read(c, step.at, is_with_number(step.op));
    }
  }
  for (size_t r = 0; r < registers_; ++r)
    if (register_[r].place == Place::Filled && !is_read[r]) register_[r].place = Place::Number;
}

}  // namespace rush
