// Joins in compiled functions: from the queue of deferred steps to the kernels that a GPU would run,
// which g++ compiles here. Only the driver is missing.
#include <algorithm>
#include <functional>

#include "core/modes.h"
#include "device/deferred.h"
#include "fused_on_cpu.h"
#include "ops/framework/operators.h"

using namespace fused_works;

namespace {

using Program = std::function<std::vector<Tensor>()>;

OnCpu* g_kernels = nullptr;
bool g_compiled = false;
int g_joins = 0, g_ran = 0;

// In place of the CPU's: the first time kernels are noted, and steps run one by one; then they run.
bool run_by_kernels(const FusedWork& work) {
  if (std::ranges::any_of(work.steps, [](const FusedStep& s) { return s.row != nullptr; }))
    return false;
  const size_t number = g_kernels->add(work, FusedLaunch(work).form());
  if (!g_compiled) {
    g_joins += work.join != nullptr;
    return false;
  }
  g_kernels->run(number, work);
  ++g_ran;
  return true;
}

std::vector<Tensor> deferred_results(const Program& program) {
  const ModeGuard deferring(kDefer, true);
  std::vector<Tensor> results = program();
  deferred::flush("the test ends");
  return results;
}

// What it is about: halves that are exchanged and turned.
Tensor turned(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const int64_t half = x.sizes().back() / 2;
  const Tensor a = slice(x, -1, 0, half, 1), b = slice(x, -1, half, 2 * half, 1);
  const std::vector<Tensor> parts{-b, a};
  return x * cos + cat(parts, -1) * sin;
}

Tensor cat2(const Tensor& a, const Tensor& b, int64_t dim) {
  const std::vector<Tensor> both{a, b};
  return cat(both, dim);
}

}  // namespace

TEST(joins_in_compiled_functions) {
  if (std::system("g++ --version > /dev/null 2>&1") != 0) return;
  Maker maker(41);
  const auto values = [&](const Dims& sizes) { return maker.values(sizes, DType::Float32); };
  const Tensor x = values({6, 5, 16}), y = values({6, 5, 16}), row = values({16});
  const Tensor narrow = values({6, 5, 4}), wide = values({6, 5, 20});
  const Tensor swapped = transpose(values({5, 6, 16}), 0, 1), one = values({1});
  const Tensor half = to(values({3, 64}), DType::BFloat16);
  const Tensor cos = to(values({64}), DType::BFloat16), sin = to(values({64}), DType::BFloat16);
  // The second number is how many joins are part of a pass.
  const std::pair<Program, int> programs[] = {
      {[&] { return std::vector{turned(x, row, y)}; }, 1},
      {[&] { return std::vector{turned(half, cos, sin)}; }, 1},
      {[&] { return std::vector{turned(swapped, row, y)}; }, 1},
      // One tensor in both parts; of two joins only one is in a pass.
      {[&] { return std::vector{cat2(x, x, 0) * 2 + 1}; }, 1},
      {[&] { return std::vector{cat2(-x, abs(x), 1) + cat2(x, y, 1)}; }, 1},
      // Parts that are computed in several steps, with numbers and what broadcasts.
      {[&] { return std::vector{abs(cat2((x * row + 1) * one, narrow, 2)) * wide}; }, 1},
      {[&] { return std::vector{cat2(narrow, abs(x) * -y, -1) - wide}; }, 1},
      // Packs would hold elements of both parts.
      {[&] { return std::vector{cat2(slice(x, 2, 0, 6, 1), expand(one, Dims{6, 5, 10}), 2) * y}; },
       1},
      // A part that somebody else wants, too, and one that two steps read.
      {[&] {
         const Tensor part = -x;
         return std::vector{part, cat2(part, narrow, 2) * wide};
       },
       1},
      {[&] {
         const Tensor part = -narrow;
         return std::vector{cat2(part, x, 2) * wide, cat2(part * 2, part, 2) + 1};
       },
       2},
      // Joins of joins.
      {[&] { return std::vector{cat2(cat2(-x, narrow, 2) * 2, -x, 2) + 1}; }, 2},
      // Before a step that is no join's, and kept itself.
      {[&] {
         const Tensor both = cat2(-narrow, x, 2);
         return std::vector{both, softmax_as(both, -1), both * wide};
       },
       1},
      // Nothing to join with: cat's own kernel does it.
      {[&] { return std::vector{cat2(x, y, 1)}; }, 0},
      {[&] { return std::vector{matmul(cat2(x, narrow, 2), transpose(wide, 1, 2))}; }, 0},
  };
  std::vector<std::vector<Tensor>> eager;
  for (const auto& [program, joins] : programs) eager.push_back(program());

  deferred::settings().least_elements = 0;
  FusedLoops& loops = fused_loops(DeviceType::CPU);
  const FusedLoops before = loops;
  loops.run = run_by_kernels;
  loops.joins = true;
  OnCpu kernels;
  g_kernels = &kernels;
  const auto check = [&](size_t i, const std::vector<Tensor>& got) {
    for (size_t k = 0; k < got.size(); ++k) {
      const bool same = got[k].strides() == eager[i][k].strides() &&
                        same_but_for_kinds_of_nan(got[k], eager[i][k]);
      EXPECT(same);
      if (!same) std::cerr << "result " << k << " of program " << i << "\n";
    }
  };
  for (size_t i = 0; i < std::size(programs); ++i) {
    g_joins = 0;
    check(i, deferred_results(programs[i].first));
    EXPECT(g_joins == programs[i].second);
    if (g_joins != programs[i].second)
      std::cerr << "program " << i << ": " << g_joins << " joins\n";
  }
  g_compiled = kernels.compile();
  EXPECT(g_compiled);
  for (size_t i = 0; g_compiled && i < std::size(programs); ++i)
    check(i, deferred_results(programs[i].first));
  EXPECT(g_ran >= 11);
  loops = before;
}

// What a queue reads is written to: the join has run before.
TEST(joins_see_no_later_writes) {
  FusedLoops& loops = fused_loops(DeviceType::CPU);
  const FusedLoops before = loops;
  loops.joins = true;
  loops.run = nullptr;
  deferred::settings().least_elements = 0;
  Maker maker(42);
  const Tensor x = maker.values(Dims{4, 6}, DType::Float32), kept = clone(x);
  const std::vector<Tensor> got = deferred_results([&] {
    const Tensor joined = cat2(-slice(x, 1, 3, 6, 1), slice(x, 1, 0, 3, 1), 1);
    fill_(x, wrap_number(7));
    return std::vector{joined * 2};
  });
  const Tensor want = cat2(-slice(kept, 1, 3, 6, 1), slice(kept, 1, 0, 3, 1), 1) * 2;
  EXPECT(equal(got[0], want));
  loops = before;
}
