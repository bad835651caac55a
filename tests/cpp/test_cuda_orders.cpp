// The kernels for scans, sorts, masks and searches, without a GPU: see cuda_on_cpu.h.
#include "cuda_on_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "testing.h"

#include "cuda/kernels/scan.cu"
#include "cuda/kernels/select.cu"
#include "cuda/kernels/select_long.cu"
#include "cuda/kernels/select_rows.cu"
#include "cuda/kernels/sort.cu"
#include "cuda/kernels/triangle.cu"
#include "cuda_kernels.h"

using namespace rush;

namespace {

// What the host gives scan_tiles to work with.
template <class Acc>
struct ScanRoom {
  std::vector<Acc> tiles, groups, starts;
  std::vector<u32> flags;
  ScanRoom(ScanArgs& args, i64 tile) {
    args.tiles = (args.length + tile - 1) / tile;
    args.groups = (args.tiles + 31) / 32;
    args.stretches = (args.groups + 31) / 32;
    tiles.resize(size_t(args.lines * args.tiles));
    groups.resize(size_t(args.lines * args.groups));
    starts.resize(size_t(args.lines * args.stretches));
    flags.resize(tiles.size() + groups.size() + starts.size());
    args.tile_sums = tiles.data(), args.group_sums = groups.data();
    args.stretch_starts = starts.data();
    args.tile_flags = flags.data();
    args.group_flags = args.tile_flags + tiles.size();
    args.stretch_flags = args.group_flags + groups.size();
  }
};

}  // namespace

// 37 tiles per line: more than a group.
TEST(scan_of_long_lines) {
  constexpr i64 n = 37 * 1024 - 5, lines = 2;
  const auto x = counted<i16>(n * lines, 1000);
  std::vector<i64> out(n * lines);
  ScanArgs args{};
  args.x = x.data(), args.out = out.data(), args.lines = lines, args.length = n;
  args.x_step = args.out_step = 1;
  const ScanRoom<u64> room(args, 1024);
  launch_together({unsigned(lines * args.tiles)}, kBlock,
                  scan_tiles<scans::Sum<i64>, i16, i64, u32, 1, 4>, args,
                  nest_of<u32, 3>({{lines, {n, n, 0}}}));
  bool same = true;
  for (i64 l = 0; l < lines; ++l) {
    i64 sum = 0;
    for (i64 i = 0; i < n; ++i) {
      sum += x[size_t(l * n + i)];
      same &= out[size_t(l * n + i)] == sum;
    }
  }
  EXPECT(same);
}

TEST(scan_of_packs) {
  constexpr i64 n = 2 * 4096 + 40;
  auto x = counted<float>(n, 1000);
  x[5000] = std::nanf(""), x[5001] = x[700] = x[701] = 2000;
  std::vector<float> out(n);
  std::vector<i64> at(n);
  ScanArgs args{};
  args.x = x.data(), args.out = out.data(), args.indices = at.data(), args.lines = 1;
  args.length = n, args.x_step = args.out_step = args.index_step = 1;
  {
    const ScanRoom<scans::Leader<float>> room(args, 4096);
    launch_together({3}, kBlock, scan_tiles<scans::Max<float>, float, float, u64, 4, 4>, args,
                    nest_of<u64, 3>({}));
  }
  bool same = true;
  float best = -1;
  i64 where = 0;
  for (i64 i = 0; i < n; ++i) {
    const float v = x[size_t(i)];
    if (v >= best || v != v) best = v, where = i;
    const float got = out[size_t(i)];
    same &= at[size_t(i)] == where && (got == best || (got != got && best != best));
  }
  EXPECT(same);
}

// (5, 70) along memory, 8 lanes per line; and (70, 5), down the columns in segments of 16.
TEST(scan_of_rows_and_columns) {
  const auto x = counted<half>(350, 50);
  std::vector<half> out(350);
  ScanArgs args{};
  args.x = x.data(), args.out = out.data(), args.lines = 5, args.length = 70;
  args.x_step = args.out_step = 1;
  launch_together({1}, kBlock, scan_rows<scans::Sum<float>, half, half, u32, 2, 8>, args,
                  nest_of<u32, 3>({{5, {70, 70, 0}}}));
  bool same = true;
  for (size_t l = 0; l < 5; ++l) {
    double sum = 0;
    for (size_t i = 0; i < 70; ++i) {
      sum += float(x[l * 70 + i]);
      same &= float(out[l * 70 + i]) == float(half(float(sum)));
    }
  }
  EXPECT(same);
  args.x_step = args.out_step = 5, args.segment = 16;
  std::vector<double> totals(5 * 5);
  args.totals = totals.data();
  const auto nest = nest_of<u32, 3>({{5, {1, 1, 0}}});
  launch({1, 5}, kBlock, scan_totals<scans::Prod<float>, half, half, u32>, args, nest);
  launch({1, 5}, kBlock, scan_columns<scans::Prod<float>, half, half, u32>, args, nest);
  same = true;
  for (size_t l = 0; l < 5; ++l) {
    double product = 1;
    for (size_t i = 0; i < 70; ++i) {
      product *= float(x[i * 5 + l]);
      same &= out[i * 5 + l].bits == half(float(product)).bits;
    }
  }
  EXPECT(same);
}

TEST(triangles) {
  for (const i64 diagonal : {-9, -4, -1, 0, 2, 3, 8}) {
    for (const bool upper : {false, true}) {
      const auto x = counted<u32>(2 * 4 * 6);
      std::vector<u32> out(x.size());
      launch({1}, kBlock, triangle<u32, u32>,
             TriangleArgs{i64(x.size()), out.data(), x.data(), diagonal, upper},
             nest_of<u32, 2>({{6, {1, 1}}, {4, {6, 6}}, {2, {24, 24}}}));
      bool same = true;
      std::vector<i64> rows, cols;
      for (i64 i = 0; i < 48; ++i) {
        const i64 r = i / 6 % 4, c = i % 6;
        const bool in = upper ? c - r >= diagonal : c - r <= diagonal;
        same &= out[size_t(i)] == (in ? x[size_t(i)] : 0);
        if (in && i < 24) rows.push_back(r), cols.push_back(c);
      }
      const auto n = i64(rows.size());
      std::vector<i64> places(size_t(2 * n));
      launch({1}, kBlock, triangle_indices<i64>,
             TriangleIndexArgs{n, 4, 6, diagonal, places.data(), upper});
      rows.insert(rows.end(), cols.begin(), cols.end());
      EXPECT(same);
      EXPECT(places == rows);
      std::vector<u32> packed(x.size());
      launch({1}, kBlock, triangle_packs<u32, 2, u64>,
             TriangleArgs{24, packed.data(), x.data(), diagonal, upper},
             nest_of<u64, 2>({{3, {0, 0}}, {4, {0, 0}}}));
      EXPECT(packed == out);
    }
  }
}

namespace {

// Few values, so that equals are many; zeros of both signs and NaNs among them.
std::vector<float> shuffled(size_t n) {
  std::vector<float> x(n);
  u32 state = 12345;
  for (float& v : x) {
    state = state * 1664525u + 1013904223u;
    const int k = int(state >> 16) % 37;
    v = k == 0 ? -0.0f : k == 1 ? 0.0f : k == 2 ? std::nanf("") : float(k - 18) * 1.25f;
  }
  return x;
}

std::vector<i64> stable_order(const float* x, i64 n, bool descending) {
  std::vector<i64> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), i64(0));
  std::stable_sort(order.begin(), order.end(), [&](i64 a, i64 b) {
    return descending ? order_key(x[b]) < order_key(x[a]) : order_key(x[a]) < order_key(x[b]);
  });
  return order;
}

bool is_sorted_as(const std::vector<float>& x, i64 rows, i64 length, i64 kept, bool descending,
                  const std::vector<float>& values, const std::vector<i64>& indices) {
  bool same = true;
  for (i64 r = 0; r < rows; ++r) {
    const auto order = stable_order(x.data() + r * length, length, descending);
    for (i64 i = 0; i < kept; ++i) {
      const i64 to = r * kept + i, at = order[size_t(i)];
      same &= indices[size_t(to)] == at;
      same &= bits_of(values[size_t(to)]) == bits_of(x[size_t(r * length + at)]);
    }
  }
  return same;
}

}  // namespace

TEST(sorting_short_rows) {
  struct Shape {
    i64 rows, length, kept;
  };
  for (const Shape s : {Shape{7, 100, 100}, Shape{3, 1000, 10}, Shape{300, 2, 2}}) {
    for (const bool descending : {false, true}) {
      const auto x = shuffled(size_t(s.rows * s.length));
      std::vector<float> values(size_t(s.rows * s.kept));
      std::vector<i64> indices(values.size());
      SortArgs args{};
      args.x = x.data(), args.values = values.data(), args.indices = indices.data();
      args.rows = s.rows, args.length = s.length, args.kept = s.kept;
      args.descending = descending;
      args.at_once = i32(std::min<i64>(255, 1024 / s.length));
      args.by_length = Divider<u32>::of(u32(s.length));
      launch_together({unsigned((s.rows + args.at_once - 1) / args.at_once)}, kBlock,
                      sort_blocks<float, 4>, args);
      EXPECT(is_sorted_as(x, s.rows, s.length, s.kept, descending, values, indices));
    }
  }
}

TEST(sorting_long_rows) {
  constexpr i64 rows = 2, length = 2600, kept = 2000;
  constexpr size_t n = rows * length;
  const auto x = shuffled(n);
  std::vector<float> values(rows * kept);
  std::vector<i64> indices(values.size());
  SortArgs args{};
  args.x = x.data(), args.values = values.data(), args.indices = indices.data();
  args.rows = rows, args.length = length, args.kept = kept, args.descending = true;
  args.passes = 4, args.tiles = 3;
  std::vector<u32> counts(rows * 4 * 256), keys[2], places[2];
  for (int i = 0; i < 2; ++i) keys[i].resize(n), places[i].resize(n);
  args.counts = counts.data();
  launch_together({2, 2}, kBlock, sort_count<float, u32>, args);
  launch_together({rows * 4}, kBlock, sort_starts<u32>, args);
  for (args.pass = 0; args.pass < 4; ++args.pass) {
    std::vector<u32> status(rows * 3 * 256);
    args.status = status.data();
    args.keys_in = keys[(args.pass + 1) % 2].data(), args.keys_out = keys[args.pass % 2].data();
    args.at_in = places[(args.pass + 1) % 2].data(), args.at_out = places[args.pass % 2].data();
    const auto kernel = args.pass == 0   ? sort_pass<float, u32, 4, true, false>
                        : args.pass == 3 ? sort_pass<float, u32, 4, false, true>
                                         : sort_pass<u32, u32, 4, false, false>;
    launch_together({rows * 3}, kBlock, kernel, args);
  }
  EXPECT(is_sorted_as(x, rows, length, kept, true, values, indices));
}

TEST(picking_from_sorted_rows) {
  const float nan = std::nanf("");
  const std::vector<float> x{1, 1, 2, 2, 2, nan, 3, 3, 3, 4, 4, 4, nan, nan, nan, nan, nan, nan};
  std::vector<i64> order(18), at(3);
  for (size_t i = 0; i < 18; ++i) order[i] = i64(100 + i);
  std::vector<float> picked(3);
  PickArgs args{x.data(), x.data(), order.data(), picked.data(), at.data(), 3, 6, 2, 0};
  launch({1}, kBlock, pick_rows<float>, args);
  EXPECT((at == std::vector<i64>{102, 108, 114}));
  args.rank = 1;
  launch({1}, kBlock, pick_rows<float>, args);
  EXPECT((at == std::vector<i64>{105, 108, 112}) && picked[0] != picked[0]);
  args.rank = 2;
  launch({1}, kBlock, pick_rows<float>, args);
  EXPECT((at == std::vector<i64>{102, 108, 112}) && picked[0] == 2);
  std::vector<i64> partial(3 * 2 * 2);
  const ModeArgs mode{x.data(), order.data(), picked.data(), at.data(), 3, 6, 2, partial.data()};
  launch_together({2, 3}, kBlock, mode_runs<float>, mode);
  launch({1}, kBlock, mode_join<float>, mode);
  EXPECT((at == std::vector<i64>{104, 108, 117}) && picked[1] == 3);
}

// The 40th, the medians and the 40 first of rows that a block holds, with many equals.
TEST(searching_rows_in_a_block) {
  constexpr i64 length = 1000, k = 40;
  auto x = shuffled(3 * length);
  for (i64 i = 0; i < length; ++i) x[size_t(2 * length + i)] = float(i % 3);
  std::vector<i64> indices(3 * k);
  std::vector<float> values(3 * k);
  SelectArgs args{};
  args.x = x.data(), args.rows = 3, args.length = length, args.k = k - 1;
  args.values = values.data(), args.indices = indices.data();
  for (const bool descending : {false, true}) {
    args.descending = descending, args.kept = k;
    launch_together({2}, kBlock, select_rows<float, 4>, args);
    bool same = true;
    for (i64 r = 0; r < 3; ++r) {
      const auto order = stable_order(x.data() + r * length, length, descending);
      for (i64 i = 0; i < k; ++i) {
        const size_t at = size_t(r * k + i);
        const float want = x[size_t(r * length + order[size_t(i)])];
        same &= indices[at] == order[size_t(i)] &&
                (values[at] == want || (values[at] != values[at] && want != want));
      }
    }
    EXPECT(same);
    args.kept = 0;
    launch_together({3}, kBlock, select_rows<float, 8>, args);
    for (i64 r = 0; r < 3; ++r)
      EXPECT(indices[size_t(r)] == stable_order(x.data() + r * length, length, descending)[k - 1]);
  }
  args.descending = false;
  for (args.rank = 1; args.rank <= 2; ++args.rank) {
    launch_together({3}, kBlock, select_rows<float, 4>, args);
    for (i64 r = 0; r < 3; ++r) {
      const float* row = x.data() + r * length;
      const i64 missing = std::count_if(row, row + length, [](float v) { return v != v; });
      const i64 place = args.rank == 1 && missing ? length - missing : (length - missing - 1) / 2;
      EXPECT(indices[size_t(r)] == stable_order(row, length, false)[size_t(place)]);
    }
  }
}

// The 700th, the median, and the 700 first of 5000, descending.
TEST(searching_long_rows) {
  constexpr i64 length = 5000, k = 700;
  const auto x = shuffled(2 * length);
  std::vector<u64> counts(2 * 256), nans(2), key(2);
  std::vector<i64> left(2), tallies(2 * 2 * 2), indices(2 * k);
  std::vector<float> values(2 * k);
  SelectArgs args{};
  args.x = x.data(), args.rows = 2, args.length = length, args.descending = true;
  args.passes = 4, args.k = k - 1, args.kept = k, args.tiles = 2;
  args.counts = counts.data(), args.nans = nans.data(), args.key = key.data();
  args.left = left.data(), args.tallies = tallies.data();
  args.values = values.data(), args.indices = indices.data();
  const auto search = [&] {
    std::fill(nans.begin(), nans.end(), 0);
    for (args.pass = 0; args.pass < 4; ++args.pass) {
      launch_together({2, 2}, kBlock, select_count<float>, args);
      launch_together({2}, kBlock, select_narrow<float>, args);
    }
    launch_together({2, 2}, kBlock, select_tally<float>, args);
    for (size_t r = 0; r < 4; ++r) tallies[2 * r + 1] += tallies[2 * r];
  };
  search();
  launch_together({2, 2}, kBlock, select_gather<float>, args);
  bool same = true;
  for (i64 r = 0; r < 2; ++r) {
    auto order = stable_order(x.data() + r * length, length, true);
    order.resize(k);
    std::sort(order.begin(), order.end());
    for (i64 i = 0; i < k; ++i) same &= indices[size_t(r * k + i)] == order[size_t(i)];
  }
  EXPECT(same);
  launch_together({2, 2}, kBlock, select_find<float>, args);
  for (i64 r = 0; r < 2; ++r)
    EXPECT(indices[size_t(r)] == stable_order(x.data() + r * length, length, true)[k - 1]);
  args.descending = false;
  for (args.rank = 1; args.rank <= 2; ++args.rank) {
    search();
    launch_together({2, 2}, kBlock, select_find<float>, args);
    for (i64 r = 0; r < 2; ++r) {
      const float* row = x.data() + r * length;
      const i64 missing = std::count_if(row, row + length, [](float v) { return v != v; });
      const i64 place = args.rank == 1 ? length - missing : (length - missing - 1) / 2;
      EXPECT(indices[size_t(r)] == stable_order(row, length, false)[size_t(place)]);
    }
  }
}
