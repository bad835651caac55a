// Last stages of sums that share a launch, without a GPU: what comes out has the bits that the kernels give
// which do them one by one.
#include "cuda_on_cpu.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "testing.h"

#include "cuda/kernels/lists.cu"
#include "cuda/kernels/reduce.cu"
#include "cuda/kernels/row_norm.cu"
#include "cuda_kernels.h"

using namespace rush;

namespace {

// Numbers whose sum depends on its order, with zeros of both signs among them.
std::vector<float> rough(size_t n) {
  std::vector<float> v(n);
  u32 state = 12345;
  for (float& x : v) {
    state = state * 1664525u + 1013904223u;
    x = std::ldexp(float(int(state >> 8) - (1 << 23)), int(state % 41) - 30);
    if (state % 17 == 0) x = state % 2 ? -0.0f : 0.0f;
  }
  return v;
}

struct Task {
  i64 columns, segments;
  bool pairs;  // of a norm, else of a sum
  std::vector<float> partial;
  Task(i64 columns, i64 segments, bool pairs)
      : columns(columns),
        segments(segments),
        pairs(pairs),
        partial(rough(size_t(segments * columns * (pairs ? 2 : 1)))) {}
};

std::vector<Task> tasks() {
  std::vector<Task> all;
  for (const i64 segments : {2, 3, 5, 7, 8, 9, 31, 264}) {
    all.emplace_back(33, segments, false);
    all.emplace_back(64, segments, true);
  }
  all.emplace_back(1, 12, true);
  // A column of zeros, and one with what is not finite.
  for (i64 s = 0; s < all[0].segments; ++s) all[0].partial[size_t(s * 33)] = -0.0f;
  all[2].partial[5] = std::numeric_limits<float>::infinity();
  return all;
}

void add(ListSumsArgs& args, const float* from, void* out, i64 columns, i64 segments, i64 step) {
  const int t = args.tensors++;
  args.from[t] = from;
  args.out[t] = out;
  args.columns[t] = u32(columns);
  args.segments[t] = u32(segments);
  args.step[t] = u32(step);
  args.first[t + 1] = args.first[t] + u32((columns + kSumColumns - 1) / kSumColumns);
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// As cuda/reduce/reduce.cpp launches it.
template <class Out>
std::vector<Out> merged(const Task& t) {
  std::vector<Out> out(size_t(t.columns));
  ReduceArgs args{};
  args.out = out.data();
  args.partial = const_cast<float*>(t.partial.data());
  args.outputs = t.columns;
  args.segments = i32(t.segments);
  const unsigned lanes = unsigned(std::min<i64>(8, i64(std::bit_ceil(u64(t.segments)))));
  const unsigned outputs = kThreads / lanes;
  launch_together({unsigned((t.columns + outputs - 1) / outputs)}, {outputs, lanes},
                  reduce_merge<folds::Sum<float>, Out, Out, u32, true>, args,
                  nest_of<u32, 3>({{t.columns, {1, 1, 0}}}));
  return out;
}

}  // namespace

TEST(sums_of_a_list_have_the_bits_of_each) {
  const std::vector<Task> all = tasks();
  std::vector<std::vector<float>> outs;
  for (const Task& t : all) outs.emplace_back(size_t(t.columns * (t.pairs ? 2 : 1)));
  ListSumsArgs args{};
  for (size_t k = 0; k < all.size(); ++k) {
    const Task& t = all[k];
    if (!t.pairs) {
      args.by_tree[args.tensors] = true;
      add(args, t.partial.data(), outs[k].data(), t.columns, t.segments, t.columns);
      continue;
    }
    for (const i64 half : {i64(0), t.columns})
      add(args, t.partial.data() + half, outs[k].data() + half, t.columns, t.segments,
          2 * t.columns);
  }
  launch_together({args.first[args.tensors]}, kBlock, list_column_sums<float>, args);
  for (size_t k = 0; k < all.size(); ++k) {
    const Task& t = all[k];
    if (!t.pairs) {
      EXPECT(same_bits(outs[k], merged<float>(t)));
      continue;
    }
    std::vector<float> alone(outs[k].size());
    const JoinPairsArgs pairs{t.partial.data(), alone.data() + t.columns, alone.data(), t.segments,
                              t.columns};
    launch_together({unsigned((t.columns + 31) / 32)}, kBlock, join_segments<float, float>, pairs);
    EXPECT(same_bits(outs[k], alone));
  }
}

// A sum of a half type that is converted on the way has been rounded to that type before.
TEST(sums_of_a_list_are_rounded_as_casts_round) {
  const Task t(40, 19, false);
  std::vector<bfloat16> narrow(40);
  std::vector<float> wide(40), from_half(40);
  std::vector<half> other(40);
  ListSumsArgs args{};
  const auto put = [&](void* out, SumType rounded, SumType type) {
    args.by_tree[args.tensors] = true;
    args.rounded[args.tensors] = rounded;
    args.type[args.tensors] = type;
    add(args, t.partial.data(), out, t.columns, t.segments, t.columns);
  };
  put(narrow.data(), kSumBFloat16, kSumBFloat16);
  put(wide.data(), kSumBFloat16, kSumFloat);
  put(from_half.data(), kSumHalf, kSumFloat);
  put(other.data(), kSumFloat, kSumHalf);
  launch_together({args.first[args.tensors]}, kBlock, list_column_sums<float>, args);
  EXPECT(same_bits(narrow, merged<bfloat16>(t)));
  EXPECT(same_bits(other, merged<half>(t)));
  bool same = true, differs = false;
  const auto plain = merged<float>(t);
  for (size_t c = 0; c < 40; ++c) {
    same &= wide[c] == float(narrow[c]);
    const float halved = float(half(plain[c]));
    same &= from_half[c] == halved || (std::isnan(halved) && std::isnan(from_half[c]));
    differs |= wide[c] != plain[c];
  }
  EXPECT(same && differs);
}

// Few rows have one stage, by one to eight lanes.
TEST(sums_of_few_rows_in_a_list) {
  for (const i64 columns : {i64(40), i64(128), i64(300)}) {
    for (const i64 rows : {3, 32, 61}) {
      std::vector<bfloat16> x;
      for (const float v : rough(size_t(columns * rows))) x.push_back(bfloat16(v));
      const auto across = std::min<unsigned>(kThreads, std::bit_ceil(unsigned(columns)));
      const unsigned lanes = kThreads / across;
      std::vector<bfloat16> alone(size_t(columns), bfloat16(1.0f)), out = alone;
      const ReduceArgs args{x.data(), alone.data(), nullptr, nullptr, columns, rows, rows, 1, 0};
      launch_together({unsigned((columns + across - 1) / across)}, {across, lanes},
                      reduce<folds::Sum<float>, bfloat16, bfloat16, u32, 1, true>, args,
                      nest_of<u32, 3>({{columns, {1, 1, 0}}}),
                      nest_of<u32, 1>({{rows, {columns}}}));
      ListSumsArgs list{};
      list.by_tree[0] = true;
      list.lanes[0] = u8(lanes);
      list.read[0] = list.rounded[0] = list.type[0] = kSumBFloat16;
      add(list, nullptr, out.data(), columns, rows, columns);
      list.from[0] = x.data();
      launch_together({list.first[1]}, kBlock, list_column_sums<float>, list);
      EXPECT(same_bits(out, alone));
    }
  }
}

// Two samples of 1, 3, 8, 9 or 40 segments: kept dims are channels and samples.
TEST(sums_joined_by_the_last_block) {
  for (const i64 segments : {2, 3, 8, 9, 40}) {
    constexpr i64 kChannels = 264, kSamples = 2;
    const i64 points = segments * 24 - 5;
    std::vector<bfloat16> x;
    for (const float v : rough(size_t(kChannels * kSamples * points))) x.push_back(bfloat16(v));
    const i64 outputs = kChannels * kSamples;
    std::vector<bfloat16> alone(size_t(outputs), bfloat16(1.0f)), joined = alone;
    std::vector<float> partial(size_t(outputs * segments));
    ReduceArgs args{x.data(), alone.data(),  nullptr, partial.data(), outputs, points,
                    24,       i32(segments), 0};
    const auto kept =
        nest_of<u32, 3>({{kChannels, {1, 1, 0}}, {kSamples, {kChannels * points, kChannels, 0}}});
    const auto folded = nest_of<u32, 1>({{points, {kChannels}}});
    const Dim3 grid{unsigned((outputs / 8 + 31) / 32), unsigned(segments)};
    launch_together(grid, {32, 8},
                    reduce_columns<folds::Sum<float>, bfloat16, bfloat16, u32, 8, true>, args, kept,
                    folded);
    const unsigned lanes = unsigned(std::min<i64>(8, i64(std::bit_ceil(u64(segments)))));
    const unsigned across = kThreads / lanes;
    launch_together({unsigned((outputs + across - 1) / across)}, {across, lanes},
                    reduce_merge<folds::Sum<float>, bfloat16, bfloat16, u32, true>, args, kept);
    args.out = joined.data();
    std::vector<u32> counters(grid.x);
    launch_together(grid, {32, 8}, sum_columns_joined<bfloat16, bfloat16, u32, 8, true>, args, kept,
                    folded, counters.data());
    EXPECT(same_bits(joined, alone));
    EXPECT(counters == std::vector<u32>(grid.x));
  }
}
