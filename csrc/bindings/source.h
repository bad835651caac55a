// source.h: lines of the program, for those who show them otherwise than errors do.
#pragma once

#include <optional>

#include "bindings/gil.h"

namespace rush::py {

inline constexpr size_t kMostCalls = 64;  // of one stack; the outermost are left out

// While on, threads that give the GIL up remember which calls were under way. (They cannot be asked
// for later: number_of needs the GIL.)
void want_calls(bool on);

struct SourceLine {
  PyObject *file, *function;  // borrowed, they live for good
  int line;
};
std::optional<SourceLine> source_line(SourcePoint p);  // with the GIL

}  // namespace rush::py
