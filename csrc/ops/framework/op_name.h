// op_name.h: the name of an op as a template argument, for bases that several blocks share.
#pragma once

#include <cstddef>

namespace rush {

// FloatUnary<"exp", UnaryFn::Exp>, MaxPoolOp<"max_pool2d", 2>
template <size_t N>
struct OpName {
  char text[N];
  consteval OpName(const char (&s)[N]) {
    for (size_t i = 0; i < N; ++i) text[i] = s[i];
  }
};

}  // namespace rush
