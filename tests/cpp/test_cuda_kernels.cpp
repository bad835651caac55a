// The CUDA kernels' own sums, without a GPU: the .cu files compiled by g++ and run on the CPU.
#include "cuda_on_cpu.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "testing.h"

#include "cuda/kernels/cat.cu"
#include "cuda/kernels/copy.cu"
#include "cuda/kernels/index.cu"
#include "cuda/kernels/matmul.cu"
#include "cuda/kernels/pointwise.cu"
#include "cuda/kernels/random_exact.cu"
#include "cuda/kernels/reduce.cu"
#include "cuda/kernels/write_at.cu"
#include "cuda_kernels.h"

#define RUSH_ISA peer  // the CPU's random loops, to compare with
#include "cpu/kernels/random_exact.cpp"

using namespace rush;

TEST(divider) {
  for (u32 d : {1u, 2u, 3u, 7u, 10u, 641u, 65536u, 1000003u, 0x7fffffffu}) {
    const auto by = Divider<u32>::of(d);
    for (u32 n : {0u, 1u, d - 1, d, d < 0x40000000u ? 2 * d - 1 : d, 123456789u, 0x7fffffffu})
      EXPECT(by(n) == n / d);
  }
}

// 300 whole packs and 3 elements more; x comes as a number.
TEST(pointwise_flat) {
  const auto y = counted<half>(2403, 1000);
  std::vector<half> out(2403);
  PointwiseArgs<2> args{2403, out.data(), {nullptr, y.data()}, 0, 1, {real(0.5), {}}, {whole(2)}};
  launch({1}, kBlock, pointwise_flat<functors::AddAlpha<float>, 1, float, 8, half, half, half>,
         args);
  bool same = true;
  for (size_t i = 0; i < out.size(); ++i) same &= out[i].bits == half(0.5f + 2 * float(y[i])).bits;
  EXPECT(same);
}

// where(bool column, float transposed, one int) over 5 by 6, into double.
TEST(pointwise_strided) {
  const bool condition[5] = {true, false, true, true, false};
  const auto x = counted<float>(30);
  const i32 other = -4;
  std::vector<double> out(30);
  PointwiseArgs<3> args{30, out.data(), {condition, x.data(), &other}, 0, 0, {}, {}};
  launch({1}, kBlock, pointwise_strided<functors::Where, 0, float, u64, double, truth, float, i32>,
         args, nest_of<u64, 4>({{6, {1, 0, 5, 0}}, {5, {6, 1, 1, 0}}}));
  bool same = true;
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 6; ++j)
      same &= out[size_t(i * 6 + j)] == (condition[i] ? x[size_t(j * 5 + i)] : -4);
  EXPECT(same);
}

// A row and a column added to (6, 8), in packs; the column does not move along a row.
TEST(pointwise_rows) {
  const auto row = counted<float>(8), column = counted<float>(6, 50);
  std::vector<float> out(48);
  PointwiseArgs<2> args{12, out.data(), {row.data(), column.data()}, 0b10, 0, {}, {}};
  launch({1}, kBlock, pointwise_rows<functors::Add, 0, float, 4, float, float, float>, args,
         nest_of<u32, 3>({{2, {4, 4, 0}}, {6, {8, 0, 1}}}));
  bool same = true;
  for (size_t i = 0; i < 48; ++i) same &= out[i] == row[i % 8] + column[i / 8];
  EXPECT(same);
}

TEST(copies_and_fills) {
  const std::vector<float> x{1.9f, -1.0f, std::nanf(""), 300.0f, -0.0f};
  std::vector<u8> bytes(5);
  launch({1}, kBlock, copy_flat<u8, float, 4>, CopyArgs{5, bytes.data(), x.data()});
  EXPECT((bytes == std::vector<u8>{1, 255, 0, 44, 0}));
  std::vector<float> back(5);  // a negative stride
  launch({1}, kBlock, copy_strided<float, u8, u32>, CopyArgs{5, back.data() + 4, bytes.data()},
         nest_of<u32, 2>({{5, {-1, 1}}}));
  EXPECT((back == std::vector<float>{0, 44, 0, 255, 1}));
  std::vector<complex<float>> z(5);
  launch({1}, kBlock, fill_flat<complex<float>, 2>, FillArgs{5, z.data(), {1, 2, 0, false}});
  EXPECT(z[4].re == 1 && z[4].im == 2);
  launch({1}, kBlock, fill_strided<bfloat16, u32>, FillArgs{2, bytes.data(), whole(3)},
         nest_of<u32, 1>({{2, {1}}}));
  EXPECT(bytes[0] == 0x40 && bytes[1] == 0x40);
}

TEST(copy_transposed) {
  const auto x = counted<u32>(2 * 45 * 70);
  std::vector<u32> out(x.size());
  const TransposeArgs args{out.data(), x.data(), 2, 45, 70, 70, 45 * 70, 45, 45 * 70};
  launch_together({3, 2, 1}, kBlock, rush::copy_transposed<u32>, args);
  bool same = true;
  for (size_t b = 0; b < 2; ++b)
    for (size_t i = 0; i < 45; ++i)
      for (size_t j = 0; j < 70; ++j)
        same &= out[b * 3150 + i * 70 + j] == x[b * 3150 + j * 45 + i];
  EXPECT(same);
}

// (2, wide, 9) to (2, 9, wide) and back: more than one run, the last one short.
template <class W, int V>
void expect_narrow_copies(size_t wide) {
  const size_t few = 9, image = wide * few;
  const auto x = counted<u16>(2 * image);
  std::vector<W> from(x.begin(), x.end()), out(x.size()), back(x.size());
  const size_t run = size_t(narrow_run(sizeof(W)));
  const Dim3 grid{unsigned((wide + run - 1) / run), 1, 2};
  launch_together(grid, kBlock, rush::copy_narrow<W, true, V>,
                  TransposeArgs{out.data(), from.data(), 2, i64(few), i64(wide), i64(wide),
                                i64(image), i64(few), i64(image)});
  bool same = true;
  for (size_t b = 0; b < 2; ++b)
    for (size_t i = 0; i < few; ++i)
      for (size_t j = 0; j < wide; ++j)
        same &= out[b * image + i * wide + j] == from[b * image + j * few + i];
  EXPECT(same);
  launch_together(grid, kBlock, rush::copy_narrow<W, false, V>,
                  TransposeArgs{back.data(), out.data(), 2, i64(wide), i64(few), i64(few),
                                i64(image), i64(wide), i64(image)});
  EXPECT(back == from);
}

TEST(copy_narrow) {
  expect_narrow_copies<u16, 1>(515);
  expect_narrow_copies<u16, 8>(520);
  expect_narrow_copies<u32, 1>(150);
  expect_narrow_copies<u32, 4>(260);
  expect_narrow_copies<u32, 4>(1032);
}

TEST(cat_along_the_middle) {
  const std::vector<u16> a{1, 2, 0, 3, 4, 0}, b{5, 6};  // a's stretches are three apart
  std::vector<u16> out(6);
  CatArgs args{};
  args.out = out.data(), args.outer = 2, args.out_run = 3;
  args.in[0] = a.data(), args.run[0] = 2, args.step[0] = 3, args.by_run[0] = Divider<u32>::of(2);
  args.in[1] = b.data(), args.run[1] = args.step[1] = 1, args.place[1] = 2;
  args.by_run[1] = Divider<u32>::of(1);
  launch({1, 2}, kBlock, cat<u16, u32>, args);
  EXPECT((out == std::vector<u16>{1, 2, 5, 3, 4, 6}));
  out.assign(6, 0);
  launch({1, 2}, kBlock, cat<u16, u64>, args);
  EXPECT((out == std::vector<u16>{1, 2, 5, 3, 4, 6}));
}

// (7, 300) summed along memory, across it, and whole in segments.
TEST(sums) {
  const auto x = counted<float>(2100, 1000);
  std::vector<double> rows(7), columns(300);
  double total = 0;
  for (size_t i = 0; i < x.size(); ++i)
    rows[i / 300] += x[i], columns[i % 300] += x[i], total += x[i];

  std::vector<float> out(300);
  ReduceArgs args{x.data(), out.data(), nullptr, nullptr, 7, 300, 300, 1, 300};
  using S = folds::Sum<float>;
  using M = folds::Mean<float>;
  const auto kept = nest_of<u32, 3>({{7, {300, 1, 0}}});
  launch_together({2}, {64, 4}, reduce<S, float, float, u32, 4, false>, args, kept,
                  nest_of<u32, 1>({{300, {1}}}));
  for (size_t i = 0; i < 7; ++i) EXPECT(out[i] == float(rows[i]));
  launch_together({2}, {64, 4}, reduce<M, float, float, u32, 1, false>, args, kept,
                  nest_of<u32, 1>({{300, {1}}}));
  for (size_t i = 0; i < 7; ++i) EXPECT(out[i] == float(rows[i]) / 300);

  args = {x.data(), out.data(), nullptr, nullptr, 300, 7, 7, 1, 7};
  launch_together({5}, {64, 4}, reduce<S, float, float, u64, 1, true>, args,
                  nest_of<u64, 3>({{300, {1, 1, 0}}}), nest_of<u64, 1>({{7, {300}}}));
  bool same = true;
  for (size_t j = 0; j < 300; ++j) same &= out[j] == float(columns[j]);
  EXPECT(same);

  std::vector<float> halves(600);
  args = {x.data(), out.data(), nullptr, halves.data(), 300, 7, 4, 2, 7};
  launch_together({3, 2}, {32, 8}, reduce_columns<S, float, float, u32, 4, true>, args,
                  nest_of<u32, 3>({{300, {1, 1, 0}}}), nest_of<u32, 1>({{7, {300}}}));
  for (size_t j = 0; j < 300; ++j) same &= halves[j] + halves[300 + j] == float(columns[j]);
  EXPECT(same);

  std::vector<float> partial(3);
  args = {x.data(), out.data(), nullptr, partial.data(), 1, 2100, 800, 3, 2100};
  launch_together({1, 3}, {256, 1}, reduce<S, float, float, u32, 1, false>, args,
                  nest_of<u32, 3>({}), nest_of<u32, 1>({{2100, {1}}}));
  launch_together({1}, {32, 8}, reduce_merge<S, float, float, u32, false>, args,
                  nest_of<u32, 3>({}));
  EXPECT(out[0] == float(total));
}

// The first of equals, and the first NaN before every number; values beside the positions.
TEST(winners) {
  std::vector<half> x(2 * 40, half(1.0f));
  x[7] = x[33] = half(5.0f);
  x[40 + 30] = x[40 + 11] = half(std::nanf(""));
  x[40 + 3] = half(9.0f);
  i64 at[2];
  half best[2];
  const ReduceArgs args{x.data(), at, best, nullptr, 2, 40, 40, 1, 0};
  launch_together({1}, {32, 8}, reduce<folds::ArgMax<float>, half, i64, u32, 1, false>, args,
                  nest_of<u32, 3>({{2, {40, 1, 1}}}), nest_of<u32, 1>({{40, {1}}}));
  EXPECT(at[0] == 7 && float(best[0]) == 5);
  EXPECT(at[1] == 11 && std::isnan(float(best[1])));
  bool any[2];
  const ReduceArgs truth{x.data(), any, nullptr, nullptr, 2, 40, 40, 1, 0};
  launch_together({1}, {32, 8}, reduce<folds::All, half, bool, u32, 8, false>, truth,
                  nest_of<u32, 3>({{2, {40, 1, 1}}}), nest_of<u32, 1>({{40, {1}}}));
  EXPECT(any[0] && any[1]);
}

// The same in chunks: along memory in packs, and across it for four columns per thread.
TEST(winners_of_chunks) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto check = [](const std::vector<float>& x) {
    const size_t n = x.size() / 8;
    std::vector<float> columns(x.size());
    for (size_t i = 0; i < x.size(); ++i) columns[i % n * 8 + i / n] = x[i];
    i64 rows_at[8], columns_at[8];
    float rows_best[8], columns_best[8];
    const ReduceArgs along{x.data(), rows_at, rows_best, nullptr, 8, i64(n), i64(n), 1, 0};
    launch_together({2}, {64, 4}, reduce<folds::ArgMin<float>, float, i64, u32, 4, false>, along,
                    nest_of<u32, 3>({{8, {u32(n), 1, 1}}}), nest_of<u32, 1>({{u32(n), {1}}}));
    const ReduceArgs across{
        columns.data(), columns_at, columns_best, nullptr, 8, i64(n), i64(n), 1, 0};
    launch_together({1}, {2, 128}, reduce_columns<folds::ArgMin<float>, float, i64, u32, 4, true>,
                    across, nest_of<u32, 3>({{8, {1, 1, 1}}}), nest_of<u32, 1>({{u32(n), {8}}}));
    for (size_t row = 0; row < 8; ++row) {
      size_t best = 0;
      const float* r = x.data() + row * n;
      for (size_t i = 1; i < n; ++i)
        if (!std::isnan(r[best]) && (std::isnan(r[i]) || r[i] < r[best])) best = i;
      EXPECT(rows_at[row] == i64(best) && columns_at[row] == i64(best));
      EXPECT(r[best] == rows_best[row] || std::isnan(rows_best[row]));
      EXPECT(r[best] == columns_best[row] || std::isnan(columns_best[row]));
    }
  };
  auto x = counted<float>(8 * 1300, 97);
  check(x);
  for (size_t i = 0; i < 1300; ++i) x[i] = kInf, x[1300 + i] = i < 700 ? kInf : 5.0f;
  x[2 * 1300 + 1299] = x[3 * 1300 + 777] = x[3 * 1300 + 779] = std::nanf("");
  check(x);
}

// Truth and counts of bytes, a word at a time.
TEST(truth_of_bytes) {
  for (size_t zero : {size_t(0), size_t(7), size_t(4111), size_t(4112)}) {
    std::vector<u8> x(4112);
    for (size_t i = 0; i < x.size(); ++i) x[i] = u8(i % 255 + 1);
    if (zero < x.size()) x[zero] = 0;
    bool all = false;
    i64 count = 0;
    ReduceArgs args{x.data(), &all, nullptr, nullptr, 1, i64(x.size()), i64(x.size()), 1, 0};
    const auto one = nest_of<u32, 3>({});
    const auto folded = nest_of<u32, 1>({{u32(x.size()), {1}}});
    launch_together({1}, {64, 1}, reduce<folds::All, u8, bool, u32, 16, false>, args, one, folded);
    EXPECT(all == (zero == x.size()));
    args.out = &count;
    launch_together({1}, {64, 1}, reduce<folds::CountNonzero, u8, i64, u32, 16, false>, args, one,
                    folded);
    EXPECT(count == i64(x.size()) - (zero < x.size()));
    std::fill(x.begin(), x.end(), u8(0));
    bool any = true;
    args.out = &any;
    launch_together({1}, {64, 1}, reduce<folds::Any, u8, bool, u32, 16, false>, args, one, folded);
    EXPECT(!any);
    if (zero < x.size()) x[zero] = 1;
    launch_together({1}, {64, 1}, reduce<folds::Any, u8, bool, u32, 16, false>, args, one, folded);
    EXPECT(any == (zero < x.size()));
  }
}

// Bools in memory are any bytes: each but 0 is true, in packs and one by one.
TEST(bools_that_are_any_bytes) {
  std::vector<u8> x(67), y(67), out(67, 9);
  for (size_t i = 0; i < x.size(); ++i) x[i] = u8(i % 4 * 85), y[i] = u8(i % 3 * 2);
  PointwiseArgs<2> args{67, out.data(), {x.data(), y.data()}, 0, 0, {}, {}};
  const auto expect = [&](auto f) {
    bool same = true;
    for (size_t i = 0; i < x.size(); ++i) same &= out[i] == u8(f(x[i] != 0, y[i] != 0));
    EXPECT(same);
  };
  launch({1}, kBlock, pointwise_flat<functors::Eq, 0, bool, 16, truth, truth, truth>, args);
  expect([](bool a, bool b) { return a == b; });
  launch({1}, kBlock, pointwise_strided<functors::BitwiseXor, 0, bool, u32, truth, truth, truth>,
         args, nest_of<u32, 3>({{67, {1, 1, 1}}}));
  expect([](bool a, bool b) { return a != b; });

  std::vector<float> floats(67);
  CopyArgs copy{67, floats.data(), x.data()};
  launch({1}, kBlock, copy_flat<float, truth, 4>, copy);
  i64 total = 0, trues = 0;
  bool same = true;
  for (size_t i = 0; i < x.size(); ++i) same &= floats[i] == float(x[i] != 0), trues += x[i] != 0;
  EXPECT(same);
  const ReduceArgs sum{x.data(), &total, nullptr, nullptr, 1, 67, 67, 1, 0};
  const auto one = nest_of<u32, 3>({});
  const auto folded = nest_of<u32, 1>({{67, {1}}});
  launch_together({1}, {64, 1}, reduce<folds::Sum<i64>, truth, i64, u32, 1, false>, sum, one,
                  folded);
  EXPECT(total == trues);
  launch_together({1}, {64, 1}, reduce<folds::Sum<i64>, truth, i64, u32, 16, false>, sum, one,
                  folded);
  EXPECT(total == trues);

  truth to(false), from;
  to.byte = 6, from.byte = 4;
  ScatterMul<truth>{}(to, from, true);
  EXPECT(to.byte == 1);
  from.byte = 0;
  ScatterMul<truth>{}(to, from, true);
  EXPECT(to.byte == 0);
  from.byte = 128;
  ScatterAdd<truth>{}(to, from, true);
  EXPECT(to.byte == 1);
}

// Variances and logarithms of sums of exponentials, in chunks, over columns and rows of (90, 8).
TEST(chunks) {
  auto x = counted<float>(720, 97);
  for (float& v : x) v = v / 16 + 100;
  x[8 * 40] = -std::numeric_limits<float>::infinity();  // column 0 alone
  for (size_t i = 0; i < 90; ++i) x[i * 8 + 1] = -std::numeric_limits<float>::infinity();
  x[8 * 50 + 2] = std::numeric_limits<float>::infinity();
  x[8 * 30 + 3] = x[8 * 31 + 2] = std::nanf("");
  x[8 * 20 + 4] = std::numeric_limits<float>::infinity();
  std::vector<float> sums(8), vars(8);
  using L = folds::LogSumExp<float>;
  using V = folds::Var<float>;
  const ReduceArgs args{x.data(), sums.data(), nullptr, nullptr, 8, 90, 90, 1, 89};
  const auto kept = nest_of<u32, 3>({{8, {1, 1, 0}}});
  const auto folded = nest_of<u32, 1>({{90, {8}}});
  launch_together({1}, {2, 128}, reduce_columns<L, float, float, u32, 4, true>, args, kept, folded);
  ReduceArgs spread = args;
  spread.out = vars.data();
  launch_together({1}, {2, 4}, reduce_columns<V, float, float, u32, 4, false>, spread, kept,
                  folded);
  for (size_t j = 0; j < 8; ++j) {
    double sum = 0, mean = 0, var = 0;
    for (size_t i = 0; i < 90; ++i) {
      sum += std::exp(double(x[i * 8 + j]) - 106);
      mean += double(x[i * 8 + j]) / 90;
    }
    for (size_t i = 0; i < 90; ++i) var += std::pow(double(x[i * 8 + j]) - mean, 2) / 89;
    if (j == 1) EXPECT(std::isinf(sums[j]) && sums[j] < 0);
    if (j == 2 || j == 3) EXPECT(std::isnan(sums[j]));
    if (j == 4) EXPECT(std::isinf(sums[j]) && sums[j] > 0);
    if (j == 0 || j > 4) EXPECT(std::abs(sums[j] - (std::log(sum) + 106)) < 1e-4);
    if (j > 4) EXPECT(std::abs(vars[j] - var) < 1e-4 * var);
  }
}

TEST(reading_at_indices) {
  const auto x = counted<u32>(12);  // (3, 4)
  const i64 index[] = {2, -1, 5, 0, -4};
  u32 out[5];
  IndexFault fault{~u64(0), 0, 0, 0};
  IndexArgs args{5, out, x.data(), index, 3, 4, true, 17, &fault};
  launch({1}, kBlock, read_at<u32, u32>, args, nest_of<u32, 3>({{5, {1, 0, 1}}}));
  EXPECT(out[0] == x[8] && out[1] == x[8] && out[2] == 0 && out[3] == x[0] && out[4] == 0);
  EXPECT(fault.launch == 17 && fault.position == 2 && fault.value == 5 && fault.lock == 0);
  args.launch = 18;  // later launches leave the record alone
  launch({1}, kBlock, check_indices<u32>, args, nest_of<u32, 1>({{5, {1}}}));
  EXPECT(fault.launch == 17);
}

TEST(adding_at_indices) {
  std::vector<i8> out{100, 0, 0};
  const std::vector<i8> x{50, 1, 2};
  const i64 index[] = {0, -1, 2};
  IndexFault fault{~u64(0), 0, 0, 0};
  const ScatterArgs args{1, out.data(), x.data(), index, 3, 1, 1, 3, 1, whole(2), 0, false, true};
  launch({1}, kBlock, scatter<ScatterAdd, i8, u32>, args, nest_of<u32, 3>({}), &fault);
  EXPECT((out == std::vector<i8>{-56, 0, 6}));
  fault.launch = 1;
  launch({1}, kBlock, scatter<ScatterMax, i8, u32>, args, nest_of<u32, 3>({}), &fault);
  EXPECT(out[0] == -56);
}

// Of one index, that nobody has checked before: lines along which nothing is written.
TEST(writing_at_one_index) {
  const std::vector<i8> x{5, 6};
  i64 index = 2;
  IndexFault fault{~u64(0), 0, 0, 0};
  std::vector<i8> out(6);  // (2, 3)
  ScatterArgs args{2, out.data(), x.data(), &index, 1, 1, 1, 3, 1, whole(1), 17, true, false};
  const auto run = [&] {
    launch({1}, kBlock, scatter<ScatterSet, i8, u32>, args, nest_of<u32, 3>({{2, {3, 1, 0}}}),
           &fault);
  };
  run();
  EXPECT((out == std::vector<i8>{0, 0, 5, 0, 0, 6}));
  index = -3, args.wraps = true;
  run();
  EXPECT((out == std::vector<i8>{5, 0, 5, 6, 0, 6}) && fault.launch == ~u64(0));
  for (const i64 bad : {i64(3), i64(-4), i64(-1)}) {
    index = bad, args.wraps = bad != -1;
    fault = {~u64(0), 0, 0, 0};
    out.assign(6, 1);
    run();
    EXPECT(out == std::vector<i8>(6, 1));
    EXPECT(fault.launch == 17 && fault.position == 0 && fault.value == bad && fault.lock == 0);
  }
}

// Keys and values: one launch writes both, and the second only where the first was good.
TEST(two_writes_at_one_index_each) {
  const std::vector<u16> x{5, 6}, y{7, 8, 9};
  i64 indices[2] = {2, -1};
  IndexFault fault{~u64(0), 0, 0, 0};
  std::vector<u16> keys(6), values(12);  // (2, 3), (3, 4)
  WriteAtArgs args{};
  args.fault = &fault;
  args.writes[0] = {keys.data(), x.data(), &indices[0], 2, 3, 1, 17, nest_of<u32, 2>({{2, {3, 1}}}),
                    0,           false,    0,           0};
  args.writes[1] = {values.data(),
                    y.data(),
                    &indices[1],
                    3,
                    4,
                    1,
                    18,
                    nest_of<u32, 2>({{3, {4, 1}}}),
                    1,
                    true,
                    0,
                    0};
  const auto run = [&](int count) {
    keys.assign(6, 0), values.assign(12, 0);
    fault = {~u64(0), 0, 0, 0};
    args.count = count;
    launch({unsigned(count)}, kBlock, write_at<u16>, args);
  };
  run(1);
  EXPECT((keys == std::vector<u16>{0, 0, 5, 0, 0, 6}) && values == std::vector<u16>(12));
  run(2);
  EXPECT((keys == std::vector<u16>{0, 0, 5, 0, 0, 6}) && fault.launch == ~u64(0));
  EXPECT((values == std::vector<u16>{0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 9}));
  indices[1] = 4;  // the second is bad
  run(2);
  EXPECT((keys == std::vector<u16>{0, 0, 5, 0, 0, 6}) && values == std::vector<u16>(12));
  EXPECT(fault.launch == 18 && fault.value == 4);
  indices[0] = -1, indices[1] = 0;  // the first is, which does not wrap
  run(2);
  EXPECT(keys == std::vector<u16>(6) && values == std::vector<u16>(12));
  EXPECT(fault.launch == 17 && fault.value == -1);
}

TEST(random_numbers_equal_the_cpus) {
  constexpr i64 n = 1029;
  const RandomCall call{0x123456789abcdefull, 42};
  const auto& cpu = peer::random_kernels;
  std::vector<float> x(n), y(n);
  std::vector<double> xd(n), yd(n);
  const RandomArgs f{n, x.data(), call.seed, call.call, -1.0, 3.0, ~0u};
  const RandomArgs d{n, xd.data(), call.seed, call.call, -1.0, 3.0, ~0u};
  launch({2}, kBlock, random_fill<functors::RandomUniform, float, float>, f);
  cpu.f32[0](y.data(), 0, n, call, -1.0, 3.0, ~0u);
  EXPECT(x == y);
  launch({1}, kBlock, random_normal<float, float, false>, f);
  cpu.f32[1](y.data(), 0, n, call, -1.0, 3.0, ~0u);
  EXPECT(x == y);
  launch({1}, kBlock, random_fill<functors::RandomUniform, double, double>, d);
  cpu.f64[0](yd.data(), 0, n, call, -1.0, 3.0);
  EXPECT(xd == yd);
  launch({1}, kBlock, random_normal<double, double, false>, d);
  cpu.f64[1](yd.data(), 0, n, call, -1.0, 3.0);
  EXPECT(xd == yd);
  for (u64 range : {u64(10), u64(1) << 32, u64(3) << 62, u64(0)}) {
    std::vector<i64> a(n), b(n);
    launch({1}, kBlock, random_int<i64>,
           RandomIntArgs{n, a.data(), call.seed, call.call, -5, range});
    cpu.integers(b.data(), 0, n, call, -5, range);
    EXPECT(a == b);
  }
}

// (70, 20) @ (20, 33), the left factor transposed in memory, two batches over one right factor.
TEST(products) {
  const auto a = counted<i16>(2 * 1400, 100), b = counted<i16>(660, 90);
  std::vector<i16> out(2 * 70 * 33);
  MatmulArgs args{out.data(), a.data(), b.data(), nullptr, 2,  70, 33, 20, 70 * 33,
                  33,         1,        1400,     1,       70, 0,  33, 1,  0};
  launch_together({1, 2, 1}, kBlock, matmul<i16>, args);
  bool same = true;
  for (size_t batch = 0; batch < 2; ++batch)
    for (size_t i = 0; i < 70; ++i)
      for (size_t j = 0; j < 33; ++j) {
        int sum = 0;
        for (size_t k = 0; k < 20; ++k) sum += a[batch * 1400 + k * 70 + i] * b[k * 33 + j];
        same &= out[batch * 2310 + i * 33 + j] == i16(sum);
      }
  EXPECT(same);

  const std::vector<float> fa(a.begin(), a.end()), fb(b.begin(), b.end());
  const auto bias = counted<float>(33, 7);
  std::vector<float> sums(2 * 70 * 33);
  args.out = sums.data(), args.a = fa.data(), args.b = fb.data(), args.bias = bias.data();
  launch_together({3, 5, 2}, kBlock, matmul_small<float>, args);
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t batch = i / 2310, row = i % 2310 / 33, col = i % 33;
    float sum = bias[col];
    for (size_t k = 0; k < 20; ++k) sum += fa[batch * 1400 + k * 70 + row] * fb[k * 33 + col];
    same &= sums[i] == sum;
  }
  EXPECT(same);

  std::vector<float> activated(sums.size());
  auto lower = bias;
  const float shift = sums[sums.size() / 2];
  for (float& b : lower) b -= shift;
  lower[5] = std::numeric_limits<float>::quiet_NaN();
  args.out = activated.data(), args.bias = lower.data(), args.relu = 1;
  launch_together({3, 5, 2}, kBlock, matmul_small<float>, args);
  size_t cut = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const bool is_nan = i % 33 == 5;
    cut += !is_nan && sums[i] < shift;
    same &= is_nan ? std::isnan(activated[i]) : activated[i] == std::max(sums[i] - shift, 0.0f);
  }
  EXPECT(same && cut > 0 && cut < sums.size() / 33 * 32);
}
