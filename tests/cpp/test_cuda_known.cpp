// The backward pass of batch norm behind an activation whose result it does not read (device/origin.h):
// the kernels give the bits of those that do. Compiled by NVRTC, and run here compiled by g++.
#include <cstring>

#include "fused_rows_on_cpu.h"

using namespace fused_works;

namespace {

struct Activation {
  UnaryFn forward;
  BinaryFn backward;
  std::vector<Scalar> limits;  // of both, but for relu, whose gradient has one
};
const Activation kRelu{UnaryFn::Relu, BinaryFn::ThresholdBackward, {}};
const Activation kRelu6{UnaryFn::Hardtanh, BinaryFn::HardtanhBackward, {0, 6}};

FusedStep with(FusedStep step, const std::vector<Scalar>& params) {
  step.params_count = uint8_t(params.size());
  std::copy(params.begin(), params.end(), step.params.begin());
  return step;
}

// One batch norm with an activation behind it: forward, and a step of backward in both ways.
struct Case {
  OwnedWork forward, reads, knows;
};

// Gradient 0, x 1, and the activation's result 2.
OwnedWork image(const Tensor& g, const Tensor& x, const Tensor& y) {
  return {
      .sizes = x.sizes(), .inputs = {g, x, y}, .steps = {}, .outputs = {}, .strides = x.strides()};
}
void add_rows(OwnedWork& work, const RowStep& row, std::array<uint16_t, 3> operands) {
  const DType type = work.inputs[1].dtype();
  work.steps.push_back({.kind = Kind::Rows,
                        .fn = uint16_t(row.fn),
                        .compute = type,
                        .result = type,
                        .operands = operands,
                        .row = &row});
  give_row(work, row);
}

// `kept`: the gradient behind the activation is wanted, too.
Case make_case(Maker& maker, DType type, const Activation& act, RowOp fn, bool affine, bool kept) {
  const Dims sizes{2, 24, 5, 7}, lying{2, 5, 7, 24}, one{24}, pair{2, 24};
  const Dims s = contiguous_strides(lying), strides{s[0], s[3], s[1], s[2]};
  const DType wide = compute_type(type);
  const auto values = [&] { return maker.values(lying, type).alias(sizes, strides, 0); };
  const Tensor g = values(), x = values(), y = make_tensor(sizes, strides, type, Device{});
  const Tensor mean = maker.values(one, wide), var = abs(maker.values(one, wide));
  const Tensor weight = affine ? maker.values(one, wide) : Tensor();
  const Tensor bias = affine ? maker.values(one, wide) : Tensor();
  Case c;
  c.forward = image(g, x, y);
  add_rows(c.forward,
           {.fn = RowOp::Channels, .width = 24, .eps = 1e-5, .with = {weight, bias, mean, var}},
           {1});
  c.forward.steps.push_back(with(unary(act.forward, 3, type), act.limits));
  c.forward.outputs.push_back({1, y});

  RowStep back{.fn = fn, .width = 24, .segment = 20, .eps = 1e-5};
  if (fn == RowOp::ChannelSums) {
    back.with = {mean, var};
    back.beside = {make_tensor(pair, wide), make_tensor(one, wide), make_tensor(one, wide)};
  } else {
    back.with = {weight, mean, var, maker.values(pair, wide)};
  }
  const std::vector<Scalar> limits = act.limits.empty() ? std::vector<Scalar>{0} : act.limits;
  c.reads = image(g, x, y);
  c.reads.steps = {with(binary(act.backward, 0, 2, type), limits)};
  add_rows(c.reads, back, {3, 1});
  c.knows = image(g, x, x);
  c.knows.steps = {with(unary(act.forward, 2, type), act.limits),
                   with(binary(act.backward, 0, 3, type), limits)};
  add_rows(c.knows, back, {4, 1});
  c.knows.normal = FusedNormal{2, c.forward.row.get()};
  for (OwnedWork* work : {&c.reads, &c.knows}) {
    const size_t row = work->steps.size() - 1;
    if (kept) work->add_output(row - 1);
    if (fn != RowOp::ChannelSums) work->add_output(row);
    work->like = x;
  }
  return c;
}

std::vector<Case> all_cases(Maker& maker) {
  std::vector<Case> cases;
  for (const DType type : {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16})
    for (const RowOp fn : {RowOp::ChannelSums, RowOp::ChannelsBackward})
      for (const bool affine : {true, false})
        cases.push_back(make_case(maker, type, affine ? kRelu : kRelu6, fn, affine, !affine)),
            cases.push_back(make_case(maker, type, affine ? kRelu6 : kRelu, fn, affine, affine));
  return cases;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.data(), b.data(), size_t(a.nbytes())) == 0;
}

int64_t ones(const Tensor& mask) { return sum(mask, Dims{}, false, DType::Int64).item().to_int(); }

}  // namespace

TEST(the_activations_result_is_not_read) {
  Maker maker(3);
  for (const Case& c : all_cases(maker)) {
    const FusedWork view = c.knows.view();
    const auto l = FusedRowsLaunch::of(view, kProcessors);
    EXPECT(l.has_value());
    EXPECT(l->args().in[0] && l->args().in[1] && !l->args().in[2]);
    EXPECT(l->form().lies[2] == cuda::InputLies::Normal);
    const std::string text = l->source().text;
    EXPECT(text.find("(args, 0, place)") != std::string::npos);
    EXPECT(text.find("(args, 2, place)") == std::string::npos);
    // Another kernel than the one that reads it.
    const FusedWork other = c.reads.view();
    EXPECT(FusedRowsLaunch::of(other, kProcessors)->key() != l->key());
  }
}

TEST(kernels_that_do_not_read_it_compile) {
  if (!cuda::nvrtc_missing().empty()) {
    std::cout << "not tested: " << cuda::nvrtc_missing() << "\n";
    return;
  }
  Maker maker(4);
  Sources sources;
  for (const Case& c : all_cases(maker)) {
    const FusedWork view = c.knows.view();
    sources.add(FusedRowsLaunch::of(view, kProcessors)->source());
  }
  const auto done = cuda::compile_source("fused.cu", sources.text, sources.expressions, 90);
  EXPECT(done.names.size() == sources.expressions.size() && !done.cubin.empty());
}

TEST(they_give_the_bits_of_those_that_read_it) {
  if (std::system("g++ --version > /dev/null 2>&1") != 0) {
    std::cout << "not tested: g++ is not here\n";
    return;
  }
  Maker maker(5);
  RowsOnCpu kernels;
  const std::vector<Case> cases = all_cases(maker);
  std::vector<std::array<size_t, 3>> numbers;
  for (const Case& c : cases)
    numbers.push_back({kernels.add(c.forward), kernels.add(c.reads), kernels.add(c.knows)});
  if (!kernels.compile()) return;
  int64_t nans = 0, zeros = 0, others = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& [forward, reads, knows] = cases[i];
    kernels.run(numbers[i][0], forward);
    kernels.run(numbers[i][1], reads);
    kernels.run(numbers[i][2], knows);
    for (size_t o = 0; o < reads.outputs.size(); ++o)
      EXPECT(same_bits(reads.outputs[o].out, knows.outputs[o].out));
    for (size_t b = 0; b < 3; ++b)
      if (reads.row->beside[b].defined())
        EXPECT(same_bits(reads.row->beside[b], knows.row->beside[b]));
    const Tensor wide = to(reads.inputs[2], DType::Float64, false, false, std::nullopt);
    nans += ones(ne(wide, wide));
    zeros += ones(eq(wide, wrap_number(Scalar(0))));
    others += ones(gt(wide, wrap_number(Scalar(0))));
  }
  EXPECT(nans > 0 && zeros > 0 && others > 0);  // all that a mask may meet
}
