// The kernels for masks, searches and distinct slices, without a GPU: see cuda_on_cpu.h.
#include "cuda_on_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "testing.h"

#include "cuda/kernels/mask.cu"
#include "cuda/kernels/ranges_exact.cu"
#include "cuda/kernels/sampling_exact.cu"
#include "cuda/kernels/search.cu"
#include "cuda/kernels/unique.cu"
#include "cuda_kernels.h"

using namespace rush;

// (3, 2000) of floats: 0, -0, NaN and numbers.
TEST(elements_that_are_not_zero) {
  constexpr i64 n = 6000;
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i)
    x[i] = i % 3 == 0 ? 0.0f : i % 7 == 0 ? -0.0f : i % 5 == 0 ? std::nanf("") : float(i);
  std::vector<i64> starts(3), wanted;
  for (i64 i = 0; i < n; ++i)
    if (x[size_t(i)] != 0) wanted.push_back(i);
  MaskArgs args{};
  args.x = x.data(), args.n = n, args.starts = starts.data();
  launch_together({2}, kBlock, mask_count<float, 4>, args);
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  EXPECT(starts[2] == i64(wanted.size()));
  std::vector<i64> places(wanted.size() * 2);
  args.positions = places.data(), args.stride = 2, args.dim_stride = 1;
  MaskShape<u32> shape{};
  shape.dims = 2;
  shape.sizes[0] = Divider<u32>::of(3), shape.sizes[1] = Divider<u32>::of(2000);
  launch_together({2}, kBlock, mask_coordinates<float, 1, u32>, args, shape);
  bool same = true;
  for (size_t k = 0; k < wanted.size(); ++k)
    same &= places[2 * k] == wanted[k] / 2000 && places[2 * k + 1] == wanted[k] % 2000;
  EXPECT(same);
}

TEST(selecting_and_placing) {
  constexpr i64 n = 5000;
  std::vector<u8> mask(n);
  for (size_t i = 0; i < n; ++i) mask[i] = i % 4 == 1 ? 2 : 0;
  const auto x = counted<u32>(n);
  std::vector<i64> starts(3);
  std::vector<u32> out(1250), back(n);
  IndexFault fault{~u64(0), 0, 0, 0};
  MaskArgs args{};
  args.x = mask.data(), args.n = n, args.starts = starts.data();
  args.from = x.data(), args.out = out.data();
  args.launch = 3, args.fault = &fault;
  launch_together({2}, kBlock, mask_count<u8, 16>, args);
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  launch_together({2}, kBlock, mask_select<u32, 16>, args);
  bool same = true;
  for (size_t k = 0; k < 1250; ++k) same &= out[k] == x[4 * k + 1];
  EXPECT(same);
  args.from = out.data(), args.out = back.data(), args.room = 1200;
  launch_together({2}, kBlock, mask_place<u32, 1>, args);
  same = true;
  for (size_t i = 0; i < n; ++i) same &= back[i] == (i % 4 == 1 && i / 4 < 1200 ? x[i] : 0);
  EXPECT(same);
  EXPECT(fault.launch == 3 && fault.position == 4801 && fault.value == 1200);
}

TEST(searching_and_counting) {
  const std::vector<half> edges{half(-1.0f), half(0.0f), half(0.0f), half(2.0f), half(3.0f)};
  const std::vector<half> values{half(-5.0f), half(0.0f), half(2.5f),
                                 half(3.0f),  half(9.0f), half(std::nanf(""))};
  std::vector<i32> at(6);
  SearchArgs args{6, edges.data(), values.data(), nullptr, at.data(), 5, 0, false};
  launch({1}, kBlock, search_sorted<half, i32>, args);
  EXPECT((at == std::vector<i32>{0, 1, 4, 4, 5, 5}));
  args.right = true;
  launch({1}, kBlock, search_sorted<half, i32>, args);
  EXPECT((at == std::vector<i32>{0, 3, 4, 5, 5, 5}));

  const std::vector<float> x{0.0f, 0.5f, 1.0f, 0.25f, -1.0f, 2.0f, std::nanf(""), 0.75f};
  const std::vector<float> w{1, 2, 4, 8, 16, 32, 64, 128};
  const std::vector<double> bins{0, 0.25, 0.5, 0.75, 1};
  std::vector<double> counts(4);
  for (const bool even : {true, false}) {
    std::fill(counts.begin(), counts.end(), 0.0);
    const HistogramArgs h{8, x.data(), w.data(), bins.data(), counts.data(), 4, even};
    launch_together({1}, kBlock, histogram<float>, h);
    EXPECT((counts == std::vector<double>{1, 1, 1, 2}));
    launch_together({1}, kBlock, histogram_weighted<float>, h);
    EXPECT((counts == std::vector<double>{2, 9, 3, 134}));
  }
  for (const size_t n : {size_t(5), size_t(3000)}) {
    const std::vector<i64> y{4, 0, 4, 2};
    std::vector<i64> whole(n);
    launch_together({1}, kBlock, count_values<i64>,
                    CountArgs{4, y.data(), nullptr, whole.data(), i64(n)});
    EXPECT(whole[0] == 1 && whole[1] == 0 && whole[2] == 1 && whole[4] == 2);
  }
}

// Slices of two: equal ones stay in sequence.
TEST(slices_in_order) {
  const std::vector<i16> x{3, 1, 1, 9, 3, 0, 1, 9, -2, 7, 3, 1, 1, 8};
  std::vector<i64> a(7), b(7);
  std::iota(a.begin(), a.end(), i64(0));
  for (i64 width = 1; width < 7; width *= 2) {
    launch({1}, kBlock, merge_slices<i16>, MergeArgs{7, 2, width, x.data(), a.data(), b.data()});
    std::swap(a, b);
  }
  EXPECT((a == std::vector<i64>{4, 6, 1, 3, 2, 0, 5}));
  bool starts[7];
  launch({1}, kBlock, mark_runs<i16>, RunArgs{7, 2, x.data(), a.data(), starts});
  EXPECT(starts[0] && starts[1] && starts[2] && !starts[3] && starts[4] && starts[5] && !starts[6]);
}

TEST(sequences) {
  std::vector<i8> x(5);
  launch({1}, kBlock, arange<i8>, ArangeArgs{5, x.data(), 120, 5, 0, 0, true});
  EXPECT((x == std::vector<i8>{120, 125, -126, -121, -116}));
  launch({1}, kBlock, arange<i8>, ArangeArgs{5, x.data(), 0, 0, 0.5, 1.25, false});
  EXPECT((x == std::vector<i8>{0, 1, 3, 4, 5}));
  std::vector<double> y(4);
  launch({1}, kBlock, linspace<double>, LinspaceArgs{4, y.data(), 1, 0, 2, 0, 0, false});
  EXPECT(y[0] == 1 && y[3] == 2 && std::abs(y[1] - 4.0 / 3) < 1e-15);
  launch({1}, kBlock, linspace<double>, LinspaceArgs{4, y.data(), 0, 0, 3, 0, 10, true});
  EXPECT(std::abs(y[2] - 100) < 1e-12);
  launch({1}, kBlock, linspace<double>, LinspaceArgs{4, y.data(), 0, 0, 3, 0, 0, true});
  EXPECT(y[0] == 1 && y[1] == 0 && y[3] == 0);
}
