// Matrix products against three plain loops in double or int64, over types, shapes and strides.
#include "cpu/linalg/gemm.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/threads.h"
#include "testing.h"

using namespace rush;

namespace {

constexpr DType kFloats[] = {DType::Float32,  DType::Float64,   DType::Float16,
                             DType::BFloat16, DType::Complex64, DType::Complex128};
constexpr DType kIntegers[] = {DType::UInt8, DType::Int8, DType::Int16, DType::Int32, DType::Int64};

using Value = complex<double>;

Value read(const Tensor& t, int64_t offset) {
  const char* p = static_cast<char*>(t.storage()->data()) + offset * t.element_size();
  return load_scalar(p, t.dtype()).to<Value>();
}
void write(const Tensor& t, int64_t offset, const Value& v) {
  char* p = static_cast<char*>(t.storage()->data()) + offset * t.element_size();
  if (t.is_complex())
    store_scalar(p, t.dtype(), Scalar(v));
  else if (t.is_floating())
    store_scalar(p, t.dtype(), Scalar(v.re));
  else
    store_scalar(p, t.dtype(), Scalar(int64_t(v.re)));
}

// Small whole numbers: exact in every type, so that sums are exact too, up to rounding at the end.
void fill(const Tensor& t, unsigned seed) {
  const int64_t count = int64_t(t.storage()->nbytes()) / t.element_size();
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const double re = int(seed >> 24) % 5 - 2, im = int(seed >> 16 & 0xff) % 3 - 1;
    write(t, i, Value{re, im});
  }
}

enum class Shape { Plain, Transposed, Sliced, Gaps };
constexpr Shape kShapes[] = {Shape::Plain, Shape::Transposed, Shape::Sliced, Shape::Gaps};

// A (batch,) rows x cols tensor of that layout, with memory around it that must stay as it was.
Tensor make(IntList sizes, DType dtype, Shape layout) {
  const size_t d = sizes.size() - 2;
  const int64_t rows = sizes[d], cols = sizes[d + 1];
  int64_t row = cols, col = 1;
  if (layout == Shape::Transposed) row = 1, col = rows;
  if (layout == Shape::Sliced) row = cols + 3;
  if (layout == Shape::Gaps) row = 2 * cols + 5, col = 2;
  const int64_t one = (rows + 1) * row + (cols + 1) * col, batch = d ? sizes[0] : 1;
  const Tensor whole = make_tensor(Dims{one * batch + 7}, dtype);
  Dims strides = d ? Dims{one, row, col} : Dims{row, col};
  return whole.alias(sizes, strides, 3);
}

struct Case {
  int64_t batch = 0, m, n, k;  // batch 0: two dimensions
  double alpha = 1, beta = 0;
};

Dims sizes_of(int64_t batch, int64_t rows, int64_t cols) {
  return batch ? Dims{batch, rows, cols} : Dims{rows, cols};
}

double tolerance(DType t, int64_t k) {
  switch (t) {
    case DType::Float16:
      return 2e-3;
    case DType::BFloat16:
      return 1.6e-2;
    case DType::Float32:
    case DType::Complex64:
      return 1e-6 * std::sqrt(double(k + 1));
    default:
      return 1e-13;
  }
}

bool close(const Value& got, const Value& want, DType dtype, int64_t k) {
  if (!is_floating(dtype) && category(dtype) != Category::Complex) {
    const Tensor cell = make_tensor(Dims{1}, dtype);  // wraps as the type does
    write(cell, 0, want);
    return got.re == read(cell, 0).re;
  }
  const double bound = tolerance(dtype, k) * (1 + std::abs(want.re) + std::abs(want.im));
  return std::abs(got.re - want.re) <= bound && std::abs(got.im - want.im) <= bound;
}

Value product_at(const Tensor& a, const Tensor& b, int64_t batch, int64_t i, int64_t j, int64_t k) {
  const size_t d = size_t(a.dim()) - 2;
  const int64_t a0 = a.offset() + (d ? batch * a.strides()[0] : 0) + i * a.strides()[d];
  const int64_t b0 = b.offset() + (d ? batch * b.strides()[0] : 0) + j * b.strides()[d + 1];
  Value sum{0, 0};
  for (int64_t l = 0; l < k; ++l) {
    const Value x = read(a, a0 + l * a.strides()[d + 1]), y = read(b, b0 + l * b.strides()[d]);
    sum.re += x.re * y.re - x.im * y.im;
    sum.im += x.re * y.im + x.im * y.re;
  }
  return sum;
}

// Every element of the result, and every element around it. `sample` skips some of a large one.
bool right(const Case& c, DType dtype, Shape la, Shape lb, Shape lc, int64_t sample = 1) {
  const Tensor a = make(sizes_of(c.batch, c.m, c.k), dtype, la);
  const Tensor b = make(sizes_of(c.batch, c.k, c.n), dtype, lb);
  const Tensor out = make(sizes_of(c.batch, c.m, c.n), dtype, lc);
  fill(a, 1);
  fill(b, 2);
  fill(out, 3);
  const int64_t count = int64_t(out.storage()->nbytes()) / out.element_size();
  std::vector<Value> before;
  for (int64_t i = 0; i < count; ++i) before.push_back(read(out, i));
  const bool poison = c.beta == 0 && out.is_floating();
  std::vector<bool> inside(size_t(count), false);
  const size_t d = size_t(out.dim()) - 2;
  const auto place = [&](int64_t batch, int64_t i, int64_t j) {
    return out.offset() + (d ? batch * out.strides()[0] : 0) + i * out.strides()[d] +
           j * out.strides()[d + 1];
  };
  for (int64_t batch = 0; batch < std::max<int64_t>(c.batch, 1); ++batch)
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        inside[size_t(place(batch, i, j))] = true;
        if (poison) write(out, place(batch, i, j), {std::numeric_limits<double>::quiet_NaN(), 0});
      }

  const bool whole = !out.is_floating() && !out.is_complex();
  gemm_cpu(a, b, out, whole ? Scalar(int64_t(c.alpha)) : Scalar(c.alpha),
           whole ? Scalar(int64_t(c.beta)) : Scalar(c.beta));

  for (int64_t i = 0; i < count; ++i)
    if (!inside[size_t(i)] && !(read(out, i).re == before[size_t(i)].re)) return false;
  for (int64_t batch = 0; batch < std::max<int64_t>(c.batch, 1); ++batch)
    for (int64_t e = 0; e < c.m * c.n; e += sample) {
      const int64_t i = e / c.n, j = e % c.n, at = place(batch, i, j);
      Value want = product_at(a, b, batch, i, j, c.k);
      const Value old = before[size_t(at)];
      want = {c.alpha * want.re + (c.beta == 0 ? 0 : c.beta * old.re),
              c.alpha * want.im + (c.beta == 0 ? 0 : c.beta * old.im)};
      if (close(read(out, at), want, dtype, c.k)) continue;
      std::cerr << dtype << " " << c.batch << ":" << c.m << "x" << c.n << "x" << c.k << " alpha "
                << c.alpha << " beta " << c.beta << " layouts " << int(la) << int(lb) << int(lc)
                << " at " << i << "," << j << ": " << read(out, at).re << " not " << want.re
                << "\n";
      return false;
    }
  return true;
}

template <class F>
void for_each_type(F&& f) {
  for (DType t : kFloats) f(t);
  for (DType t : kIntegers) f(t);
}

}  // namespace

TEST(small_shapes_of_every_layout) {
  for_each_type([](DType t) {
    for (Shape la : kShapes)
      for (Shape lb : kShapes)
        for (Shape lc : kShapes)
          for (const Case& c :
               {Case{0, 4, 4, 4}, Case{0, 3, 5, 2, 2, 1}, Case{0, 16, 16, 16},
                Case{0, 17, 7, 18, -1, 2}, Case{0, 1, 9, 33, 1, 1}, Case{0, 40, 1, 20}})
            EXPECT(right(c, t, la, lb, lc));
  });
}

TEST(empty_sizes) {
  for_each_type([](DType t) {
    for (const Case& c :
         {Case{0, 0, 3, 2}, Case{0, 3, 0, 2}, Case{0, 3, 2, 0}, Case{0, 3, 2, 0, 1, 2},
          Case{2, 3, 2, 0}, Case{2, 0, 2, 3}, Case{0, 0, 0, 0}, Case{0, 20, 30, 5, 0, 1}})
      EXPECT(right(c, t, Shape::Plain, Shape::Plain, Shape::Plain));
  });
}

TEST(middle_shapes) {
  for_each_type([](DType t) {
    for (Shape l : kShapes)
      for (const Case& c :
           {Case{0, 65, 70, 67}, Case{0, 31, 130, 300, 1, 1}, Case{0, 120, 3, 90, 2, 0}}) {
        EXPECT(right(c, t, l, Shape::Plain, Shape::Plain, 7));
        EXPECT(right(c, t, Shape::Plain, l, Shape::Transposed, 7));
        EXPECT(right(c, t, Shape::Transposed, Shape::Sliced, l, 7));
      }
  });
}

TEST(large_shapes) {
  for_each_type([](DType t) {
    for (Shape l : kShapes) EXPECT(right({0, 257, 300, 290, 1, 1}, t, l, l, Shape::Sliced, 101));
    EXPECT(right({0, 1100, 33, 70}, t, Shape::Plain, Shape::Plain, Shape::Plain, 101));
    EXPECT(right({0, 2000, 1, 300}, t, Shape::Transposed, Shape::Plain, Shape::Plain, 11));
    EXPECT(right({0, 1, 2000, 300}, t, Shape::Plain, Shape::Plain, Shape::Plain, 11));
  });
}

TEST(batches) {
  for_each_type([](DType t) {
    for (Shape l : kShapes)
      for (const Case& c :
           {Case{1, 3, 4, 5}, Case{7, 4, 4, 4, 2, 1}, Case{5, 20, 18, 33}, Case{3, 70, 80, 60}})
        EXPECT(right(c, t, l, Shape::Plain, l, 3));
  });
}

TEST(a_batch_may_share_an_operand) {
  const Tensor a = make_tensor(Dims{6, 5, 3}, DType::Float32),
               b = make_tensor(Dims{3, 4}, DType::Float32);
  fill(a, 1);
  fill(b, 2);
  const Tensor shared_b = b.alias(Dims{6, 3, 4}, Dims{0, 4, 1}, 0);
  const Tensor shared_a = a.alias(Dims{6, 5, 3}, Dims{0, 3, 1}, 0);
  const Tensor out = make_tensor(Dims{6, 5, 4}, DType::Float32);
  for (const Tensor& left : {a, shared_a}) {
    gemm_cpu(left, shared_b, out);
    for (int64_t e = 0; e < out.numel(); ++e)
      EXPECT(read(out, e).re == product_at(left, shared_b, e / 20, e / 4 % 5, e % 4, 3).re);
  }
}

TEST(vectors) {
  for_each_type([](DType t) {
    for (int64_t k : {0, 1, 7, 64, 1000, 70000})
      for (int64_t stride : {1, 2}) {
        const Tensor a = make_tensor(Dims{k * stride + 1}, t), b = make_tensor(Dims{k + 1}, t);
        fill(a, 1);
        fill(b, 2);
        const Tensor x = a.alias(Dims{k}, Dims{stride}, 1), y = b.alias(Dims{k}, Dims{1}, 1);
        const Tensor out = make_tensor(Dims{}, t);
        dot_cpu(x, y, out);
        const Tensor row = a.alias(Dims{1, k}, Dims{1, stride}, 1);
        const Tensor column = b.alias(Dims{k, 1}, Dims{1, 1}, 1);
        EXPECT(close(read(out, 0), product_at(row, column, 0, 0, 0, k), t, k));
      }
    const Tensor a = make(Dims{9, 5}, t, Shape::Sliced), x = make_tensor(Dims{5}, t);
    const Tensor out = make_tensor(Dims{18}, t), y = out.alias(Dims{9}, Dims{2}, 0);
    fill(a, 1);
    fill(x, 2);
    gemv_cpu(a, x, y);
    for (int64_t i = 0; i < 9; ++i)
      EXPECT(close(read(out, 2 * i), product_at(a, x.alias(Dims{5, 1}, Dims{1, 1}, 0), 0, i, 0, 5),
                   t, 5));
  });
}

TEST(bool_is_refused) {
  const Tensor a = make_tensor(Dims{2, 2}, DType::Bool);
  const std::string message =
      testing::message_of([&] { gemm_cpu(a, a, make_tensor(Dims{2, 2}, DType::Bool)); });
  EXPECT(message == "matmul: not implemented for bool tensors");
}

TEST(threads_do_not_change_our_own_kernels) {
  const Tensor a = make_tensor(Dims{300, 400}, DType::Float32),
               x = make_tensor(Dims{400}, DType::Float32);
  for (int64_t i = 0; i < a.numel(); ++i) a.data<float>()[i] = std::sin(float(i));
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::cos(float(i));
  const int before = num_threads();
  const Tensor one = make_tensor(Dims{300}, DType::Float32),
               two = make_tensor(Dims{300}, DType::Float32);
  set_num_threads(1);
  gemv_cpu(a, x, one);
  set_num_threads(2);
  gemv_cpu(a, x, two);
  set_num_threads(before);
  for (int64_t i = 0; i < 300; ++i) EXPECT(one.data<float>()[i] == two.data<float>()[i]);
}

TEST(inside_a_parallel_loop) {
  std::vector<int> ok(8, 0);
  parallel_for(8, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      ok[size_t(i)] = right({0, 130, 140, 150}, i % 2 ? DType::Float32 : DType::Float64,
                            Shape::Plain, Shape::Plain, Shape::Plain, 997);
  });
  for (int good : ok) EXPECT(good);
}

// libgomp's threads, which the parent has used by now, do not exist in the child.
TEST(a_forked_child_can_multiply) {
  const auto all = [] {
    bool ok = true;
    for (DType t : {DType::Float32, DType::Float64, DType::BFloat16, DType::Int32})
      ok = ok && right({0, 200, 210, 220}, t, Shape::Plain, Shape::Plain, Shape::Plain, 997) &&
           right({8, 70, 80, 90}, t, Shape::Plain, Shape::Plain, Shape::Plain, 997);
    return ok;
  };
  EXPECT(all());
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(all() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT(all());
}
