// permutation.h: a random permutation from random keys.
#pragma once

#include <cstdint>

namespace rush {

// The order of n random numbers, smallest first, in place of them: keys[i] becomes the place of the
// i-th smallest. Of a key only the bits above those that a place needs count; equal ones stay in
// order. Much faster than a sort that does not know its keys to be uniform.
void permutation_from_keys_cpu(int64_t* keys, int64_t n);

}  // namespace rush
