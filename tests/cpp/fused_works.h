// fused_works.h: random works for FusedLoops, from the table of functors, and what they must give.
#pragma once

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cpu/copy/copy.h"
#include "device/fused.h"
#include "ops/ops.h"

namespace fused_works {

using namespace rush;

// Complex32, the last one, is not fused (device/deferred_run.cpp).
inline constexpr int kFusedTypes = kDTypeCount - 1;
static_assert(DType(kFusedTypes) == DType::Complex32);
using Kind = FusedStep::Kind;

// One functor in one type of tensors.
struct Function {
  Kind kind;
  uint16_t fn;
  DType type;

  const FnInfo& facts() const {
    return kind == Kind::Unary    ? info(UnaryFn(fn))
           : kind == Kind::Binary ? info(BinaryFn(fn))
                                  : info(TernaryFn(fn));
  }
  DType result() const {
    if (facts().result == FnResult::Bool) return DType::Bool;
    return facts().result == FnResult::Real ? to_real(type) : type;
  }
  std::string name() const {
    return std::string(facts().name) + " of " + std::string(rush::name(type));
  }
};

// Every functor in every type that it takes.
inline std::vector<Function> all_functions() {
  std::vector<Function> all;
  const auto add = [&](Kind kind, int count, auto info_of) {
    for (int fn = 0; fn < count; ++fn) {
      for (int t = 0; t < kDTypeCount; ++t)
        if (info_of(fn).types >> t & 1) all.push_back({kind, uint16_t(fn), DType(t)});
    }
  };
  add(Kind::Unary, int(UnaryFn::kCount), [](int fn) { return info(UnaryFn(fn)); });
  add(Kind::Binary, int(BinaryFn::kCount), [](int fn) { return info(BinaryFn(fn)); });
  add(Kind::Ternary, int(TernaryFn::kCount), [](int fn) { return info(TernaryFn(fn)); });
  return all;
}

inline FusedStep unary(UnaryFn fn, uint16_t a, DType type = DType::Float32) {
  return {.kind = Kind::Unary,
          .fn = uint16_t(fn),
          .compute = compute_type(type),
          .result = type,
          .operands = {a}};
}
inline FusedStep binary(BinaryFn fn, uint16_t a, uint16_t b, DType type = DType::Float32) {
  return {.kind = Kind::Binary,
          .fn = uint16_t(fn),
          .compute = compute_type(type),
          .result = type,
          .operands = {a, b}};
}
inline FusedStep converted(uint16_t a, DType type) {
  return {.kind = Kind::Convert, .result = type, .operands = {a}};
}

// A work with what its spans point to.
struct OwnedWork {
  Dims sizes;
  std::vector<Tensor> inputs;
  std::vector<FusedStep> steps;
  std::vector<FusedOutput> outputs;
  Dims strides;  // of the outputs
  Device device{};
  std::shared_ptr<RowStep> row{};  // of the step over rows, if there is one
  std::optional<FusedJoin> join{};
  std::optional<FusedNormal> normal{};
  Tensor like{};  // where there are no outputs

  FusedWork view() const {
    return {.sizes = sizes,
            .inputs = inputs,
            .steps = steps,
            .outputs = outputs,
            .wait = true,
            .join = join ? &*join : nullptr,
            .normal = normal ? &*normal : nullptr,
            .like = like.defined() ? &like : nullptr};
  }
  Tensor fresh(DType type) const { return make_tensor(sizes, strides, type, device); }
  void add_output(size_t step) { outputs.push_back({uint16_t(step), fresh(steps[step].result)}); }
  std::string describe() const {
    std::string text;
    for (const FusedStep& s : steps) {
      text += s.kind == Kind::Convert ? "Convert"
              : s.kind == Kind::Join  ? "Join"
              : s.row                 ? "rows " + std::to_string(int(s.row->fn))
                                      : Function{s.kind, s.fn, s.compute}.name();
      text += " -> " + std::string(rush::name(s.result)) + "; ";
    }
    return text;
  }
};

// By the ops: tables of devices are not seen from outside of the library.
inline void run_rows(const FusedStep& s, const std::vector<Tensor>& values, const Tensor& out) {
  const RowStep& r = *s.row;
  const Tensor &a = values[s.operands[0]], &b = values[s.operands[1]];
  const bool log = r.fn == RowOp::LogSoftmax || r.fn == RowOp::LogSoftmaxBackward;
  const auto give = [&](const Tensor& y, const Tensor& first, const Tensor& second) {
    copy_(out, y);
    copy_(r.beside[0], reshape(first, r.beside[0].sizes()));
    copy_(r.beside[1], reshape(second, r.beside[1].sizes()));
  };
  if (r.fn == RowOp::Norm)
    std::apply(give, _row_norm(a, r.with[0], r.with[1], 1, r.centred, r.eps));
  else if (r.fn == RowOp::NormBackward)
    std::apply(give, _row_norm_backward(a, b, r.with[0], r.with[1], r.with[2], 1, r.centred));
  else if (r.operand_count() == 1)
    copy_(out, log ? log_softmax_as(a, -1) : softmax_as(a, -1));
  else
    copy_(out, _softmax_backward(a, b, -1, log));
}

inline void run_one(const FusedStep& s, const std::vector<Tensor>& values, const Tensor& out) {
  if (s.row) return run_rows(s, values, out);
  const auto call = [&](Params params) {
    const Tensor& a = values[s.operands[0]];
    if (s.kind == Kind::Unary) return map_unary(UnaryFn(s.fn), a, out, params, s.compute);
    const Tensor& b = values[s.operands[1]];
    if (s.kind == Kind::Binary) return map_binary(BinaryFn(s.fn), a, b, out, params, s.compute);
    map_ternary(TernaryFn(s.fn), a, b, values[s.operands[2]], out, params, s.compute);
  };
  const auto& p = s.params;
  if (s.kind == Kind::Convert)
    copy_(out, values[s.operands[0]]);
  else if (s.params_count == 0)
    call({});
  else if (s.params_count == 1)
    call({p[0]});
  else if (s.params_count == 2)
    call({p[0], p[1]});
  else if (s.params_count == 3)
    call({p[0], p[1], p[2]});
  else
    call({p[0], p[1], p[2], p[3]});
}

// All steps one by one; a tensor per step.
inline std::vector<Tensor> one_by_one(const OwnedWork& work) {
  std::vector<Tensor> values = work.inputs;
  for (const FusedStep& s : work.steps) {
    const Tensor out = work.fresh(s.result);
    run_one(s, values, out);
    values.push_back(out);
  }
  return {values.begin() + int64_t(work.inputs.size()), values.end()};
}

// Another step over rows with the same numbers, and results of its own.
inline void give_row(OwnedWork& work, const RowStep& from) {
  work.row = std::make_shared<RowStep>(from);
  for (Tensor& t : work.row->with)
    if (t.defined()) t = to(t, work.device);
  for (Tensor& t : work.row->beside)
    if (t.defined()) t = make_tensor(t.sizes(), t.dtype(), work.device);
  for (FusedStep& s : work.steps)
    if (s.row) s.row = work.row.get();
}

// The same work on another device; the numbers of a program stay where they are.
inline OwnedWork moved(const OwnedWork& work, Device device) {
  OwnedWork out{work.sizes, {}, work.steps, {}, work.strides, device};
  if (work.row) give_row(out, *work.row);
  for (const Tensor& x : work.inputs) {
    if (x.is_wrapped_number()) {
      out.inputs.push_back(x);
      continue;
    }
    const Dims all{int64_t(x.storage()->nbytes()) / x.element_size()}, one{1};
    const Tensor there = make_tensor(all, x.dtype(), device);
    copy_(there, x.alias(all, one, 0));
    out.inputs.push_back(there.alias(x.sizes(), x.strides(), x.offset()));
  }
  for (const FusedOutput& o : work.outputs) out.add_output(o.step);
  return out;
}

// Does the CPU take it? Not where integers are divided, which must not be zero.
inline bool can_be_fused(const Function& f) {
  OwnedWork work{.sizes = {2}, .inputs = {}, .steps = {}, .outputs = {}, .strides = {1}};
  work.inputs = {make_tensor(Dims{2}, f.type)};
  fill_cpu(work.inputs[0], Scalar(1));
  work.steps.push_back({.kind = f.kind,
                        .params_count = f.facts().params,
                        .fn = f.fn,
                        .compute = compute_type(f.type),
                        .result = f.result()});
  work.add_output(0);
  return fused_loops(DeviceType::CPU).run(work.view());
}

class Maker {
 public:
  explicit Maker(unsigned seed) : engine_(seed) {}

  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine_); }
  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(engine_) < p; }

  // Numbers of all sizes, and those that are not numbers.
  Tensor values(IntList sizes, DType type) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    constexpr double odd[] = {0.0, -0.0, inf, -inf, NAN, 1e-42, -3e-310, 6e-8, 1e30, -65504, 1};
    const Tensor wide = make_tensor(sizes, is_complex(type) ? DType::Complex128 : DType::Float64);
    const int64_t n = wide.numel() * (is_complex(type) ? 2 : 1);
    std::normal_distribution<double> draw(0, is_floating(type) || is_complex(type) ? 2 : 40);
    const bool tame = chance(0.3);
    for (int64_t i = 0; i < n; ++i)
      wide.data<double>()[i] = tame || !chance(0.05) ? draw(engine_) : odd[below(std::size(odd))];
    if (wide.dtype() == type) return wide;
    const Tensor out = make_tensor(sizes, type);
    copy_cpu(wide, out);
    return out;
  }

  // Some tensor that broadcasts to `sizes`: dense in some order, with gaps, expanded, or a number.
  Tensor input(const Dims& sizes, DType type) {
    if (chance(0.15)) return values(Dims{}, type);
    Dims own = sizes;
    if (chance(0.3)) {
      for (int64_t& s : own)
        if (chance(0.5)) s = 1;
    }
    if (chance(0.1) && own.size() > 0) own = Dims(IntList(own).subspan(1));
    const std::vector<size_t> order = some_order(own.size());
    const bool gaps = chance(0.2);
    Dims stored;
    for (const size_t d : order) stored.push_back(own[d] * (gaps && d == order.back() ? 2 : 1));
    const Tensor base = values(stored, type);
    Dims strides = own;
    for (size_t k = 0; k < order.size(); ++k)
      strides[order[k]] = base.strides()[k] * (gaps && k + 1 == order.size() ? 2 : 1);
    const bool expanded = chance(0.1);
    for (size_t d = 0; expanded && d < own.size(); ++d) {
      const size_t there = sizes.size() - own.size() + d;
      if (own[d] == 1 && sizes[there] != 1) own[d] = sizes[there], strides[d] = 0;
    }
    return base.alias(own, strides, 0);
  }

  Scalar param() {
    if (chance(0.5)) return Scalar(below(4));
    return Scalar(std::uniform_real_distribution<double>(-1, 2)(engine_));
  }

  // A work of these functions, each of whose operands is some value there is by then.
  OwnedWork work(const Dims& sizes, std::span<const Function> functions) {
    OwnedWork out;
    out.sizes = out.strides = sizes;
    int64_t stride = 1;
    const std::vector<size_t> order = some_order(sizes.size());
    for (size_t k = order.size(); k-- > 0; stride *= std::max<int64_t>(1, sizes[order[k]]))
      out.strides[order[k]] = stride;
    const int inputs = 1 + below(5);
    for (int i = 0; i < inputs; ++i) {
      const DType type = chance(0.6) ? functions[size_t(below(int(functions.size())))].type
                                     : DType(below(kFusedTypes));
      out.inputs.push_back(input(sizes, type));
    }
    for (const Function& f : functions) {
      if (chance(0.1)) {
        const DType type = chance(0.5) ? f.type : DType(below(kFusedTypes));
        out.steps.push_back({.kind = Kind::Convert, .result = type, .operands = {some(out)}});
      }
      FusedStep s{.kind = f.kind, .params_count = f.facts().params, .fn = f.fn};
      s.compute = compute_type(f.type);
      s.result = chance(0.9) ? f.result() : DType(below(kFusedTypes));
      for (int i = 0; i < s.operand_count(); ++i) s.operands[size_t(i)] = some(out);
      for (size_t i = 0; i < s.params_count; ++i) s.params[i] = param();
      out.steps.push_back(s);
    }
    out.add_output(out.steps.size() - 1);
    while (out.outputs.size() < kFusedOutputs && chance(0.4))
      out.add_output(size_t(below(int(out.steps.size()))));
    return out;
  }

  // An image whose channels lie end to end, with inputs as rows_work has them, and some steps.
  OwnedWork image_work(const Dims& sizes, DType type) {
    OwnedWork out;
    out.sizes = sizes;
    const Dims lying{sizes[0], sizes[2], sizes[3], sizes[1]}, s = contiguous_strides(lying);
    out.strides = Dims{s[0], s[3], s[1], s[2]};
    for (int i = 0; i < 3; ++i)
      out.inputs.push_back(values(lying, type).alias(sizes, out.strides, 0));
    out.inputs.push_back(wrap_number(Scalar(1.25)));
    some_steps(out, type, below(3));
    return out;
  }
  // With a step by groups of channels.
  OwnedWork groups_work(const Dims& sizes, int64_t groups, DType type, RowOp fn) {
    OwnedWork out = image_work(sizes, type);
    const DType wide = compute_type(type);
    const Dims one{sizes[1]}, each{sizes[0], groups}, pairs{sizes[0], groups, 2};
    RowStep row{.fn = fn, .width = sizes[1], .groups = groups};
    const Tensor weight = chance(0.8) ? values(one, wide) : Tensor();
    if (fn == RowOp::Groups)
      row.with = {weight, chance(0.8) ? values(one, wide) : Tensor(), values(each, wide),
                  values(each, wide)};
    else
      row.with = {weight, values(each, wide), values(each, wide), values(pairs, wide)};
    finish_row_step(out, type, row);
    some_steps(out, type, below(4));
    out.add_output(out.steps.size() - 1);
    if (chance(0.5)) out.add_output(size_t(below(int(out.steps.size()))));
    return out;
  }
  // With a step by channels. What adds up has a gradient in memory, which it is given by a step.
  OwnedWork channels_work(const Dims& sizes, DType type, RowOp fn) {
    OwnedWork out = image_work(sizes, type);
    const DType wide = compute_type(type);
    const Dims one{sizes[1]}, pair{2, sizes[1]};
    RowStep row{.fn = fn, .width = sizes[1], .segment = 20, .eps = 1e-5};
    const Tensor weight = chance(0.8) ? values(one, wide) : Tensor();
    if (fn == RowOp::Channels) {
      row.with = {weight, chance(0.8) ? values(one, wide) : Tensor(), values(one, wide),
                  values(one, wide)};
    } else if (fn == RowOp::ChannelsBackward) {
      row.with = {weight, values(one, wide), values(one, wide), values(pair, wide)};
    } else {
      out.steps.push_back(binary(BinaryFn::Mul, 0, 1, type));
      out.add_output(out.steps.size() - 1);
      row.with = {values(one, wide), values(one, wide)};
      row.beside = {make_tensor(pair, wide), make_tensor(one, type),
                    chance(0.8) ? make_tensor(one, type) : Tensor()};
    }
    finish_row_step(out, type, row);
    if (fn == RowOp::ChannelSums) return out;
    some_steps(out, type, below(4));
    out.add_output(out.steps.size() - 1);
    return out;
  }

  // A step over rows of floats of one type, with some steps before and after it.
  OwnedWork rows_work(const Dims& sizes, DType type, RowOp fn) {
    OwnedWork out;
    out.sizes = sizes;
    out.strides = contiguous_strides(sizes);
    Dims across = sizes;
    across[across.size() - 1] = 1;
    for (int i = 0; i < 3; ++i) out.inputs.push_back(values(sizes, type));
    out.inputs.push_back(values(Dims{sizes.back()}, type));
    out.inputs.push_back(values(across, chance(0.5) ? type : DType::Float32));
    out.inputs.push_back(wrap_number(Scalar(1.25)));
    some_steps(out, type, below(4));
    give_row_step(out, type, fn);
    some_steps(out, type, below(4));
    out.add_output(out.steps.size() - 1);
    while (out.outputs.size() < kFusedOutputs && chance(0.4))
      out.add_output(size_t(below(int(out.steps.size()))));
    return out;
  }

 private:
  void some_steps(OwnedWork& out, DType type, int count) {
    constexpr BinaryFn fns[] = {BinaryFn::Mul, BinaryFn::Add, BinaryFn::Sub};
    for (int i = 0; i < count; ++i) {
      if (chance(0.3))
        out.steps.push_back(unary(chance(0.5) ? UnaryFn::Sigmoid : UnaryFn::Neg, some(out), type));
      else if (chance(0.15) && type != DType::Float64)  // through another type, and back
        out.steps.push_back(converted(some(out), DType::BFloat16)),
            out.steps.push_back(
                converted(uint16_t(out.inputs.size() + out.steps.size() - 1), type));
      else
        out.steps.push_back(binary(fns[below(3)], some(out), some(out), type));
    }
  }
  // Some value of the work's own shape, and of this type.
  uint16_t whole(const OwnedWork& out, DType type) {
    for (;;) {
      const uint16_t value = some(out);
      const size_t step = value - out.inputs.size();
      if (value < out.inputs.size() ? value < 3 : out.steps[step].result == type) return value;
    }
  }
  void give_row_step(OwnedWork& out, DType type, RowOp fn) {
    const int64_t width = out.sizes.back(), rows = numel(out.sizes) / width;
    const DType wide = compute_type(type);
    const Dims along{width}, down{rows};
    RowStep row{.fn = fn, .centred = chance(0.7), .width = width, .eps = 1e-5};
    if (fn == RowOp::Norm) {
      const DType kept = chance(0.5) ? wide : type;
      row.with = {chance(0.8) ? values(along, kept) : Tensor(),
                  chance(0.8) ? values(along, kept) : Tensor()};
      row.beside = {make_tensor(down, wide), make_tensor(down, wide)};
    } else if (fn == RowOp::NormBackward) {
      row.with = {chance(0.8) ? values(along, type) : Tensor(), values(down, wide),
                  values(down, wide)};
      row.beside = {make_tensor(along, type), make_tensor(along, type)};
    }
    finish_row_step(out, type, row);
  }
  void finish_row_step(OwnedWork& out, DType type, RowStep& row) {
    FusedStep s{.kind = Kind::Rows, .fn = uint16_t(row.fn), .compute = type, .result = type};
    for (int i = 0; i < row.operand_count(); ++i) s.operands[size_t(i)] = whole(out, type);
    s.row = &row;
    out.steps.push_back(s);
    give_row(out, row);
  }

  std::vector<size_t> some_order(size_t dims) {
    std::vector<size_t> order(dims);
    for (size_t d = 0; d < dims; ++d) order[d] = d;
    if (chance(0.4)) std::shuffle(order.begin(), order.end(), engine_);
    return order;
  }
  // Rather one of the last values, so that there are chains.
  uint16_t some(const OwnedWork& work) {
    const int count = int(work.inputs.size() + work.steps.size());
    return uint16_t(chance(0.5) ? count - 1 - below(std::min(count, 3)) : below(count));
  }

  std::mt19937 engine_;
};

}  // namespace fused_works
