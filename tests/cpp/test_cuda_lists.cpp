// The CUDA kernels for lists of tensors, without a GPU: lists.cu compiled by g++ and run on the CPU.
#include "cuda_on_cpu.h"

#include <cmath>
#include <limits>
#include <vector>

#include "testing.h"

#include "cuda/kernels/lists.cu"
#include "cuda_kernels.h"

using namespace rush;

namespace {

// One that is shorter than a pack, one of exactly a piece, one of two pieces and a bit, and more.
const std::vector<i64> kSizes = {3, kListPiece, 2 * kListPiece + 7, 1, kListPiece + 1};

template <class T>
std::vector<std::vector<T>> counted_list(int modulus = 1000) {
  std::vector<std::vector<T>> lists;
  for (const i64 n : kSizes) lists.push_back(counted<T>(size_t(n), modulus));
  return lists;
}

ListPieces cut() {
  ListPieces pieces{};
  for (const i64 n : kSizes) {
    const int t = pieces.tensors++;
    pieces.numel[t] = n;
    pieces.first[t + 1] = pieces.first[t] + u32((n + kListPiece - 1) / kListPiece);
  }
  return pieces;
}

}  // namespace

TEST(every_element_has_one_place) {
  const ListPieces pieces = cut();
  std::vector<i64> next(kSizes.size(), 0);
  bool in_order = true;
  for (u32 piece = 0; piece < pieces.first[pieces.tensors]; ++piece) {
    const ListPlace at = place_of(pieces, piece);
    in_order &= at.begin == next[size_t(at.tensor)] && at.begin < at.end;
    next[size_t(at.tensor)] = at.end;
  }
  EXPECT(in_order && next == kSizes);
}

// x + alpha y, alpha a number of each tensor's own; backwards and forwards.
TEST(list_of_two_with_own_numbers) {
  for (const bool backwards : {false, true}) {
    const auto y = counted_list<float>();
    auto x = counted_list<half>();
    const auto before = x;
    ListArgs<2> args{};
    args.pieces = cut();
    args.own = 1u << 2;
    args.backwards = backwards;
    for (size_t t = 0; t < x.size(); ++t) {
      args.out[t] = x[t].data();
      args.in[0][t] = x[t].data();
      args.in[1][t] = y[t].data();
      args.numbers[t] = double(t) - 1;
    }
    launch({args.pieces.first[args.pieces.tensors]}, kBlock,
           list_pointwise<functors::AddAlpha<float>, 1, float, 4, half, half, float>, args);
    bool same = true;
    for (size_t t = 0; t < x.size(); ++t)
      for (size_t i = 0; i < x[t].size(); ++i)
        same &= x[t][i].bits == half(float(before[t][i]) + (float(t) - 1) * y[t][i]).bits;
    EXPECT(same);
  }
}

// One factor for all, on the device; a product with 1 moves nothing, one with nan does.
TEST(list_times_a_shared_factor) {
  const auto before = counted_list<float>();
  for (const double factor : {0.5, 1.0, std::nan("")}) {
    auto x = before;
    ListArgs<2> args{};
    args.pieces = cut();
    args.single = 0b10;
    args.shared[1] = &factor;
    for (size_t t = 0; t < x.size(); ++t) args.out[t] = x[t].data(), args.in[0][t] = x[t].data();
    launch({args.pieces.first[args.pieces.tensors]}, kBlock,
           list_pointwise<functors::Mul, 0, float, 4, float, float, double>, args);
    bool same = true;
    for (size_t t = 0; t < x.size(); ++t)
      for (size_t i = 0; i < x[t].size(); ++i)
        same &= std::isnan(factor) ? std::isnan(x[t][i]) : x[t][i] == before[t][i] * float(factor);
    EXPECT(same);
  }
}

// Out of place, a factor of 1 has to copy all the same.
TEST(list_times_one_out_of_place) {
  const auto x = counted_list<float>();
  auto out = counted_list<float>(2);
  const float one = 1;
  ListArgs<2> args{};
  args.pieces = cut();
  args.single = 0b10;
  args.shared[1] = &one;
  for (size_t t = 0; t < x.size(); ++t) args.out[t] = out[t].data(), args.in[0][t] = x[t].data();
  launch({args.pieces.first[args.pieces.tensors]}, kBlock,
         list_pointwise<functors::Mul, 0, float, 4, float, float, float>, args);
  EXPECT(out == x);
}

// Bounds that came as numbers, elements one by one; and zeros everywhere.
TEST(list_with_given_numbers) {
  auto x = counted_list<double>();
  const auto before = x;
  ListArgs<3> args{};
  args.pieces = cut();
  args.given = 0b110;
  args.given_numbers[1] = real(-3);
  args.given_numbers[2] = real(30.5);
  ListArgs<1> zero{};
  zero.pieces = args.pieces;
  zero.given = 1;
  zero.given_numbers[0] = real(0);
  for (size_t t = 0; t < x.size(); ++t) {
    args.out[t] = zero.out[t] = x[t].data();
    args.in[0][t] = x[t].data();
  }
  const Dim3 grid{args.pieces.first[args.pieces.tensors]};
  launch(grid, kBlock,
         list_pointwise<functors::ClampTensor, 0, double, 1, double, double, double, double>, args);
  bool same = true;
  for (size_t t = 0; t < x.size(); ++t)
    for (size_t i = 0; i < x[t].size(); ++i) same &= x[t][i] == std::min(before[t][i], 30.5);
  EXPECT(same);
  launch(grid, kBlock, list_pointwise<functors::Positive, 0, double, 2, double, double>, zero);
  same = true;
  for (const auto& list : x)
    for (const double value : list) same &= value == 0;
  EXPECT(same);
}

namespace {

// The norms of all tensors and of each, by both launches.
template <template <class> class Fold, int V = 4, class T>
std::vector<double> norms_of(const std::vector<std::vector<T>>& x, bool each) {
  ListNormArgs args{};
  args.pieces = cut();
  const u32 pieces = args.pieces.first[args.pieces.tensors];
  std::vector<double> partial(pieces), out(each ? x.size() : 1);
  args.partial = partial.data();
  for (size_t t = 0; t < x.size(); ++t) args.in[t] = x[t].data();
  launch_together({pieces}, kBlock, list_norm<Fold<float>, T, V>, args);
  ListJoinArgs join{};
  join.partial = partial.data();
  for (size_t k = 0; k < out.size(); ++k) {
    join.begin[k] = each ? args.pieces.first[k] : 0;
    join.end[k] = each ? args.pieces.first[k + 1] : pieces;
    join.out[k] = &out[k];
  }
  launch_together({unsigned(out.size())}, kBlock, list_join<Fold<double>, double>, join);
  return out;
}

}  // namespace

TEST(list_norms) {
  auto x = counted_list<float>();
  for (auto& list : x)
    for (float& value : list) value = value * 1e20f - 5e22f;  // their squares are no floats
  std::vector<double> sums, largest;
  double total = 0, top = 0;
  for (const auto& list : x) {
    sums.push_back(0);
    largest.push_back(0);
    for (const float value : list) {
      sums.back() += double(value) * double(value);
      largest.back() = std::max(largest.back(), std::abs(double(value)));
    }
    total += sums.back();
    top = std::max(top, largest.back());
  }
  const auto close = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); };
  EXPECT(close(norms_of<folds::Norm2>(x, false)[0], std::sqrt(total)));
  EXPECT(norms_of<folds::NormInf>(x, false)[0] == top);
  EXPECT(norms_of<folds::NormInf>(x, true) == largest);
  EXPECT((close(norms_of<folds::Norm2, 1>(x, false)[0], std::sqrt(total))));
  const auto each = norms_of<folds::Norm2>(x, true);
  bool same = true;
  for (size_t t = 0; t < x.size(); ++t) same &= close(each[t], std::sqrt(sums[t]));
  EXPECT(same);
  x[2].back() = std::numeric_limits<float>::quiet_NaN();
  EXPECT(std::isnan(norms_of<folds::NormInf>(x, false)[0]));
  EXPECT(std::isnan(norms_of<folds::Norm1>(x, true)[2]) &&
         std::isfinite(norms_of<folds::Norm1>(x, true)[4]));
}

TEST(list_unscale_finds_what_is_not_finite) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {0.0f, inf, std::nanf("")}) {
    for (const float factor : {0.25f, 1.0f}) {
      auto x = counted_list<half>();
      if (bad != 0) x[2].back() = half(bad);
      const auto before = x;
      float found = 0;
      ListUnscaleArgs args{};
      args.pieces = cut();
      args.factor = &factor;
      args.found = &found;
      for (size_t t = 0; t < x.size(); ++t) args.data[t] = x[t].data();
      launch({args.pieces.first[args.pieces.tensors]}, kBlock, list_unscale<float, half, 8>, args);
      EXPECT(found == (bad != 0 ? 1 : 0));
      bool same = true;
      for (size_t t = 0; t < x.size(); ++t)
        for (size_t i = 0; i < x[t].size(); ++i)
          same &= x[t][i].bits == half(float(before[t][i]) * factor).bits || std::isnan(bad);
      EXPECT(same);
    }
  }
}

namespace {

// Weights of convolutions, and images: channels that fill parts of a block's room or not, one point, many.
struct Moved {
  i64 batch, channels, points;
};
const std::vector<Moved> kMoved = {{2, 3, 9}, {3, 600, 9}, {1, 5, 4096}, {4, 257, 1}, {2, 1, 25}};

template <class To, class From, bool last>
bool moves_right() {
  std::vector<std::vector<From>> from;
  std::vector<std::vector<To>> to;
  ListMoveArgs args{};
  for (const Moved& m : kMoved) {
    const int t = args.tensors++;
    from.push_back(counted<From>(size_t(m.batch * m.channels * m.points), 2000));
    to.emplace_back(from.back().size());
    args.channels[t] = u32(m.channels), args.points[t] = u32(m.points);
    args.part[t] = std::clamp<u32>(u32(kMovedElements) / args.points[t], 1, kMovedChannels);
    args.first[t + 1] =
        args.first[t] + u32(m.batch) * ((args.channels[t] + args.part[t] - 1) / args.part[t]);
  }
  for (size_t t = 0; t < from.size(); ++t) args.from[t] = from[t].data(), args.to[t] = to[t].data();
  launch_together({args.first[args.tensors]}, kBlock, list_move_channels<To, From, last>, args);
  bool same = true;
  for (size_t t = 0; t < from.size(); ++t) {
    const auto [batch, channels, points] = kMoved[t];
    for (i64 b = 0; b < batch; ++b)
      for (i64 c = 0; c < channels; ++c)
        for (i64 p = 0; p < points; ++p) {
          const auto along = size_t((b * channels + c) * points + p);
          const auto across = size_t((b * points + p) * channels + c);
          const From x = from[t][last ? along : across];
          same &= float(to[t][last ? across : along]) == float(To(float(x)));
        }
  }
  return same;
}

}  // namespace

TEST(list_that_moves_channels) {
  EXPECT((moves_right<bfloat16, float, true>()));
  EXPECT((moves_right<float, bfloat16, false>()));
  EXPECT((moves_right<float, half, true>()));
  EXPECT((moves_right<half, half, false>()));
}
