// The kernels of steps over rows with pointwise steps around them: compiled by NVRTC, run here
// compiled by g++, and on a GPU.
#include <algorithm>
#include <cstring>

#include "cuda/runtime/device.h"
#include "fused_rows_on_cpu.h"

using namespace fused_works;

namespace {

constexpr RowOp kRowOps[] = {RowOp::Norm,       RowOp::NormBackward,    RowOp::Softmax,
                             RowOp::LogSoftmax, RowOp::SoftmaxBackward, RowOp::LogSoftmaxBackward};
constexpr DType kRowTypes[] = {DType::Float32, DType::BFloat16, DType::Float64, DType::Float16};

// A step over rows alone, of tensors that are known.
OwnedWork row_alone(const OwnedWork& work, const std::vector<Tensor>& values) {
  OwnedWork out{work.sizes, {}, {}, {}, work.strides, work.device};
  for (FusedStep s : work.steps) {
    if (!s.row) continue;
    for (int i = 0; i < s.operand_count(); ++i) {
      out.inputs.push_back(values[s.operands[size_t(i)]]);
      s.operands[size_t(i)] = uint16_t(i);
    }
    out.steps.push_back(s);
  }
  give_row(out, *work.row);
  out.add_output(0);
  return out;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return !a.defined() || std::memcmp(a.data(), b.data(), size_t(a.nbytes())) == 0;
}

Dims shape_for(RowOp fn, int i) {
  if (fn == RowOp::NormBackward) return Dims{5, i % 2 ? 520 : 768};
  constexpr int64_t widths[] = {64, 40, 7, 300, 512};
  return Dims{2, 3, widths[i % 5]};
}

// Rows for six kinds, then images by groups, and by channels.
constexpr RowOp kImageOps[] = {RowOp::Groups, RowOp::GroupsBackward, RowOp::Channels,
                               RowOp::ChannelsBackward, RowOp::ChannelSums};
constexpr int kKinds = 11;
OwnedWork some_work(Maker& maker, int i, DType type) {
  const int kind = i % kKinds;
  if (kind < 6) return maker.rows_work(shape_for(kRowOps[kind], i), type, kRowOps[kind]);
  const RowOp fn = kImageOps[kind - 6];
  const Dims sizes{2, i % (2 * kKinds) < kKinds ? 24 : 6, 5, 7};
  return kind < 8 ? maker.groups_work(sizes, 3, type, fn) : maker.channels_work(sizes, type, fn);
}

}  // namespace

TEST(works_over_rows_compile) {
  if (!cuda::nvrtc_missing().empty()) {
    std::cout << "not tested: " << cuda::nvrtc_missing() << "\n";
    return;
  }
  Maker maker(5);
  Sources sources;
  for (int i = 0; i < kKinds; ++i) {
    const OwnedWork work = some_work(maker, i, kRowTypes[i % int(std::size(kRowTypes))]);
    const FusedWork view = work.view();
    const auto l = FusedRowsLaunch::of(view, kProcessors);
    EXPECT(l.has_value());
    sources.add(l->source());
  }
  const auto done = cuda::compile_source("fused.cu", sources.text, sources.expressions, 90);
  EXPECT(done.names.size() == sources.expressions.size() && !done.cubin.empty());
}

// The pointwise steps are held to the CPU's loops, which g++ compiles to the same arithmetic where
// nothing is transcendental; the step over rows to its kernel by itself.
TEST(generated_kernels_over_rows_run_on_the_cpu) {
  if (std::system("g++ --version > /dev/null 2>&1") != 0) {
    std::cout << "not tested: g++ is not here\n";
    return;
  }
  Maker maker(17);
  RowsOnCpu kernels;
  struct Case {
    OwnedWork whole, alone;
    std::vector<Tensor> values;
    size_t before, numbers[2];
  };
  std::vector<Case> cases;
  for (int i = 0; i < 2 * kKinds; ++i) {
    Case c{some_work(maker, i, i % 3 ? DType::Float32 : DType::Float64), {}, {}, 0, {}};
    for (FusedStep& s : c.whole.steps)
      if (s.kind == Kind::Unary) s.fn = uint16_t(UnaryFn::Neg);
    c.values = c.whole.inputs;
    for (const FusedStep& s : c.whole.steps) {
      if (s.row) c.before = c.values.size();
      c.values.push_back(c.whole.fresh(s.result));
      if (!s.row && c.before == 0) run_one(s, c.values, c.values.back());
    }
    c.alone = row_alone(c.whole, c.values);
    c.values[c.before] = c.alone.outputs[0].out;
    c.numbers[0] = kernels.add(c.alone);
    c.numbers[1] = kernels.add(c.whole);
    cases.push_back(std::move(c));
  }
  if (!kernels.compile()) return;
  for (const Case& c : cases) {
    const Tensor sums = kernels.run(c.numbers[0], c.alone);
    const size_t inputs = c.whole.inputs.size();
    for (size_t v = c.before + 1; v < c.values.size(); ++v)
      run_one(c.whole.steps[v - inputs], c.values, c.values[v]);
    EXPECT(same_bytes(sums, kernels.run(c.numbers[1], c.whole)));
    for (const FusedOutput& o : c.whole.outputs) {
      const bool same = same_but_for_kinds_of_nan(o.out, c.values[inputs + o.step]);
      EXPECT(same);
      if (!same) std::cerr << "step " << o.step << ": " << c.whole.describe() << "\n";
    }
    for (size_t i = 0; sums.defined() ? false : i < 3; ++i) {
      if (c.whole.row->beside[i].defined())
        EXPECT(same_but_for_kinds_of_nan(c.whole.row->beside[i], c.alone.row->beside[i]));
    }
  }
}

// FUSED_ROW_WORKS says how many, and FUSED_SEED which.
TEST(random_works_over_rows_on_a_gpu) {
  if (cuda::device_count() == 0) {
    std::cout << "not tested: " << cuda::why_unavailable() << "\n";
    return;
  }
  const auto number = [](const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text ? std::atoi(text) : otherwise;
  };
  Maker maker(unsigned(number("FUSED_SEED", 21)));
  constexpr int64_t widths[] = {768, 64, 1024, 7, 300, 513, 2048, 4096, 1030, 520};
  for (int i = 0; i < number("FUSED_ROW_WORKS", 40); ++i) {
    const RowOp fn = kRowOps[maker.below(6)];
    const int64_t rows = maker.chance(0.3) ? 4000 : 1 + maker.below(200);
    const Dims sizes{rows, widths[maker.below(int(std::size(widths)))]};
    const OwnedWork here = maker.rows_work(sizes, kRowTypes[maker.below(4)], fn);
    const OwnedWork work = moved(here, Device{DeviceType::CUDA, 0});
    OwnedWork single = moved(work, work.device);
    const std::vector<Tensor> want = one_by_one(single);
    if (!fused_loops(DeviceType::CUDA).run(work.view())) {
      EXPECT(fn == RowOp::NormBackward);  // some are left to several kernels
      continue;
    }
    const auto check = [&](const Tensor& got, const Tensor& right, const char* what) {
      const bool same = same_but_for_kinds_of_nan(to(got, Device{}), to(right, Device{}));
      EXPECT(same);
      if (!same) std::cerr << what << " of " << sizes << ": " << work.describe() << "\n";
    };
    for (const FusedOutput& o : work.outputs) check(o.out, want[o.step], "a result");
    for (size_t b = 0; b < 2; ++b) {
      if (work.row->beside[b].defined() && !(b == 0 && fn == RowOp::Norm && !work.row->centred))
        check(work.row->beside[b], single.row->beside[b], "what is beside it");
    }
  }
}
