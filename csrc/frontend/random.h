// random.h: the seed of random numbers, for C++ programs.
#pragma once

#include "core/generator.h"

namespace rush {

// The same seed gives the numbers that a Python program gets.
inline void manual_seed(uint64_t seed) { default_generator().manual_seed(seed); }

}  // namespace rush
