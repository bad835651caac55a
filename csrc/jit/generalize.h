// generalize.h: which numbers of a traced program follow the sizes of its inputs.
//
// A trace sees `view(8, -1)` and not `view(x.size(0), -1)`. Traces of the same function with larger
// inputs tell the two apart: what stays is a literal, what grows follows the size.
#pragma once

#include "jit/code.h"

namespace rush::jit {

// `grown`: the same method, traced with the first symbol's size one larger; with two symbols, also
// with the second's, and with both. Null where no number follows a size, or where the programs
// differ in more than such numbers: `base` is all there is then. `sizes` are the symbols' in `base`.
RUSH_API CodePointer generalize(const Code& base, const std::string& method,
                                std::span<const CodePointer> grown, std::span<const Symbol> symbols,
                                std::span<const int64_t> sizes);

// Is there a whole number in the method that could have come from this size?
RUSH_API bool may_follow(const Code& code, const std::string& method, int64_t size);

}  // namespace rush::jit
