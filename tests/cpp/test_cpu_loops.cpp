// The CPU loops against naive ones: layouts, types, threads.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "core/threads.h"
#include "cpu/copy/copy.h"
#include "device/pointwise.h"
#include "device/reduce.h"
#include "testing.h"

using namespace rush;

namespace {

Tensor random_tensor(IntList sizes, DType type, unsigned seed = 1, double low = -3,
                     double high = 3) {
  const Tensor wide = make_tensor(sizes, DType::Float64);
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> draw(low, high);
  for (int64_t i = 0; i < wide.numel(); ++i) wide.data<double>()[i] = draw(engine);
  if (type == DType::Float64) return wide;
  const Tensor out = make_tensor(sizes, type);
  copy_cpu(wide, out);
  return out;
}

// The element at a row-major index, broadcast to `shape`.
int64_t offset_of(const Tensor& t, IntList shape, int64_t index) {
  int64_t offset = 0;
  for (int64_t d = int64_t(shape.size()) - 1; d >= 0; --d) {
    const int64_t i = index % shape[size_t(d)];
    index /= shape[size_t(d)];
    const int64_t own = d - (int64_t(shape.size()) - t.dim());
    if (own >= 0 && t.sizes()[size_t(own)] != 1) offset += i * t.strides()[size_t(own)];
  }
  return offset;
}
double at(const Tensor& t, IntList shape, int64_t index) {
  const char* p = t.data<char>() + offset_of(t, shape, index) * t.element_size();
  return load_scalar(p, t.dtype()).to_double();
}
double at(const Tensor& t, int64_t index) { return at(t, t.sizes(), index); }

bool close(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= tolerance * (1 + std::abs(b));
}

Tensor transposed(const Tensor& t, int64_t a, int64_t b) {
  Dims sizes = t.sizes(), strides = t.strides();
  std::swap(sizes[size_t(a)], sizes[size_t(b)]);
  std::swap(strides[size_t(a)], strides[size_t(b)]);
  return t.alias(sizes, strides, t.offset());
}
Tensor every_second(const Tensor& t, int64_t dim) {
  Dims sizes = t.sizes(), strides = t.strides();
  sizes[size_t(dim)] = (sizes[size_t(dim)] + 1) / 2;
  strides[size_t(dim)] *= 2;
  return t.alias(sizes, strides, t.offset());
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.data(), b.data(), size_t(a.nbytes())) == 0;
}

// Runs f with one thread and with two; the results must have the same bits.
void expect_thread_free(const Tensor& out, const std::function<void()>& f) {
  set_num_threads(2);
  f();
  const Tensor first = make_tensor(out.sizes(), out.dtype());
  copy_cpu(out, first);
  set_num_threads(1);
  f();
  const Tensor second = make_tensor(out.sizes(), out.dtype());
  copy_cpu(out, second);
  set_num_threads(2);
  EXPECT(same_bytes(first, second));
}

bool adds_up(const Tensor& a, const Tensor& b, const Tensor& out, double tolerance = 1e-6) {
  map_binary(BinaryFn::Add, a, b, out);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const double want = at(a, out.sizes(), i) + at(b, out.sizes(), i);
    if (!close(at(out, i), want, tolerance)) return false;
  }
  return true;
}

constexpr DType kFloats[] = {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16};

double tolerance_of(DType t) {
  return t == DType::Float64         ? 1e-13
         : t == DType::Float32       ? 2e-6
         : t == DType::Float16       ? 2e-3
         : t == DType::Float8E8M0FNU ? 0.34  // 1.5 becomes 2
         : is_float8(t)              ? 0.13
                                     : 1e-2;
}

}  // namespace

TEST(binary_layouts) {
  for (DType t : kFloats) {
    const double e = tolerance_of(t);
    const Tensor a = random_tensor(Dims{5, 7, 300}, t, 1), b = random_tensor(Dims{5, 7, 300}, t, 2);
    EXPECT(adds_up(a, b, make_tensor(Dims{5, 7, 300}, t), e));
    EXPECT(adds_up(a, random_tensor(Dims{300}, t, 3), make_tensor(Dims{5, 7, 300}, t), e));
    EXPECT(adds_up(a, random_tensor(Dims{7, 1}, t, 3), make_tensor(Dims{5, 7, 300}, t), e));
    EXPECT(adds_up(random_tensor(Dims{5, 1, 1}, t, 3), a, make_tensor(Dims{5, 7, 300}, t), e));
    EXPECT(adds_up(transposed(a, 0, 2), transposed(b, 0, 2), make_tensor(Dims{300, 7, 5}, t), e));
    EXPECT(adds_up(every_second(a, 2), every_second(b, 2), make_tensor(Dims{5, 7, 150}, t), e));
    EXPECT(adds_up(a, b, transposed(make_tensor(Dims{300, 7, 5}, t), 0, 2), e));
    EXPECT(adds_up(random_tensor(Dims{1}, t, 4), random_tensor(Dims{}, t, 5),
                   make_tensor(Dims{1}, t), e));
    const Tensor empty = make_tensor(Dims{0, 3}, t);
    EXPECT(adds_up(empty, random_tensor(Dims{3}, t), empty, e));
  }
}

TEST(transposed_operand_and_short_rows) {
  const Tensor a = random_tensor(Dims{130, 70}, DType::Float32, 1);
  const Tensor b = transposed(random_tensor(Dims{70, 130}, DType::Float32, 2), 0, 1);
  EXPECT(adds_up(a, b, make_tensor(Dims{130, 70}, DType::Float32)));
  const Tensor c = random_tensor(Dims{1000, 3}, DType::Float32, 3);
  EXPECT(adds_up(c, random_tensor(Dims{3}, DType::Float32, 4),
                 make_tensor(Dims{1000, 3}, DType::Float32)));
  EXPECT(adds_up(c, random_tensor(Dims{1000, 1}, DType::Float32, 4),
                 make_tensor(Dims{1000, 3}, DType::Float32)));
}

TEST(mixed_types_and_numbers) {
  const Tensor a = random_tensor(Dims{3000}, DType::Int32, 1, -50, 50);
  const Tensor b = random_tensor(Dims{3000}, DType::Float32, 2);
  EXPECT(adds_up(a, b, make_tensor(Dims{3000}, DType::Float32)));
  EXPECT(adds_up(b, wrap_number(Scalar(2.5)), make_tensor(Dims{3000}, DType::Float32)));
  EXPECT(adds_up(a, wrap_number(Scalar(7)), make_tensor(Dims{3000}, DType::Int32)));
  EXPECT(adds_up(a, b, make_tensor(Dims{3000}, DType::Float64), 1e-5));
  const Tensor out = make_tensor(Dims{3000}, DType::Float32);
  map_unary(UnaryFn::Exp, a, out, {}, DType::Float32);
  EXPECT(close(at(out, 17), std::exp(at(a, 17)), 1e-6));
}

TEST(missing_entry_names_the_op) {
  const Tensor a = make_tensor(Dims{2}, DType::Int64);
  EXPECT(testing::message_of([&] { map_unary(UnaryFn::Exp, a, a); }) ==
         "\"exp\" not implemented for int64 tensors");
}

TEST(integer_division_by_zero_writes_nothing) {
  const Tensor a = random_tensor(Dims{5000}, DType::Int32, 1, 1, 50);
  const Tensor b = random_tensor(Dims{5000}, DType::Int32, 2, 1, 50);
  const Tensor out = make_tensor(Dims{5000}, DType::Int32);
  fill_cpu(out, Scalar(-1));
  b.data<int32_t>()[4999] = 0;
  EXPECT(testing::message_of([&] {
           map_binary(BinaryFn::FloorDivide, a, b, out);
         }).find("ZeroDivisionError") != std::string::npos);
  EXPECT(out.data<int32_t>()[0] == -1);
  b.data<int32_t>()[4999] = 1;
  map_binary(BinaryFn::FloorDivide, a, b, out);
  EXPECT(out.data<int32_t>()[7] == a.data<int32_t>()[7] / b.data<int32_t>()[7]);
}

TEST(large_outputs_bypass_the_cache) {
  const int64_t n = (3 << 20) + 5;
  const Tensor a = random_tensor(Dims{n}, DType::Float32, 1),
               b = random_tensor(Dims{n}, DType::Float32, 2);
  const Tensor out = make_tensor(Dims{n + 1}, DType::Float32).alias(Dims{n}, Dims{1}, 1);
  expect_thread_free(out, [&] { map_binary(BinaryFn::Add, a, b, out); });
  bool ok = true;
  for (int64_t i = 0; i < n; ++i)
    ok &= out.data<float>()[i] == a.data<float>()[i] + b.data<float>()[i];
  EXPECT(ok);
  const Tensor copy = make_tensor(Dims{n}, DType::Float32);
  copy_cpu(out, copy);
  EXPECT(same_bytes(copy, out));
  fill_cpu(copy, Scalar(1.25));
  ok = true;
  for (int64_t i = 0; i < n; ++i) ok &= copy.data<float>()[i] == 1.25f;
  EXPECT(ok);
}

TEST(copies_between_all_types) {
  const Tensor source =
      random_tensor(Dims{37, 41}, DType::Float64, 5, 0, 95);  // at most 64 as a power of two
  for (int from = 0; from < kDTypeCount; ++from) {
    const Tensor a = make_tensor(Dims{37, 41}, DType(from));
    copy_cpu(source, a);
    for (int to = 0; to < kDTypeCount; ++to) {
      const Tensor flat = make_tensor(Dims{37, 41}, DType(to));
      const Tensor turned = transposed(make_tensor(Dims{41, 37}, DType(to)), 0, 1);
      copy_cpu(a, flat);
      copy_cpu(a, turned);
      bool ok = true;
      for (int64_t i = 0; i < a.numel(); ++i) {
        double want = at(a, i);
        if (DType(to) == DType::Bool)
          want = want != 0;
        else if (!is_floating(DType(to)) && !is_complex(DType(to)))
          want = std::trunc(want);
        const DType part = to_real(DType(to));
        ok &= close(at(flat, i), want, tolerance_of(is_floating(part) ? part : DType::Float32));
        ok &= at(flat, i) == at(turned, i);
      }
      EXPECT(ok);
    }
  }
}

TEST(float_to_integer_has_no_undefined_case) {
  const float values[] = {-1.0f, 300.7f, 3e9f,
                          -3e9f, 1e30f,  std::numeric_limits<float>::quiet_NaN()};
  const Tensor a = make_tensor(Dims{6}, DType::Float32);
  std::memcpy(a.data(), values, sizeof values);
  const Tensor small = make_tensor(Dims{6}, DType::UInt8),
               wide = make_tensor(Dims{6}, DType::Int64);
  copy_cpu(a, small);
  copy_cpu(a, wide);
  EXPECT(small.data<uint8_t>()[0] == 255 && small.data<uint8_t>()[1] == 44);
  EXPECT(wide.data<int64_t>()[2] == 3000000000 && wide.data<int64_t>()[5] == INT64_MIN);
}

TEST(transposed_copies) {
  for (DType t :
       {DType::UInt8, DType::Float16, DType::Float32, DType::Float64, DType::Complex128}) {
    for (const Dims& shape : {Dims{3, 100, 75}, Dims{1, 64, 64}, Dims{2, 9, 300}}) {
      const Tensor a = random_tensor(shape, t, 3, 0, 50);
      const Tensor turned = transposed(a, 1, 2);
      const Tensor out = make_tensor(turned.sizes(), t);
      copy_cpu(turned, out);
      bool ok = true;
      for (int64_t i = 0; i < out.numel(); ++i) ok &= at(out, i) == at(turned, i);
      EXPECT(ok);
    }
  }
}

TEST(fills) {
  for (int t = 0; t < kDTypeCount; ++t) {
    const Tensor a = make_tensor(Dims{33, 50}, DType(t));
    fill_cpu(a, Scalar(0));
    fill_cpu(every_second(a, 1), Scalar(1));
    const double zero = DType(t) == DType::Float8E8M0FNU ? 0x1p-127 : 0;  // which that one lacks
    bool ok = true;
    for (int64_t i = 0; i < a.numel(); ++i) ok &= at(a, i) == (i % 50 % 2 == 0 ? 1 : zero);
    EXPECT(ok);
  }
}

namespace {

double fold_naive(ReduceFn fn, const std::vector<double>& v) {
  double sum = 0, absolute = 0, squares = 0, product = 1, top = -INFINITY, bottom = INFINITY,
         count = 0;
  double cubes = 0;
  for (double x : v) {
    sum += x, absolute += std::abs(x), squares += x * x, product *= x;
    top = std::isnan(x) || std::isnan(top) ? NAN : std::max(top, x);
    bottom = std::isnan(x) || std::isnan(bottom) ? NAN : std::min(bottom, x);
    count += x != 0, cubes += std::pow(std::abs(x), 3);
  }
  switch (fn) {
    case ReduceFn::Sum:
      return sum;
    case ReduceFn::Mean:
      return sum / double(v.size());
    case ReduceFn::Prod:
      return product;
    case ReduceFn::Max:
      return top;
    case ReduceFn::Min:
      return bottom;
    case ReduceFn::Any:
      return count > 0;
    case ReduceFn::All:
      return count == double(v.size());
    case ReduceFn::CountNonzero:
      return count;
    case ReduceFn::Norm1:
      return absolute;
    case ReduceFn::Norm2:
      return std::sqrt(squares);
    default:
      return std::cbrt(cubes);
  }
}
double fold_naive(FoldFn, const std::vector<double>& v) {  // there is one: LogSumExp
  double powers = 0;
  for (double x : v) powers += std::exp(x);
  return std::log(powers);
}

void run_fold(ReduceFn fn, const Tensor& x, const Tensor& out) {
  if (fn == ReduceFn::NormP)
    reduce(fn, x, out, {Scalar(3.0)});
  else
    reduce(fn, x, out);
}
void run_fold(FoldFn fn, const Tensor& x, const Tensor& out) { reduce(fn, x, out); }

// Every output of a reduction over the dims where `out` has size 1, by brute force.
template <class Fn>
bool reduces(Fn fn, const Tensor& x, const Tensor& out, double tolerance) {
  run_fold(fn, x, out);
  std::vector<std::vector<double>> groups(size_t(out.numel()));
  const Dims steps = contiguous_strides(out.sizes());
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t rest = i, group = 0;
    for (int64_t d = x.dim() - 1; d >= 0; --d) {
      const int64_t k = rest % x.sizes()[size_t(d)];
      rest /= x.sizes()[size_t(d)];
      if (out.sizes()[size_t(d)] != 1) group += k * steps[size_t(d)];
    }
    groups[size_t(group)].push_back(at(x, i));
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    if (!close(at(out, int64_t(g)), fold_naive(fn, groups[g]), tolerance)) return false;
  }
  return true;
}

const ReduceFn kFolds[] = {ReduceFn::Sum, ReduceFn::Mean,  ReduceFn::Prod,  ReduceFn::Max,
                           ReduceFn::Min, ReduceFn::Norm1, ReduceFn::Norm2, ReduceFn::NormP};

}  // namespace

TEST(reductions_of_every_shape) {
  for (const Dims& shape :
       {Dims{6, 5, 70}, Dims{40, 3, 5}, Dims{1, 1, 1}, Dims{300, 2, 3}, Dims{2, 700, 1}}) {
    const Tensor x = random_tensor(shape, DType::Float32, 3);
    for (int mask = 0; mask < 8; ++mask) {
      Dims kept = shape;
      for (int d = 0; d < 3; ++d) {
        if (mask >> d & 1) kept[size_t(d)] = 1;
      }
      for (ReduceFn fn : kFolds) {
        if (fn == ReduceFn::Prod && x.numel() / numel(kept) > 60) continue;  // overflows
        EXPECT(reduces(fn, x, make_tensor(kept, DType::Float32), 1e-4));
      }
      EXPECT(reduces(FoldFn::LogSumExp, x, make_tensor(kept, DType::Float32), 1e-4));
      EXPECT(reduces(ReduceFn::Sum, transposed(transposed(x, 0, 2), 0, 2),
                     make_tensor(kept, DType::Float32), 1e-5));
      const Tensor turned = transposed(x, 0, 2);
      Dims kept_transposed = kept;
      std::swap(kept_transposed[0], kept_transposed[2]);
      EXPECT(reduces(ReduceFn::Sum, turned, make_tensor(kept_transposed, DType::Float32), 1e-5));
      EXPECT(reduces(ReduceFn::Max, turned, make_tensor(kept_transposed, DType::Float32), 1e-5));
    }
  }
}

TEST(reductions_of_every_type) {
  for (int t = 0; t < int(DType::Float8E4M3FN); ++t) {  // what is stored alone comes last
    const DType type = DType(t);
    const bool exact = category(type) <= Category::Integer;
    const Tensor x = random_tensor(Dims{50, 30}, type, 4, 0, 9);
    const DType wide = exact ? DType::Int64 : type;
    const double e = exact ? 0 : tolerance_of(is_complex(type) ? DType::Float32 : type);
    for (const Dims& kept : {Dims{1, 1}, Dims{50, 1}, Dims{1, 30}}) {
      EXPECT(reduces(ReduceFn::Sum, x, make_tensor(kept, wide), e));
      EXPECT(reduces(ReduceFn::Any, x, make_tensor(kept, DType::Bool), 0));
      EXPECT(reduces(ReduceFn::All, x, make_tensor(kept, DType::Bool), 0));
      EXPECT(reduces(ReduceFn::CountNonzero, x, make_tensor(kept, DType::Int64), 0));
      if (!is_complex(type)) EXPECT(reduces(ReduceFn::Max, x, make_tensor(kept, type), 0));
      if (!is_complex(type)) EXPECT(reduces(ReduceFn::Min, x, make_tensor(kept, type), 0));
    }
  }
}

TEST(reductions_do_not_depend_on_threads) {
  for (const Dims& shape : {Dims{1000003, 1}, Dims{1021, 1031}, Dims{7, 150001}, Dims{150001, 7}}) {
    const Tensor x = random_tensor(shape, DType::Float32, 5);
    for (const Dims& kept : {Dims{1, 1}, Dims{shape[0], 1}, Dims{1, shape[1]}}) {
      const Tensor out = make_tensor(kept, DType::Float32);
      for (ReduceFn fn : {ReduceFn::Sum, ReduceFn::Mean})
        expect_thread_free(out, [&] { reduce(fn, x, out); });
      expect_thread_free(out, [&] { reduce(FoldFn::LogSumExp, x, out); });
      expect_thread_free(out, [&] { reduce_var(x, out, 1, true); });
    }
  }
}

TEST(sums_are_accurate) {
  const int64_t n = 10000000;
  const Tensor x = make_tensor(Dims{n}, DType::Float32), out = make_tensor(Dims{1}, DType::Float32);
  fill_cpu(x, Scalar(0.1));
  reduce(ReduceFn::Sum, x, out);
  EXPECT(close(at(out, 0), double(0.1f) * double(n), 3e-7));
}

TEST(nan_and_infinity) {
  for (int64_t n : {1, 5, 33, 5000}) {
    const Tensor x = random_tensor(Dims{n}, DType::Float32, 6);
    const Tensor out = make_tensor(Dims{1}, DType::Float32),
                 index = make_tensor(Dims{1}, DType::Int64);
    x.data<float>()[n - 1] = NAN;
    reduce(ReduceFn::Max, x, out);
    EXPECT(std::isnan(at(out, 0)));
    reduce(ReduceFn::ArgMin, x, index);
    EXPECT(at(index, 0) == double(n - 1));
    x.data<float>()[n - 1] = INFINITY;
    reduce(ReduceFn::Sum, x, out);
    EXPECT(std::isinf(at(out, 0)));
    reduce(FoldFn::LogSumExp, x, out);
    EXPECT(std::isinf(at(out, 0)));
  }
  const Tensor none = make_tensor(Dims{0, 3}, DType::Float32),
               out = make_tensor(Dims{1, 3}, DType::Float32);
  reduce(ReduceFn::Prod, none, out);
  EXPECT(at(out, 0) == 1 && at(out, 2) == 1);
  reduce(ReduceFn::Mean, none, out);
  EXPECT(std::isnan(at(out, 1)));
}

TEST(winners_and_positions) {
  for (DType t : {DType::Float32, DType::Float64, DType::Int64, DType::UInt8, DType::Float16}) {
    const Tensor x = random_tensor(Dims{19, 45, 23}, t, 7, 0, 40);
    for (int64_t dim = 0; dim < 3; ++dim) {
      Dims kept = x.sizes();
      kept[size_t(dim)] = 1;
      const Tensor values = make_tensor(kept, t), indices = make_tensor(kept, DType::Int64);
      for (bool largest : {true, false}) {
        reduce_arg(largest ? ReduceFn::Max : ReduceFn::Min, x, values, indices, dim);
        const Tensor turned = transposed(x, dim, 2), best = transposed(values, dim, 2),
                     where = transposed(indices, dim, 2);
        const int64_t length = x.sizes()[size_t(dim)];
        bool ok = true;
        for (int64_t o = 0; o < values.numel(); ++o) {
          int64_t first = 0;
          for (int64_t i = 1; i < length; ++i) {
            const double a = at(turned, o * length + i), b = at(turned, o * length + first);
            if (largest ? a > b : a < b) first = i;
          }
          ok &= at(where, o) == double(first) && at(best, o) == at(turned, o * length + first);
        }
        EXPECT(ok);
      }
    }
    const Tensor turned = transposed(x, 0, 2), flat = make_tensor(turned.sizes(), t);
    copy_cpu(turned, flat);
    const Tensor a = make_tensor(Dims{1, 1, 1}, DType::Int64),
                 b = make_tensor(Dims{1, 1, 1}, DType::Int64);
    reduce(ReduceFn::ArgMax, turned, a);
    reduce(ReduceFn::ArgMax, flat, b);
    EXPECT(at(a, 0) == at(b, 0));
  }
}

TEST(variances) {
  const Tensor x = random_tensor(Dims{130, 70}, DType::Float32, 8, 1000, 1003);
  for (const Dims& kept : {Dims{1, 1}, Dims{130, 1}, Dims{1, 70}}) {
    const Tensor out = make_tensor(kept, DType::Float32), mean = make_tensor(kept, DType::Float32);
    reduce_var(x, out, 1, false, &mean);
    const Tensor exact = make_tensor(kept, DType::Float64),
                 wide = make_tensor(x.sizes(), DType::Float64);
    copy_cpu(x, wide);
    reduce(ReduceFn::Mean, wide, exact);
    double squares = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < x.numel(); ++i) {
      const int64_t row = i / 70, column = i % 70;
      if ((kept[0] != 1 && row != 0) || (kept[1] != 1 && column != 0)) continue;
      squares += std::pow(at(x, i) - at(exact, 0), 2);
      ++n;
    }
    EXPECT(close(at(mean, 0), at(exact, 0), 1e-6));
    EXPECT(close(at(out, 0), squares / double(n - 1), 1e-5));
  }
}

TEST(scans) {
  for (DType t : {DType::Float32, DType::Float64, DType::Int64, DType::BFloat16}) {
    const Tensor x = random_tensor(Dims{6, 50, 9}, t, 9, -2, 3);
    for (int64_t dim = 0; dim < 3; ++dim) {
      const Tensor out = make_tensor(x.sizes(), t), indices = make_tensor(x.sizes(), DType::Int64);
      const Tensor line = transposed(x, dim, 2), result = transposed(out, dim, 2),
                   where = transposed(indices, dim, 2);
      const int64_t length = x.sizes()[size_t(dim)];
      scan(ScanFn::Sum, x, out, dim);
      bool ok = true;
      double sum = 0;
      for (int64_t i = 0; i < x.numel(); ++i) {
        sum = i % length == 0 ? at(line, i) : sum + at(line, i);
        ok &= close(at(result, i), sum, tolerance_of(is_floating(t) ? t : DType::Float64));
      }
      EXPECT(ok);
      scan(ScanFn::Max, x, out, dim, &indices);
      ok = true;
      int64_t best = 0;
      for (int64_t i = 0; i < x.numel(); ++i) {
        if (i % length == 0 || at(line, i) >= at(line, best)) best = i;
        ok &= at(result, i) == at(line, best) && at(where, i) == double(best % length);
      }
      EXPECT(ok);
    }
  }
}
