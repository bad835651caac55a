// tables.h: what kernel files export: one table of loops an arity and type, indexed by function.
#pragma once

#include <cstdint>

#include "functors/fns.h"
#include "functors/number.h"

namespace rush {

// n elements end to end; ptrs[0] is the output.
using ElementFn = void (*)(char* const* ptrs, int64_t n, const Number* params);

struct Entry {
  ElementFn fn = nullptr;
  uint8_t params = 0;
  FnResult result = FnResult::Same;
  bool checks_zero = false;     // an integer divisor of zero is an error
  bool bool_condition = false;  // the first input is bool
};

// Indexed by function; one more, for no array is empty.
template <class Fn>
struct Table {
  Entry entries[static_cast<int>(Fn::kCount) + 1];
};

// Spelled as RUSH_ISA is, so that a kernel file can name its own.
enum class Isa : uint8_t { baseline, avx2, avx512 };

// Defined by the kernel files, for the types each is about.
template <Isa isa, class Fn, class T>
const Entry* kernel_table();

}  // namespace rush
