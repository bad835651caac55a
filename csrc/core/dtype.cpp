#include "core/dtype.h"

#include <atomic>

namespace rush {
namespace {

std::atomic<DType> g_default_dtype{DType::Float32};

constexpr bool is_wide_unsigned(DType t) {
  return t == DType::UInt16 || t == DType::UInt32 || t == DType::UInt64;
}

// Integers: the wider wins; uint8 against a signed type needs int16 at least.
DType promote_integers(DType a, DType b) {
  if (is_wide_unsigned(a) || is_wide_unsigned(b)) {
    fail(ErrorKind::DType, "promote_types", "no promotion is defined between ", a, " and ", b,
         ": convert one of them with .to(dtype) first");
  }
  if (a == DType::UInt8 || b == DType::UInt8) {
    const DType other = a == DType::UInt8 ? b : a;
    return other == DType::Int8 ? DType::Int16 : other;
  }
  return element_size(a) >= element_size(b) ? a : b;
}

DType promote_floats(DType a, DType b) {
  if (is_reduced_float(a) && is_reduced_float(b)) return DType::Float32;  // they differ here
  return element_size(a) >= element_size(b) ? a : b;
}

DType promote_complex(DType a, DType b) { return element_size(a) >= element_size(b) ? a : b; }

}  // namespace

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_float8(a) || is_float8(b)) {
    fail(ErrorKind::DType, "promote_types", "no promotion is defined for float8 types, got ", a,
         " and ", b, ": convert one of them with .to(dtype) first");
  }
  const Category ca = category(a), cb = category(b);
  if (ca != cb) {
    const DType high = ca > cb ? a : b, low = ca > cb ? b : a;
    // uint16 and its kin meet neither bool nor complex numbers, as in PyTorch.
    if (is_wide_unsigned(high) || (is_wide_unsigned(low) && category(high) == Category::Complex))
      return promote_integers(high, low);
    // Beside a real number, a complex one gets as precise as that.
    if (category(high) == Category::Complex && is_floating(low))
      return promote_complex(high, to_complex(low));
    return high;
  }
  switch (ca) {
    case Category::Integer:
      return promote_integers(a, b);
    case Category::Floating:
      return promote_floats(a, b);
    default:
      return promote_complex(a, b);
  }
}

bool can_cast(DType from, DType to) {
  const Category cf = category(from), ct = category(to);
  if (cf == Category::Complex && ct != Category::Complex) return false;
  if (cf == Category::Floating && ct <= Category::Integer) return false;
  return !(cf != Category::Bool && ct == Category::Bool);
}

DType default_dtype() { return g_default_dtype.load(std::memory_order_relaxed); }

void set_default_dtype(DType t) {
  check(is_floating(t) && !is_float8(t), ErrorKind::Type, "set_default_dtype",
        "the default must be a floating dtype that is computed in, got ", t);
  g_default_dtype.store(t, std::memory_order_relaxed);
}

}  // namespace rush
