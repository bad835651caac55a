// Several pointwise steps in one pass, against the same steps one by one: every bit.
#include <algorithm>
#include <cstring>
#include <iostream>
#include <limits>
#include <span>

#include "core/cpu_features.h"
#include "core/threads.h"
#include "fused_works.h"
#include "testing.h"

using namespace fused_works;

namespace {

bool run(const OwnedWork& work) { return fused_loops(DeviceType::CPU).run(work.view()); }

// Which of two NaN a sum becomes is the order of an instruction's operands, which is ours only where the loops are
// written for the processor: elsewhere compilers choose it, loop by loop.
#ifdef __x86_64__
constexpr bool kSameNan = true;
#else
constexpr bool kSameNan = false;
#endif

template <class T>
bool same_but_for_nan(const Tensor& a, const Tensor& b) {
  const std::span x(a.data<T>(), size_t(a.numel())), y(b.data<T>(), size_t(b.numel()));
  return std::ranges::equal(
      x, y, [](T i, T j) { return std::memcmp(&i, &j, sizeof i) == 0 || (i != i && j != j); });
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || std::memcmp(a.data(), b.data(), size_t(a.nbytes())) == 0) return true;
  if (kSameNan) return false;
  if (a.dtype() == DType::Float64) return same_but_for_nan<double>(a, b);
  return a.dtype() == DType::Float32 && same_but_for_nan<float>(a, b);
}

// Runs it both ways; names the first step that differs.
bool agrees(const OwnedWork& work) {
  for (const FusedOutput& o : work.outputs)
    if (o.out.numel() > 0) std::memset(o.out.data(), 0x5a, size_t(o.out.nbytes()));
  const std::vector<Tensor> want = one_by_one(work);
  if (!run(work)) {
    std::cerr << "refused: " << work.describe() << "\n";
    return false;
  }
  for (const FusedOutput& o : work.outputs) {
    if (same_bytes(o.out, want[o.step])) continue;
    std::cerr << "step " << o.step << " differs, " << work.sizes << ": " << work.describe() << "\n";
    return false;
  }
  return true;
}

// All functors that can be fused, in all types. The others are those that raise for a divisor of
// zero.
const std::vector<Function>& functions() {
  static const std::vector<Function> found = [] {
    std::vector<Function> kept;
    for (const Function& f : all_functions()) {
      if (can_be_fused(f)) {
        kept.push_back(f);
        continue;
      }
      const Tensor zeros = make_tensor(Dims{2}, f.type), out = make_tensor(Dims{2}, f.type);
      fill_cpu(zeros, Scalar(0));
      EXPECT(f.kind == Kind::Binary && testing::message_of([&] {
                                         map_binary(BinaryFn(f.fn), zeros, zeros, out, {}, f.type);
                                       }).starts_with("ZeroDivisionError"));
    }
    return kept;
  }();
  return found;
}

OwnedWork work_of(Dims sizes, std::vector<Tensor> inputs, std::vector<FusedStep> steps) {
  OwnedWork work{.sizes = sizes,
                 .inputs = std::move(inputs),
                 .steps = std::move(steps),
                 .outputs = {},
                 .strides = make_tensor(sizes, DType::Bool).strides()};
  work.add_output(work.steps.size() - 1);
  return work;
}

}  // namespace

// Each functor in each type at least once per round.
TEST(random_works) {
  const Dims shapes[] = {
      {},          {1},          {0},       {3, 0, 2},      {7},
      {127},       {1024},       {1025},    {4097},         {5, 7, 300},
      {130, 70},   {2, 3, 4, 5}, {40, 3},   {2, 17, 5, 31}, {1, 33, 1, 20},
      {2, 600, 3}, {50, 2, 9},   {64, 513}, {3, 2048},      {2, 2, 2, 2, 2, 2, 2}};
  for (unsigned round = 0; round < 8; ++round) {
    set_num_threads(1 + int(round % 2));
    Maker maker(round);
    std::vector<Function> left = functions();
    std::shuffle(left.begin(), left.end(), std::mt19937(round));
    while (!left.empty()) {
      const size_t count =
          std::min(left.size(), size_t(1 + maker.below(maker.chance(0.1) ? 40 : 12)));
      const Dims& sizes = shapes[maker.below(std::size(shapes))];
      const OwnedWork work = maker.work(sizes, std::span(left).last(count));
      EXPECT(agrees(work));
      left.resize(left.size() - count);
    }
  }
  set_num_threads(2);
}

// Sizes that several threads share, and inputs that are turned before they are read.
TEST(large_works) {
  const Dims shapes[] = {{70001}, {300, 170}, {33000, 3}, {3, 33000}, {2, 64, 20, 30}, {40000, 2}};
  Maker maker(99);
  std::vector<Function> quick;
  for (const Function& f : functions())
    if (f.kind != Kind::Unary && is_floating(f.type)) quick.push_back(f);
  for (int i = 0; i < 60; ++i) {
    std::vector<Function> some;
    for (int k = 0; k < 6; ++k) some.push_back(quick[size_t(maker.below(int(quick.size())))]);
    EXPECT(agrees(maker.work(shapes[size_t(i) % std::size(shapes)], some)));
  }
}

// Outputs that are written past the caches, one of them the input in another type.
TEST(outputs_larger_than_the_caches) {
  Maker maker(5);
  const Tensor x = maker.values(Dims{3000001}, DType::Float32);
  OwnedWork work = work_of({3000001}, {x, maker.values(Dims{}, DType::Float64)},
                           {binary(BinaryFn::Mul, 0, 1), unary(UnaryFn::Neg, 2),
                            binary(BinaryFn::Add, 3, 0, DType::BFloat16),
                            converted(0, DType::Float64), converted(0, DType::Float32)});
  for (size_t step = 0; step < 4; ++step) work.add_output(step);
  EXPECT(agrees(work));
}

// Values are rounded to the type of each step, whatever the next one wants.
TEST(half_types_are_rounded_after_each_step) {
  const Tensor x = make_tensor(Dims{1}, DType::BFloat16);
  fill_cpu(x, Scalar(256));
  const OwnedWork work =
      work_of({1}, {x, wrap_number(Scalar(1.0))},
              {binary(BinaryFn::Add, 0, 1, DType::BFloat16), binary(BinaryFn::Sub, 2, 0)});
  EXPECT(agrees(work) && work.outputs[0].out.item().to_double() == 0);  // 257 is no bfloat16
}

TEST(values_that_several_want) {
  Maker maker(6);
  const Tensor x = maker.values(Dims{3, 700}, DType::Float16);
  OwnedWork work =
      work_of({3, 700}, {x, maker.values(Dims{700}, DType::Float32)},
              {binary(BinaryFn::Mul, 0, 0, DType::Float16), converted(0, DType::Float32),
               converted(0, DType::Float16), binary(BinaryFn::Add, 2, 1),
               binary(BinaryFn::Sub, 5, 3), unary(UnaryFn::Exp, 2, DType::Float64)});
  for (size_t step : {0, 1, 2, 2, 4, 5}) work.add_output(step);
  EXPECT(agrees(work));
}

// The condition is narrower than the result, which must not be written over it.
TEST(where_reads_its_condition_to_the_end) {
  Maker maker(9);
  const Tensor x = maker.values(Dims{3000}, DType::Float32);
  const Tensor y = maker.values(Dims{3000}, DType::Float32);
  FusedStep less = binary(BinaryFn::Lt, 0, 1);
  less.result = DType::Bool;
  const FusedStep where{.kind = Kind::Ternary,
                        .fn = uint16_t(TernaryFn::Where),
                        .compute = DType::Float32,
                        .result = DType::Float32,
                        .operands = {2, 0, 1}};
  EXPECT(agrees(work_of({3000}, {x, y}, {less, where, unary(UnaryFn::Neg, 3)})));
}

TEST(the_most_that_a_work_may_have) {
  Maker maker(7);
  OwnedWork work{.sizes = {1000}, .inputs = {}, .steps = {}, .outputs = {}, .strides = {1}};
  for (size_t i = 0; i < kFusedInputs; ++i)
    work.inputs.push_back(maker.input(Dims{1000}, i % 2 ? DType::Float16 : DType::Int32));
  for (size_t s = 0; s < kFusedSteps; ++s) {
    const auto a = uint16_t(s % kFusedInputs), b = uint16_t(s + kFusedInputs - 1);
    work.steps.push_back(binary(BinaryFn::Add, a, b, s % 2 ? DType::Float64 : DType::BFloat16));
  }
  for (size_t o = 0; o < kFusedOutputs; ++o) work.add_output(kFusedSteps - 1 - o);
  EXPECT(agrees(work));
  work.steps.push_back(work.steps.back());
  EXPECT(!run(work));
}

TEST(a_step_that_nobody_reads_is_left_out) {
  Maker maker(8);
  OwnedWork work = work_of({100}, {maker.values(Dims{100}, DType::Float32)},
                           {unary(UnaryFn::Exp, 0), unary(UnaryFn::Neg, 0)});
  EXPECT(agrees(work));
}

// Cheap steps in a row stay in registers: in all orders of operands, of which each may be NaN, and where
// a value is wanted again later.
TEST(chains_of_cheap_steps) {
  constexpr BinaryFn signs[] = {BinaryFn::Add, BinaryFn::Sub, BinaryFn::Mul, BinaryFn::Div};
  constexpr UnaryFn unaries[] = {UnaryFn::Neg, UnaryFn::Square, UnaryFn::Relu, UnaryFn::Exp};
  constexpr int64_t sizes[] = {1, 7, 64, 255, 256, 1000, 1300, 20001};
  const IsaLevel level = isa_level();
  Maker maker(41);
  for (int round = 0; round < 240; ++round) {
    set_isa_level(IsaLevel(round % (int(level) + 1)));
    const DType type = maker.chance(0.6) ? DType::Float32 : DType::Float64;
    const Dims size{sizes[maker.below(std::size(sizes))]};
    OwnedWork work{.sizes = size, .inputs = {}, .steps = {}, .outputs = {}, .strides = {1}};
    for (int i = 0; i < 3; ++i) {  // every sixth is NaN: 1 / 0 - 1 / 0, or its negative
      const Tensor x = maker.values(size, DType::Float64), in_type = make_tensor(size, type);
      for (int64_t k = 0; k < size[0]; ++k)
        if (maker.chance(0.17))
          x.data<double>()[k] = std::copysign(NAN, maker.chance(0.5) ? 1 : -1);
      copy_cpu(x, in_type);
      work.inputs.push_back(in_type);
    }
    for (const double number : {-0.0, 1.25, std::copysign(NAN, -1)})
      work.inputs.push_back(wrap_number(Scalar(number)));
    const int count = 2 + maker.below(9);
    for (int s = 0; s < count; ++s) {
      const int values = int(work.inputs.size()) + s;
      const auto before = uint16_t(maker.chance(0.85) && s > 0 ? values - 1 : maker.below(values));
      const auto other = uint16_t(maker.below(values));
      const bool turned = maker.chance(0.5);
      if (maker.chance(0.2)) {
        work.steps.push_back(unary(unaries[maker.below(4)], before, type));
      } else if (maker.chance(0.1)) {
        FusedStep masked = binary(BinaryFn::ThresholdBackward, before, other, type);
        masked.params_count = 1;
        masked.params[0] = Scalar(maker.below(2));
        work.steps.push_back(masked);
      } else {
        work.steps.push_back(
            binary(signs[maker.below(4)], turned ? other : before, turned ? before : other, type));
      }
    }
    for (int s = 0; s < count; ++s)
      if (s == count - 1 || (work.outputs.size() < 4 && maker.chance(0.2)))
        work.add_output(size_t(s));
    EXPECT(agrees(work));
  }
  set_isa_level(level);
}

TEST(random_works_over_rows) {
  Maker maker(31);
  constexpr RowOp ops[] = {RowOp::Norm,       RowOp::NormBackward,    RowOp::Softmax,
                           RowOp::LogSoftmax, RowOp::SoftmaxBackward, RowOp::LogSoftmaxBackward};
  constexpr int64_t widths[] = {768, 64, 7, 300, 2100, 1};
  for (int i = 0; i < 60; ++i) {
    const Dims sizes{maker.chance(0.2) ? 700 : 1 + maker.below(40), widths[maker.below(6)]};
    const DType type = maker.chance(0.5) ? DType::Float32 : DType::Float64;
    const OwnedWork work = maker.rows_work(sizes, type, ops[i % 6]);
    const OwnedWork single = moved(work, work.device);
    const std::vector<Tensor> want = one_by_one(single);
    EXPECT(run(work));
    for (const FusedOutput& o : work.outputs) {
      const bool same = same_bytes(o.out, want[o.step]);
      EXPECT(same);
      if (!same) std::cerr << "step " << o.step << ", " << sizes << ": " << work.describe() << "\n";
    }
    for (size_t b = 0; b < 2; ++b) {
      const Tensor &got = work.row->beside[b], &right = single.row->beside[b];
      if (got.defined()) EXPECT(same_bytes(got, right));
    }
  }
}
