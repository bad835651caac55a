// The kernels of weight_only.cu without a GPU.
#include "tensor_core_on_cpu.h"

#include "cuda/kernels/weight_only.cu"

#include <random>
#include <vector>

#include "testing.h"

using namespace rush;

namespace {

std::mt19937 generator(1);

template <class T>
std::vector<T> numbers(size_t n, float size) {
  std::uniform_real_distribution<float> any(-size, size);
  std::vector<T> out(n);
  for (T& x : out) x = T(any(generator));
  return out;
}

template <class T>
bool is_near(const std::vector<T>& got, const std::vector<double>& want, double within) {
  double off = 0, all = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    off += (double(float(got[i])) - want[i]) * (double(float(got[i])) - want[i]);
    all += want[i] * want[i];
  }
  return off < within * within * all;
}

template <class T, int Tiles>
void run_int8(int64_t m, int64_t n, int64_t k) {
  const auto x = numbers<T>(size_t(m * k), 1), scales = numbers<T>(size_t(n), 0.1f);
  std::vector<i8> w(size_t(n * k));
  for (i8& v : w) v = i8(int(generator() % 256) - 128);
  std::vector<T> out(size_t(m * n));
  const WeightOnlyArgs args{x.data(), w.data(), scales.data(), out.data(), m, n, k, 0};
  launch_together({unsigned((n + 7) / 8)}, {kThreads}, int8_rows<T, Tiles>, args);
  std::vector<double> want;
  for (int64_t r = 0; r < m; ++r) {
    for (int64_t c = 0; c < n; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += float(x[size_t(r * k + i)]) * w[size_t(c * k + i)];
      want.push_back(sum * float(scales[size_t(c)]));
    }
  }
  EXPECT(is_near(out, want, 0.004));
}

// Where the number of row n and column k lies: the word, and how far up.
template <int I>
std::pair<size_t, int> place(int64_t n, int64_t k, int64_t depth) {
  const int64_t inside = k % 16, tile = k / 16 % I, step = k / (16 * I);
  const int64_t lane = n % 8 * 4 + inside % 8 / 2;
  const int64_t word = ((n / 8 * (depth / (16 * I)) + step) * 32 + lane) * (I / 2) + tile / 2;
  return {size_t(word), int(8 * (tile % 2) + 4 * (inside / 8) + 16 * (inside % 2))};
}

template <class T, int Tiles, int I>
void run_int4(int64_t m, int64_t n, int64_t k, int group) {
  const auto x = numbers<T>(size_t(m * k), 1), scales = numbers<T>(size_t(k / group * n * 2), 0.1f);
  std::vector<u32> w(size_t(n * k / 8));
  std::vector<double> want(size_t(m * n));
  for (int64_t c = 0; c < n; ++c) {
    for (int64_t i = 0; i < k; ++i) {
      const int number = int(generator() % 16);
      const auto [word, shift] = place<I>(c, i, k);
      w[word] |= u32(number) << shift;
      const size_t pair = size_t((i / group * n + c) * 2);
      const double weight = (number - 8) * float(scales[pair]) + float(scales[pair + 1]);
      for (int64_t r = 0; r < m; ++r)
        want[size_t(r * n + c)] += float(x[size_t(r * k + i)]) * weight;
    }
  }
  std::vector<T> out(size_t(m * n));
  const WeightOnlyArgs args{x.data(), w.data(), scales.data(), out.data(), m, n, k, group};
  launch_together({unsigned(n / 8)}, {kThreads}, int4_tiles<T, Tiles, I>, args);
  EXPECT(is_near(out, want, 0.01));
}

}  // namespace

TEST(rows_by_bytes) {
  run_int8<bfloat16, 1>(1, 11, 1040);  // columns and depth that end within a step
  run_int8<half, 1>(16, 8, 128);
  run_int8<bfloat16, 2>(19, 16, 2304);
}
TEST(rows_by_halves_of_bytes) {
  run_int4<bfloat16, 1, 8>(1, 16, 1280, 128);
  run_int4<half, 1, 4>(9, 8, 192, 32);
  run_int4<bfloat16, 2, 2>(20, 8, 512, 256);
}
