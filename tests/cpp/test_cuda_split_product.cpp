// split_product_hopper.cu without a GPU: compiled by g++ and run on the CPU, with the tensor cores acted out, against
// plain loops in double.
#include "tensor_core_on_cpu.h"

#include "cuda/kernels/split_product_hopper.cu"

#include <limits>
#include <random>
#include <vector>

#include "testing.h"

using namespace rush;

namespace {

struct Problem {
  int m, n, k;
  bool left_by_rows, right_by_rows;
  int parts = 1, batches = 1;
  float alpha = 1, beta = 0;
  bool bias = false, relu = false;
  int row_step = 0;  // of out, 0: n
  int blocks = 2;
};

struct Outcome {
  std::vector<float> out;
  double worst = 0;  // |error| / sum of |a * b|
};

std::vector<float> random_floats(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& x : out) x = normal(random);
  return out;
}

Outcome run(const Problem& p, const std::vector<float>& a, const std::vector<float>& b) {
  const int row_step = p.row_step ? p.row_step : p.n;
  const std::vector<float> bias = random_floats(size_t(p.n), 3);
  const std::vector<float> before = random_floats(size_t(p.batches * p.m * row_step), 4);
  Outcome done{before};
  std::vector<float> parts(size_t(p.parts) * size_t(p.batches * p.m * p.n));
  SplitProductArgs args{};
  args.out = done.out.data(), args.a = a.data(), args.b = b.data();
  args.bias = p.bias ? bias.data() : nullptr;
  args.out_row = row_step, args.out_batch = p.m * row_step;
  args.a_step = p.left_by_rows ? p.k : p.m, args.a_batch = p.m * p.k;
  args.b_step = p.right_by_rows ? p.n : p.k, args.b_batch = p.k * p.n;
  args.parts = p.parts > 1 ? parts.data() : nullptr;
  args.m = p.m, args.n = p.n, args.k = p.k, args.relu = p.relu;
  args.part = ((p.k + p.parts - 1) / p.parts + 31) / 32 * 32, args.parts_of_k = p.parts;
  args.row_tiles = (p.m + kSplitRows - 1) / kSplitRows;
  args.column_tiles = (p.n + kSplitColumns - 1) / kSplitColumns;
  args.alpha = p.alpha, args.beta = p.beta;
  const auto kernel = p.left_by_rows ? (p.right_by_rows ? piece_product<true, RightByRows>
                                                        : piece_product<true, RightByColumns>)
                                     : (p.right_by_rows ? piece_product<false, RightByRows>
                                                        : piece_product<false, RightByColumns>);
  args.batches = p.batches, args.units = args.row_tiles * args.column_tiles * p.parts * p.batches;
  launch_together({unsigned(std::min(p.blocks, args.units))}, {kThreads}, kernel, args);
  if (args.parts) launch({2}, {kThreads}, join_parts, args);

  for (int batch = 0; batch < p.batches; ++batch) {
    for (int i = 0; i < p.m; ++i) {
      for (int j = 0; j < p.n; ++j) {
        double sum = 0, size = 0;
        for (int k = 0; k < p.k; ++k) {
          const double x =
              a[size_t(batch * p.m * p.k + (p.left_by_rows ? i * p.k + k : k * p.m + i))];
          const double y =
              b[size_t(batch * p.k * p.n + (p.right_by_rows ? k * p.n + j : j * p.k + k))];
          sum += x * y, size += std::fabs(x * y);
        }
        const size_t place = size_t(batch * p.m * row_step + i * row_step + j);
        double want = p.alpha * sum + (p.beta != 0 ? p.beta * double(before[place]) : 0);
        if (p.bias) want += bias[size_t(j)];
        if (p.relu) want = std::max(want, 0.0);
        const double error = std::fabs(done.out[place] - want) / (size + std::fabs(want));
        if (!(error <= done.worst)) done.worst = error;  // NaN is worse than all
      }
    }
  }
  return done;
}

Outcome run(const Problem& p) {
  return run(p, random_floats(size_t(p.batches * p.m * p.k), 1),
             random_floats(size_t(p.batches * p.k * p.n), 2));
}

constexpr double kFloat = 0x1p-23;  // one bfloat16 piece less makes errors of 2^-17

}  // namespace

TEST(every_layout) {
  for (const bool left : {true, false})
    for (const bool right : {true, false}) EXPECT(run({128, 128, 64, left, right}).worst < kFloat);
}
TEST(edges_of_rows_columns_and_depth) {
  EXPECT(run({132, 36, 100, true, false}).worst < kFloat);
  EXPECT(run({60, 140, 36, true, true}).worst < kFloat);
  EXPECT(run({136, 52, 31, false, true}).worst < kFloat);
  EXPECT(run({64, 131, 160, false, false}).worst < kFloat);
  EXPECT(run({33, 97, 96, true, false}).worst < kFloat);
}
TEST(tiles_of_several_groups) {
  EXPECT(run({1160, 132, 32, true, false}).worst < kFloat);
  for (const int blocks : {1, 3, 20}) {
    Problem p{1160, 132, 36, true, false};
    p.blocks = blocks;
    EXPECT(run(p).worst < kFloat);
  }
}
TEST(parts_of_k_are_joined) {
  EXPECT(run({40, 44, 320, true, false, 3}).worst < kFloat);
  EXPECT(run({40, 44, 320, false, true, 2, 2, 0.5f, -2, true, true}).worst < kFloat);
}
TEST(what_follows_the_sum) {
  EXPECT(run({128, 256, 32, true, false, 1, 1, 2, 0, true, true}).worst <
         kFloat);  // whole tiles, in pairs
  EXPECT(run({128, 128, 32, true, true, 1, 1, 1, -1, false, false, 130}).worst < kFloat);
  EXPECT(run({128, 128, 32, true, true, 1, 1, 1, 0, true, false, 131}).worst < kFloat);
  const Outcome done = run({40, 44, 64, true, true, 1, 2, -1.5f, 0.25f, true, true, 47});
  EXPECT(done.worst < kFloat);
  EXPECT(*std::min_element(done.out.begin(), done.out.begin() + 44) == 0.0f);
}
TEST(sizes_far_apart) {  // small numbers beside large ones keep their bits
  std::vector<float> a = random_floats(64 * 64, 5), b = random_floats(64 * 64, 6);
  std::mt19937 random(7);
  for (std::vector<float>* v : {&a, &b})
    for (float& x : *v) x = std::ldexp(x, int(random() % 80) - 40);
  EXPECT(run({64, 64, 64, true, true}, a, b).worst < kFloat);
}
TEST(the_smallest_and_the_largest_numbers) {
  std::vector<float> a = random_floats(64 * 64, 5), b = random_floats(64 * 64, 6);
  for (float& x : a) x *= 1e-41f;  // of which few bits are left
  for (float& x : b) x *= 1e30f;
  EXPECT(run({64, 64, 64, true, true}, a, b).worst < kFloat);
  for (float& x : a) x = x * 1e38f * 100;  // sums of 1e30
  EXPECT(run({64, 64, 64, true, true}, a, b).worst < 10 * kFloat);
}
TEST(what_has_no_pieces_is_computed_in_float32) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> a = random_floats(160 * 64, 8), b = random_floats(64 * 64, 9);
  for (int k = 0; k < 64; ++k) b[size_t(k * 64 + 5)] = 1;  // whose pieces are 1, 0 and 0
  a[3 * 64 + 7] = kInfinity, a[9 * 64 + 8] = std::nanf(""), a[140 * 64 + 9] = 3.4e38f;
  b[9 * 64 + 5] = 0.5f;
  const Outcome done = run({160, 64, 64, true, true}, a, b);
  EXPECT(done.out[3 * 64 + 5] == kInfinity);
  EXPECT(std::isnan(done.out[9 * 64 + 5]) && std::isnan(done.out[9 * 64]));
  EXPECT(std::fabs(done.out[140 * 64 + 5] - 1.7e38f) < 1e32f);
  EXPECT(std::isfinite(done.out[4 * 64 + 5]));
}
