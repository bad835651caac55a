// The kernels for matrices and special functions, without a GPU: see cuda_on_cpu.h.
#include "cuda_on_cpu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "testing.h"

#include "cuda/kernels/few_rows.cu"
#include "cuda/kernels/matrices.cu"
#include "cuda/kernels/odd_rows.cu"
#include "cuda/kernels/special.cu"
#include "cuda_kernels.h"

using namespace rush;

TEST(exchanges_as_a_permutation) {
  const std::vector<i32> pivots{3, 2, 3, 4, 4, 4, 77, 0, 3};  // those out of range are left out
  std::vector<i64> out(12);
  launch({1}, kBlock, permutation<i64>, PermutationArgs{3, 4, 3, pivots.data(), out.data()});
  EXPECT((out == std::vector<i64>{2, 1, 0, 3, 3, 0, 1, 2, 0, 1, 2, 3}));
}

namespace {

// Q e_j by applying the reflections one after the other, the last one first.
template <class T>
std::vector<T> column_of_q(const std::vector<T>& a, const T* tau, i64 rows, i64 k, i64 j) {
  std::vector<T> x(size_t(rows), T(0));
  x[size_t(j)] = T(1);
  for (i64 i = k - 1; i >= 0; --i) {
    const auto v = [&](i64 l) { return l < i ? T(0) : l == i ? T(1) : a[size_t(i * rows + l)]; };
    T sum(0);
    for (i64 l = i; l < rows; ++l) sum = sum + conjugate(v(l)) * x[size_t(l)];
    for (i64 l = i; l < rows; ++l) x[size_t(l)] = x[size_t(l)] - tau[i] * v(l) * sum;
  }
  return x;
}

template <class T>
T number(int i) {
  if constexpr (is_complex_v<T>)
    return T(std::sin(double(i)), std::cos(3.0 * i));
  else
    return T(std::sin(double(i)));
}

double size(double x) { return std::fabs(x); }
double size(complex<double> x) { return std::hypot(x.re, x.im); }

template <class T>
double largest_error(i64 count, i64 rows, i64 cols, i64 k) {
  std::vector<T> a(size_t(count * rows * cols)), tau(size_t(count * k));
  for (size_t i = 0; i < a.size(); ++i) a[i] = number<T>(int(i));
  for (size_t i = 0; i < tau.size(); ++i) tau[i] = number<T>(int(i) + 1000);
  std::vector<T> q = a;
  launch_together({2}, kBlock, form_q<T>, FormQArgs{count, rows, cols, k, q.data(), tau.data()});
  double worst = 0;
  for (i64 m = 0; m < count; ++m) {
    const auto first = a.begin() + m * rows * cols;
    const std::vector<T> one(first, first + rows * cols);
    for (i64 j = 0; j < cols; ++j) {
      const std::vector<T> want = column_of_q(one, tau.data() + m * k, rows, k, j);
      for (i64 l = 0; l < rows; ++l) {
        const T difference = q[size_t((m * cols + j) * rows + l)] - want[size_t(l)];
        worst = std::fmax(worst, size(difference) / (1 + size(want[size_t(l)])));
      }
    }
  }
  return worst;
}

}  // namespace

TEST(orthogonal_factors) {
  EXPECT(largest_error<double>(3, 7, 4, 4) < 1e-12);
  EXPECT(largest_error<double>(1, 5, 5, 0) == 0);
  EXPECT(largest_error<double>(3, 70, 12, 3) < 1e-10);
  EXPECT(largest_error<complex<double>>(2, 40, 40, 5) < 1e-10);
}

TEST(special_functions) {
  std::vector<double> x(1000), out(1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.01 * double(i) - 4;
  PointwiseArgs<1> args{};
  args.n = i64(x.size()), args.out = out.data(), args.in[0] = x.data();
  launch({1}, kBlock, pointwise_flat<functors::Ndtr, 0, double, 1, double, double>, args);
  bool near = true;
  for (size_t i = 0; i < x.size(); ++i)
    near &= std::fabs(out[i] - 0.5 * std::erfc(-x[i] / std::sqrt(2.0))) < 1e-15;
  EXPECT(near);
  args.params[0] = whole(0), args.params[1] = whole(1);  // J of order 1
  launch({1}, kBlock, pointwise_flat<functors::Bessel<double>, 2, double, 1, double, double>, args);
  for (size_t i = 400; i < x.size(); i += 37)
    near &= std::fabs(out[i] - std::cyl_bessel_j(1.0, x[i])) < 1e-14;
  EXPECT(near);
}

TEST(few_rows_by_a_large_matrix) {
  constexpr i64 n = 11,
                k = 2312;  // not all warps of the last block have a column; a rest of a step
  const auto numbers = [](size_t count, int modulus) {
    const std::vector<float> from = counted<float>(count, modulus);
    std::vector<bfloat16> to;
    for (const float x : from) to.push_back(bfloat16(x - float(modulus / 2)));
    return to;
  };
  const auto a = numbers(3 * k, 9), b = numbers(n * k, 13), bias = numbers(n, 5);
  std::vector<bfloat16> out(3 * n, bfloat16(99.0f));
  for (const int shift : {0, 1, 3}) {
    const int parts = 1 << shift, each = int(k / parts + 256) / 256 * 256;
    const unsigned blocks = unsigned(n * parts + 7) / 8;
    // Alone, and as two of three products in one launch: the last has another split, and no bias.
    for (const int count : {1, 3}) {
      std::vector<bfloat16> more(3 * n, bfloat16(99.0f)), last(3 * n, bfloat16(99.0f));
      std::fill(out.begin(), out.end(), bfloat16(99.0f));
      FewRowsArgs args{};
      args.a = a.data(), args.a_row = k, args.rows = 3, args.k = k, args.count = count;
      const auto factor = [&](std::vector<bfloat16>& to, unsigned first) {
        return FewRowsArgs::Factor{b.data(), bias.data(), to.data(), n,     k,
                                   n,        1,           each,      shift, first};
      };
      args.factors[0] = factor(out, 0), args.factors[1] = factor(more, blocks);
      args.factors[2] = factor(last, 2 * blocks);
      args.factors[2].bias = nullptr, args.factors[2].shift = 2, args.factors[2].each = 768;
      const unsigned all = count == 1 ? blocks : 2 * blocks + unsigned(n * 4 + 7) / 8;
      launch_together({all}, kBlock, few_rows<bfloat16, 3>, args);
      for (size_t r = 0; r < 3; ++r) {
        for (size_t c = 0; c < n; ++c) {
          float sum = 0;
          for (size_t i = 0; i < k; ++i) sum += float(a[r * k + i]) * float(b[c * k + i]);
          const u16 right =
              bfloat16(sum + float(bias[c])).bits;  // whole numbers: exact in any order
          EXPECT(out[r * n + c].bits == right);
          EXPECT(more[r * n + c].bits == (count == 1 ? bfloat16(99.0f).bits : right));
          EXPECT(last[r * n + c].bits == bfloat16(count == 1 ? 99.0f : sum).bits);
        }
      }
    }
  }
}

TEST(rows_that_begin_anywhere) {
  constexpr size_t rows = 3, width = 2051, step = 2056;
  const auto from = counted<u16>(rows * width + 1, 60000);
  std::vector<u16> aligned((rows + 1) * step, 7), back(rows * width + 1, 7);
  const OddRowsArgs there{from.data() + 1, aligned.data(), width, step, rows, width, step};
  launch({2 * (rows + 1)}, kBlock, copy_odd_rows<u16>, there);  // a row of zeros more
  for (size_t i = 0; i < aligned.size(); ++i)
    EXPECT(aligned[i] ==
           (i % step < width && i / step < rows ? from[1 + i / step * width + i % step] : 0));
  const OddRowsArgs again{aligned.data(), back.data() + 1, step, width, rows, width, width};
  launch({2 * rows}, kBlock, copy_odd_rows<u16>, again);
  EXPECT(back[0] == 7 && std::equal(back.begin() + 1, back.end(), from.begin() + 1));
}
