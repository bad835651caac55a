// The kernels for scans, sorts, masks and searches, without a GPU: see cuda_on_cpu.h.
#include "cuda_on_cpu.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "testing.h"

#include "cuda/kernels/scan.cu"
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
    flags.resize(tiles.size() + groups.size() + starts.size() + 1);
    args.tile_sums = tiles.data(), args.group_sums = groups.data();
    args.stretch_starts = starts.data();
    args.ticket = flags.data(), args.tile_flags = args.ticket + 1;
    args.group_flags = args.tile_flags + tiles.size();
    args.stretch_flags = args.group_flags + groups.size();
  }
};

}  // namespace

// 37 tiles a line: more than a group.
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

// (5, 70) along memory, 8 lanes a line; and (70, 5), down the columns in segments of 16.
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
    }
  }
}
