// entries.h: the loops of kernels/tables.h for the CPU at hand, and what their callers share.
#pragma once

#include "core/tensor.h"
#include "cpu/kernels/tables.h"

namespace rush {

// One array of entries per compute type; null where nothing computes in that type.
using EntriesByType = const Entry* [kDTypeCount];
struct EntryTables {
  EntriesByType unary = {}, binary = {}, ternary = {};
};
const EntryTables& entry_tables();

[[noreturn]] void fail_without_entry(const char* functor, DType compute);

template <class Fn>
const Entry& entry_of(const EntriesByType& by_type, Fn fn, DType compute) {
  const Entry* entries = by_type[int(compute)];
  if (!entries || !entries[int(fn)].fn) [[unlikely]]
    fail_without_entry(info(fn).name, compute);
  return entries[int(fn)];
}

// The type that an entry's loop writes.
inline DType result_of(const Entry& e, DType compute) {
  if (e.result == FnResult::Bool) return DType::Bool;
  return e.result == FnResult::Real ? to_real(compute) : compute;
}

// The type that it reads its input number `i` in.
inline DType wanted_by(const Entry& e, int i, DType compute) {
  return i == 0 && e.bool_condition ? DType::Bool : compute;
}

inline Number to_number(const Scalar& s) {
  if (s.is_bool() || s.is_integer()) return {0, 0, s.to_int(), true};
  const auto z = s.to<complex<double>>();
  return {z.re, z.im, 0, false};
}

// Is t's innermost dim not that of `out`, which is contiguous? Then it would be read column by
// column, a cache line per element; turning it first is several times faster.
bool lies_across(const Tensor& t, const Tensor& out);

}  // namespace rush
