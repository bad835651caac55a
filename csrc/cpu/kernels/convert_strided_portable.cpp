// convert_strided_portable.cpp: every type to every other at any stride; scalar loops, quick to
// compile.
#include <utility>

#include "core/dtype.h"
#include "cpu/kernels/convert_tables.h"
#include "functors/convert.h"
#include "functors/stored.h"

namespace rush::RUSH_ISA {

namespace {

template <class From, class To>
[[gnu::optimize("no-tree-vectorize")]] void strided(char* dst, int64_t dst_stride, const char* src,
                                                    int64_t src_stride, int64_t n) {
  if (src_stride == 0) {  // a constant, converted once
    const To value = convert<To>(From(*reinterpret_cast<const stored<From>*>(src)));
    for (int64_t i = 0; i < n; ++i) *reinterpret_cast<To*>(dst + i * dst_stride) = value;
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    *reinterpret_cast<To*>(dst + i * dst_stride) =
        convert<To>(From(*reinterpret_cast<const stored<From>*>(src + i * src_stride)));
  }
}

// Same type: only the width matters.
template <class T>
using Carrier = std::conditional_t<
    sizeof(T) == 1, uint8_t,
    std::conditional_t<
        sizeof(T) == 2, uint16_t,
        std::conditional_t<sizeof(T) == 4, uint32_t,
                           std::conditional_t<sizeof(T) == 8, uint64_t, complex<double>>>>>;

template <int from, int to>
constexpr ConvertFn pick() {
  using From = typename CppType<static_cast<DType>(from)>::type;
  using To = typename CppType<static_cast<DType>(to)>::type;
  if constexpr (from == to)
    return strided<Carrier<From>, Carrier<To>>;
  else
    return strided<From, To>;
}

template <int... pair>
constexpr ConvertTable make(std::integer_sequence<int, pair...>) {
  ConvertTable t{};
  ((t.fn[pair / kTypes][pair % kTypes] = pick<pair / kTypes, pair % kTypes>()), ...);
  return t;
}

}  // namespace

constinit const ConvertTable strided_conversions =
    make(std::make_integer_sequence<int, kTypes * kTypes>{});

}  // namespace rush::RUSH_ISA
