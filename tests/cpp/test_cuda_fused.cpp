// The kernels of fused steps, without a GPU: compiled by NVRTC, and run here, compiled by g++.
#include <algorithm>
#include <cstring>
#include <map>

#include "cuda/runtime/device.h"
#include "fused_on_cpu.h"
#include "ops/framework/operators.h"

using namespace fused_works;
using cuda::FusedForm;

namespace {

bool has_compiler() {
  const bool found = cuda::nvrtc_missing().empty();
  if (!found) std::cout << "not tested: " << cuda::nvrtc_missing() << "\n";
  return found;
}

std::vector<Function> functions() {
  std::vector<Function> all = all_functions();
  std::erase_if(all, [](const Function& f) { return !can_be_fused(f); });
  return all;
}

// How often an instruction of sm_90 stands in a cubin: the lower nine bits of each 16 bytes.
constexpr unsigned kMultiply = 0x020, kAdd = 0x021, kContracted = 0x023;
std::map<unsigned, int> instructions(const std::string& cubin) {
  const auto at = [&]<class T>(size_t offset, T) {
    T value;
    std::memcpy(&value, cubin.data() + offset, sizeof value);
    return value;
  };
  std::map<unsigned, int> counts;
  const size_t table = at(0x28, uint64_t()), entry = at(0x3a, uint16_t());
  const size_t entries = at(0x3c, uint16_t()), names = at(0x3e, uint16_t());
  const size_t text = at(table + names * entry + 0x18, uint64_t());
  for (size_t i = 0; i < entries; ++i) {
    const size_t section = table + i * entry;
    if (std::strncmp(cubin.data() + text + at(section, uint32_t()), ".text.", 6) != 0) continue;
    const size_t begin = at(section + 0x18, uint64_t()), size = at(section + 0x20, uint64_t());
    for (size_t o = begin; o < begin + size; o += 16) ++counts[at(o, uint32_t()) & 0x1ff];
  }
  return counts;
}

std::map<unsigned, int> instructions_of(std::vector<FusedStep> steps, size_t inputs) {
  OwnedWork work{.sizes = {8}, .inputs = {}, .steps = steps, .outputs = {}, .strides = {1}};
  for (size_t i = 0; i < inputs; ++i) work.inputs.push_back(make_tensor(Dims{8}, DType::Float32));
  work.add_output(steps.size() - 1);
  const FusedWork view = work.view();
  const GeneratedSource source = cuda::fused_source(view, FusedLaunch(view).form());
  return instructions(
      cuda::compile_source("fused.cu", source.text, std::span(&source.expression, 1), 90).cubin);
}

}  // namespace

// See Note [Steps that stay apart] in cuda/kernels/fused.h.
TEST(nothing_is_contracted_across_steps) {
  if (!has_compiler()) return;
  auto counts = instructions_of({binary(BinaryFn::Mul, 0, 1), binary(BinaryFn::Add, 3, 2)}, 3);
  EXPECT(counts[kContracted] == 0);
  EXPECT(counts[kMultiply] > 0 && counts[kAdd] > 0);
  // One functor that says the same is contracted: the instruction is known when it is seen.
  FusedStep both{.kind = Kind::Ternary,
                 .params_count = 1,
                 .fn = uint16_t(TernaryFn::Addcmul),
                 .compute = DType::Float32,
                 .result = DType::Float32,
                 .operands = {2, 0, 1},
                 .params = {Scalar(2.0)}};
  EXPECT(instructions_of({both}, 3)[kContracted] > 0);
}

TEST(random_works_compile) {
  if (!has_compiler()) return;
  Maker maker(3);
  std::vector<Function> left = functions();
  std::shuffle(left.begin(), left.end(), std::mt19937(4));
  const Dims shapes[] = {{4096}, {5, 7, 300}, {33, 64}, {1}, {2, 3, 4, 5, 6}};
  Sources sources;
  for (int i = 0; i < 12; ++i) {
    const size_t count = std::min(left.size(), size_t(1 + maker.below(16)));
    sources.add(maker.work(shapes[size_t(i) % std::size(shapes)], std::span(left).last(count)));
    left.resize(left.size() - count);
  }
  const auto done = cuda::compile_source("fused.cu", sources.text, sources.expressions, 90);
  EXPECT(done.names.size() == 12 && !done.cubin.empty());
}

namespace {

// A work, and its steps as works of their own.
struct Case {
  OwnedWork whole;
  std::vector<OwnedWork> single;
  std::vector<size_t> numbers;  // of kernels, the whole one's last

  Case(OwnedWork work, OnCpu& kernels) : whole(std::move(work)) {
    std::vector<Tensor> values = whole.inputs;
    for (const FusedStep& s : whole.steps) {
      OwnedWork one{whole.sizes, {}, {s}, {}, whole.strides};
      for (int i = 0; i < s.operand_count(); ++i) {
        one.inputs.push_back(values[s.operands[size_t(i)]]);
        one.steps[0].operands[size_t(i)] = uint16_t(i);
      }
      one.add_output(0);
      values.push_back(one.outputs[0].out);
      numbers.push_back(add(one, kernels));
      single.push_back(std::move(one));
    }
    numbers.push_back(add(whole, kernels));
  }
  static size_t add(const OwnedWork& work, OnCpu& kernels) {
    const FusedWork view = work.view();
    return kernels.add(view, FusedLaunch(view).form());
  }

  bool agrees(const OnCpu& kernels) const {
    for (size_t s = 0; s < single.size(); ++s) kernels.run(numbers[s], single[s].view());
    std::vector<Tensor> want;
    for (const OwnedWork& one : single) want.push_back(one.outputs[0].out);
    return gives(kernels, want);
  }
  bool gives(const OnCpu& kernels, const std::vector<Tensor>& want) const {
    kernels.run(numbers.back(), whole.view());
    for (const FusedOutput& o : whole.outputs) {
      if (same_but_for_kinds_of_nan(o.out, want[o.step])) continue;
      std::cerr << "step " << o.step << " of " << whole.sizes << ": " << whole.describe() << "\n";
      return false;
    }
    return true;
  }
};

// An input of more dims than a kernel takes, none of which lie end to end in the outputs.
OwnedWork turned_work(Maker& maker) {
  Dims sizes;
  for (int d = 0; d < 10; ++d) sizes.push_back(2);
  const Tensor x = maker.values(sizes, DType::Int32);
  Dims strides = x.strides();
  OwnedWork work{sizes, {x}, {binary(BinaryFn::Mul, 0, 1, DType::Int32)}, {}, x.strides()};
  std::reverse(strides.begin(), strides.end());
  work.inputs.push_back(x.alias(sizes, strides, 0));
  work.add_output(0);
  return work;
}

}  // namespace

// What must come out say the CPU's loops where arithmetic is exact, which is among integers, and
// else the kernels of the single steps.
TEST(generated_kernels_run_on_the_cpu) {
  if (std::system("g++ --version > /dev/null 2>&1") != 0) {
    std::cout << "not tested: g++ is not here\n";
    return;
  }
  Maker maker(11);
  std::vector<Function> all = functions(), whole_numbers;
  std::shuffle(all.begin(), all.end(), std::mt19937(12));
  for (const Function& f : all)
    if (category(f.type) <= Category::Integer) whole_numbers.push_back(f);
  const Dims shapes[] = {{1030}, {6, 64}, {5, 7, 9}, {}, {3, 4, 5, 8}, {2, 1, 2, 2, 1, 2, 3, 2}};
  OnCpu kernels;
  std::vector<Case> cases, exact;
  for (size_t i = 0; i < 24; ++i) {
    const Dims& sizes = shapes[i % std::size(shapes)];
    const size_t count = 1 + size_t(maker.below(5));
    cases.emplace_back(maker.work(sizes, std::span(all).subspan(i * 5, count)), kernels);
    exact.emplace_back(maker.work(sizes, std::span(whole_numbers).subspan(i * 5, count)), kernels);
  }
  exact.emplace_back(turned_work(maker), kernels);
  const bool compiled = kernels.compile();
  EXPECT(compiled);
  if (!compiled) return;
  for (const Case& c : cases) EXPECT(c.agrees(kernels));
  for (const Case& c : exact) EXPECT(c.gives(kernels, one_by_one(c.whole)));
}

namespace {

// x * cos + cat(-second, first) * sin, as rotary embeddings are written, and what it gives. The parts
// are views of one tensor, in any order of dims, or broadcast.
struct Turned {
  OwnedWork work;
  Tensor want;

  Turned(Maker& maker, Dims sizes, size_t dim, int64_t second, DType type, bool transposed) {
    Tensor x = maker.values(sizes, type);
    if (transposed) x = transpose(contiguous(transpose(x, 0, -1)), 0, -1);
    const auto d = int64_t(dim);
    const Tensor first = slice(x, d, sizes[dim] - second, sizes[dim], 1);
    Tensor last = slice(x, d, 0, sizes[dim] - second, 1);
    if (transposed && dim > 0) last = slice(last, 0, 0, 1, 1);  // of one row: it broadcasts
    const Tensor cos = maker.values(Dims{sizes.back()}, type), sin = maker.values(sizes, type);
    work = OwnedWork{
        .sizes = sizes,
        .inputs = {first, last, x, cos, sin},
        .steps = {unary(UnaryFn::Neg, 0, type),
                  {.kind = Kind::Join, .compute = type, .result = type, .operands = {5, 1}},
                  binary(BinaryFn::Mul, 2, 3, type),
                  binary(BinaryFn::Mul, 6, 4, type),
                  binary(BinaryFn::Add, 7, 8, type)},
        .outputs = {},
        .strides = contiguous_strides(sizes),
        .join = FusedJoin{.dim = int(dim), .second = second, .part = {1, 2}}};
    work.add_output(1);
    work.add_output(4);
    Dims whole = sizes;
    whole[dim] -= second;
    const std::vector<Tensor> parts = {-first, expand(last, whole)};
    want = contiguous(x * cos + cat(parts, d) * sin);
  }
};

}  // namespace

TEST(joins_run_on_the_cpu) {
  if (std::system("g++ --version > /dev/null 2>&1") != 0) return;
  Maker maker(31);
  OnCpu kernels;
  std::vector<Turned> all;
  std::vector<size_t> numbers;
  const auto add = [&](Dims sizes, size_t dim, int64_t second, DType type, bool transposed) {
    all.emplace_back(maker, sizes, dim, second, type, transposed);
    const FusedWork view = all.back().work.view();
    numbers.push_back(kernels.add(view, FusedLaunch(view).form()));
  };
  for (const DType type : {DType::Float32, DType::BFloat16, DType::Float64}) {
    add({3, 2, 64}, 2, 32, type, false);  // whole packs
    add({3, 2, 10}, 2, 3, type, false);
    add({5, 4, 16}, 1, 1, type, false);  // not the innermost dim
    add({6, 40}, 0, 2, type, false);
    add({12, 3, 24}, 2, 8, type, true);
    add({9}, 0, 4, type, false);
    add({2, 2, 2, 2, 2, 2, 2, 2, 2, 6}, 9, 2, type, true);  // of more dims than a kernel takes
    add({2, 2, 2, 2, 2, 2, 2, 2, 2, 6}, 0, 1, type, true);
  }
  const bool compiled = kernels.compile();
  EXPECT(compiled);
  if (!compiled) return;
  for (size_t i = 0; i < all.size(); ++i) {
    kernels.run(numbers[i], all[i].work.view());
    const bool same = same_but_for_kinds_of_nan(all[i].work.outputs[1].out, all[i].want);
    EXPECT(same);
    if (!same)
      std::cerr << "a join of " << all[i].work.sizes << " along " << all[i].work.join->dim << "\n";
  }
}

// FUSED_WORKS says how many, and FUSED_SEED which.
TEST(random_works_on_a_gpu) {
  if (cuda::device_count() == 0) {
    std::cout << "not tested: " << cuda::why_unavailable() << "\n";
    return;
  }
  const auto number = [](const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text ? std::atoi(text) : otherwise;
  };
  const Device gpu{DeviceType::CUDA, 0};
  const auto seed = unsigned(number("FUSED_SEED", 21));
  Maker maker(seed);
  std::vector<Function> all = functions(), left;
  const Dims shapes[] = {{100003}, {6, 6400}, {5, 70, 90}, {}, {3, 40, 50, 8}, {2, 64, 30, 31}};
  for (int i = 0; i < number("FUSED_WORKS", 40); ++i) {
    if (left.size() < 12)
      std::shuffle(all.begin(), all.end(), std::mt19937(seed + unsigned(i))), left = all;
    const size_t count = 1 + size_t(maker.below(12));
    const OwnedWork here =
        maker.work(shapes[size_t(i) % std::size(shapes)], std::span(left).last(count));
    left.resize(left.size() - count);
    const OwnedWork work = moved(here, gpu);
    const std::vector<Tensor> want = one_by_one(work);
    const bool ran = fused_loops(DeviceType::CUDA).run(work.view());
    EXPECT(ran);
    for (const FusedOutput& o : work.outputs) {
      const Tensor got = to(o.out, Device{}), right = to(want[o.step], Device{});
      const bool same = same_but_for_kinds_of_nan(got, right);
      EXPECT(same);
      if (!same)
        std::cerr << "step " << o.step << " of " << work.sizes << ": " << work.describe() << "\n";
    }
  }
}
