// scan.cpp: running sums, products, extremes and log-sum-exps of each type they compute in.
#include <type_traits>

#include "cpu/kernels/scan_tables.h"
#include "functors/accumulator.h"
#include "functors/complex.h"
#include "functors/math.h"

namespace rush {

namespace RUSH_ISA {
namespace {

template <class A, class T>
A widen(T x) {
  if constexpr (requires { x.re; })
    return A(x.re, x.im);
  else
    return A(x);
}
template <class T, class A>
T narrow(A x) {
  if constexpr (requires { x.re; })
    return T(decltype(T::re)(x.re), decltype(T::re)(x.im));
  else
    return T(x);
}

template <class T, bool product>
struct Running {
  using Acc = running<T>;
  static constexpr Acc blank = Acc(product ? 1 : 0);
  static Acc join(Acc a, Acc b) {
    if constexpr (product)
      return a * b;
    else
      return a + b;
  }
  // Four at a time: the chain from one to the next is one operation long instead of four.
  static void row(const char* p, char* o, int64_t*, int64_t n, char* acc, int64_t) {
    const T* x = reinterpret_cast<const T*>(p);
    T* out = reinterpret_cast<T*>(o);
    Acc carry = *reinterpret_cast<Acc*>(acc);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
      const Acc a = widen<Acc>(x[i]), b = widen<Acc>(x[i + 1]), c = widen<Acc>(x[i + 2]),
                d = widen<Acc>(x[i + 3]);
      const Acc ab = join(a, b), abc = join(ab, c), abcd = join(ab, join(c, d));
      out[i] = narrow<T>(join(carry, a));
      out[i + 1] = narrow<T>(join(carry, ab));
      out[i + 2] = narrow<T>(join(carry, abc));
      carry = join(carry, abcd);
      out[i + 3] = narrow<T>(carry);
    }
    for (; i < n; ++i) {
      carry = join(carry, widen<Acc>(x[i]));
      out[i] = narrow<T>(carry);
    }
    *reinterpret_cast<Acc*>(acc) = carry;
  }
  static void columns(const char* p, char* o, int64_t*, int64_t n, char* accs, int64_t) {
    const T* x = reinterpret_cast<const T*>(p);
    T* out = reinterpret_cast<T*>(o);
    Acc* carry = reinterpret_cast<Acc*>(accs);
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      carry[j] = join(carry[j], widen<Acc>(x[j]));
      out[j] = narrow<T>(carry[j]);
    }
  }
};

template <class T, bool largest>
struct RunningExtreme {
  struct Acc {
    T value;
    bool started;
    int64_t index;
  };
  static constexpr Acc blank{};
  static void step(Acc& acc, T x, int64_t position) {
    const bool better = largest ? x >= acc.value : x <= acc.value;
    if (!acc.started || better || x != x) acc = {x, true, position};
  }
  static void row(const char* p, char* o, int64_t* indices, int64_t n, char* acc,
                  int64_t position) {
    const T* x = reinterpret_cast<const T*>(p);
    T* out = reinterpret_cast<T*>(o);
    Acc carry = *reinterpret_cast<Acc*>(acc);
    for (int64_t i = 0; i < n; ++i) {
      step(carry, x[i], position + i);
      out[i] = carry.value;
      if (indices) indices[i] = carry.index;
    }
    *reinterpret_cast<Acc*>(acc) = carry;
  }
  static void columns(const char* p, char* o, int64_t* indices, int64_t n, char* accs,
                      int64_t position) {
    const T* x = reinterpret_cast<const T*>(p);
    T* out = reinterpret_cast<T*>(o);
    Acc* carry = reinterpret_cast<Acc*>(accs);
    for (int64_t j = 0; j < n; ++j) {
      step(carry[j], x[j], position);
      out[j] = carry[j].value;
      if (indices) indices[j] = carry[j].index;
    }
  }
};

template <class T>
struct RunningLogCumSumExp {
  using Acc = double;
  static constexpr Acc blank = -limits<double>::inf;
  static double step(double a, double b) {
    const double low = a < b ? a : b, high = a < b ? b : a;
    if (a != a || b != b) return a + b;
    if (low == high && high - high != 0) return high;  // two equal infinities
    return high + math::log1p(math::exp(low - high));
  }
  static void row(const char* p, char* o, int64_t*, int64_t n, char* acc, int64_t) {
    double carry = *reinterpret_cast<Acc*>(acc);
    for (int64_t i = 0; i < n; ++i) {
      carry = step(carry, reinterpret_cast<const T*>(p)[i]);
      reinterpret_cast<T*>(o)[i] = T(carry);
    }
    *reinterpret_cast<Acc*>(acc) = carry;
  }
  static void columns(const char* p, char* o, int64_t*, int64_t n, char* accs, int64_t) {
    Acc* carry = reinterpret_cast<Acc*>(accs);
    for (int64_t j = 0; j < n; ++j) {
      carry[j] = step(carry[j], reinterpret_cast<const T*>(p)[j]);
      reinterpret_cast<T*>(o)[j] = T(carry[j]);
    }
  }
};

template <class S>
constexpr ScanKernel kernel() {
  return {sizeof(S::blank), &S::blank, S::row, S::columns};
}

template <class T>
constexpr ScanTable make() {
  ScanTable t;
  t.scans[int(ScanFn::Sum)] = kernel<Running<T, false>>();
  t.scans[int(ScanFn::Prod)] = kernel<Running<T, true>>();
  if constexpr (!requires(T z) { z.re; }) {
    t.scans[int(ScanFn::Max)] = kernel<RunningExtreme<T, true>>();
    t.scans[int(ScanFn::Min)] = kernel<RunningExtreme<T, false>>();
    if constexpr (!std::is_integral_v<T>)
      t.scans[int(ScanFn::LogCumSumExp)] = kernel<RunningLogCumSumExp<T>>();
  }
  return t;
}

template <class T>
constexpr ScanTable k_table = make<T>();

}  // namespace
}  // namespace RUSH_ISA

template <>
const ScanTable* scan_table<Isa::RUSH_ISA, float>() {
  return &RUSH_ISA::k_table<float>;
}
template <>
const ScanTable* scan_table<Isa::RUSH_ISA, double>() {
  return &RUSH_ISA::k_table<double>;
}
template <>
const ScanTable* scan_table<Isa::RUSH_ISA, int64_t>() {
  return &RUSH_ISA::k_table<int64_t>;
}
template <>
const ScanTable* scan_table<Isa::RUSH_ISA, complex<float>>() {
  return &RUSH_ISA::k_table<complex<float>>;
}
template <>
const ScanTable* scan_table<Isa::RUSH_ISA, complex<double>>() {
  return &RUSH_ISA::k_table<complex<double>>;
}

}  // namespace rush
